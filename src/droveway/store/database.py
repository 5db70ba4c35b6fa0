"""The one place where the database is set up: WAL, waiting for locks, write transactions, pools (ENG-001)."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import sqlalchemy as sa


def make_engine(url: str) -> sa.Engine:
    """Give the SQLAlchemy engine for ``sqlite:///PATH`` or ``postgresql://…``, to be shared by store and engine.

    Nothing is opened yet, but a SQLite file's folder is made.
    """
    parsed = sa.make_url(url)
    if parsed.get_backend_name() == "sqlite":
        if parsed.database and parsed.database != ":memory:":
            Path(parsed.database).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        engine = sa.create_engine(parsed, pool_size=10, max_overflow=30, pool_timeout=60)
        sa.event.listen(engine, "connect", _prepare_sqlite)
        return engine
    parsed = parsed.set(drivername="postgresql+psycopg")
    return sa.create_engine(
        parsed,
        pool_size=10,
        max_overflow=30,
        pool_timeout=60,
        pool_pre_ping=True,
        connect_args={"application_name": "droveway", "connect_timeout": 10},
    )


def _prepare_sqlite(connection: Any, _record: object) -> None:
    """Set a new connection up. Writers queue at the start of their transaction instead of failing in its middle."""
    connection.isolation_level = "IMMEDIATE"
    connection.execute("PRAGMA busy_timeout=30000")
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("PRAGMA synchronous=NORMAL")
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        for _ in range(100):  # SQLite does not wait for this lock by itself
            with contextlib.suppress(Exception):
                connection.execute("PRAGMA journal_mode=WAL")
                break
            time.sleep(0.05)
