"""Jobs: what the engine runs, and how it answers (ENG-003)."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Any

import msgspec


class JobState(enum.StrEnum):
    """Where a job is."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


ACTIVE = frozenset({JobState.QUEUED, JobState.RUNNING})


class Job(msgspec.Struct, frozen=True):
    """One unit of long work. ``id`` is its idempotency key and the engine's workflow id.

    ``kind`` names the handler; ``args`` is plain JSON; ``priority`` lower is sooner (1 … 2**31-1);
    ``deadline_seconds`` is the outer deadline, counted from the job's start.
    """

    id: str
    kind: str
    subject: str
    args: dict[str, Any] = {}
    priority: int = 100
    deadline_seconds: float = 3600.0


class JobInfo(msgspec.Struct, frozen=True):
    """What the engine knows of a job."""

    id: str
    kind: str
    state: JobState
    args: dict[str, Any] = {}
    result: Any = None
    error: str = ""
    created_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    executor: str = ""


class Enqueued(msgspec.Struct, frozen=True, tag="enqueued"):
    """The job was new."""

    id: str


class Existing(msgspec.Struct, frozen=True, tag="existing"):
    """A job with this id exists already, in any state: nothing was started."""

    id: str
    state: JobState
