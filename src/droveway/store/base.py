"""What the store's parts share: transactions in a thread, moments, clean text."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from droveway.core.clock import Clock
from droveway.core.database import RETRY_PAUSES, lost_connection
from droveway.core.ids import Ids

MOMENTS = ("at", "created_at", "started_at", "ended_at")
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Base:
    """Does each piece of work in one transaction, in a thread: a writer may wait for another process's lock."""

    def __init__(self, database: sa.Engine, *, clock: Clock, ids: Ids) -> None:
        """Work on an opened database whose tables are up to date."""
        self.database = database
        self._clock = clock
        self._ids = ids
        self._sqlite = database.dialect.name == "sqlite"

    async def _write(self, work: Callable[Concatenate[sa.Connection, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Do ``work`` in a transaction; on SQLite it holds the write lock from its start."""

        def run() -> R:
            with self._begin() as db:
                return work(db, *args, **kwargs)

        return await self._in_thread(run)

    async def _add(self, table: sa.Table, /, **values: Any) -> None:
        """Insert a row with a fresh id."""
        await self._write(lambda db: db.execute(self._insert(table, **values).on_conflict_do_nothing()))

    async def _read(self, query: sa.Select[Any]) -> list[sa.Row[Any]]:
        """Give all rows of a query."""

        def run() -> list[sa.Row[Any]]:
            with self.database.connect() as db:
                return list(db.execute(query))

        return await self._in_thread(run)

    async def _in_thread(self, run: Callable[[], R]) -> R:
        """Run it, and again if the connection was lost: all that the store does may be done twice."""
        with self._clock.hold():
            for pause in RETRY_PAUSES:
                try:
                    return await asyncio.to_thread(run)
                except sa.exc.DBAPIError as problem:
                    if not lost_connection(problem):
                        raise
                await self._clock.sleep(pause)
            return await asyncio.to_thread(run)

    @contextlib.contextmanager
    def _begin(self) -> Iterator[sa.Connection]:
        with self.database.begin() as db:
            if self._sqlite:
                db.exec_driver_sql("BEGIN IMMEDIATE")
            yield db

    def _insert(self, table: sa.Table, /, **values: Any) -> Any:
        """Give an insert to which ``on_conflict_…`` can be said."""
        return (sqlite.insert if self._sqlite else postgresql.insert)(table).values(**values)

    def _upsert(self, table: sa.Table, key: str, value: str, /, **others: Any) -> sa.Executable:
        """Give an insert that replaces the row whose column ``key`` has ``value``."""
        insert = self._insert(table, **{key: value}, **others)
        result: sa.Executable = insert.on_conflict_do_update(index_elements=[key], set_=others)
        return result

    def _seconds(self) -> float:
        return self._clock.now().timestamp()


def moment(seconds: float) -> datetime:
    """Give the moment of UTC seconds."""
    return datetime.fromtimestamp(seconds, UTC)


def clean(text: str, limit: int = 1_000_000) -> str:
    """Give a text that both databases take: no NUL, no lone surrogate, at most ``limit`` characters."""
    return text[:limit].replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def as_info(kind: type[T], row: sa.Row[Any]) -> T:
    """Read a row whose columns are named like the fields of ``kind``."""
    values = {
        str(name): moment(value) if name in MOMENTS and value is not None else value
        for name, value in row._mapping.items()  # noqa: SLF001 - the public way to a row's names
    }
    return kind(**values)
