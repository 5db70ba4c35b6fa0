"""Virtual time: hours in milliseconds, and never a jump over something real."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from droveway.core.clock import VirtualClock
from droveway.core.ids import SeededIds
from droveway.core.runner import End, Limits, Runner
from droveway.core.tasks import background

Virtually = Callable[[Callable[[VirtualClock], Any]], Any]
ENV = {"PATH": os.environ["PATH"]}


def test_a_week_of_waiting_takes_no_time_and_keeps_its_order(virtually: Virtually) -> None:
    async def main(clock: VirtualClock) -> list[tuple[str, timedelta]]:
        seen: list[tuple[str, timedelta]] = []

        async def wait(name: str, days: float) -> None:
            await clock.sleep(days * 86400)
            seen.append((name, clock.now() - clock.EPOCH))

        await asyncio.gather(wait("week", 7), wait("day", 1))
        return seen

    began = time.monotonic()
    assert virtually(main) == [("day", timedelta(days=1)), ("week", timedelta(days=7))]
    assert time.monotonic() - began < 5


@pytest.mark.smoke
def test_no_deadline_fires_over_a_running_child(virtually: Virtually) -> None:
    async def main(clock: VirtualClock) -> Any:
        runner = Runner(clock, SeededIds(1))

        async def hours() -> None:
            await clock.sleep(3 * 3600)

        waiting = asyncio.ensure_future(hours())
        async with asyncio.timeout(3600):
            done = await runner.run(["sh", "-c", "sleep 0.3; echo over"], cwd="/", env=ENV, limits=Limits(timeout=30))
        still_waiting = not waiting.done()
        await waiting
        return done, still_waiting

    done, still_waiting = virtually(main)
    assert (done.text(), done.end, still_waiting) == ("over\n", End.EXITED, True)


def test_a_childs_own_deadline_fires_when_it_has_really_run_so_long(virtually: Virtually) -> None:
    async def main(clock: VirtualClock) -> Any:
        return await Runner(clock, SeededIds(1)).run(
            ["sleep", "600"], cwd="/", env=ENV, limits=Limits(timeout=0.5, grace=1)
        )

    began = time.monotonic()
    assert virtually(main).end is End.TIMEOUT
    assert 0.4 < time.monotonic() - began < 60


async def test_a_failure_in_the_background_ends_the_block_as_itself() -> None:
    async def fails() -> None:
        raise ValueError("gone")

    with pytest.raises(ValueError, match="gone"):
        async with background(fails()):
            await asyncio.Event().wait()


async def test_the_blocks_own_error_passes_as_it_is_and_ends_the_task() -> None:
    cancelled = asyncio.Event()

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def block() -> None:
        async with background(forever()):
            await asyncio.sleep(0)
            raise KeyError

    with pytest.raises(KeyError):
        await block()
    assert cancelled.is_set()
