"""Brings the tables up to date when the store is opened; DBOS's and the engine's tables are none of its business."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from droveway.core.errors import HerdError
from droveway.store.schema import META, VERSION_TABLE

if TYPE_CHECKING:
    from alembic.config import Config

HEAD = "0001"  # the newest file of ``migrations/versions``; tests compare


def ours(_object: Any, name: str | None, kind: str, _reflected: bool, _other: Any) -> bool:
    """Whether Alembic may look at a table: it would drop those that it does not know (``include_object``)."""
    return kind != "table" or name in META.tables


def upgrade(database: sa.Engine) -> None:
    """Create or migrate the tables; several processes may do so at once. Raises HerdError if they are too new."""
    with database.connect() as connection:
        if _version(connection) == HEAD:
            return  # the usual case needs no Alembic, whose import takes its time
    with database.connect() as connection, connection.begin():
        if database.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(7236022)"))  # any number that is ours
        _upgrade(connection)


def _upgrade(connection: sa.Connection) -> None:
    from alembic import command
    from alembic.util import CommandError

    try:
        command.upgrade(config(connection), HEAD)
    except CommandError as error:
        theirs = _version(connection)
        raise HerdError(
            f"the database is of a newer Droveway ({theirs}, this one knows {HEAD}): update this one"
        ) from error


def config(connection: sa.Connection) -> Config:
    """Give Alembic's configuration for this package's migrations on an open connection."""
    from alembic.config import Config

    settings = Config()
    settings.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    settings.attributes["connection"] = connection
    return settings


def _version(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    version: str | None = connection.execute(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608
    return version
