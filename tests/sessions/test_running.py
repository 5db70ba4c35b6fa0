"""The one way to start an agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from droveway.core.clock import VirtualClock
from droveway.core.errors import HerdError, InputError
from droveway.sessions import Outcome, OutputError, passed, run_agent

from .world import CANARY, context, open_fleet, request

Program = Callable[[str], dict[str, Any]]
LONG = "A sentence that is long enough to be believed."


class Answer(msgspec.Struct):
    """A contract."""

    n: int


@pytest.mark.req("BAT-127")
async def test_an_agent_gets_its_prompt_byte_for_byte_and_says_what_it_says(tmp_path: Path, program: Program) -> None:
    prompt = "---\n" + "ä\0" * 1000 + "--help\n" * 200_000
    async with open_fleet(tmp_path, program(f"cat > got; echo '{LONG}'")) as fleet:
        turn = await run_agent(fleet, request(tmp_path, prompt=prompt), context(fleet))
    assert turn.ok
    assert turn.text == LONG
    assert (tmp_path / "place" / "tree" / "got").read_bytes() == prompt.encode()


@pytest.mark.req("BAT-174", "AGT-005")
@pytest.mark.parametrize(("second", "outcome"), [("", Outcome.SUSPICIOUS), (LONG, Outcome.OK)])
def test_suspicious_output_is_retried_once_after_five_seconds(
    tmp_path: Path,
    program: Program,
    virtually: Callable[[Callable[[VirtualClock], Coroutine[Any, Any, Any]]], Any],
    second: str,
    outcome: Outcome,
) -> None:
    async def story(clock: VirtualClock) -> None:
        script = f"if test -e once; then echo '{second}'; else touch once; fi; echo run >> runs"
        async with open_fleet(tmp_path, program(script), clock) as fleet:
            started = clock.monotonic()
            turn = await run_agent(fleet, request(tmp_path), context(fleet))
            assert clock.monotonic() - started >= 5
            assert turn.outcome is outcome
            assert turn.turns == 2
            outcomes = [t.outcome for t in await fleet.store.turns(job="worker/o/r/12/1")]
            assert outcomes == ["suspicious", outcome.value]
        assert (tmp_path / "place" / "tree" / "runs").read_text() == "run\nrun\n"

    virtually(story)


@pytest.mark.req("AGT-006")
async def test_an_answer_that_does_not_fit_is_asked_for_once_more_with_the_error(
    tmp_path: Path, program: Program
) -> None:
    script = (
        "cat > prompt; if grep -q 'was refused' prompt; then cp prompt second; echo '{\"n\": 7} is my answer now';"
        ' else echo \'{"n": "seven"} is my answer so far\'; fi'
    )
    async with open_fleet(tmp_path, program(script)) as fleet:
        turn = await run_agent(fleet, request(tmp_path, output_type=Answer), context(fleet))
    assert turn.output == Answer(7)
    second = (tmp_path / "place" / "tree" / "second").read_text()
    assert "Expected `int`, got `str`" in second
    assert "is my answer so far" in second


@pytest.mark.req("AGT-006")
async def test_an_answer_that_never_fits_fails_loudly(tmp_path: Path, program: Program) -> None:
    async with open_fleet(tmp_path, program(f"echo run >> runs; echo 'no object here: {LONG}'")) as fleet:
        with pytest.raises(OutputError, match="no JSON object"):
            await run_agent(fleet, request(tmp_path, output_type=Answer), context(fleet))
    assert (tmp_path / "place" / "tree" / "runs").read_text() == "run\nrun\n"


@pytest.mark.req("QLT-040")
async def test_no_credential_reaches_the_agent_and_only_named_values_pass(
    tmp_path: Path, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", CANARY)
    monkeypatch.setenv("GH_TOKEN", CANARY)
    monkeypatch.setenv("DEPLOY", f"x{CANARY}")
    monkeypatch.setenv("WANTED", "this")
    monkeypatch.setenv("OTHER", "that")
    raw = program(f"env > env.txt; echo '{LONG}'; echo {CANARY}; echo {CANARY} >&2")
    raw["workers"] = {"extra_env": ["WANTED", "GITHUB_TOKEN", "DEPLOY", "ABSENT"]}
    async with open_fleet(tmp_path, raw) as fleet:
        turn = await run_agent(fleet, request(tmp_path), context(fleet))
        told = await fleet.store.turns(job="worker/o/r/12/1")
        assert passed(fleet, ["GITHUB_TOKEN", "WANTED"]) == {"WANTED": "this"}
    env = (tmp_path / "place" / "tree" / "env.txt").read_text()
    assert "WANTED=this" in env
    assert "OTHER" not in env
    assert CANARY not in env
    assert f"HOME={tmp_path / 'place' / 'home'}" in env
    assert CANARY not in turn.text + told[0].text + (tmp_path / "logs" / "transcript.jsonl").read_text()
    assert "***" in turn.text


@pytest.mark.req("AGT-004", "BAT-169")
async def test_the_deadline_ends_the_agent_and_its_tree(tmp_path: Path, program: Program) -> None:
    script = "(trap '' TERM; setsid sleep 300 & echo $! > pid; wait) & echo so far; sleep 300"
    async with open_fleet(tmp_path, program(script)) as fleet:
        turn = await run_agent(fleet, request(tmp_path, deadline=1.0), context(fleet))
    assert turn.outcome is Outcome.TIMED_OUT
    assert "so far" in turn.text


@pytest.mark.req("P05")
async def test_silence_alone_does_not_end_an_agent(tmp_path: Path, program: Program) -> None:
    async with open_fleet(tmp_path, program(f"sleep 1.5; echo '{LONG}'")) as fleet:
        assert request(tmp_path).idle is None
        assert (await run_agent(fleet, request(tmp_path), context(fleet))).ok


async def test_a_cancelled_job_ends_its_agent(tmp_path: Path, program: Program) -> None:
    async with open_fleet(tmp_path, program("touch started; sleep 300")) as fleet:
        job = context(fleet)
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            task = group.create_task(run_agent(fleet, request(tmp_path), job))
            while not (tmp_path / "place" / "tree" / "started").exists():  # noqa: ASYNC110 - a file has no event
                await asyncio.sleep(0.01)
            job.cancelled.set()
        assert task.result().outcome is Outcome.KILLED


@pytest.mark.req("AGT-008", "QLT-040")
async def test_a_read_only_agent_can_write_nowhere_but_home(tmp_path: Path, program: Program) -> None:
    script = f"touch written 2>/dev/null && echo wrote; touch $HOME/x && echo 'home is mine: {LONG}'"
    async with open_fleet(tmp_path, program(script)) as fleet:
        if fleet.sandbox.level.value == "none":
            return  # nothing to prove: there are no walls on this machine, which `herd doctor` says
        turn = await run_agent(fleet, request(tmp_path, read_only=True), context(fleet))
    assert "home is mine" in turn.text
    assert "wrote" not in turn.text
    assert not (tmp_path / "place" / "tree" / "written").exists()


@pytest.mark.req("AGT-009", "ENG-002")
async def test_what_a_turn_used_is_kept_with_its_task(tmp_path: Path, program: Program) -> None:
    async with open_fleet(tmp_path, program(f"echo '{LONG}'")) as fleet:
        await run_agent(fleet, request(tmp_path), context(fleet))
        await run_agent(fleet, request(tmp_path), context(fleet))
        (task,) = await fleet.store.tasks("o/r", issue=12)
        totals = await fleet.store.usage(task=task.id)
        turns = await fleet.store.turns(task=task.id)
    assert (task.kind, task.batch, task.title) == ("worker", 3, "A task")
    assert totals.turns == 2
    assert totals.seconds > 0
    assert {turn.outcome for turn in turns} == {"ok"}
    assert len({turn.prompt_digest for turn in turns}) == 1


async def test_an_agent_that_is_not_known_or_not_there_says_so(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, {"agent": {"provider": "nobody"}}) as fleet:
        with pytest.raises(InputError, match="unknown agent 'nobody'"):
            await run_agent(fleet, request(tmp_path), context(fleet))
    async with open_fleet(tmp_path, {"agent": {"provider": "command", "binary": "x", "exec": "docker"}}) as fleet:
        with pytest.raises(HerdError, match="docker"):
            await run_agent(fleet, request(tmp_path), context(fleet))
    async with open_fleet(tmp_path, {"agent": {"provider": "command", "binary": "no-such-program-here"}}) as fleet:
        turn = await run_agent(fleet, request(tmp_path), context(fleet))
    assert turn.outcome is Outcome.FAILED
    assert "no-such-program-here" in turn.error
