"""The engine's port: what the rooms and ``app.py`` know of durable jobs and leases (ENG-003, ENG-004)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeAlias

from droveway.core.errors import HerdError
from droveway.core.jobs import Enqueued, Existing, Job, JobInfo
from droveway.core.lease import Lease

WORKERS, REVIEWS, TURNS = "workers", "reviews", "turns"
RECOVERIES = 3  # how often an interrupted job is started again before it counts as failed
CANCEL_GRACE = (
    30.0  # seconds that a handler has, from the moment ``ctx.cancelled`` is set, before its task is cancelled
)


class JobInterruptedError(HerdError):
    """A handler ended early because ``ctx.cancelled`` was set: there is no result.

    A job of an engine that stops is then handed back, and runs again on restart or elsewhere; one that was cancelled
    stays cancelled. A handler that *returns* has done its work, whatever was set meanwhile.
    """


@dataclass(frozen=True)
class JobContext:
    """What a handler gets. ``deadline`` ends this attempt: the handler's task is cancelled then.

    ``cancelled`` is set when the job is cancelled or was taken over, and when the engine stops: wind up, then raise
    JobInterruptedError. ``lease.check()`` raises LeaseLostError as soon as the job is no longer this process's own;
    it is asked before each effect.
    """

    job: Job
    attempt_started: datetime
    cancelled: asyncio.Event
    lease: Lease
    deadline: datetime


Handler: TypeAlias = Callable[[JobContext], Awaitable[Any]]
"""Does a job; what it returns is plain JSON (msgspec structs become plain)."""


class Engine(Protocol):
    """Durable jobs, and leases shared by all processes on one database."""

    on_end: Callable[[JobInfo], None] | None
    """Told, in the main loop, when a job that this process ran has ended: it wakes loops."""

    def register(self, kind: str, queue: str, handler: Handler) -> None:
        """Name the handler and the queue of a kind of job; only before ``start``."""
        ...

    async def start(self) -> None:
        """Start to take jobs; those of an earlier process with this executor id are taken up at once."""
        ...

    async def stop(self, grace: float = 20) -> None:
        """Take no more jobs, set ``cancelled`` for the running ones, wait ``grace`` seconds, cancel what is left."""
        ...

    async def enqueue(self, job: Job) -> Enqueued | Existing:
        """Queue a job, unless one with its id exists in any state."""
        ...

    async def job(self, id: str) -> JobInfo | None:  # noqa: A002 - the word of the port
        """Give what is known of a job, or None."""
        ...

    async def jobs(self, *, kind: str | None = None, id_prefix: str = "", active_only: bool = False) -> list[JobInfo]:
        """Give jobs in the order of their creation; active ones are queued or running."""
        ...

    async def cancel(self, id: str) -> None:  # noqa: A002
        """Cancel: a queued job never starts, a running one is told, an ended or unknown one is left alone."""
        ...

    async def wait(self, id: str, timeout: float | None = None) -> JobInfo:  # noqa: A002
        """Wait for a job's end. Raises TimeoutError, and HerdError where there is no such job."""
        ...

    async def lease(self, key: str, *, ttl: float = 30) -> Lease | None:
        """Take a key, renewed until ``release``; None while it is held, by this process or a live one elsewhere."""
        ...

    async def release(self, lease: Lease) -> None:
        """Give a key back; one that was lost meanwhile is left alone."""
        ...
