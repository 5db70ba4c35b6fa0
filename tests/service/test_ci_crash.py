"""A service that is killed between any two effects of its CI loses no head and reports nothing twice (FRG-028)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .test_ci import ci, shell
from .world import REPO, commit, git, until, world


def serve(folder: Path, crash_at: str) -> subprocess.Popen[str]:
    env = {**os.environ, "HERD_CRASH_AT": crash_at}
    program = Path(__file__).with_name("serves.py")
    started = subprocess.Popen(
        [sys.executable, str(program), str(folder)],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert started.stdout is not None
    started.stdout.readline()  # "ready", or nothing where it has died before
    return started


def dies(started: subprocess.Popen[str]) -> None:
    try:
        assert started.wait(60) == -signal.SIGKILL
    finally:
        started.kill()
        started.communicate()


@pytest.mark.req("FRG-028", "QLT-030")
async def test_a_service_killed_between_any_two_effects_completes_the_runs_that_exist(tmp_path: Path) -> None:
    config = ci(shell("test -e new.txt", "tests"), shell("test -e new.txt", "more"))
    async with world(tmp_path, config) as served:
        clone = served.clone
    # The push itself is the last that this service does.
    first = await asyncio.to_thread(serve, tmp_path, "localforge.push.applied")
    sha = commit(clone, {"new.txt": "new\n"})
    pushed = await asyncio.to_thread(
        subprocess.run,
        ["git", "push", "-q", "origin", "HEAD:refs/heads/herd/batch/1-x"],
        cwd=clone,
        capture_output=True,
    )
    assert pushed.returncode != 0
    await asyncio.to_thread(dies, first)
    for place in ("ci.queued", "ci.queued", "ci.started", "ci.ended", "ci.started"):
        await asyncio.to_thread(dies, await asyncio.to_thread(serve, tmp_path, place))
    async with world(tmp_path, config, again=True) as served:
        listed = await asyncio.to_thread(git, served.clone, "ls-remote", "origin", "refs/heads/herd/batch/1-x")
        assert listed.split()[0] == sha
        runs = await served.ended(sha, 2)
        assert {run["conclusion"] for run in runs.values()} == {"success"}
        folder = served.service.fleet.runs(REPO).parent / "ci"

        async def clean() -> bool:
            return not list(folder.glob("*"))

        await until(clean)
