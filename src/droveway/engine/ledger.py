"""The engine's own tables beside those of DBOS: which executors live, who holds which lease, who runs which job.

All methods are synchronous and short; the engine calls them in threads. Times are the database's own clock.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import psutil
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateTable

from droveway.core.errors import BusyError

META = sa.MetaData()
EXECUTORS = sa.Table(
    "engine_executors",
    META,
    sa.Column("executor_id", sa.String(200), primary_key=True),
    sa.Column("incarnation", sa.String(64), nullable=False),  # fresh with each start and after each burial
    sa.Column("beats", sa.BigInteger, nullable=False),
    sa.Column("place", sa.String(200), nullable=False),  # boot and pid namespace, in which ``pid`` means something
    sa.Column("pid", sa.Integer, nullable=False),
    sa.Column("pid_started", sa.Float, nullable=False),
)
LEASES = sa.Table(
    "engine_leases",
    META,
    sa.Column("key", sa.String(500), primary_key=True),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("owner", sa.String(64)),  # an incarnation
    sa.Column("expires_at", sa.Float, nullable=False),
    sa.Column("ttl", sa.Float, nullable=False),
)
RUNS = sa.Table(
    "engine_runs",
    META,
    sa.Column("job_id", sa.String(500), primary_key=True),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("owner", sa.String(64)),  # an incarnation
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("cancelled", sa.Boolean, nullable=False),
)

KINDS = sa.Table(
    "engine_kinds",
    META,
    sa.Column("kind", sa.String(100), primary_key=True),
    sa.Column("queue", sa.String(100), nullable=False),
)


class Executor(msgspec.Struct, frozen=True):
    """A row of ``engine_executors`` as a patrol sees it."""

    id: str
    incarnation: str
    beats: int


class Claim(msgspec.Struct, frozen=True):
    """The right to run a job, by this incarnation; ``attempts`` counts this one."""

    job_id: str
    epoch: int
    owner: str
    attempts: int


class Ledger:
    """Reads and writes the engine's tables."""

    def __init__(self, database: sa.Engine) -> None:
        """Use the given database; ``create`` makes the tables."""
        self._db = database
        self._sqlite = database.dialect.name == "sqlite"
        self._now: sa.ColumnElement[float] = (
            sa.literal_column("((julianday('now') - 2440587.5) * 86400.0)", sa.Float)
            if self._sqlite
            else sa.literal_column("extract(epoch from clock_timestamp())::float8", sa.Float)
        )

    def create(self) -> None:
        """Create what is missing; several processes may do so at once."""
        with self._write() as db:
            if not self._sqlite:
                db.execute(sa.text("SELECT pg_advisory_xact_lock(7236021)"))  # any number that is ours
            for table in META.sorted_tables:
                db.execute(CreateTable(table, if_not_exists=True))

    # --- executors ---------------------------------------------------------------------------------------------------

    def register(self, executor_id: str, incarnation: str) -> None:
        """Become the executor; whatever an earlier incarnation held is free then.

        Raises BusyError if a living process of this machine is it already.
        """
        row = {"incarnation": incarnation, "beats": 0, **_whereabouts()}
        with self._write() as db:
            old = db.execute(sa.select(EXECUTORS).where(EXECUTORS.c.executor_id == executor_id)).first()
            if old is not None:
                if old.place == row["place"] and old.pid != os.getpid() and _alive(old.pid, old.pid_started):
                    raise BusyError(f"the process {old.pid} already runs as the engine's executor {executor_id!r}")
                self._free(db, old.incarnation)
                db.execute(sa.update(EXECUTORS).where(EXECUTORS.c.executor_id == executor_id).values(row))
            else:
                db.execute(sa.insert(EXECUTORS).values(executor_id=executor_id, **row))

    def beat(self, incarnation: str, leases: Iterable[tuple[str, int]]) -> bool:
        """Show life and renew the leases (key, epoch); False: this incarnation was buried."""
        with self._write() as db:
            mine = EXECUTORS.c.incarnation == incarnation
            if not db.execute(sa.update(EXECUTORS).where(mine).values(beats=EXECUTORS.c.beats + 1)).rowcount:
                return False
            for key, epoch in leases:
                held = (LEASES.c.key == key) & (LEASES.c.epoch == epoch) & (LEASES.c.owner == incarnation)
                db.execute(sa.update(LEASES).where(held).values(expires_at=self._now + LEASES.c.ttl))
            return True

    def executors(self) -> list[Executor]:
        """Give all executors that were not buried."""
        with self._db.connect() as db:
            rows = db.execute(sa.select(EXECUTORS.c.executor_id, EXECUTORS.c.incarnation, EXECUTORS.c.beats)).all()
        return [Executor(*row) for row in rows]

    def bury(self, dead: Executor) -> bool:
        """Take an executor's rights away, unless it has shown life since it was looked at."""
        with self._write() as db:
            same = (
                (EXECUTORS.c.executor_id == dead.id)
                & (EXECUTORS.c.incarnation == dead.incarnation)
                & (EXECUTORS.c.beats == dead.beats)
            )
            if not db.execute(sa.delete(EXECUTORS).where(same)).rowcount:
                return False
            self._free(db, dead.incarnation)
            return True

    def leave(self, incarnation: str) -> None:
        """End an incarnation cleanly."""
        with self._write() as db:
            db.execute(sa.delete(EXECUTORS).where(EXECUTORS.c.incarnation == incarnation))
            self._free(db, incarnation)

    # --- leases ------------------------------------------------------------------------------------------------------

    def take(self, key: str, incarnation: str, ttl: float) -> int | None:
        """Take a lease that is free or expired; give its epoch, or None.

        A row that ends later than its own time to live from now was written before the clock went back: it counts
        as expired.
        """
        with self._write() as db:
            free = sa.or_(
                LEASES.c.owner.is_(None),
                LEASES.c.expires_at <= self._now,
                LEASES.c.expires_at > self._now + LEASES.c.ttl + 1,
            )
            values = {"owner": incarnation, "ttl": ttl, "expires_at": self._now + ttl}
            taken = (
                sa.update(LEASES)
                .where((LEASES.c.key == key) & free)
                .values(epoch=LEASES.c.epoch + 1, **values)
                .returning(LEASES.c.epoch)
            )
            epoch: int | None = db.execute(taken).scalar()
            if epoch is None:
                epoch = db.execute(self._insert(LEASES, key=key, epoch=1, **values).returning(LEASES.c.epoch)).scalar()
            return epoch

    def holds(self, key: str, epoch: int, incarnation: str) -> bool:
        """Whether a lease still belongs to this epoch and has not expired."""
        where = (LEASES.c.key == key) & (LEASES.c.epoch == epoch) & (LEASES.c.owner == incarnation)
        return self._any(where & (LEASES.c.expires_at > self._now))

    def give(self, key: str, epoch: int, incarnation: str) -> None:
        """Give a lease back."""
        where = (LEASES.c.key == key) & (LEASES.c.epoch == epoch) & (LEASES.c.owner == incarnation)
        with self._write() as db:
            db.execute(sa.update(LEASES).where(where).values(owner=None))

    # --- runs --------------------------------------------------------------------------------------------------------

    def claim(self, job_id: str, incarnation: str) -> Claim | None:
        """Take the right to run a job from whoever had it; None if it is cancelled, or this incarnation was buried."""
        with self._write() as db:
            db.execute(self._insert(RUNS, job_id=job_id, epoch=0, attempts=0, cancelled=False))
            living = sa.exists().where(EXECUTORS.c.incarnation == incarnation)
            taken = (
                sa.update(RUNS)
                .where((RUNS.c.job_id == job_id) & RUNS.c.cancelled.is_(False) & living)
                .values(epoch=RUNS.c.epoch + 1, attempts=RUNS.c.attempts + 1, owner=incarnation)
                .returning(RUNS.c.epoch, RUNS.c.attempts)
            )
            row = db.execute(taken).first()
            return Claim(job_id, row.epoch, incarnation, row.attempts) if row else None

    def cancelled(self, job_id: str) -> bool:
        """Whether a job has been cancelled."""
        return self._any((RUNS.c.job_id == job_id) & RUNS.c.cancelled)

    def lost(self, claims: Iterable[Claim]) -> dict[str, bool]:
        """Give the job ids of those claims that no longer hold, with whether the job was cancelled."""
        wanted = {claim.job_id: claim for claim in claims}
        if not wanted:
            return {}
        query = (
            sa.select(RUNS.c.job_id, RUNS.c.epoch, RUNS.c.owner, RUNS.c.cancelled, EXECUTORS.c.executor_id)
            .outerjoin(EXECUTORS, EXECUTORS.c.incarnation == RUNS.c.owner)
            .where(RUNS.c.job_id.in_(wanted))
        )
        with self._db.connect() as db:
            rows = {row.job_id: row for row in db.execute(query)}
        gone = {}
        for job_id, claim in wanted.items():
            row = rows.get(job_id)
            if row is None or row.cancelled:
                gone[job_id] = row is not None
            elif (row.epoch, row.owner) != (claim.epoch, claim.owner) or row.executor_id is None:
                gone[job_id] = False
        return gone

    def owners(self, job_ids: Iterable[str]) -> set[str]:
        """Give those of the jobs that are claimed by an incarnation that has not been buried."""
        query = (
            sa.select(RUNS.c.job_id)
            .join(EXECUTORS, EXECUTORS.c.incarnation == RUNS.c.owner)
            .where(RUNS.c.job_id.in_(list(job_ids)))
        )
        with self._db.connect() as db:
            return set(db.execute(query).scalars())

    def cancel(self, job_id: str) -> None:
        """Note that a job is cancelled, so that nothing can start it again."""
        with self._write() as db:
            db.execute(self._insert(RUNS, job_id=job_id, epoch=0, attempts=0, cancelled=False))
            db.execute(sa.update(RUNS).where(RUNS.c.job_id == job_id).values(cancelled=True))

    def hand_back(self, claim: Claim) -> bool:
        """Give up a claim without counting the attempt; False if it no longer held."""
        with self._write() as db:
            values = {"owner": None, "attempts": RUNS.c.attempts - 1}
            return bool(db.execute(sa.update(RUNS).where(_same(claim)).values(values)).rowcount)

    def settle(self, claim: Claim) -> bool:
        """Forget the claim of a job that has an outcome; False if it did not hold: it is not ours to give."""
        with self._write() as db:
            return bool(db.execute(sa.delete(RUNS).where(_same(claim) & RUNS.c.cancelled.is_(False))).rowcount)

    # --- kinds -------------------------------------------------------------------------------------------------------

    def put_queues(self, queues: Mapping[str, str]) -> None:
        """Note which queue each kind of job has, for clients that register no handlers."""
        with self._write() as db:
            for kind, queue in sorted(queues.items()):
                db.execute(self._insert(KINDS, kind=kind, queue=queue))
                db.execute(sa.update(KINDS).where(KINDS.c.kind == kind).values(queue=queue))

    def queues(self) -> dict[str, str]:
        """Give the queue of each kind of job."""
        with self._db.connect() as db:
            return {row.kind: row.queue for row in db.execute(sa.select(KINDS))}

    # --- the rest ----------------------------------------------------------------------------------------------------

    def _free(self, db: sa.Connection, incarnation: str) -> None:
        db.execute(sa.update(LEASES).where(LEASES.c.owner == incarnation).values(owner=None))
        db.execute(sa.update(RUNS).where(RUNS.c.owner == incarnation).values(owner=None))

    def _any(self, where: sa.ColumnElement[bool]) -> bool:
        with self._db.connect() as db:
            return bool(db.execute(sa.select(sa.literal(1)).where(where).limit(1)).scalar())

    def _insert(self, table: sa.Table, /, **values: Any) -> sa.Insert:
        """Give an insert that does nothing where the row exists."""
        if self._sqlite:
            return sqlite.insert(table).values(**values).on_conflict_do_nothing()
        return postgresql.insert(table).values(**values).on_conflict_do_nothing()

    @contextlib.contextmanager
    def _write(self) -> Iterator[sa.Connection]:
        """Open a transaction that writes: on SQLite it takes the write lock at its start, or reads would be stale."""
        with self._db.begin() as db:
            if self._sqlite:
                db.exec_driver_sql("BEGIN IMMEDIATE")
            yield db


def _same(claim: Claim) -> sa.ColumnElement[bool]:
    return (RUNS.c.job_id == claim.job_id) & (RUNS.c.epoch == claim.epoch) & (RUNS.c.owner == claim.owner)


def _whereabouts() -> dict[str, Any]:
    """Say who this process is, so that another can tell whether it still lives."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    place = boot.read_text().strip() if boot.exists() else os.uname().nodename
    with contextlib.suppress(OSError):
        place += "/" + os.readlink("/proc/self/ns/pid")
    return {"place": place, "pid": os.getpid(), "pid_started": psutil.Process().create_time()}


def _alive(pid: int, started: float) -> bool:
    """Whether the very process lives: a number may belong to another one by now, and a zombie is dead."""
    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - started) < 2 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
