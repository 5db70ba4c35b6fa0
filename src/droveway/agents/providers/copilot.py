"""GitHub Copilot CLI."""

# ruff: noqa: ARG002 - the arguments are the interface's
from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from droveway.agents.model import AgentResult, AgentRun, Invocation, Usage
from droveway.agents.outcomes import Said, judge
from droveway.agents.providers.base import count, dig, events, missing_login, missing_program, text_of, total
from droveway.core.runner import Completed

_KEYS = ("COPILOT_GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY")


class Copilot:
    """``copilot -p``. The prompt stands in a file of the home; the command line only points to it."""

    name = "copilot"
    env_names = (*_KEYS, "COPILOT_PROVIDER_BASE_URL", "COPILOT_PROVIDER_TYPE", "COPILOT_MODEL")
    login_files = (".copilot/config.json",)

    def invocation(self, run: AgentRun) -> Invocation:
        """Give the prompt, after the system prompt, by a file."""
        prompt = f"{run.system}\n\n{run.prompt}" if run.system else run.prompt
        order = f"Read the file {run.home / 'prompt.md'} and do all that it says."
        argv = [run.binary or "copilot", "-p", order, "--allow-all-paths", "--output-format", "json"]
        argv += ["--no-ask-user", "--no-auto-update", "--no-custom-instructions"]
        argv += ["--allow-tool", "view"] if run.read_only else ["--allow-all-tools"]
        if run.model:
            argv += ["--model", run.model]
        if run.conversation:
            argv += ["--resume", run.conversation]
        return Invocation(tuple(argv), b"", {}, {"prompt.md": prompt}, "jsonl")

    def read(self, run: AgentRun, completed: Completed, now: datetime | None = None) -> AgentResult:
        """Take the last assistant message; a ``session.error`` event decides."""
        text, error, conversation = "", "", None
        tokens_in = tokens_out = turns = None
        for event in events(completed.stdout):
            data = event.get("data")
            conversation = dig(data, "sessionId") or event.get("sessionId") or conversation
            match event.get("type"):
                case "assistant.message":
                    text = text_of(dig(data, "content")) or text
                case "assistant.turn_end":
                    turns = total(turns, 1)
                case "assistant.usage":
                    tokens_in = total(tokens_in, count(dig(data, "inputTokens")))
                    tokens_out = total(tokens_out, count(dig(data, "outputTokens")))
                case "session.error":
                    error = text_of(dig(data, "message")) or "failed"
        usage = Usage(tokens_in=tokens_in, tokens_out=tokens_out, turns=turns)
        return judge(completed, Said(text.strip(), usage, conversation, bool(error), error), now)

    def login_check(self, env: Mapping[str, str], home: Path) -> str:
        """Look for the program, then for a key or a login."""
        return missing_program("copilot", "npm @github/copilot", env) or missing_login(
            "copilot", _KEYS, self.login_files, env, home
        )
