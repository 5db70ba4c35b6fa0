"""GitHub Copilot CLI."""

# ruff: noqa: ARG002 - the arguments are the interface's
from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from droveway.agents.model import AgentResult, AgentRun, Invocation, Usage
from droveway.agents.outcomes import Said, judge
from droveway.agents.providers.base import dig, events, missing_login, missing_program, text_of, total
from droveway.core.runner import Completed

_KEYS = ("COPILOT_GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY")


class Copilot:
    """``copilot`` with its prompt piped in; it has no switch for a system prompt, which stands before the prompt."""

    name = "copilot"
    env_names = (*_KEYS, "COPILOT_PROVIDER_BASE_URL", "COPILOT_PROVIDER_TYPE", "COPILOT_MODEL")
    login_files = (".copilot/config.json",)

    def invocation(self, run: AgentRun) -> Invocation:
        """System prompt and prompt by stdin."""
        prompt = f"{run.system}\n\n{run.prompt}" if run.system else run.prompt
        argv = [run.binary or "copilot", "--allow-all-paths", "--output-format", "json", "--stream", "off"]
        argv += ["--no-ask-user", "--no-auto-update", "--no-custom-instructions"]
        argv += ["--allow-all-tools"]
        if run.read_only:
            argv += ["--available-tools", "view", "grep", "glob"]
        if run.model:
            argv += ["--model", run.model]
        if run.conversation:
            argv += ["--resume", run.conversation]
        env = {"COPILOT_OFFLINE": "true"} if "COPILOT_PROVIDER_BASE_URL" in run.env else {}
        return Invocation(tuple(argv), prompt.encode(), env, {}, "jsonl")

    def read(self, run: AgentRun, completed: Completed, now: datetime | None = None) -> AgentResult:
        """Take the last assistant message; a ``session.error`` event decides."""
        text, error, conversation = "", "", None
        turns: int | None = None
        for event in events(completed.stdout):
            data = event.get("data")
            conversation = dig(data, "sessionId") or event.get("sessionId") or conversation
            match event.get("type"):
                case "assistant.message":
                    text = text_of(dig(data, "content")) or text
                case "assistant.turn_end":
                    turns = total(turns, 1)
                case "session.error":
                    error = text_of(dig(data, "message")) or "failed"
        usage = Usage(turns=turns)  # it counts premium requests, not tokens
        return judge(completed, Said(text.strip(), usage, conversation, bool(error), error), now)

    def login_check(self, env: Mapping[str, str], home: Path) -> str:
        """Look for the program, then for a key or a login."""
        return missing_program("copilot", "npm @github/copilot", env) or missing_login(
            "copilot", _KEYS, self.login_files, env, home
        )
