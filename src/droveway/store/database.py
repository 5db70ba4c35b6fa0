"""Opens the database (ENG-001)."""

from __future__ import annotations

import sqlalchemy as sa

from droveway.core.database import engine_options, engine_url, is_sqlite, prepare_sqlite


def make_engine(url: str) -> sa.Engine:
    """Give the SQLAlchemy engine for ``sqlite:///PATH`` or ``postgresql://…``; nothing is connected yet."""
    engine = sa.create_engine(engine_url(url), **engine_options(url))
    if is_sqlite(url):
        sa.event.listen(engine, "connect", prepare_sqlite)
    return engine
