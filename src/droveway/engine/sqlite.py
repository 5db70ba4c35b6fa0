"""Whether the SQLite of this process can carry the engine (ENG-009)."""

from __future__ import annotations

import sys

from droveway.core.database import SQLITE_NEEDED
from droveway.core.database import ensure_sqlite as ensure

__all__ = ["ensure", "problem"]


def problem() -> str:
    """Say in one line what is wrong with the SQLite in use, or nothing."""
    version = ensure()
    if sys.version_info >= (3, 12) and tuple(map(int, version.split("."))) < SQLITE_NEEDED:
        return (
            f"Python {sys.version_info.major}.{sys.version_info.minor} with SQLite {version} cannot run the engine: "
            "install pysqlite3-binary, use Python 3.11, or set DROVEWAY_DATABASE_URL to a PostgreSQL"
        )
    return ""
