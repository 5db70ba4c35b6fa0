"""One attempt of a job in this process's event loop: its deadline, its interruption, and how it ended."""

from __future__ import annotations

import asyncio
import contextlib
import enum
from typing import Any, TypeAlias

import msgspec

from droveway.core.lease import LeaseLostError
from droveway.engine.port import Handler, JobContext


class Why(enum.StrEnum):
    """Why an attempt was told to end."""

    CANCELLED = "cancelled"
    STOPPING = "stopping"
    LOST = "lost"
    DEADLINE = "deadline"


class Finished(msgspec.Struct, frozen=True):
    """The handler returned; ``result`` is plain JSON."""

    result: Any


class Failed(msgspec.Struct, frozen=True):
    """The handler raised, or its deadline passed."""

    error: str


class Released(msgspec.Struct, frozen=True):
    """There is no outcome: the job was cancelled, taken over, or the engine stops."""

    why: Why


Outcome: TypeAlias = Finished | Failed | Released


class Attempt:
    """A job that runs here."""

    def __init__(self, context: JobContext) -> None:
        """Wrap the context that the handler gets."""
        self.context = context
        self.why: Why | None = None
        self._task: asyncio.Future[Any] | None = None
        self._killer: asyncio.TimerHandle | None = None

    def interrupt(self, why: Why, grace: float) -> None:
        """Tell the handler to end, and cancel its task ``grace`` seconds later. The first reason stands."""
        self.why = self.why or why
        self.context.cancelled.set()
        when = asyncio.get_running_loop().time() + grace
        if self._killer is not None:
            if self._killer.when() <= when:
                return
            self._killer.cancel()
        self._killer = asyncio.get_running_loop().call_at(when, self._kill)

    def _kill(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def run(self, handler: Handler) -> Outcome:
        """Run the handler to its end; it is always over when this returns or raises."""
        if self.why is not None:
            return Released(self.why)
        self._task = asyncio.ensure_future(handler(self.context))
        seconds = self.context.job.deadline_seconds
        try:
            done, _ = await asyncio.wait({self._task}, timeout=seconds)
            if not done:
                self.interrupt(Why.DEADLINE, 0)
                await asyncio.wait({self._task})
            return self._outcome(self._task)
        finally:
            if self._killer is not None:
                self._killer.cancel()
            if not self._task.done():  # this very call was cancelled
                self._task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait({self._task})

    def _outcome(self, task: asyncio.Future[Any]) -> Outcome:
        if not task.cancelled() and task.exception() is None:
            try:
                return Finished(msgspec.json.decode(msgspec.json.encode(task.result())))
            except (TypeError, ValueError) as error:
                return Failed(f"the result is no plain JSON: {error}")
        if self.why is Why.DEADLINE:
            return Failed(f"the deadline of {self.context.job.deadline_seconds:g} s passed")
        if self.why is not None:
            return Released(self.why)  # whatever it raised while winding up is no verdict on the job
        if task.cancelled():
            return Failed("the handler was cancelled")
        problem = task.exception()
        if isinstance(problem, LeaseLostError):
            return Released(Why.LOST)  # the engine finds out whether it was this job's own lease
        return Failed(f"{type(problem).__name__}: {problem}")
