"""The data of one agent run, and what a provider is (AGT-001, AGT-004)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

import msgspec

from droveway.agents.roles import Role
from droveway.core.runner import Completed


class Outcome(enum.StrEnum):
    """How an agent run ended."""

    OK = "ok"
    FAILED = "failed"
    TIMED_OUT = "timed-out"
    IDLE = "idle"
    KILLED = "killed"
    LIMIT = "limit"  # of turns, or of output
    LOGIN_LOST = "login-lost"
    QUOTA = "quota"
    SUSPICIOUS = "suspicious"
    NEEDS_INPUT = "needs-input"


class Usage(msgspec.Struct, frozen=True):
    """What a run used; None is unknown, never zero. ``tokens_cached`` is the part of ``tokens_in`` from a cache."""

    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_cached: int | None = None
    cost_usd: float | None = None
    turns: int | None = None


class AgentRun(msgspec.Struct, frozen=True):
    """What to start.

    ``home`` is the run's private home folder; ``env`` holds values for names that the provider asks for
    (``env_names``); others are left out. ``binary`` replaces the provider's program (for ``command`` it is the whole
    command line, split as a shell would, without a shell). ``script`` is the file of ``scripted``. ``conversation``
    resumes one. ``read_only`` turns writing tools off where the provider has a switch; the caller also mounts the
    place read-only.
    """

    provider: str
    role: Role
    prompt: str
    work_dir: Path
    home: Path
    model: str = ""
    system: str = ""
    env: Mapping[str, str] = {}
    max_turns: int = 0  # 0: the provider's own limit
    binary: str = ""
    script: Path | None = None
    issue_title: str = ""
    attempt: int = 1
    conversation: str | None = None
    read_only: bool = False


OutputFormat: TypeAlias = Literal["text", "jsonl"]


class Invocation(msgspec.Struct, frozen=True):
    """A command line. ``env`` is what the provider adds to the base; ``home_files`` are texts by path in the home."""

    argv: tuple[str, ...]
    stdin: bytes
    env: dict[str, str] = {}
    home_files: dict[str, str] = {}
    output_format: OutputFormat = "text"


class AgentResult(msgspec.Struct, frozen=True):
    """What a run gave. ``error`` is one line for people; ``reset_at`` says when a quota is free again, if known."""

    outcome: Outcome
    text: str
    usage: Usage
    seconds: float
    code: int
    error: str = ""
    conversation: str | None = None
    reset_at: datetime | None = None


class Provider(Protocol):
    """One agent program: how to start it, and how to read what it said. Pure: no I/O but in ``login_check``."""

    @property
    def name(self) -> str:
        """The name in the configuration."""
        ...

    @property
    def env_names(self) -> tuple[str, ...]:
        """The environment names that may pass to the agent: keys and addresses of models."""
        ...

    @property
    def login_files(self) -> tuple[str, ...]:
        """The files of a login, below the person's home; the caller copies them into the private one."""
        ...

    def invocation(self, run: AgentRun) -> Invocation:
        """Say how to start ``run``. The prompt goes by stdin or a file, never in the command line (BAT-127)."""
        ...

    def read(self, run: AgentRun, completed: Completed, now: datetime | None = None) -> AgentResult:
        """Read what a finished run said; ``now`` turns "try again in 3 hours" into a time."""
        ...

    def login_check(self, env: Mapping[str, str], home: Path) -> str:
        """Give why the provider can't be used on this machine, in one line, or nothing."""
        ...
