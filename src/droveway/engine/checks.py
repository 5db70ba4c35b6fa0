"""What a start checks before anything runs on a database (ENG-009)."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from droveway.core.errors import HerdError
from droveway.engine import sqlite


def check_runtime(url: str) -> None:
    """Raise HerdError with one plain line if the engine can't run here on ``url``. Makes the SQLite file's folder."""
    if url.startswith("sqlite"):
        _check_sqlite(url)
    elif url.startswith("postgresql"):
        _check_postgresql(url)
    else:
        scheme = url.partition(":")[0]
        raise HerdError(f"the database must be sqlite:///PATH or postgresql://…, not {scheme}:…")


def _check_sqlite(url: str) -> None:
    if problem := sqlite.problem():
        raise HerdError(problem)
    _, _, name = url.partition(":///")
    name = name.partition("?")[0]
    if not name or name == ":memory:":
        raise HerdError("the engine needs a SQLite file, such as sqlite:////home/me/state/droveway.db")
    module: Any = importlib.import_module("sqlite3")
    try:
        Path(name).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        connection = module.connect(name, timeout=30)
        try:
            mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
            connection.execute("BEGIN IMMEDIATE")
            connection.rollback()
        finally:
            connection.close()
    except (OSError, module.Error) as error:
        raise HerdError(f"the database {name} can't be used: {error}") from error
    if mode != "wal":
        raise HerdError(
            f"the database {name} can't use write-ahead logging (it says {mode!r}): is it on a network disk?"
        )


def _check_postgresql(url: str) -> None:
    import psycopg

    plain = "postgresql" + url[url.index(":") :]
    try:
        with psycopg.connect(plain, connect_timeout=10) as connection:
            version = connection.info.server_version
    except psycopg.Error as error:
        reason = str(error).strip().splitlines()[0]
        raise HerdError(f"the PostgreSQL of DROVEWAY_DATABASE_URL can't be reached: {reason}") from error
    if version < 130000:
        raise HerdError(f"PostgreSQL {version // 10000} is too old: 13 or newer is needed")
