"""The main job with real agent programs from npm, against the stub model: planner's batch to merged edits (AGT-003)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from droveway.core.clock import SystemClock
from droveway.core.ids import RandomIds
from droveway.core.runner import Runner
from droveway.demo.project import make_project

from .harness import assert_sound, canaries, environment, herd, last_json, look, served, until

JUDGES = Path(os.environ.get("HERD_JUDGES") or "/nonexistent") / "node_modules" / ".bin"
PACKAGES = {"codex": "@openai/codex", "claude": "@anthropic-ai/claude-code"}
KEY = "model-key-canary-5d8e"
TESTS = Path(__file__).parents[1]


@contextmanager
def stub_model(folder: Path) -> Iterator[str]:
    """Serve the demo's own script as a model; give its address."""
    folder.mkdir()
    making = make_project(Runner(SystemClock(), RandomIds()), environment(), folder / "p", None, agent="scripted")
    (folder / "script.yaml").write_text(asyncio.run(making).script())
    argv = [sys.executable, "-m", "stubmodel", "--script", str(folder / "script.yaml"), "--ready", str(folder / "at")]
    server = subprocess.Popen([*argv, "--log", str(folder / "log")], cwd=TESTS)
    try:
        until((folder / "at").exists, 30, "the stub model")
        yield (folder / "at").read_text()
    finally:
        server.kill()
        server.wait(20)


@pytest.mark.slow
@pytest.mark.req("AGT-001", "AGT-002", "AGT-003", "AGT-006", "CLI-003", "BAT-001", "QLT-040", "REV-001")
@pytest.mark.parametrize("agent", PACKAGES)
def test_the_demo_with_a_real_agent_ends_with_its_edits_merged(agent: str, tmp_path: Path) -> None:
    if not (JUDGES / agent).exists():
        pytest.fail(f"the agent {agent} is missing: npm {PACKAGES[agent]}; tools/judges installs it into $HERD_JUDGES")
    with stub_model(tmp_path / "model") as base:
        env = environment(
            PATH=f"{JUDGES}:{os.environ['PATH']}",
            OPENAI_BASE_URL=f"{base}/v1",
            OPENAI_API_KEY=KEY,
            ANTHROPIC_BASE_URL=base,
            ANTHROPIC_API_KEY=KEY,
        )
        options = ["--agent", agent, "--model", "stub-model", "--json", "--timeout", "260"]
        process = herd("demo", *options, "--data", str(tmp_path / "data"), out=tmp_path / "out", env=env)
        code = process.wait(290)
        asked = (tmp_path / "model" / "log").read_text()
    assert code == 0, process.text()[-4000:]
    result = last_json(process.text())
    assert result["ok"] is True
    assert result["pr"]["merged"] is True
    assert {task["state"] for task in result["tasks"]} == {"done"}
    for role in ("worker", "resolver", "fixer", "reviewer"):
        assert f"Role: {role}" in asked, role
    with served(tmp_path / "data" / "home" / "forge") as (url, token):
        landed = look(url, token)
        asked_for = {"Authorization": f"Bearer {token}", "Accept": "application/vnd.github.raw+json"}
        report = httpx.get(f"{url}/repos/owner/demo/contents/tools/report.py", headers=asked_for).text
    assert_sound(landed, landed.tree, list(landed.issues.values()))
    assert 'read_text(encoding="utf-8")' in report  # what the fixer changed after the reviewer's finding
    state = tmp_path / "data" / "home" / "state"
    tokens = [(state / f"{name}.token").read_text().strip() for name in ("owner", "bot")]
    assert canaries(tmp_path, landed.texts, KEY, env["GITHUB_TOKEN"], *tokens) == []
