"""A worker that is killed between any two effects ends, when it is taken up again, as one that was not (QLT-030)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from droveway.core.keys import message_key
from droveway.core.vocabulary import Status

from .world import LONG, World, as_json, open_world

SCRIPT = f"""
- steps:
  - write: {{path: b.txt, text: "two\\n"}}
  - commit: add b
  - push: true
  - write: {{path: c.txt, text: "three\\n"}}
  say: "{LONG}"
"""
POINTS = (
    "act.edit-comment.after",
    "worker.placed",
    "worker.agent-ended",
    "relay.pushed",
    "worker.pushed",
    "act.comment.after",
    "worker.recorded",
    "act.set-status.before",
    "worker.done",
)


async def _dies(world: World, number: int, point: str) -> int:
    """Run the attempt in a process of its own that kills itself at ``point``; give its exit code."""
    spec = world.root / f"{number}.json"
    assert world.fleet.script
    spec.write_bytes(
        as_json(
            {
                "home": str(world.root / "home"),
                "url": world.url.removesuffix("/owner/road.git"),
                "script": str(world.fleet.script),
                "job": await world.job(number),
            }
        )
    )
    tests = str(Path(__file__).parent.parent)
    env = {**os.environ, "DIES_TOKEN": world.fleet.forge.token, "HERD_CRASH_AT": point, "PYTHONPATH": tests}
    argv = (sys.executable, "-m", "work.dies", str(spec))
    child = await asyncio.create_subprocess_exec(*argv, env=env, stderr=asyncio.subprocess.PIPE)
    _, err = await child.communicate()
    assert child.returncode == -signal.SIGKILL, err.decode()
    return number


@pytest.mark.req("QLT-030", "BAT-003", "BAT-108", "BAT-173", "BAT-230")
@pytest.mark.slow
async def test_a_kill_at_any_point_changes_nothing_of_the_end(tmp_path: Path) -> None:
    async with open_world(tmp_path, SCRIPT) as world:
        calm = await world.issue("Calm")
        assert (await world.work(calm))["outcome"] == "success"
        numbers = {point: await world.issue("Killed at " + point) for point in POINTS}
        slots = asyncio.Semaphore(2)

        async def story(point: str) -> None:
            async with slots:
                await _dies(world, numbers[point], point)
                await world.work(numbers[point])

        async with asyncio.TaskGroup() as group:
            for point in POINTS:
                group.create_task(story(point))
        wanted = await _end(world, calm)
        for point, number in numbers.items():
            assert await _end(world, number) == wanted, point


async def _end(world: World, number: int) -> object:
    """Give all that people see of an issue's attempt, without what differs from issue to issue."""
    assert await world.status(number) is Status.DONE, number
    keys = [str(message_key(c.body)).replace(f"issue:{number}/", "issue:N/") for c in await world.comments(number)]
    branch = world.branch(number)
    files = [name.replace(f"/{number}.", "/N.") for name in world.files(branch)]
    return sorted(keys), await world.outcomes(number), files, world.show(branch, "c.txt")
