"""What a room asks of an agent, and what it gets (AGT-004 … AGT-009)."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from droveway.agents import Outcome, Role, Usage
from droveway.core.repo import RepoId


class AgentRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One agent run.

    ``subject`` is ``issue:12`` or ``pr:7``; ``job`` the engine's job. ``place`` is the run's own folder, in which its
    private home is made; ``work_dir`` is where it starts. ``writable`` (default: the work dir, unless ``read_only``)
    and ``readable`` are the further folders that it sees. ``deadline`` is a moment, or seconds from now. ``idle`` is
    the longest silence in seconds; None: a long silent call is no reason to stop it (case P05). ``output_type`` is the
    contract of the answer (AGT-006), ``exactly_one`` forbids a second object in it. ``identity`` is git's name and
    address. ``model`` overrides the settings' one.
    """

    repo: RepoId
    role: Role
    subject: str
    title: str
    job: str
    prompt: str
    place: Path
    work_dir: Path
    deadline: datetime | float
    transcript: Path
    issue: int | None = None
    pull: int | None = None
    batch: int | None = None
    attempt: int = 1
    system: str = ""
    writable: tuple[Path, ...] | None = None
    readable: tuple[Path, ...] = ()
    output_type: Any = None
    exactly_one: bool = False
    read_only: bool = False
    conversation: str | None = None
    idle: float | None = None
    identity: tuple[str, str] = ("Droveway agent", "agent@droveway.invalid")
    model: str = ""


class TurnResult(msgspec.Struct, frozen=True, kw_only=True):
    """How it went. ``usage`` sums all turns of the request; ``output`` is the contract's object, None without one."""

    outcome: Outcome
    text: str = ""
    output: Any = None
    usage: Usage = Usage()
    seconds: float = 0.0
    code: int = 0
    error: str = ""
    conversation: str | None = None
    reset_at: datetime | None = None
    turns: int = 1

    @property
    def ok(self) -> bool:
        """Whether the agent ended normally."""
        return self.outcome is Outcome.OK
