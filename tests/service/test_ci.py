"""``ci.commands`` at each head of a PR or batch branch of the embedded forge (FRG-028)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from droveway.batch import create_batch, validate
from droveway.core.lease import Lease
from droveway.core.runner import RUN_TAG

from .world import REPO, World, git, until, world

pytestmark = pytest.mark.req("FRG-028")


def shell(script: str, name: str, **more: Any) -> dict[str, Any]:
    return {"run": ["sh", "-c", script], "name": name, **more}


def ci(*commands: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"ci": {"commands": list(commands)}, **more}


async def push(served: World, *args: Any) -> str:
    return await asyncio.to_thread(served.push, *args)


@pytest.mark.req("BAT-237", "QLT-040")
async def test_the_head_of_a_pull_request_is_checked_exactly_as_it_was_pushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "canary-of-another-forge")
    config = ci(
        shell("cat new.txt && ls -A && env", "shown"),
        shell("test -e made.txt", "tests"),
        shell("echo 1 > made.txt", "prepare", kind="setup"),
        shell("exit 3", "lint", optional=True),
    )
    async with world(tmp_path, config) as served:
        sha = await push(served, "topic", {"new.txt": "exactly this\n"})
        assert await served.runs(sha) == []  # no PR, so nobody asked
        number = await served.pull("topic")
        runs = await served.ended(sha, 4)
        conclusions = {name: run["conclusion"] for name, run in runs.items()}
        assert conclusions == {"prepare": "success", "shown": "success", "tests": "success", "lint": "neutral"}
        shown = runs["shown"]["output"]["summary"]
        assert "exactly this" in shown
        assert "CI=true" in shown
        assert ".git\n" not in shown
        assert "canary" not in shown
        assert served.service.bot_token not in shown
        assert runs["shown"]["app"]["slug"] == "herd-bot"
        assert runs["lint"]["output"]["title"] == "failed: exit code 3"
        assert [pull["number"] for pull in runs["shown"]["pull_requests"]] == [number]
        folder = served.service.fleet.runs(REPO).parent / "ci"
        await until(lambda: _gone(folder / sha))


async def _gone(path: Path) -> bool:
    return not path.exists()


@pytest.mark.req("BAT-149")
async def test_a_flood_of_output_and_a_command_that_hangs_end_with_their_tails(tmp_path: Path) -> None:
    flood = (
        "i=0; while [ $i -lt 16000 ]; do echo 'sixty-four characters of nothing in particular, and then some more'; "
    )
    flood += "i=$((i+1)); done; echo 'code.py:2: that is wrong'; exit 1"
    config = ci(
        shell(flood, "flood"),
        shell("echo begun; sleep 600 & sleep 600", "hangs", timeout_seconds=1),
        shell("true", "after"),
    )
    async with world(tmp_path, config) as served:
        sha = await push(served, "herd/batch/1-one", {"code.py": "a\nb\n"})
        runs = await served.ended(sha, 3)
        assert {name: run["conclusion"] for name, run in runs.items()} == {
            "flood": "failure",
            "hangs": "timed_out",
            "after": "success",
        }
        output = runs["flood"]["output"]
        assert "code.py:2: that is wrong" in output["summary"]
        assert len(output["summary"]) < 10_000
        assert 50_000 < len(output["text"]) < 65_535
        notes = await served.person("GET", f"/check-runs/{runs['flood']['id']}/annotations")
        assert [(note["path"], note["start_line"], note["message"]) for note in notes] == [
            ("code.py", 2, "that is wrong")
        ]
        assert runs["hangs"]["output"]["title"] == "timed_out: it did not end within 1 s"
        assert "begun" in runs["hangs"]["output"]["summary"]
        assert not _sleepers()


def _sleepers() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if (
                b"sleep\x00600" in (path / "cmdline").read_bytes()
                and RUN_TAG.encode() in (path / "environ").read_bytes()
            ):
                found.append(path.name)
        except OSError:
            continue
    return found


async def test_a_newer_push_supersedes_the_run_of_the_older_head(tmp_path: Path) -> None:
    async with world(tmp_path, ci(shell("test -e fast.txt || sleep 3", "tests"), shell("true", "more"))) as served:
        old = await push(served, "topic", {"slow.txt": "slow\n"})
        await served.pull("topic")

        async def under_way() -> bool:
            return any(run["status"] == "in_progress" for run in await served.runs(old))

        await until(under_way)
        new = await push(served, "topic", {"fast.txt": "fast\n"})
        assert {run["conclusion"] for run in (await served.ended(new, 2)).values()} == {"success"}
        assert {run["conclusion"] for run in (await served.ended(old, 2)).values()} == {"cancelled"}
        # The older commit becomes the head once more: its check runs are taken up, no second ones are made.
        await push(served, "topic", None, old)

        async def green() -> bool:
            return {run["conclusion"] for run in await served.runs(old)} == {"success"}

        await until(green)
        assert len(await served.runs(old)) == 2


async def test_a_setup_that_fails_fails_what_needs_it(tmp_path: Path) -> None:
    config = ci(shell("true", "tests"), shell("exit 7", "prepare", kind="setup"))
    async with world(tmp_path, config) as served:
        runs = await served.ended(await push(served, "herd/batch/1-one", {"a.txt": "a\n"}), 2)
        assert runs["prepare"]["conclusion"] == runs["tests"]["conclusion"] == "failure"
        assert runs["tests"]["output"]["summary"] == "the setup failed: prepare"


async def test_at_most_two_heads_are_checked_at_a_time(tmp_path: Path) -> None:
    async with world(tmp_path, ci(shell("sleep 1", "tests"))) as served:
        shas = [await push(served, f"herd/batch/{n}-x", {"n.txt": f"{n}\n"}) for n in range(1, 5)]
        most = 0

        async def over() -> bool:
            nonlocal most
            runs = [run for sha in shas for run in await served.runs(sha)]
            most = max(most, sum(run["status"] == "in_progress" for run in runs))
            return [run["conclusion"] for run in runs] == ["success"] * 4

        await until(over)
        assert 1 <= most <= 2


@pytest.mark.req("BAT-206")
async def test_a_batch_waits_for_red_checks_and_lands_once_they_are_green(tmp_path: Path) -> None:
    config = ci(
        shell("grep -q mended state.txt", "tests"),
        integrator={"review": False, "require_ci": True, "ci_start_grace_seconds": 0},
        pull_requests={"auto_merge": True},
    )
    script = [
        {
            "role": "worker",
            "steps": [{"write": {"path": "state.txt", "text": "broken\n"}}, {"commit": "Work"}, {"push": True}],
            "say": "The state stands in state.txt now.",
        }
    ]
    task = {"title": "State it", "description": "Do.", "acceptance_criteria": ["It is there"], "scope": ["state.txt"]}
    async with world(tmp_path, config, script) as served:
        plan = validate({"batch_name": "State", "tasks": [task]}).plan
        assert plan is not None
        by = {"login": "owner", "name": "Ada", "email": "ada@example.org"}
        made = await create_batch(served.service.fleet, REPO, plan, "p1", created_by=by, lease=Lease.unshared("plan"))
        served.service.loops.wake(REPO, made.milestone)

        async def waits() -> bool:
            return "check-failed" in served.codes

        await until(waits)
        milestone = await served.service.fleet.forge.milestone(REPO, made.milestone)
        assert milestone is not None
        assert milestone.state == "open"
        await push(served, made.branch, {"state.txt": "mended\n"}, f"origin/{made.branch}")

        async def landed() -> bool:
            found = await served.service.fleet.forge.milestone(REPO, made.milestone)
            return found is not None and found.state == "closed"

        await until(landed)
        await asyncio.to_thread(git, served.clone, "fetch", "-q", "origin")
        assert git(served.clone, "show", "origin/main:state.txt") == "mended"
