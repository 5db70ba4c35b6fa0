"""opencode."""

# ruff: noqa: ARG002 - the arguments are the interface's
from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from droveway.agents.model import AgentResult, AgentRun, Invocation, Usage
from droveway.agents.outcomes import Said, judge
from droveway.agents.providers.base import amount, count, dig, events, missing_login, missing_program, text_of, total
from droveway.core.runner import Completed

_KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENCODE_API_KEY")


class Opencode:
    """``opencode run --format json``. ``model`` is ``provider/model``; with a base address it is ``herd/<model>``."""

    name = "opencode"
    env_names = (*_KEYS, "OPENAI_BASE_URL")
    login_files = (".local/share/opencode/auth.json",)

    def invocation(self, run: AgentRun) -> Invocation:
        """Prompt by stdin; the system prompt is an instruction file of the home."""
        argv = [run.binary or "opencode", "run", "--format", "json", "--print-logs", "--log-level", "ERROR"]
        config: dict[str, Any] = {"autoupdate": False, "share": "disabled", "permission": "allow"}
        model = run.model
        if base := run.env.get("OPENAI_BASE_URL"):
            model = f"herd/{run.model or 'default'}"
            config["provider"] = {
                "herd": {
                    "npm": "@ai-sdk/openai-compatible",
                    "options": {"baseURL": base, "apiKey": "{env:OPENAI_API_KEY}"},
                    "models": {run.model or "default": {}},
                }
            }
        if run.read_only:
            config["permission"] = {"edit": "deny", "bash": "deny"}
        if model:
            argv += ["--model", model]
        if run.conversation:
            argv += ["--session", run.conversation]
        files = {}
        if run.system:
            files[".config/opencode/system.md"] = run.system
            config["instructions"] = [str(run.home / ".config/opencode/system.md")]
        files[".config/opencode/opencode.json"] = json.dumps(config)
        env = {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}
        return Invocation(tuple(argv), run.prompt.encode(), env, files, "jsonl")

    def read(self, run: AgentRun, completed: Completed, now: datetime | None = None) -> AgentResult:
        """Take the last text; an ``error`` event decides; tokens and cost are summed over the steps."""
        text, error, conversation = "", "", None
        tokens_in = tokens_out = cached = turns = None
        cost: float | None = None
        for event in events(completed.stdout):
            conversation = event.get("sessionID") or conversation
            part = event.get("part")
            match event.get("type"):
                case "text":
                    text = text_of(dig(part, "text"))
                case "step_finish":
                    turns = total(turns, 1)
                    read = count(dig(part, "tokens", "cache", "read"))
                    cached = total(cached, read)
                    tokens_in = total(tokens_in, count(dig(part, "tokens", "input")), read)
                    tokens_out = total(tokens_out, count(dig(part, "tokens", "output")))
                    price = amount(dig(part, "cost"))
                    cost = price if cost is None else cost + (price or 0.0)
                case "error":
                    detail = dig(event, "error", "data", "message") or event.get("error") or event.get("message")
                    error = text_of(detail) or "failed"
        usage = Usage(tokens_in=tokens_in, tokens_out=tokens_out, tokens_cached=cached, cost_usd=cost, turns=turns)
        failed = bool(error) or turns is None
        return judge(completed, Said(text.strip(), usage, conversation, failed, error), now)

    def login_check(self, env: Mapping[str, str], home: Path) -> str:
        """Look for the program, then for a key or a login."""
        return missing_program("opencode", "npm opencode-ai", env) or missing_login(
            "opencode", _KEYS, self.login_files, env, home
        )
