"""What the steps of one attempt share: its orders, its times, its failures."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from droveway.core.repo import RepoId
from droveway.core.settings import Settings
from droveway.git import Identity
from droveway.sessions import Fleet
from droveway.work.attempts import Attempt, AttemptOutcome, attempt_key, utc
from droveway.work.task import Author, Task

if TYPE_CHECKING:
    from droveway.engine import JobContext
    from droveway.git import Mirror

RESERVE = timedelta(minutes=8)  # BAT-170: what the outer deadline leaves after the agent
VALIDATION_RESERVE = timedelta(minutes=2)  # BAT-151
WORKER_NAME = "Droveway Worker"
DEFAULT_EMAIL = "droveway@noreply.invalid"


class WorkerError(Exception):
    """The attempt fails: why, what can be done, and how it counts. Whatever was pushed stays."""

    def __init__(
        self,
        reason: str,
        *,
        next_step: str = "",
        outcome: AttemptOutcome = AttemptOutcome.FAILED,
        excerpt: str = "",
        retry: str | None = None,
    ) -> None:
        """Hold the parts of the comment (BAT-132); ``retry`` says whether one follows, where that is known."""
        super().__init__(reason)
        self.reason = reason
        self.next_step = next_step or "look at the excerpt and the branch, edit the issue if need be"
        self.outcome = outcome
        self.excerpt = excerpt
        self.retry = retry


class EndedError(Exception):
    """There is nothing to do for this run: the issue is closed, cancelled or done. No effect follows."""


class Orders(msgspec.Struct, frozen=True):
    """The job's arguments."""

    repo: str
    issue: int
    branch: str
    batch_branch: str
    attempt: int
    batch: int | None = None
    mode: str = "batch"
    timeout_minutes: float = 30
    author: Author = Author("Droveway", DEFAULT_EMAIL)
    by_hand: bool = False


def inner_minutes(outer: float) -> float:
    """Give the agent's deadline from the outer one, in minutes (BAT-170)."""
    if outer >= 16:
        return outer - 8
    half = outer / 2
    return max(half, 1.0) if outer > 1 else half


class Deadlines(msgspec.Struct, frozen=True):
    """The moments of an attempt."""

    started: datetime
    agent: datetime
    validation: datetime
    outer: datetime

    @classmethod
    def of(cls, started: datetime, minutes: float) -> Deadlines:
        """Count from the start; with a very short outer deadline the reserves shrink with it."""
        outer = started + timedelta(minutes=minutes)
        agent = started + timedelta(minutes=inner_minutes(minutes))
        return cls(started, agent, outer - min(VALIDATION_RESERVE, (outer - agent) / 4), outer)

    def second(self, now: datetime) -> datetime:
        """Give the deadline of a second invocation: the inner time again, or what is left less the reserve."""
        inner = self.agent - self.started
        left = self.outer - now - RESERVE
        return now + max(min(inner, left), timedelta(minutes=1))


@dataclass
class Work:
    """One attempt under way. ``notes`` go into the report."""

    fleet: Fleet
    context: JobContext
    repo: RepoId
    orders: Orders
    settings: Settings
    task: Task
    text: str  # the whole body, its parts joined
    author_login: str  # who wrote the issue
    author_rights: str
    mirror: Mirror
    times: Deadlines
    record: Attempt
    earlier: tuple[Attempt, ...] = ()
    notes: list[str] = field(default_factory=list)

    @property
    def number(self) -> int:
        """The issue."""
        return self.orders.issue

    @property
    def root(self) -> Path:
        """The place's folder; what outlives it stands beside it, in ``logs``."""
        return self.fleet.runs(self.repo) / f"{self.number}-{self.orders.attempt}"

    @property
    def logs(self) -> Path:
        """The folder of the attempt's prompt, transcript and result, which are kept."""
        return self.root.with_name(f"{self.root.name}.log")

    @property
    def framework(self) -> Identity:
        """Who our own commits are by (BAT-037)."""
        return Identity(WORKER_NAME, self.settings.pull_requests.co_author_email or DEFAULT_EMAIL)

    @property
    def user(self) -> Identity:
        """Who the task's commits are by (BAT-128)."""
        return Identity(self.orders.author.name, self.orders.author.email)

    @property
    def key(self) -> str:
        """The key of the attempt's comment."""
        return attempt_key(str(self.repo), self.number, self.orders.attempt)

    def now(self) -> datetime:
        """Give the present moment, with whole seconds."""
        return utc(self.fleet.clock.now())

    def change(self, **values: Any) -> None:
        """Change the attempt's record; the next effect writes it."""
        self.record = msgspec.structs.replace(self.record, **values)


def trailer(work: Work) -> str:
    """Give the co-author's line of our commits, or nothing where no address is set (BAT-094, BAT-128)."""
    email = work.settings.pull_requests.co_author_email
    return f"\n\nCo-authored-by: Droveway <{email}>" if email else ""
