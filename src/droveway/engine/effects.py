"""The engine's effects: jobs that rules start and cancel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from droveway.core.actuator import Done, EffectError, Look, Ready
from droveway.core.decisions import CancelJob, Receipt, StartJob
from droveway.core.jobs import ACTIVE, Existing
from droveway.engine.port import Engine

if TYPE_CHECKING:
    from droveway.engine.client import EngineClient


def handlers(engine: Engine | EngineClient) -> dict[type[Any], Any]:
    """Give the engine's handlers by the type of their action."""
    return {StartJob: StartJobHandler(engine), CancelJob: CancelJobHandler(engine)}


class StartJobHandler:
    """Enqueues a job; one with its id, in any state, is the effect already."""

    def __init__(self, engine: Engine | EngineClient) -> None:
        """Enqueue with ``engine``."""
        self._engine = engine

    async def look(self, action: StartJob) -> Look:
        """Look for a job with the id."""
        found = await self._engine.job(action.job.id)
        return Ready() if found is None else Done(Receipt(note=found.state))

    async def apply(self, action: StartJob) -> Receipt:
        """Enqueue; the receipt's note is the job's state."""
        if action.job.priority < 1:
            raise EffectError("rejected", f"job {action.job.id}: the priority must be at least 1")
        match await self._engine.enqueue(action.job):
            case Existing(state=state):
                return Receipt(note=state)
            case _:
                return Receipt(note="enqueued")


class CancelJobHandler:
    """Cancels a job; one that has ended, or never was, needs nothing."""

    def __init__(self, engine: Engine | EngineClient) -> None:
        """Cancel with ``engine``."""
        self._engine = engine

    async def look(self, action: CancelJob) -> Look:
        """Look whether the job is still queued or running."""
        found = await self._engine.job(action.job_id)
        if found is None:
            return Done(Receipt(note="unknown"))
        return Ready() if found.state in ACTIVE else Done(Receipt(note=found.state))

    async def apply(self, action: CancelJob) -> Receipt:
        """Cancel."""
        await self._engine.cancel(action.job_id)
        return Receipt(note="cancelled")
