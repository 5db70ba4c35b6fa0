"""Claude Code."""

# ruff: noqa: ARG002 - the arguments are the interface's
from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from droveway.agents.model import AgentResult, AgentRun, Invocation, Usage
from droveway.agents.outcomes import Said, judge
from droveway.agents.providers.base import amount, count, dig, events, missing_login, missing_program, text_of, total
from droveway.core.runner import Completed

_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")


class Claude:
    """``claude -p`` with event lines; ``bypassPermissions`` is safe because the walls are ours (BAT-126)."""

    name = "claude"
    env_names = (*_KEYS, "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL", "ANTHROPIC_SMALL_FAST_MODEL")
    login_files = (".claude/.credentials.json",)

    def invocation(self, run: AgentRun) -> Invocation:
        """Prompt by stdin, system prompt by a file."""
        argv = [run.binary or "claude", "-p", "--output-format", "stream-json", "--verbose"]
        argv += ["--setting-sources", "user", "--strict-mcp-config"]  # nothing of the repository configures the agent
        if run.read_only:
            argv += ["--tools", "Read,Grep,Glob", "--permission-mode", "dontAsk"]
        else:
            argv += ["--permission-mode", "bypassPermissions"]
        if run.model:
            argv += ["--model", run.model]
        if run.max_turns:
            argv += ["--max-turns", str(run.max_turns)]
        if run.conversation:
            argv += ["--resume", run.conversation]
        files = {".claude/settings.json": json.dumps({"includeCoAuthoredBy": False})}
        if run.system:
            files["system.md"] = run.system
            argv += ["--append-system-prompt-file", str(run.home / "system.md")]
        env = {
            "IS_SANDBOX": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "3",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
        }
        return Invocation(tuple(argv), run.prompt.encode(), env, files, "jsonl")

    def read(self, run: AgentRun, completed: Completed, now: datetime | None = None) -> AgentResult:
        """Read the ``result`` event: a failed one still says ``subtype: success``, with ``is_error``."""
        return judge(completed, said(completed), now)

    def login_check(self, env: Mapping[str, str], home: Path) -> str:
        """Look for the program, then for a key or a login."""
        return missing_program("claude", "npm @anthropic-ai/claude-code", env) or missing_login(
            "claude", _KEYS, self.login_files, env, home
        )


def said(completed: Completed) -> Said:
    """Read the events of Claude Code, which qwen's resemble."""
    conversation = None
    for event in events(completed.stdout):
        conversation = event.get("session_id") or conversation
        if event.get("type") != "result":
            continue
        usage = event.get("usage")
        cached = count(dig(usage, "cache_read_input_tokens"))
        fresh, made = count(dig(usage, "input_tokens")), count(dig(usage, "cache_creation_input_tokens"))
        text = text_of(event.get("result"))
        failed = bool(event.get("is_error")) or event.get("subtype") != "success"
        failed = failed or text.startswith("[API Error:")  # qwen calls that a success
        detail = text_of(dig(event, "error", "message") or event.get("errors")) or text or text_of(event.get("subtype"))
        return Said(
            text=text,
            usage=Usage(
                tokens_in=total(fresh, cached, made),
                tokens_out=count(dig(usage, "output_tokens")),
                tokens_cached=cached,
                cost_usd=amount(event.get("total_cost_usd")),
                turns=count(event.get("num_turns")),
            ),
            conversation=conversation,
            failed=failed,
            error=detail if failed else "",
            limit=event.get("subtype") == "error_max_turns",
        )
    return Said(conversation=conversation, failed=True, error=completed.error_text().strip() or "no result event")
