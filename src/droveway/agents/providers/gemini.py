"""Gemini CLI."""

# ruff: noqa: ARG002 - the arguments are the interface's
from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from droveway.agents.model import AgentResult, AgentRun, Invocation, Usage
from droveway.agents.outcomes import Said, judge
from droveway.agents.providers.base import count, dig, events, missing_login, missing_program, text_of
from droveway.core.runner import Completed

_KEYS = ("GEMINI_API_KEY", "GOOGLE_API_KEY")


class Gemini:
    """``gemini -o stream-json``."""

    name = "gemini"
    env_names = (*_KEYS, "GOOGLE_GEMINI_BASE_URL")
    login_files = (".gemini/oauth_creds.json", ".gemini/google_accounts.json")

    def invocation(self, run: AgentRun) -> Invocation:
        """Prompt by stdin; the system prompt is the home's ``GEMINI.md``; without a chosen login it ends with 41."""
        argv = [run.binary or "gemini", "-o", "stream-json"]
        argv += ["--approval-mode", "default"] if run.read_only else ["-y"]
        if run.model:
            argv += ["-m", run.model]
        if run.conversation:
            argv += ["--resume", run.conversation]
        login = "gemini-api-key" if any(name in run.env for name in _KEYS) else "oauth-personal"
        settings: dict[str, Any] = {
            "security": {"auth": {"selectedType": login}, "folderTrust": {"enabled": False}},
            "general": {"disableAutoUpdate": True},
            "privacy": {"usageStatisticsEnabled": False},
        }
        if run.max_turns:
            settings["model"] = {"maxSessionTurns": run.max_turns}
        files = {".gemini/settings.json": json.dumps(settings)}
        if run.system:
            files[".gemini/GEMINI.md"] = run.system
        return Invocation(tuple(argv), run.prompt.encode(), {}, files, "jsonl")

    def read(self, run: AgentRun, completed: Completed, now: datetime | None = None) -> AgentResult:
        """Join the pieces of the last message; the ``result`` event decides."""
        text, error, conversation = "", completed.error_text().strip() or "no result event", None
        usage = Usage()
        told, spoke_last = "failed", False
        for event in events(completed.stdout):
            kind = event.get("type")
            if kind == "init":
                conversation = text_of(event.get("session_id")) or None
            if kind == "message" and event.get("role") == "assistant":
                piece = text_of(event.get("content"))
                text = text + piece if spoke_last and event.get("delta") else piece
            spoke_last = kind == "message" and event.get("role") == "assistant"
            if kind == "error":
                told = text_of(event.get("message"))
            if kind == "result":
                stats = event.get("stats")
                error = "" if event.get("status") == "success" else text_of(dig(event, "error", "message")) or told
                usage = Usage(
                    tokens_in=count(dig(stats, "input_tokens")),
                    tokens_out=count(dig(stats, "output_tokens")),
                    tokens_cached=count(dig(stats, "cached")),
                )
        limit = completed.code == 53  # its own code for the limit of turns
        return judge(completed, Said(text.strip(), usage, conversation, bool(error), error, limit), now)

    def login_check(self, env: Mapping[str, str], home: Path) -> str:
        """Look for the program, then for a key or a login."""
        return missing_program("gemini", "npm @google/gemini-cli", env) or missing_login(
            "gemini", _KEYS, self.login_files[:1], env, home
        )
