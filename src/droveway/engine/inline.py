"""An engine without a database: jobs are tasks of the running loop, for the simulator and tests in process."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Mapping
from datetime import timedelta

import msgspec

from droveway.core.clock import Clock
from droveway.core.errors import HerdError
from droveway.core.ids import Ids
from droveway.core.jobs import ACTIVE, Enqueued, Existing, Job, JobInfo, JobState
from droveway.core.lease import Lease
from droveway.engine.port import CANCEL_GRACE, Handler, JobContext
from droveway.engine.running import Attempt, Failed, Finished, Outcome, Why


class _Record:
    """A job with where it is."""

    def __init__(self, job: Job, info: JobInfo, order: int) -> None:
        self.job = job
        self.info = info
        self.order = order
        self.attempt: Attempt | None = None
        self.ended = asyncio.Event()

    @property
    def rank(self) -> tuple[int, int, str]:
        return (self.job.priority, self.order, self.job.id)


class InlineEngine:
    """The engine in one process and in memory; it works on a VirtualTimeLoop, and starts jobs in a fixed order."""

    def __init__(self, *, clock: Clock, ids: Ids, slots: Mapping[str, int]) -> None:
        """``slots`` gives for each queue how many of its jobs may run at once; a queue without an entry has one."""
        self.on_end: Callable[[JobInfo], None] | None = None
        self._clock = clock
        self._ids = ids
        self._slots = slots
        self._kinds: dict[str, tuple[str, Handler]] = {}
        self._records: dict[str, _Record] = {}
        self._waiting: dict[str, list[tuple[int, int, str]]] = {}
        self._busy: dict[str, int] = {}
        self._epochs: dict[str, int] = {}
        self._held: dict[str, Lease] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._taking = False

    def register(self, kind: str, queue: str, handler: Handler) -> None:
        """Name the handler and the queue of a kind of job; only before ``start``."""
        if self._taking or kind in self._kinds:
            raise RuntimeError(f"the handler of {kind!r} is registered twice or too late")
        self._kinds[kind] = (queue, handler)

    async def start(self) -> None:
        """Start to take jobs."""
        self._taking = True
        for queue in sorted(self._waiting):
            self._fill(queue)

    async def stop(self, grace: float = 20) -> None:
        """Take no more jobs; running ones are told, and cancelled after ``grace``; they stay queued for a restart."""
        self._taking = False
        for record in self._records.values():
            if record.attempt is not None:
                record.attempt.interrupt(Why.STOPPING, grace)
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def enqueue(self, job: Job) -> Enqueued | Existing:
        """Queue a job, unless one with its id exists in any state."""
        if job.kind not in self._kinds:
            raise HerdError(f"no handler for jobs of kind {job.kind!r}")
        if found := self._records.get(job.id):
            return Existing(job.id, found.info.state)
        args = msgspec.json.decode(msgspec.json.encode(job.args))
        info = JobInfo(job.id, job.kind, JobState.QUEUED, args=args, created_at=self._clock.now())
        record = self._records[job.id] = _Record(msgspec.structs.replace(job, args=args), info, len(self._records))
        queue = self._kinds[job.kind][0]
        heapq.heappush(self._waiting.setdefault(queue, []), record.rank)
        self._fill(queue)
        return Enqueued(job.id)

    async def job(self, id: str) -> JobInfo | None:  # noqa: A002
        """Give what is known of a job, or None."""
        record = self._records.get(id)
        return record.info if record else None

    async def jobs(self, *, kind: str | None = None, id_prefix: str = "", active_only: bool = False) -> list[JobInfo]:
        """Give jobs in the order of their creation."""
        return [
            record.info
            for record in self._records.values()
            if kind in (None, record.info.kind)
            and record.info.id.startswith(id_prefix)
            and (not active_only or record.info.state in ACTIVE)
        ]

    async def cancel(self, id: str) -> None:  # noqa: A002
        """Cancel: a queued job never starts, a running one is told."""
        record = self._records.get(id)
        if record is None or record.info.state not in ACTIVE:
            return
        self._end(record, JobState.CANCELLED)
        if record.attempt is not None:
            record.attempt.interrupt(Why.CANCELLED, CANCEL_GRACE)

    async def wait(self, id: str, timeout: float | None = None) -> JobInfo:  # noqa: A002
        """Wait for a job's end."""
        record = self._records.get(id)
        if record is None:
            raise HerdError(f"there is no job {id!r}")
        async with asyncio.timeout(timeout):
            await record.ended.wait()
        return record.info

    async def lease(self, key: str, *, ttl: float = 30) -> Lease | None:
        """Take a key; None while it is held. Nobody else can be on this engine, so nothing expires."""
        del ttl
        if key in self._held:
            return None
        epoch = self._epochs[key] = self._epochs.get(key, 0) + 1

        async def held() -> bool:
            return self._held.get(key) is lease

        lease = self._held[key] = Lease(key, epoch, held)
        return lease

    async def release(self, lease: Lease) -> None:
        """Give a key back."""
        if self._held.get(lease.key) is lease:
            del self._held[lease.key]

    def _fill(self, queue: str) -> None:
        """Start queued jobs while there are free slots."""
        waiting = self._waiting.get(queue, [])
        while self._taking and waiting and self._busy.get(queue, 0) < self._slots.get(queue, 1):
            record = self._records[heapq.heappop(waiting)[2]]
            if record.info.state is not JobState.QUEUED:
                continue
            self._busy[queue] = self._busy.get(queue, 0) + 1
            record.info = msgspec.structs.replace(
                record.info, state=JobState.RUNNING, started_at=self._clock.now(), executor="inline"
            )
            task = asyncio.get_running_loop().create_task(self._run(record, queue), name=f"job {record.job.id}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self, record: _Record, queue: str) -> None:
        now = self._clock.now()

        async def held() -> bool:
            return record.info.state is JobState.RUNNING and record.attempt is attempt

        attempt = Attempt(
            JobContext(
                record.job,
                now,
                asyncio.Event(),
                Lease(f"job:{record.job.id}", 1, held),
                now + timedelta(seconds=record.job.deadline_seconds),
            )
        )
        record.attempt = attempt
        if record.info.state is JobState.CANCELLED:  # between the start and this first step
            attempt.interrupt(Why.CANCELLED, 0)
        elif not self._taking:
            attempt.interrupt(Why.STOPPING, 0)
        try:
            self._settle(record, await attempt.run(self._kinds[record.job.kind][1]))
        finally:
            record.attempt = None
            self._busy[queue] -= 1
            self._fill(queue)

    def _settle(self, record: _Record, outcome: Outcome) -> None:
        record.attempt = None
        if record.info.state is JobState.RUNNING:
            match outcome:
                case Finished(result=result):
                    self._end(record, JobState.DONE, result=result)
                case Failed(error=error):
                    self._end(record, JobState.FAILED, error=error)
                case _ if not self._taking:
                    record.info = msgspec.structs.replace(record.info, state=JobState.QUEUED, started_at=None)
                    heapq.heappush(self._waiting[self._kinds[record.job.kind][0]], record.rank)
                    return
                case _:
                    self._end(record, JobState.FAILED, error="the handler lost a lease that is not its job's")
        if self.on_end is not None:
            self.on_end(record.info)

    def _end(self, record: _Record, state: JobState, *, result: object = None, error: str = "") -> None:
        record.info = msgspec.structs.replace(
            record.info, state=state, result=result, error=error, ended_at=self._clock.now()
        )
        record.ended.set()
