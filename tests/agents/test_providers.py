"""Each provider's command line and reading, on recorded events."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from droveway.agents import PROVIDERS, AgentRun, Outcome, Role, agent_environment, prepare
from droveway.core.errors import HerdError, InputError
from droveway.core.runner import Completed

PROMPT = "---\nRole: worker\nthe-whole-prompt-canary " + "x" * 5000
KEYS = {name: f"key-canary-{name}" for provider in PROVIDERS.values() for name in provider.env_names}


def agent_run(name: str, tmp_path: Path, **more: Any) -> AgentRun:
    given: dict[str, Any] = {"system": "the-system-canary", "env": {**KEYS, "GITHUB_TOKEN": "forge-canary"}, **more}
    binary = "my-agent --flag 'two words'" if name == "command" else ""
    return AgentRun(
        name, Role.WORKER, PROMPT, tmp_path / "tree", tmp_path / "home", binary=binary, script=tmp_path / "s", **given
    )


def completed(*events: Any, code: int = 0, stderr: str = "") -> Completed:
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return Completed(("agent",), code, "\n".join(lines).encode(), stderr.encode(), 2.0)


@pytest.mark.req("AGT-001", "BAT-127", "QLT-040")
@pytest.mark.parametrize("name", sorted(PROVIDERS))
@pytest.mark.parametrize("read_only", [False, True])
def test_neither_prompt_nor_system_prompt_nor_key_stands_in_the_command_line(
    name: str, tmp_path: Path, read_only: bool
) -> None:
    run = agent_run(name, tmp_path, read_only=read_only, model="m", max_turns=7, conversation="c-1")
    invocation = prepare(PROVIDERS[name], run, {"PATH": "/bin", "AWS_SECRET": "forge-canary", "SSH_AUTH_SOCK": "/s"})
    assert "canary" not in " ".join(invocation.argv)
    everywhere = invocation.stdin.decode() + "".join(path.read_text() for path in run.home.rglob("*") if path.is_file())
    assert PROMPT in everywhere
    assert "forge-canary" not in everywhere + str(invocation.env)
    assert {value for value in invocation.env.values() if "canary" in value} == {
        KEYS[key] for key in PROVIDERS[name].env_names
    }
    if name != "scripted":
        assert "the-system-canary" in everywhere


@pytest.mark.req("QLT-040")
def test_the_base_environment_is_an_allow_list_that_never_asks(tmp_path: Path) -> None:
    source = {**os.environ, "EDITOR": "vim", "GH_TOKEN": "x", "HTTP_PROXY": "http://user:pw@x", "DISPLAY": ":0"}
    env = agent_environment(source, tmp_path, identity=("Herd", "herd@example.org"))
    assert not {"GH_TOKEN", "HTTP_PROXY", "DISPLAY", "SSH_AUTH_SOCK"} & set(env)
    assert (env["HOME"], env["TERM"], env["GIT_EDITOR"], env["GIT_TERMINAL_PROMPT"]) == (
        str(tmp_path),
        "dumb",
        "false",
        "0",
    )
    assert (env["GIT_AUTHOR_NAME"], env["GIT_COMMITTER_EMAIL"]) == ("Herd", "herd@example.org")


def test_home_files_are_the_owners_alone(tmp_path: Path) -> None:
    prepare(PROVIDERS["codex"], agent_run("codex", tmp_path), {})
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "home").rglob("*") if path.is_file()} == {0o600}


@pytest.mark.req("QLT-040")
def test_links_that_an_earlier_run_left_in_its_home_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "home" / ".gitconfig").symlink_to(tmp_path / "precious")
    prepare(PROVIDERS["codex"], agent_run("codex", tmp_path), {})
    assert (tmp_path / "precious").read_text() == "mine"
    (tmp_path / "outside").mkdir()
    (tmp_path / "home" / ".claude").symlink_to(tmp_path / "outside")
    with pytest.raises(HerdError, match="leads out of it"):
        prepare(PROVIDERS["claude"], agent_run("claude", tmp_path), {})
    assert os.listdir(tmp_path / "outside") == []


@pytest.mark.parametrize("binary", ["", "   ", "open 'quote"])
def test_command_needs_a_program(tmp_path: Path, binary: str) -> None:
    with pytest.raises(InputError, match=r"agent\.binary"):
        PROVIDERS["command"].invocation(AgentRun("command", Role.WORKER, "", tmp_path, tmp_path, binary=binary))


def test_scripted_needs_a_script(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--script FILE"):
        PROVIDERS["scripted"].invocation(AgentRun("scripted", Role.WORKER, "", tmp_path, tmp_path))


TEXT = "The work is done as asked."
CLAUDE_OK = {
    "type": "result", "subtype": "success", "is_error": False, "result": TEXT, "session_id": "s-1", "num_turns": 3,
    "total_cost_usd": 0.25,
    "usage": {"input_tokens": 10, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 2, "output_tokens": 4},
}  # fmt: skip
CODEX = [
    {"type": "thread.started", "thread_id": "t-1"},
    {"type": "item.completed", "item": {"type": "error", "message": "Model metadata not found"}},
    {"type": "item.completed", "item": {"type": "agent_message", "text": "First I look."}},
    {"type": "item.completed", "item": {"type": "agent_message", "text": TEXT}},
]
CODEX_END = {"type": "turn.completed", "usage": {"input_tokens": 17, "cached_input_tokens": 5, "output_tokens": 4}}
GEMINI = [
    {"type": "init", "session_id": "g-1"},
    {"type": "message", "role": "user", "content": "prompt"},
    {"type": "message", "role": "assistant", "content": "First.", "delta": True},
    {"type": "tool_use", "tool_name": "x"},
    {"type": "message", "role": "assistant", "content": TEXT[:9], "delta": True},
    {"type": "message", "role": "assistant", "content": TEXT[9:], "delta": True},
]
GEMINI_END = {"type": "result", "status": "success", "stats": {"input_tokens": 17, "output_tokens": 4, "cached": 5}}
COPILOT = [
    {"type": "assistant.message", "data": {"content": TEXT}},
    {"type": "assistant.turn_end", "data": {"turnId": "0"}},
    {"type": "result", "sessionId": "p-1", "exitCode": 0},
]
COPILOT_FAULT = {"type": "session.error", "data": {"message": "Authentication failed with provider (HTTP 401)."}}
OPENCODE_STEP = {"cost": 0.125, "tokens": {"input": 6, "output": 2, "cache": {"read": 2, "write": 0}}}
OPENCODE = [
    {"type": "text", "sessionID": "o-1", "part": {"text": "First."}},
    {"type": "step_finish", "sessionID": "o-1", "part": OPENCODE_STEP},
    {"type": "text", "sessionID": "o-1", "part": {"text": TEXT}},
    {"type": "step_finish", "sessionID": "o-1", "part": OPENCODE_STEP},
]


@pytest.mark.req("AGT-001", "AGT-009")
@pytest.mark.parametrize(
    ("name", "events", "usage", "conversation"),
    [
        ("claude", ["banner", {"type": "system", "session_id": "s-0"}, CLAUDE_OK], (17, 4, 5, 0.25, 3), "s-1"),
        ("qwen", [{k: v for k, v in CLAUDE_OK.items() if k != "total_cost_usd"}], (17, 4, 5, None, 3), "s-1"),
        ("codex", [*CODEX, CODEX_END], (17, 4, 5, None, 1), "t-1"),
        ("gemini", [*GEMINI, GEMINI_END], (17, 4, 5, None, None), "g-1"),
        ("opencode", OPENCODE, (16, 4, 4, 0.25, 2), "o-1"),
        ("copilot", COPILOT, (None, None, None, None, 1), "p-1"),
        ("command", [TEXT], (None, None, None, None, None), None),
        ("scripted", [TEXT], (None, None, None, 0.0, 1), None),
    ],
)
def test_the_final_text_usage_and_conversation_are_read(
    name: str, events: list[Any], usage: tuple[Any, ...], conversation: str | None, tmp_path: Path
) -> None:
    result = PROVIDERS[name].read(agent_run(name, tmp_path), completed(*events))
    assert (result.outcome, result.text, result.conversation) == (Outcome.OK, TEXT, conversation)
    found = result.usage
    assert (found.tokens_in, found.tokens_out, found.tokens_cached, found.cost_usd, found.turns) == usage


@pytest.mark.req("AGT-001", "AGT-004")
@pytest.mark.parametrize(
    ("name", "events", "code", "outcome", "error"),
    [
        ("claude", [{**CLAUDE_OK, "is_error": True, "result": "API Error: it broke"}], 0, Outcome.FAILED, "it broke"),
        ("claude", [{**CLAUDE_OK, "subtype": "error_max_turns", "result": None}], 1, Outcome.LIMIT, "error_max_turns"),
        ("claude", [{"type": "system", "session_id": "s-0"}], 0, Outcome.FAILED, "no result event"),
        ("qwen", [{**CLAUDE_OK, "result": "[API Error: 401 Incorrect API key]"}], 0, Outcome.LOGIN_LOST, "401"),
        (
            "codex",
            [*CODEX, {"type": "turn.failed", "error": {"message": "429 Too Many Requests"}}],
            1,
            Outcome.QUOTA,
            "429",
        ),
        ("codex", CODEX, 0, Outcome.FAILED, "First I look"),
        (
            "gemini",
            [*GEMINI, {"type": "result", "status": "error", "error": {"message": "bad"}}],
            0,
            Outcome.FAILED,
            "bad",
        ),
        ("gemini", GEMINI, 53, Outcome.LIMIT, "no result event"),
        ("opencode", [*OPENCODE, {"type": "error", "error": {"data": {"message": "bad"}}}], 0, Outcome.FAILED, "bad"),
        ("opencode", [], 0, Outcome.FAILED, "said nothing"),
        ("copilot", [*COPILOT, COPILOT_FAULT], 0, Outcome.LOGIN_LOST, "401"),
        ("command", ["Execution error"], 0, Outcome.SUSPICIOUS, "Execution error"),
    ],
)
def test_an_agent_that_failed_is_believed_whatever_its_exit_code(
    name: str, events: list[Any], code: int, outcome: Outcome, error: str, tmp_path: Path
) -> None:
    result = PROVIDERS[name].read(agent_run(name, tmp_path), completed(*events, code=code))
    assert result.outcome is outcome
    assert error in result.error or error == "First I look"


def test_the_login_check_names_the_program_then_the_login(tmp_path: Path) -> None:
    codex = PROVIDERS["codex"]
    assert codex.login_check({"PATH": ""}, tmp_path) == "codex is not on PATH (npm @openai/codex)"
    (tmp_path / "codex").write_text("#!/bin/sh\n")
    (tmp_path / "codex").chmod(0o755)
    env = {"PATH": str(tmp_path)}
    assert codex.login_check(env, tmp_path).startswith("codex has no login")
    assert codex.login_check({**env, "OPENAI_API_KEY": "k"}, tmp_path) == ""
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "auth.json").write_text("{}")
    assert codex.login_check(env, tmp_path) == ""
