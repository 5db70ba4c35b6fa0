"""The durable engine: DBOS runs the jobs, our ledger says who may (ENG-003, ENG-004, ENG-009).

DBOS starts each job in a thread of its own; the thread does nothing but carry the job into the process's one event
loop, where the handler runs. DBOS's row decides who *starts* a job; the ledger's claim, with its epoch, decides who may
still *act* for it, and is asked before each effect and before the outcome is written.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

import msgspec
import sqlalchemy as sa
import structlog

from droveway.core.clock import Clock
from droveway.core.database import is_sqlite
from droveway.core.errors import HerdError
from droveway.core.ids import Ids
from droveway.core.jobs import ACTIVE, Job, JobInfo
from droveway.core.lease import Lease
from droveway.core.points import point
from droveway.engine.client import (
    APPLICATION,
    PREFIX,
    SCHEMA,
    SERIALIZER,
    EngineClient,
    interrupted,
    open_database,
    quiet,
)
from droveway.engine.ledger import Claim, Executor
from droveway.engine.patrol import Patrol
from droveway.engine.port import CANCEL_GRACE, RECOVERIES, Handler, JobContext
from droveway.engine.running import Attempt, Failed, Finished, Outcome, Released, Why

from dbos import DBOS, DBOSConfig, WorkflowStatus  # isort: skip - after the client, which keeps its log off the terminal

SILENCE = 30.0  # seconds without a sign of life after which an executor counts as dead


class JobFailedError(Exception):
    """Carries a failed job's error through DBOS, which keeps its text."""


class _NoOutcomeError(BaseException):
    """Ends a workflow's thread with nothing written. DBOS writes an outcome for an Exception, not for this."""


class _Run(msgspec.Struct, frozen=True):
    """A job that runs here, under which claim."""

    claim: Claim
    attempt: Attempt
    over: asyncio.Event


class DbosEngine(EngineClient):
    """The engine on SQLite or PostgreSQL. DBOS allows one in a process at a time."""

    def __init__(
        self,
        database: str | sa.Engine,
        *,
        executor_id: str,
        clock: Clock,
        ids: Ids,
        slots: Mapping[str, int],
        global_slots: Mapping[str, int] | None = None,
        app_version: str = "1",
        poll_seconds: float = 0.1,
        queue_seconds: Mapping[str, float] | None = None,
        silence: float = SILENCE,
    ) -> None:
        """``database`` is its URL, or the SQLAlchemy engine of it that somebody else closes.

        ``executor_id`` is stable (host and slot). ``slots`` limits each queue in this process, ``global_slots`` in all
        processes together. ``queue_seconds`` is how often a queue is looked at, where not each ``poll_seconds``: a look
        costs milliseconds of CPU also where the queue is empty. ``app_version`` changes only when older
        processes can't run what newer ones enqueue.
        """
        super().__init__(database, clock=clock, app_version=app_version)
        self.on_end: Callable[[JobInfo], None] | None = None
        self.executor_id = executor_id
        self._ids = ids
        self._slots = dict(slots)
        self._global_slots = dict(global_slots or {})
        self._poll = poll_seconds
        self._queue_seconds = dict(queue_seconds or {})
        self._silence = silence
        self._strict: sa.Engine | None = None
        self._handlers: dict[str, Handler] = {}
        self._incarnation = ""
        self._beating = asyncio.Lock()
        self._hurry = asyncio.Event()
        self._running: dict[str, _Run] = {}
        self._held: dict[tuple[str, int], tuple[str, float]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._started = False

    def register(self, kind: str, queue: str, handler: Handler | None = None) -> None:
        """Name the handler and the queue of a kind of job; only before ``start``."""
        if self._started or kind in self._handlers or handler is None:
            raise RuntimeError(f"the handler of {kind!r} is missing, registered twice, or registered too late")
        super().register(kind, queue)
        self._handlers[kind] = handler

    # --- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Become the executor and take jobs. Raises BusyError if a living process is this executor already."""
        self._started = True
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._incarnation = self._ids.new()
        await self._call(self._ledger.create)
        await self._call(self._ledger.register, self.executor_id, self._incarnation)
        await self._call(self._ledger.put_queues, self._queues)
        await self._call(self._launch)
        patrol = Patrol(self)
        self._spawn(self._forever(self._beat, self._beat_pause), "engine beat")
        self._spawn(self._forever(self._watch, lambda: self._poll * 5), "engine watch")
        self._spawn(self._forever(patrol.round, lambda: self._silence / 6), "engine patrol")

    def _launch(self) -> None:
        """Start DBOS. It takes back at once what an earlier process with this executor id left."""
        quiet()
        url = self._database.url.render_as_string(hide_password=False)
        DBOS.migrate(url.replace("+psycopg", "", 1), schema=SCHEMA)
        if self._global_slots and is_sqlite(url):
            # DBOS counts what runs everywhere, then claims; on SQLite only the claim is in a transaction, so that
            # executors that look at the same time exceed the limit together.
            self._strict = open_database(url, immediate=True)
        queues = sorted(set(self._queues.values()))
        threads = sum(self._slots.get(queue, 1) for queue in queues)
        DBOS(
            config=DBOSConfig(
                name=APPLICATION,
                system_database_engine=self._strict or self._database,
                run_migrations=False,
                dbos_system_schema=SCHEMA,
                serializer=SERIALIZER,
                application_version=self._version,
                executor_id=self.executor_id,
                max_executor_threads=2 * threads + 8,
                use_listen_notify=False,
                notification_listener_polling_interval_sec=0.2,  # we wait for no notifications; a stop waits for this
                log_level="ERROR",
            )
        )
        quiet()
        for kind in sorted(self._handlers):
            DBOS.workflow(name=PREFIX + kind, max_recovery_attempts=RECOVERIES)(self._workflow())
        DBOS.listen_queues(queues)
        DBOS.launch()
        for queue in queues:
            DBOS.register_queue(
                queue,
                worker_concurrency=self._slots.get(queue, 1),
                global_concurrency=self._global_slots.get(queue),
                polling_interval_sec=self._queue_seconds.get(queue, self._poll),
                on_conflict="always_update",
            )

    async def stop(self, grace: float = 20) -> None:
        """Take no more jobs, tell the running ones, wait ``grace``, cancel what is left; they are handed back."""
        if not self._started or self._stopping.is_set():
            return
        self._stopping.set()
        for run in self._running.values():
            run.attempt.interrupt(Why.STOPPING, grace)
        patience = math.ceil(grace) + 15 if self._running else 0
        await self._call(DBOS.destroy, destroy_registry=True, workflow_completion_timeout_sec=patience)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._call(self._ledger.leave, self._incarnation)
        if self._strict is not None:
            await self._call(self._strict.dispose)
        await self._call(self.close)

    async def wait(self, id: str, timeout: float | None = None) -> JobInfo:  # noqa: A002
        """Wait for a job's end, wherever it runs. Raises TimeoutError, and HerdError where there is no such job."""
        async with asyncio.timeout(timeout):
            while True:
                info = await self.job(id)
                if info is None:
                    raise HerdError(f"there is no job {id!r}")
                if info.state not in ACTIVE:
                    return info
                await self._clock.sleep(self._poll)

    # --- leases ------------------------------------------------------------------------------------------------------

    async def lease(self, key: str, *, ttl: float = 30) -> Lease | None:
        """Take a key, renewed until ``release``; None while it is held, by this process or a live one elsewhere."""
        incarnation = self._incarnation
        epoch = await self._call(self._ledger.take, key, incarnation, ttl)
        if epoch is None:
            return None
        self._held[key, epoch] = (incarnation, ttl)
        self._hurry.set()

        async def held() -> bool:
            return await self._call(self._ledger.holds, key, epoch, incarnation)

        return Lease(key, epoch, held)

    async def release(self, lease: Lease) -> None:
        """Give a key back; one that was lost meanwhile is left alone."""
        incarnation, _ = self._held.pop((lease.key, lease.epoch), (self._incarnation, 0.0))
        await self._call(self._ledger.give, lease.key, lease.epoch, incarnation)

    # --- jobs --------------------------------------------------------------------------------------------------------

    def _workflow(self) -> Callable[[dict[str, Any]], Any]:
        def run(job: dict[str, Any]) -> Any:
            return DBOS.run_step({"name": "run"}, self._bridge, job)

        return run

    def _bridge(self, plain: dict[str, Any]) -> Any:
        """Carry a job from DBOS's thread into the main loop and wait for its outcome."""
        # In the context of ``start``: the handler must not take itself for a part of DBOS's workflow.
        work = self._attempt(msgspec.convert(plain, Job))
        future = self._context.copy().run(asyncio.run_coroutine_threadsafe, work, self._loop)
        while not concurrent.futures.wait({future}, timeout=1).done:
            if self._loop.is_closed():
                raise _NoOutcomeError
        if future.cancelled() or future.exception() is not None:
            raise _NoOutcomeError  # the database failed us; the patrol finds the job again
        match future.result():
            case Finished(result=result):
                return result
            case Failed(error=text):
                raise JobFailedError(text)
            case _:
                raise _NoOutcomeError

    async def _attempt(self, job: Job) -> Outcome:
        """Run one attempt of a job under a claim of its own."""
        if (old := self._running.get(job.id)) is not None:  # it was taken from us, and has come back to us
            old.attempt.interrupt(Why.LOST, 0)
            await old.over.wait()
        if self._stopping.is_set():
            await self.requeue(job.id, self._queues[job.kind])
            return Released(Why.STOPPING)
        claim = await self._claim(job.id)
        if claim is None:
            return Released(Why.LOST)
        if claim.attempts > RECOVERIES + 1:
            return await self._settle(job, claim, Failed(interrupted()))
        now = self._clock.now()

        async def held() -> bool:
            return not await self._call(self._ledger.lost, [claim])

        lease = Lease(f"job:{job.id}", claim.epoch, held)
        context = JobContext(job, now, asyncio.Event(), lease, now + timedelta(seconds=job.deadline_seconds))
        run = self._running[job.id] = _Run(claim, Attempt(context), asyncio.Event())
        if self._stopping.is_set():
            run.attempt.interrupt(Why.STOPPING, 0)
        try:
            await point("job.started")
            outcome = await run.attempt.run(self._handlers[job.kind])
            await point("job.ended")
        finally:
            del self._running[job.id]
            run.over.set()
        return await self._settle(job, claim, outcome)

    async def _claim(self, job_id: str) -> Claim | None:
        """Take the right to run a job that DBOS gave us; None if it is cancelled or no longer ours."""
        while True:
            claim = await self._call(self._ledger.claim, job_id, self._incarnation)
            if claim is not None:
                return claim
            if await self._call(self._ledger.cancelled, job_id):
                await self._call(self._connected().cancel_workflow, job_id)
                return None
            await self._beat()  # we were buried and have not noticed: come back, if the job is still here
            info = await self.job(job_id)
            if info is None or info.state not in ACTIVE or info.executor != self.executor_id:
                return None

    async def _settle(self, job: Job, claim: Claim, outcome: Outcome) -> Outcome:
        """Let an outcome stand if the claim still holds; hand the job back if the engine stops."""
        if outcome == Released(Why.LOST) and not await self._call(self._ledger.lost, [claim]):
            outcome = Failed("the handler lost a lease that is not its job's")
        if isinstance(outcome, Released):
            if outcome.why is Why.STOPPING and await self._call(self._ledger.hand_back, claim):
                await self.requeue(job.id, self._queues[job.kind])
        elif not await self._call(self._ledger.settle, claim):
            outcome = Released(Why.LOST)
        if not self._stopping.is_set() and self.on_end is not None:
            self._spawn(self._announce(job.id), f"job {job.id} ended")
        return outcome

    async def _announce(self, job_id: str) -> None:
        """Tell of a job's end once DBOS has written it; one that was taken over has not ended."""
        for _ in range(50):
            info = await self.job(job_id)
            if info is not None and info.state not in ACTIVE:
                if self.on_end is not None:
                    self.on_end(info)
                return
            if info is None or info.executor != self.executor_id:
                return
            await self._clock.sleep(self._poll)

    async def requeue(self, job_id: str, queue: str) -> None:
        """Put a job back into its queue, unless it is cancelled, or gets cancelled at this very moment."""
        if not await self._call(self._ledger.cancelled, job_id):
            await self._call(self._connected().resume_workflow, job_id, queue_name=queue)
        if await self._call(self._ledger.cancelled, job_id):
            await self._call(self._connected().cancel_workflow, job_id)

    # --- what the patrol asks ----------------------------------------------------------------------------------------

    @property
    def silence(self) -> float:
        """Seconds without a sign of life after which an executor counts as dead."""
        return self._silence

    def monotonic(self) -> float:
        """Give the monotonic seconds by which silence is measured."""
        return self._clock.monotonic()

    async def executors(self) -> list[Executor]:
        """Give all executors that were not buried."""
        return await self._call(self._ledger.executors)

    async def bury(self, executor: Executor) -> bool:
        """Take a silent executor's rights away."""
        return await self._call(self._ledger.bury, executor)

    async def pending(self) -> list[WorkflowStatus]:
        """Give the jobs of our version that DBOS has as running, on any executor."""
        rows = await self._call(self._connected().list_workflows, status="PENDING", load_input=False, load_output=False)
        return [row for row in rows if row.name.startswith(PREFIX) and row.app_version == self._version]

    async def claimed(self, job_ids: Iterable[str]) -> set[str]:
        """Give those of the jobs that a living incarnation has claimed."""
        return await self._call(self._ledger.owners, list(job_ids))

    def is_stray(self, row: WorkflowStatus) -> bool:
        """Whether DBOS has a job as running here which does not run here."""
        return row.executor_id == self.executor_id and row.workflow_id not in self._running

    # --- tasks of the engine -----------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        """Show life and renew leases. One who was buried loses all jobs and leases, and begins anew."""
        async with self._beating:
            incarnation = self._incarnation
            held = [key for key, (owner, _) in self._held.items() if owner == incarnation]
            if await self._call(self._ledger.beat, incarnation, held):
                return
            structlog.get_logger().warning("taken for dead; starting anew", executor=self.executor_id)
            self._incarnation = self._ids.new()
            await self._call(self._ledger.register, self.executor_id, self._incarnation)
            self._held.clear()
            for run in self._running.values():
                if run.claim.owner != self._incarnation:
                    run.attempt.interrupt(Why.LOST, 0)

    def _beat_pause(self) -> float:
        return min([self._silence / 6, *(ttl / 3 for _, ttl in self._held.values())])

    async def _watch(self) -> None:
        """Find out which of the running jobs were cancelled or taken over."""
        gone = await self._call(self._ledger.lost, [run.claim for run in self._running.values()])
        for job_id, cancelled in gone.items():
            if (run := self._running.get(job_id)) is None:
                continue
            if cancelled:
                run.attempt.interrupt(Why.CANCELLED, CANCEL_GRACE)
            else:
                run.attempt.interrupt(Why.LOST, 0)

    async def _forever(self, work: Callable[[], Awaitable[None]], pause: Callable[[], float]) -> None:
        """Do ``work`` again and again; a database that fails is no reason to end."""
        while True:
            try:
                await work()
            except Exception as problem:
                structlog.get_logger().warning("engine task failed", task=work.__name__, detail=str(problem))
            self._hurry.clear()
            try:
                async with asyncio.timeout(pause()):
                    await self._hurry.wait()
            except TimeoutError:
                pass

    def _spawn(self, work: Any, name: str) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
