"""The database file of the embedded forge: one writer at a time, readers beside it, one transaction per request."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from droveway.core.clock import Clock
from droveway.core.errors import HerdError

if TYPE_CHECKING:
    from droveway.localforge.kernel import Kernel

Row: TypeAlias = sqlite3.Row
SCHEMA_VERSION = 1


def stamp(moment: datetime) -> str:
    """Give a moment as GitHub writes it: whole seconds, UTC, ``Z``."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def marks(values: object) -> str:
    """Give ``?,?,…`` for an IN list of ``values`` (any sized thing)."""
    return ",".join("?" * len(values))  # type: ignore[arg-type]


class Tx:
    """One open transaction. ``now`` is its moment; ``kernel`` gives git, ids and addresses.

    SQL is parameterised everywhere; table and column names come from code alone.
    """

    def __init__(self, db: sqlite3.Connection, kernel: Kernel, now: str) -> None:
        """Stand on an open transaction of ``db``."""
        self.db = db
        self.kernel = kernel
        self.now = now
        self.memo: dict[Any, Any] = {}  # what was read once and is true until this transaction writes
        self.after: list[Callable[[], None]] = []  # run once the transaction has committed
        self.undo: Callable[[], None] | None = None  # run after a rollback: refs that moved meanwhile are applied
        self.api = kernel.base_url if kernel else ""  # what the URLs in answers start with; set by each request
        self.web = self.api

    def checkpoint(self) -> None:
        """Commit what was written so far and go on writing; no other writer of this process comes between.

        For the journal (FRG-033): an intent must be on the disk before refs move.
        """
        self.db.execute("COMMIT")
        self.db.execute("BEGIN IMMEDIATE")

    def all(self, sql: str, *args: Any) -> list[Row]:
        """Give all rows of a query."""
        return self.db.execute(sql, args).fetchall()

    def pairs(self, sql: str, *args: Any) -> list[tuple[Any, Any]]:
        """Give the rows of a query with two columns as pairs."""
        return [(row[0], row[1]) for row in self.db.execute(sql, args)]

    def one(self, sql: str, *args: Any) -> Row | None:
        """Give the first row of a query, or None."""
        row: Row | None = self.db.execute(sql, args).fetchone()
        return row

    def value(self, sql: str, *args: Any) -> Any:
        """Give the first column of the first row, or None."""
        row = self.db.execute(sql, args).fetchone()
        return row[0] if row else None

    def get(self, table: str, row_id: int) -> Row:
        """Give a row that must exist, by its id."""
        key = "issue_id" if table == "pulls" else "id"
        row: Row = self.db.execute(f"SELECT * FROM {table} WHERE {key} = ?", (row_id,)).fetchone()  # noqa: S608
        assert row is not None, (table, row_id)
        return row

    def by_ids(self, table: str, ids: list[int]) -> dict[int, Row]:
        """Give many rows by their ids, in one query."""
        key = "issue_id" if table == "pulls" else "id"
        sql = f"SELECT * FROM {table} WHERE {key} IN (SELECT value FROM json_each(?))"  # noqa: S608
        found = self.db.execute(sql, (json.dumps(ids),))
        return {row[key]: row for row in found}

    def insert(self, table: str, **values: Any) -> int:
        """Insert a row and give its id."""
        self.memo.clear()
        names = ", ".join(values)
        sql = f"INSERT INTO {table} ({names}) VALUES ({marks(values)})"  # noqa: S608
        return self.db.execute(sql, tuple(values.values())).lastrowid or 0

    def update(self, table: str, row_id: int, **values: Any) -> None:
        """Change columns of the row with this id."""
        self.memo.clear()
        if values:
            key = "issue_id" if table == "pulls" else "id"
            sets = ", ".join(f"{name} = ?" for name in values)
            self.db.execute(f"UPDATE {table} SET {sets} WHERE {key} = ?", (*values.values(), row_id))  # noqa: S608

    def run(self, sql: str, *args: Any) -> int:
        """Execute a statement and give the number of rows that it touched."""
        self.memo.clear()
        return self.db.execute(sql, args).rowcount


class Database:
    """Connections to one file. Each thread has its own; writes of this process queue on a lock, not on SQLite's."""

    def __init__(self, path: Path, clock: Clock) -> None:
        """Open the file, creating its tables on first use."""
        self.path = path
        self._clock = clock
        self._local = threading.local()
        self._all: list[sqlite3.Connection] = []
        self._guard = threading.Lock()
        self._writer = threading.RLock()
        self.fresh = self._prepare()

    def _prepare(self) -> bool:
        db = self._connection()
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("BEGIN IMMEDIATE")
        try:
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, SCHEMA_VERSION):
                raise HerdError(f"{self.path} was written by another version of the forge (schema {version})")
            if version == 0:
                text = resources.files(__package__).joinpath("schema.sql").read_text(encoding="utf-8")
                for statement in _statements(text):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise
        return bool(version == 0)

    def _connection(self) -> sqlite3.Connection:
        db: sqlite3.Connection | None = getattr(self._local, "db", None)
        if db is None:
            db = sqlite3.connect(self.path, timeout=30.0, isolation_level=None, check_same_thread=False)
            db.row_factory = sqlite3.Row
            # FULL: what a client was told is still there after a power cut; one fsync per write request.
            for pragma in ("foreign_keys = ON", "busy_timeout = 30000", "synchronous = FULL", "cache_size = -16000"):
                db.execute(f"PRAGMA {pragma}")
            self._local.db = db
            with self._guard:
                self._all.append(db)
        return db

    @contextlib.contextmanager
    def read(self, kernel: Kernel) -> Iterator[Tx]:
        """Open a reading transaction: one consistent state of the rows, never waiting for a writer."""
        db = self._connection()
        db.execute("BEGIN")
        try:
            yield Tx(db, kernel, stamp(self._clock.now()))
        finally:
            db.execute("ROLLBACK")

    @contextlib.contextmanager
    def write(self, kernel: Kernel) -> Iterator[Tx]:
        """Open a writing transaction; it commits at the end, or leaves nothing behind where an exception passes."""
        with self._writer:
            db = self._connection()
            db.execute("BEGIN IMMEDIATE")
            tx = Tx(db, kernel, stamp(self._clock.now()))
            try:
                yield tx
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                if tx.undo:
                    tx.undo()
                raise
        for callback in tx.after:
            callback()

    def close(self) -> None:
        """Close every connection; the last one folds the write-ahead log into the file."""
        with self._guard:
            for db in self._all:
                db.close()
            self._all.clear()
        self._local = threading.local()


def _statements(text: str) -> Iterator[str]:
    pending = ""
    for line in text.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending) and pending.strip():
            yield pending
            pending = ""
