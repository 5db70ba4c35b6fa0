"""Jobs through the database alone: for verbs beside a running ``herd up``, and inside the DBOS engine itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar

import msgspec
import sqlalchemy as sa
import structlog

logging.getLogger("dbos").addHandler(logging.NullHandler())  # before DBOS adds a handler that writes to stderr
logging.getLogger("dbos").propagate = False

from dbos import DBOSClient, DBOSPortableJSONSerializer, EnqueueOptions, WorkflowStatus, error  # noqa: E402

from droveway.core.clock import Clock, SystemClock  # noqa: E402
from droveway.core.database import (  # noqa: E402
    RETRY_PAUSES,
    engine_options,
    engine_url,
    is_sqlite,
    lost_connection,
    prepare_sqlite,
)
from droveway.core.errors import HerdError  # noqa: E402
from droveway.core.ids import RandomIds  # noqa: E402
from droveway.core.jobs import Enqueued, Existing, Job, JobInfo, JobState  # noqa: E402
from droveway.core.lease import Lease  # noqa: E402
from droveway.engine.ledger import Ledger  # noqa: E402
from droveway.engine.port import RECOVERIES, Handler  # noqa: E402

P = ParamSpec("P")
R = TypeVar("R")

APPLICATION = "droveway"
SCHEMA = "dbos"
PREFIX = "herd."  # before the kind, in the names of workflows
SERIALIZER = DBOSPortableJSONSerializer()
_STATES: Mapping[str, JobState] = {
    "ENQUEUED": JobState.QUEUED,
    "DELAYED": JobState.QUEUED,
    "PENDING": JobState.RUNNING,
    "SUCCESS": JobState.DONE,
    "ERROR": JobState.FAILED,
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": JobState.FAILED,
    "CANCELLED": JobState.CANCELLED,
}


class _ToStructlog(logging.Handler):
    """Passes what DBOS has to say, from errors up, to our log."""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if not text.startswith("Exception encountered in background workflow"):  # a failed job says so itself
            structlog.get_logger().warning("dbos", detail=text)


def quiet(level: int = logging.ERROR) -> None:
    """Keep DBOS's log off the terminal: lines below ``level`` are dropped, the others go to structlog."""
    logger = logging.getLogger("dbos")
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
    logger.addHandler(_ToStructlog(level))
    logger.propagate = False


class EngineClient:
    """Enqueues, looks at and cancels jobs; it runs none. The database must be one that an engine has started on."""

    def __init__(self, database: str | sa.Engine, *, clock: Clock | None = None, app_version: str = "1") -> None:
        """``database`` is its URL, or the SQLAlchemy engine of it that somebody else closes."""
        self._owned = isinstance(database, str)
        self._database = open_database(database) if isinstance(database, str) else database
        self._clock = clock or SystemClock()
        self._queues: dict[str, str] = {}
        self._version = app_version
        self._ledger = Ledger(self._database)
        self._client: DBOSClient | None = None
        self._there = False
        self._owner = f"client-{RandomIds().new()}"  # who holds this client's leases

    def register(self, kind: str, queue: str, handler: Handler | None = None) -> None:
        """Name the queue of a kind; the handler is not wanted here, so that an app can register everywhere alike."""
        del handler
        self._queues[kind] = queue

    def close(self) -> None:
        """Let go of the database."""
        if self._client is not None:
            self._client.destroy()
            self._client = None
        if self._owned:
            self._database.dispose()

    async def lease(self, key: str, *, ttl: float = 30) -> Lease | None:
        """Take a key for one verb; it is not renewed, so ``ttl`` bounds the verb. None while somebody holds it.

        On a database that no engine has started on nobody else can want the key.
        """
        if not await self._call(self._has_tables):
            return Lease.unshared(key)
        epoch = await self._call(self._ledger.take, key, self._owner, ttl)
        if epoch is None:
            return None

        async def held() -> bool:
            return await self._call(self._ledger.holds, key, epoch, self._owner)

        return Lease(key, epoch, held)

    async def release(self, lease: Lease) -> None:
        """Give a key back."""
        if await self._call(self._has_tables):
            await self._call(self._ledger.give, lease.key, lease.epoch, self._owner)

    async def enqueue(self, job: Job) -> Enqueued | Existing:
        """Queue a job, unless one with its id exists in any state."""
        if job.priority < 1:
            raise ValueError("a priority is at least 1")
        if job.kind not in self._queues:
            await self._learn_queues()
        if job.kind not in self._queues:
            raise HerdError(f"no engine that knows jobs of kind {job.kind!r} has run on this database")
        options = EnqueueOptions(
            workflow_name=PREFIX + job.kind,
            queue_name=self._queues[job.kind],
            workflow_id=job.id,
            workflow_id_reuse_policy="reject",
            app_version=self._version,
            priority=job.priority,
        )
        try:
            await self._call(self._connected().enqueue, options, msgspec.to_builtins(job))
        except error.DBOSWorkflowIDInUseError as known:
            return Existing(job.id, _STATES[known.workflow_status])
        return Enqueued(job.id)

    async def job(self, id: str) -> JobInfo | None:  # noqa: A002
        """Give what is known of a job, or None."""
        found = await self._list(workflow_ids=[id])
        return found[0] if found else None

    async def jobs(self, *, kind: str | None = None, id_prefix: str = "", active_only: bool = False) -> list[JobInfo]:
        """Give jobs in the order of their creation."""
        filters: dict[str, Any] = {"status": ["ENQUEUED", "PENDING", "DELAYED"]} if active_only else {}
        if kind is not None:
            filters["name"] = PREFIX + kind
        if id_prefix:
            filters["workflow_id_prefix"] = id_prefix
        return await self._list(**filters)

    async def cancel(self, id: str) -> None:  # noqa: A002
        """Cancel: a queued job never starts; the process that runs it finds out within a second."""
        known = await self.job(id)
        if known is None or known.state not in (JobState.QUEUED, JobState.RUNNING):
            return
        await self._call(self._ledger.cancel, id)
        await self._call(self._connected().cancel_workflow, id)

    async def _list(self, **filters: Any) -> list[JobInfo]:
        if not await self._call(self._has_tables):
            return []
        rows = await self._call(self._connected().list_workflows, **filters)
        return [_info(row) for row in rows if row.name.startswith(PREFIX)]

    async def _learn_queues(self) -> None:
        """Read which queue each kind of job has, as the last engine that started has said."""
        if await self._call(self._has_tables):
            self._queues = {**await self._call(self._ledger.queues), **self._queues}

    def _has_tables(self) -> bool:
        """Whether an engine has ever started on the database."""
        if not self._there:
            schema = None if self._database.dialect.name == "sqlite" else SCHEMA
            self._there = sa.inspect(self._database).has_table("workflow_status", schema=schema)
        return self._there

    def _connected(self) -> DBOSClient:
        if self._client is None:
            self._client = DBOSClient(
                system_database_engine=self._database,
                dbos_system_schema=SCHEMA,
                serializer=SERIALIZER,
                application_name=APPLICATION,
                lazy=True,
                retry_connection_errors=False,
            )
            quiet()
        return self._client

    async def _call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Do what blocks in a thread; a lost connection is no reason to fail, since all of it may be done twice."""
        with self._clock.hold():
            for pause in RETRY_PAUSES:
                try:
                    return await asyncio.to_thread(function, *args, **kwargs)
                except sa.exc.DBAPIError as problem:
                    if not lost_connection(problem):
                        raise
                await self._clock.sleep(pause)
            return await asyncio.to_thread(function, *args, **kwargs)


def open_database(url: str, *, immediate: bool = False) -> sa.Engine:
    """Open the database; with ``immediate`` every transaction on SQLite takes the write lock at its start."""
    engine = sa.create_engine(engine_url(url), **engine_options(url))
    if is_sqlite(url):
        sa.event.listen(engine, "connect", prepare_sqlite)
        if immediate:
            sa.event.listen(engine, "connect", _leave_begin_to_us)
            sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


def _leave_begin_to_us(connection: Any, _record: object) -> None:
    connection.isolation_level = None


def _info(row: WorkflowStatus) -> JobInfo:
    args = row.input["args"][0].get("args", {}) if row.input and row.input["args"] else {}
    problem = str(row.error) if row.error is not None else ""
    if row.status == "MAX_RECOVERY_ATTEMPTS_EXCEEDED":
        problem = interrupted()
    return JobInfo(
        id=row.workflow_id,
        kind=row.name.removeprefix(PREFIX),
        state=_STATES[row.status],
        args=args,
        result=row.output,
        error=problem,
        created_at=_moment(row.created_at),
        started_at=_moment(row.dequeued_at),
        ended_at=_moment(row.completed_at),
        executor=row.executor_id or "",
    )


def interrupted() -> str:
    """Say why a job that no process lives through is given up."""
    return f"the process that ran it died {RECOVERIES + 1} times: given up"


def _moment(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)
