"""The engine: durable jobs and shared leases. The durable parts are imported only when they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from droveway.core.jobs import Enqueued, Existing, Job, JobInfo, JobState
from droveway.core.lease import Lease, LeaseLostError
from droveway.engine.checks import check_runtime
from droveway.engine.effects import CancelJobHandler, StartJobHandler
from droveway.engine.inline import InlineEngine
from droveway.engine.port import (
    CANCEL_GRACE,
    RECOVERIES,
    REVIEWS,
    TURNS,
    WORKERS,
    Engine,
    Handler,
    JobContext,
    JobInterruptedError,
)

if TYPE_CHECKING:
    from droveway.engine.client import EngineClient
    from droveway.engine.dbos import DbosEngine

__all__ = [
    "CANCEL_GRACE",
    "RECOVERIES",
    "REVIEWS",
    "TURNS",
    "WORKERS",
    "CancelJobHandler",
    "DbosEngine",
    "Engine",
    "EngineClient",
    "Enqueued",
    "Existing",
    "Handler",
    "InlineEngine",
    "Job",
    "JobContext",
    "JobInfo",
    "JobInterruptedError",
    "JobState",
    "Lease",
    "LeaseLostError",
    "StartJobHandler",
    "check_runtime",
]


def __getattr__(name: str) -> Any:
    """Import DBOS, which takes a second, only for those who run or enqueue durable jobs."""
    if name == "DbosEngine":
        from droveway.engine.dbos import DbosEngine

        return DbosEngine
    if name == "EngineClient":
        from droveway.engine.client import EngineClient

        return EngineClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
