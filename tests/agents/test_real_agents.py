"""Real agent programs edit a repository inside the walls; the model is a stub on loopback (AGT-003).

They are judges: npm installs them into ``$HERD_JUDGES/node_modules``, outside of the checkout.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from droveway.agents import PROVIDERS, AgentResult, AgentRun, Outcome, Role, prepare, supervise
from droveway.core.clock import SystemClock
from droveway.core.ids import RandomIds
from droveway.core.runner import Runner
from droveway.sandbox import Mounts, Sandbox

PACKAGES = {"codex": "@openai/codex", "claude": "@anthropic-ai/claude-code", "opencode": "opencode-ai"}
FURTHER = ("gemini", "qwen", "copilot")  # tried as well wherever they are installed
JUDGES = Path(os.environ.get("HERD_JUDGES") or "/nonexistent") / "node_modules" / ".bin"
AGENTS = (*PACKAGES, *(name for name in FURTHER if (JUDGES / name).exists()))
KEY = "dummy-model-key-canary"
NOW = datetime(2026, 12, 1, tzinfo=UTC)
TESTS = Path(__file__).parents[1]
PROMPT = "---\nRole: worker\nIssue: #12 Add a greeting\nAttempt: 2\n\nPlease do it."
SCRIPT = r"""
- role: worker
  attempt: 1
  say: This entry must not be played.
- role: worker
  issue_title: "Add a *"
  steps:
    - write: {path: src/greet.py, text: "TEXT = 'it's $HOME \\ \"quoted\"'\n"}
    - append: {path: README.md, text: "More.\n"}
    - replace: {path: README.md, old: "Hello", new: "Good-bye"}
    - run: [sh, -c, "echo ran > ran"]
    - commit: "Add 'a' greeting"
    - push: true
  say: {done: true, summary: "The greeting was added."}
- role: reviewer
  steps: [{run: ["false"]}]
- role: fixer
  steps: [{crash: 3}]
"""


def installed(name: str) -> str:
    """Give the name of an agent that is there; fail with what to install otherwise."""
    if not (JUDGES / name).exists():
        where = os.environ.get("HERD_JUDGES", "")
        pytest.fail(
            f"the agent {name} is missing: npm package {PACKAGES[name]} in $HERD_JUDGES ({where or 'not set'}); "
            "tools/judges installs it",
            pytrace=False,
        )
    return name


@pytest.fixture(params=AGENTS)
def agent(request: pytest.FixtureRequest) -> str:
    """Every agent that is installed; the three of PACKAGES must be."""
    return installed(request.param)


@asynccontextmanager
async def model(tmp_path: Path, kind: str, text: str) -> AsyncIterator[tuple[str, Path]]:
    """Start the stub; give its address and its log."""
    (tmp_path / "plan").write_text(text, encoding="utf-8")
    log = tmp_path / "requests"
    command = [sys.executable, "-m", "stubmodel", kind, str(tmp_path / "plan"), "--log", str(log)]
    server = await asyncio.create_subprocess_exec(*command, cwd=TESTS, stdout=asyncio.subprocess.PIPE)
    assert server.stdout
    try:
        yield (await server.stdout.readline()).decode().strip(), log
    finally:
        server.kill()
        await server.wait()


def repository(tmp_path: Path) -> Path:
    place = tmp_path / "run"
    place.mkdir()

    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=b", *arguments], check=True, cwd=place)

    git("init", "-q", "--bare", "gate.git")
    git("clone", "-q", "gate.git", "tree")
    (place / "tree" / "README.md").write_text("Hello\n")
    git("-C", "tree", "checkout", "-q", "-b", "herd/worker/12-add")
    git("-C", "tree", "add", "-A")
    git("-C", "tree", "commit", "-q", "-m", "base")
    return place


async def work(agent: str, place: Path, base: str, **more: Any) -> AgentResult:
    """One whole run, as the sessions room does it."""
    env = {
        "ANTHROPIC_BASE_URL": base, "ANTHROPIC_API_KEY": KEY, "OPENAI_BASE_URL": f"{base}/v1", "OPENAI_API_KEY": KEY,
        "GOOGLE_GEMINI_BASE_URL": base, "GEMINI_API_KEY": KEY,
        "COPILOT_PROVIDER_BASE_URL": f"{base}/v1", "COPILOT_PROVIDER_API_KEY": KEY,
    }  # fmt: skip
    idle = more.pop("idle", 60.0)
    given = {"role": Role.WORKER, "prompt": PROMPT, "model": "stub-model", "system": "system-prompt-canary", **more}
    run = AgentRun(provider=agent, work_dir=place / "tree", home=place / "home", env=env, **given)
    provider = PROVIDERS[agent]
    source = {**os.environ, "PATH": f"{JUDGES}:{os.environ['PATH']}", "GITHUB_TOKEN": "forge-token-canary"}
    invocation = prepare(provider, run, source)
    runner = Runner(SystemClock(), RandomIds())
    box = await Sandbox.probe(runner, required=True)
    argv, whole = box.wrap(invocation.argv, cwd=run.work_dir, env=invocation.env, mounts=Mounts(writable=(place,)))
    completed = await supervise(
        runner, argv, whole, stdin=invocation.stdin, cwd=run.work_dir, deadline=120, idle=idle,
        transcript=place / "transcript", grace=2.0,
    )  # fmt: skip
    return provider.read(run, completed, NOW)


def requests(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


@pytest.mark.req("AGT-001", "AGT-003", "AGT-008", "AGT-009", "AGT-011", "BAT-126", "BAT-127", "QLT-040")
async def test_a_real_agent_edits_commits_and_pushes_inside_the_walls(agent: str, tmp_path: Path) -> None:
    place = repository(tmp_path)
    async with model(tmp_path, "--script", SCRIPT) as (base, log):
        result = await work(agent, place, base)
        asked = log.read_text()
    transcript = (place / "transcript").read_text()
    assert result.outcome is Outcome.OK, (result.error, transcript)
    assert json.loads(result.text) == {"done": True, "summary": "The greeting was added."}
    assert (place / "tree" / "src/greet.py").read_text() == "TEXT = 'it's $HOME \\ \"quoted\"'\n"
    assert (place / "tree" / "README.md").read_text() == "Good-bye\nMore.\n"
    log_command = ["git", "--git-dir", place / "gate.git", "log", "-1", "--format=%an: %s", "herd/worker/12-add"]
    pushed = subprocess.run(log_command, check=True, capture_output=True, text=True).stdout  # noqa: ASYNC221
    assert pushed == "Droveway agent: Add 'a' greeting\n"
    if agent != "copilot":  # it does not say
        assert (result.usage.tokens_in or 0) >= 22
        assert (result.usage.tokens_out or 0) >= 14
    assert result.conversation
    assert "system-prompt-canary" in asked
    assert "forge-token-canary" not in transcript + asked
    assert KEY not in transcript


FAULTS = """
- {prompt_has: LOGIN, status: 401, message: Incorrect API key provided}
- {prompt_has: HANG, hang: true}
- {prompt_has: EMPTY, say: ""}
- {calls: ["echo x > made; exit 3"], say: The first command failed; so be it.}
"""


@pytest.mark.req("AGT-003", "AGT-004", "AGT-005", "BAT-174")
@pytest.mark.slow
@pytest.mark.parametrize("name", PACKAGES)
@pytest.mark.parametrize(
    ("word", "outcomes"),
    [
        ("LOGIN", {Outcome.LOGIN_LOST}),
        ("HANG", {Outcome.IDLE}),
        ("EMPTY", {Outcome.SUSPICIOUS, Outcome.FAILED}),
        ("nothing", {Outcome.OK}),
    ],
)
async def test_a_real_agents_failures_are_told_apart(
    name: str, word: str, outcomes: set[Outcome], tmp_path: Path
) -> None:
    place = repository(tmp_path)
    async with model(tmp_path, "--rules", FAULTS) as (base, _):
        result = await work(installed(name), place, base, prompt=f"Do it: {word}", idle=5.0 if word == "HANG" else 60.0)
    assert result.outcome in outcomes, (result, (place / "transcript").read_text())
    assert (place / "tree" / "made").exists() is (word == "nothing")


@pytest.mark.req("AGT-004")
async def test_a_quota_is_told_with_its_reset_time(tmp_path: Path) -> None:
    rules = "[{status: 429, message: You exceeded your current quota. Please try again in 2 hours.}]"
    place = repository(tmp_path)
    async with model(tmp_path, "--rules", rules) as (base, _):
        result = await work(installed("claude"), place, base)
    assert (result.outcome, result.reset_at) == (Outcome.QUOTA, NOW + timedelta(hours=2))


@pytest.mark.req("AGT-003")
@pytest.mark.parametrize(
    ("role", "outcome", "said"),
    [(Role.REVIEWER, Outcome.OK, "A step failed"), (Role.FIXER, Outcome.FAILED, "crashes with 3")],
)
async def test_the_stub_plays_a_scripts_failures_too(role: Role, outcome: Outcome, said: str, tmp_path: Path) -> None:
    place = repository(tmp_path)
    async with model(tmp_path, "--script", SCRIPT) as (base, _):
        result = await work(installed("codex"), place, base, prompt=PROMPT.replace("worker", role), role=role)
    assert result.outcome is outcome
    assert said in result.text + result.error


@pytest.mark.req("AGT-010")
async def test_a_conversation_goes_on_with_what_was_said_before(tmp_path: Path) -> None:
    place = repository(tmp_path)
    rules = "[{say: I will remember the word walnut.}]"
    for name in ("codex", "claude"):
        async with model(tmp_path, "--rules", rules) as (base, log):
            first = await work(installed(name), place, base, prompt="Remember walnut.")
            log.unlink()
            second = await work(name, place, base, prompt="Which word?", conversation=first.conversation)
            again = [asked for asked in requests(log) if "Which word?" in json.dumps(asked)]
        assert second.outcome is Outcome.OK, second
        assert "Remember walnut." in json.dumps(again[-1])


@pytest.mark.req("AGT-003")
@pytest.mark.parametrize(
    ("path", "body", "find"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]},
         lambda said: said["choices"][0]["message"]["content"]),
        ("/v1/responses", {"input": "hi"}, lambda said: said["output"][0]["content"][0]["text"]),
        ("/v1/messages", {"messages": [{"role": "user", "content": "hi"}]}, lambda said: said["content"][0]["text"]),
        ("/v1beta/models/stub:generateContent", {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
         lambda said: said["candidates"][0]["content"]["parts"][0]["text"]),
    ],
)  # fmt: skip
async def test_the_stub_also_answers_whole(
    path: str, body: dict[str, Any], find: Callable[[Any], str], tmp_path: Path
) -> None:
    import httpx

    async with model(tmp_path, "--rules", "[{say: It is said whole.}]") as (base, _), httpx.AsyncClient() as client:
        answer = await client.post(base + path, json=body)
    assert find(answer.json()) == "It is said whole."
