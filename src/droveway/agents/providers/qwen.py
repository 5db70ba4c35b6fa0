"""Qwen Code (Node 22 or newer)."""

# ruff: noqa: ARG002 - the arguments are the interface's
from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from droveway.agents.model import AgentResult, AgentRun, Invocation
from droveway.agents.outcomes import judge
from droveway.agents.providers.base import missing_login, missing_program
from droveway.agents.providers.claude import said
from droveway.core.runner import Completed

_KEYS = ("OPENAI_API_KEY",)


class Qwen:
    """``qwen`` against any model that speaks chat completions; its events resemble Claude Code's."""

    name = "qwen"
    env_names = (*_KEYS, "OPENAI_BASE_URL", "OPENAI_MODEL")
    login_files = (".qwen/oauth_creds.json",)

    def invocation(self, run: AgentRun) -> Invocation:
        """Prompt by stdin; the system prompt is the home's ``QWEN.md``."""
        argv = [run.binary or "qwen", "-o", "stream-json"]
        if "OPENAI_API_KEY" in run.env:
            argv += ["--auth-type", "openai"]
        argv += ["--approval-mode", "plan"] if run.read_only else ["-y"]
        if run.model:
            argv += ["-m", run.model]
        if run.max_turns:
            argv += ["--max-session-turns", str(run.max_turns)]
        if run.conversation:
            argv += ["--resume", run.conversation]
        # Its co-author line is put in by rewriting the command, which breaks messages with quotes.
        settings = {
            "general": {"gitCoAuthor": False, "disableAutoUpdate": True},
            "privacy": {"usageStatisticsEnabled": False},
        }
        files = {".qwen/settings.json": json.dumps(settings)}
        if run.system:
            files[".qwen/QWEN.md"] = run.system
        env = {"QWEN_CODE_DISABLE_TELEMETRY": "1"}
        return Invocation(tuple(argv), run.prompt.encode(), env, files, "jsonl")

    def read(self, run: AgentRun, completed: Completed, now: datetime | None = None) -> AgentResult:
        """Read the ``result`` event."""
        return judge(completed, said(completed), now)

    def login_check(self, env: Mapping[str, str], home: Path) -> str:
        """Look for the program, then for a key or a login."""
        return missing_program("qwen", "npm @qwen-code/qwen-code", env) or missing_login(
            "qwen", _KEYS, self.login_files, env, home
        )
