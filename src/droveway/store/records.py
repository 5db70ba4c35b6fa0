"""What the store gives back, as frozen data."""

from __future__ import annotations

from datetime import datetime

import msgspec


class UsageTotals(msgspec.Struct, frozen=True):
    """Sums over turns that have ended (AGT-009). Unknown numbers count as nothing; ``uncosted`` turns had no cost."""

    turns: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    cost_usd: float = 0.0
    seconds: float = 0.0
    uncosted: int = 0


class TaskInfo(msgspec.Struct, frozen=True):
    """Something that agents work on: an issue of a batch, a review of a PR, a chat (ENG-002)."""

    id: str
    repo: str
    kind: str
    subject: str
    title: str
    issue: int | None
    batch: int | None
    pr: int | None
    created_at: datetime


class SessionInfo(msgspec.Struct, frozen=True):
    """A series of turns with one agent; ``conversation`` is the provider's own id, by which it is resumed."""

    id: str
    task: str
    role: str
    provider: str
    model: str
    identity: str
    conversation: str
    created_at: datetime


class TurnInfo(msgspec.Struct, frozen=True):
    """One run of an agent. ``outcome`` is empty while it runs, or if its process died."""

    id: str
    session: str
    job: str
    attempt: int
    prompt_digest: str
    transcript: str
    started_at: datetime
    ended_at: datetime | None
    outcome: str
    text: str
    tokens_in: int | None
    tokens_out: int | None
    tokens_cached: int | None
    cost_usd: float | None
    agent_turns: int | None
    seconds: float


class MessageInfo(msgspec.Struct, frozen=True):
    """A message in a session; ``turn`` is the one that answered it, or None while it waits."""

    id: str
    session: str
    at: datetime
    author: str
    body: str
    turn: str | None
