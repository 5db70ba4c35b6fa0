"""Which SQLite a process uses: the machine's, or the one of ``pysqlite3`` where the machine's is too old (ENG-009)."""

from __future__ import annotations

import importlib
import sqlite3
import sys

NEEDED = (3, 42, 0)  # DBOS asks SQLite for sub-second times where Python's own module no longer is the limit


def ensure() -> str:
    """Put ``pysqlite3`` in the place of ``sqlite3`` where Python >= 3.12 has a SQLite before 3.42; give the version.

    Call it before anything imports SQLAlchemy. Without pysqlite3 nothing is changed: ``check_runtime`` says it then.
    """
    if sys.version_info >= (3, 12) and sqlite3.sqlite_version_info < NEEDED:
        try:
            module = importlib.import_module("pysqlite3")
            sys.modules["sqlite3"] = module
            sys.modules["sqlite3.dbapi2"] = importlib.import_module("pysqlite3.dbapi2")
        except ImportError:
            return sqlite3.sqlite_version
        return str(module.sqlite_version)
    return sqlite3.sqlite_version


def problem() -> str:
    """Say in one line what is wrong with the SQLite in use, or nothing."""
    module = importlib.import_module("sqlite3")
    if sys.version_info >= (3, 12) and tuple(map(int, module.sqlite_version.split("."))) < NEEDED:
        return (
            f"Python {sys.version_info.major}.{sys.version_info.minor} with SQLite {module.sqlite_version} cannot run "
            "the engine: install pysqlite3-binary, use Python 3.11, or set DROVEWAY_DATABASE_URL to a PostgreSQL"
        )
    return ""
