"""Codex."""

# ruff: noqa: ARG002 - the arguments are the interface's
from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from droveway.agents.model import AgentResult, AgentRun, Invocation, Usage
from droveway.agents.outcomes import Said, judge
from droveway.agents.providers.base import count, dig, events, missing_login, missing_program, text_of, total
from droveway.core.runner import Completed

_KEYS = ("CODEX_API_KEY", "OPENAI_API_KEY")


class Codex:
    """``codex exec --json``. Its own sandbox is off: ours stands around it, and the two do not nest."""

    name = "codex"
    env_names = (*_KEYS, "OPENAI_BASE_URL")
    login_files = (".codex/auth.json",)

    def invocation(self, run: AgentRun) -> Invocation:
        """Prompt by stdin; the system prompt is the home's ``AGENTS.md``; a base address makes an own provider."""
        argv = [run.binary or "codex", "exec"]
        if run.conversation:
            argv += ["resume"]
        argv += ["--json", "--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check"]
        if run.model:
            argv += ["-m", run.model]
        argv += [run.conversation, "-"] if run.conversation else ["-C", str(run.work_dir), "-"]
        config = ["check_for_update_on_startup = false", "[analytics]", "enabled = false"]
        if base := run.env.get("OPENAI_BASE_URL"):
            config = [
                'model_provider = "herd"',
                *config,
                "[model_providers.herd]",
                'name = "herd"',
                f"base_url = {json.dumps(base)}",
                'env_key = "OPENAI_API_KEY"',
                'wire_api = "responses"',
                "request_max_retries = 2",
                "stream_max_retries = 2",
            ]
        files = {".codex/config.toml": "\n".join(config) + "\n"}
        if run.system:
            files[".codex/AGENTS.md"] = run.system
        return Invocation(tuple(argv), run.prompt.encode(), {}, files, "jsonl")

    def read(self, run: AgentRun, completed: Completed, now: datetime | None = None) -> AgentResult:
        """Take the last agent message; ``turn.failed`` and ``error`` decide, not the exit code."""
        text, error, conversation = "", "", None
        turns: int | None = None
        tokens: dict[str, int | None] = {}
        finished = False
        for event in events(completed.stdout):
            match event.get("type"):
                case "thread.started":
                    conversation = text_of(event.get("thread_id")) or None
                case "item.completed" if dig(event, "item", "type") == "agent_message":
                    text = text_of(dig(event, "item", "text"))
                case "turn.completed":
                    finished, error = True, ""
                    turns = total(turns, 1)
                    for name in ("input_tokens", "output_tokens", "cached_input_tokens"):
                        tokens[name] = total(tokens.get(name), count(dig(event, "usage", name)))
                case "turn.failed":
                    finished, error = False, text_of(dig(event, "error", "message"))
                case "error":
                    error = text_of(event.get("message"))
        usage = Usage(
            tokens_in=tokens.get("input_tokens"),
            tokens_out=tokens.get("output_tokens"),
            tokens_cached=tokens.get("cached_input_tokens"),
            turns=turns,
        )
        detail = error or completed.error_text().strip()
        said = Said(text, usage, conversation, failed=not finished, error="" if finished else detail)
        return judge(completed, said, now)

    def login_check(self, env: Mapping[str, str], home: Path) -> str:
        """Look for the program, then for a key or a login."""
        return missing_program("codex", "npm @openai/codex", env) or missing_login(
            "codex", _KEYS, self.login_files, env, home
        )
