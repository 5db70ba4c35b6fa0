"""Time as a port: the system's clock, and an event loop on virtual time that never jumps over a running process."""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol


class Clock(Protocol):
    """What the rooms know of time. Deadlines use ``asyncio.timeout``, which obeys the loop's own (virtual) time."""

    def now(self) -> datetime:
        """Give the present moment in UTC."""
        ...

    def monotonic(self) -> float:
        """Give seconds that never go back; only differences mean anything."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    def hold(self) -> contextlib.AbstractContextManager[None]:
        """Keep virtual time from jumping while something real is under way (a child, a thread, a socket)."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Give the present moment in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Give the machine's monotonic seconds."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    def hold(self) -> contextlib.AbstractContextManager[None]:
        """Do nothing: real time can't jump."""
        return contextlib.nullcontext()


class _JumpingSelector:
    """A selector that, instead of waiting for a timer, moves the loop's time on; while held it waits for real."""

    def __init__(self, loop: VirtualTimeLoop, inner: selectors.BaseSelector) -> None:
        self._loop = loop
        self._inner = inner

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return self._inner.select(timeout)
        events = self._inner.select(0)
        if events:
            return events
        if self._loop.holds:
            # Something real is under way: virtual time runs exactly as fast as real time meanwhile, so that a
            # deadline fires when the real work deserves it and not before.
            started = time.monotonic()
            events = self._inner.select(min(timeout, 0.05))
            self._loop.advance(time.monotonic() - started)
            return events
        self._loop.advance(timeout)
        return self._inner.select(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose timers fire at once, in order, unless something real holds the clock."""

    def __init__(self) -> None:
        """Start at zero seconds."""
        self.holds = 0
        self._virtual = 0.0
        super().__init__(_JumpingSelector(self, selectors.DefaultSelector()))  # type: ignore[arg-type]

    def time(self) -> float:
        """Give the virtual seconds since the start."""
        return self._virtual

    def advance(self, seconds: float) -> None:
        """Move on."""
        self._virtual += seconds


class VirtualClock:
    """A clock on a VirtualTimeLoop; the epoch is fixed, so that a run with the same seed reads the same times."""

    EPOCH = datetime(2026, 1, 1, tzinfo=UTC)

    def __init__(self, loop: VirtualTimeLoop) -> None:
        """Read the time of ``loop``."""
        self._loop = loop

    def now(self) -> datetime:
        """Give the virtual moment in UTC."""
        return self.EPOCH + timedelta(seconds=self._loop.time())

    def monotonic(self) -> float:
        """Give the loop's virtual seconds."""
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        """Wait in virtual time."""
        await asyncio.sleep(seconds)

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Keep the loop's time from jumping."""
        self._loop.holds += 1
        try:
            yield
        finally:
            self._loop.holds -= 1
