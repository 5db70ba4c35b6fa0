"""How the one database is set up, as data and a function, so that store and engine open it alike (ENG-001)."""

from __future__ import annotations

import contextlib
import importlib
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

IDLE_TRANSACTION_SECONDS = 5
RETRY_PAUSES = (0.1, 0.5, 2.0)  # seconds before work is tried again whose connection was lost
SQLITE_NEEDED = (3, 42, 0)  # by the engine, on Python >= 3.12


def ensure_sqlite() -> str:
    """Put ``pysqlite3`` in the place of ``sqlite3`` where Python >= 3.12 has too old a SQLite; give the version in use.

    SQLAlchemy imports the module when it makes its first engine, so it is enough to do this before (ENG-009). Without
    pysqlite3 nothing is changed: the engine's ``check_runtime`` says it then.
    """
    if sys.version_info >= (3, 12) and sqlite3.sqlite_version_info < SQLITE_NEEDED:
        with contextlib.suppress(ImportError):
            module, api = importlib.import_module("pysqlite3"), importlib.import_module("pysqlite3.dbapi2")
            sys.modules["sqlite3"], sys.modules["sqlite3.dbapi2"] = module, api
    return str(importlib.import_module("sqlite3").sqlite_version)


def is_sqlite(url: str) -> bool:
    """Whether the URL is one of SQLite."""
    return url.startswith("sqlite")


def engine_url(url: str) -> str:
    """Give SQLAlchemy's URL for ``sqlite:///PATH`` or ``postgresql://…``; a SQLite file's folder is made."""
    if is_sqlite(url):
        ensure_sqlite()
        path = url.partition(":///")[2].partition("?")[0]
        if path and path != ":memory:":
            Path(path).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return url
    return "postgresql+psycopg" + url[url.index(":") :]


def engine_options(url: str) -> dict[str, Any]:
    """Give the keyword arguments of SQLAlchemy's ``create_engine``."""
    pool: dict[str, Any] = {"pool_size": 10, "max_overflow": 30, "pool_timeout": 60}
    if is_sqlite(url):
        return pool
    return {
        **pool,
        "pool_pre_ping": True,
        "connect_args": {
            "application_name": "droveway",
            "connect_timeout": 10,
            # A process that is stopped, or cut off, in the middle of a transaction must not keep its locks: others
            # could neither take its jobs over nor go on themselves. Our transactions take milliseconds.
            "options": f"-c idle_in_transaction_session_timeout={IDLE_TRANSACTION_SECONDS * 1000}",
        },
    }


def lost_connection(error: BaseException) -> bool:
    """Whether SQLAlchemy says that the connection was gone: the same work may be tried again on a fresh one."""
    return bool(getattr(error, "connection_invalidated", False))


def prepare_sqlite(connection: Any, _record: object = None) -> None:
    """Set a new SQLite connection up: WAL, and writers that queue at the start of their transaction.

    Without the latter they would fail in its middle, because what they had read was stale by then.
    """
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
