"""The forge as we see it: frozen, tolerant facts (FRG-003). Unknown enum values become UNKNOWN: not good enough."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from droveway.core.facts import Fact


class Permission(enum.IntEnum):
    """What an account may do on a repository; larger is more. UNKNOWN is what an unanswered read gives: it is a no."""

    UNKNOWN = -1
    NONE = 0
    READ = 1
    TRIAGE = 2
    WRITE = 3
    MAINTAIN = 4
    ADMIN = 5

    @property
    def trusted(self) -> bool:
        """Whether the account may give orders: write or better (architecture, Trust)."""
        return self >= Permission.WRITE


class MergeState(enum.StrEnum):
    """GraphQL's ``mergeStateStatus``."""

    BEHIND = "BEHIND"
    BLOCKED = "BLOCKED"
    CLEAN = "CLEAN"
    DIRTY = "DIRTY"
    DRAFT = "DRAFT"
    HAS_HOOKS = "HAS_HOOKS"
    UNSTABLE = "UNSTABLE"
    UNKNOWN = "UNKNOWN"


class ReviewState(enum.StrEnum):
    """A review's state."""

    APPROVED = "APPROVED"
    CHANGES_REQUESTED = "CHANGES_REQUESTED"
    COMMENTED = "COMMENTED"
    DISMISSED = "DISMISSED"
    PENDING = "PENDING"
    UNKNOWN = "UNKNOWN"


class Repository(msgspec.Struct, frozen=True):
    """A repository's own facts."""

    name: str
    node_id: str
    default_branch: str
    default_sha: str = ""
    permission: Permission = Permission.UNKNOWN
    merge_methods: tuple[str, ...] = ("squash", "rebase", "merge")
    archived: bool = False
    private: bool = False


class Milestone(msgspec.Struct, frozen=True):
    """A milestone: one batch."""

    number: int
    title: str
    description: str = ""
    state: str = "open"
    open_issues: int = 0
    closed_issues: int = 0


class Issue(msgspec.Struct, frozen=True):
    """An issue (never a PR). ``author`` is the login, lower case is not applied."""

    number: int
    node_id: str
    title: str
    body: str
    state: str
    author: str
    labels: tuple[str, ...] = ()
    milestone: int | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    closed_at: datetime | None = None
    comments: int = 0

    @property
    def open(self) -> bool:
        """Whether it is open."""
        return self.state == "open"


class Comment(msgspec.Struct, frozen=True):
    """A comment on an issue or PR. ``ours``: its author is our own identity."""

    id: int
    author: str
    body: str
    created_at: datetime | None = None
    updated_at: datetime | None = None
    association: str = "NONE"
    ours: bool = False
    url: str = ""


class CheckRun(msgspec.Struct, frozen=True):
    """A check run. ``status`` queued, in_progress, completed, …; ``conclusion`` lower case or empty."""

    id: int
    name: str
    app: str
    status: str
    conclusion: str = ""
    workflow: str = ""
    started_at: datetime | None = None
    completed_at: datetime | None = None
    summary: str = ""
    url: str = ""


class Annotation(msgspec.Struct, frozen=True):
    """A line of a file that a check speaks of. ``level``: notice, warning, failure."""

    path: str
    line: int
    message: str
    level: str = "failure"


class CheckRunChange(msgspec.Struct, frozen=True):
    """What is said of a check run. ``conclusion`` goes with the status ``completed``; at most 50 ``annotations``."""

    status: str
    conclusion: str = ""
    title: str = ""
    summary: str = ""
    text: str = ""
    annotations: tuple[Annotation, ...] = ()

    def body(self) -> dict[str, Any]:
        """Give the request's body."""
        body: dict[str, Any] = {"status": self.status}
        if self.conclusion:
            body["conclusion"] = self.conclusion
        if self.title:
            body["output"] = {
                "title": self.title,
                "summary": self.summary or self.title,
                "text": self.text,
                "annotations": [
                    {
                        "path": each.path,
                        "start_line": each.line,
                        "end_line": each.line,
                        "annotation_level": each.level,
                        "message": each.message,
                    }
                    for each in self.annotations
                ],
            }
        return body


class CommitStatus(msgspec.Struct, frozen=True):
    """A commit status; ``state`` success, failure, error, pending (lower case)."""

    context: str
    state: str
    created_at: datetime | None = None
    description: str = ""
    url: str = ""


class HeadChecks(msgspec.Struct, frozen=True):
    """All checks and statuses of one commit, every page. ``queued_suites``: suites without runs, with their creation.

    ``absent`` names the sources that may not be read (403, 404): ``check runs``, ``statuses`` (BAT-207).
    """

    sha: str
    runs: tuple[CheckRun, ...] = ()
    statuses: tuple[CommitStatus, ...] = ()
    queued_suites: tuple[tuple[str, datetime | None], ...] = ()
    committed_at: datetime | None = None
    absent: tuple[str, ...] = ()


TRUSTED_ASSOCIATIONS = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})
"""Whom the forge lets count, as far as a review itself says it; what it does not say is taken as a no."""


class Review(msgspec.Struct, frozen=True):
    """A submitted review."""

    id: int
    author: str
    state: ReviewState
    commit: str = ""
    body: str = ""
    submitted_at: datetime | None = None
    association: str = "NONE"


class ReviewThread(msgspec.Struct, frozen=True):
    """A review thread; ``line`` None where it is outdated."""

    id: str
    resolved: bool
    outdated: bool
    path: str = ""
    line: int | None = None
    comments: tuple[Comment, ...] = ()


class PullRequest(msgspec.Struct, frozen=True):
    """A PR. ``state`` is open, closed or merged. ``mergeable`` None: the forge has not computed it (unknown)."""

    number: int
    node_id: str
    title: str
    body: str
    state: str
    author: str
    head: str
    head_sha: str
    head_repo: str
    base: str
    base_sha: str = ""
    draft: bool = False
    mergeable: bool | None = None
    merge_state: MergeState = MergeState.UNKNOWN
    rebaseable: bool | None = None
    maintainer_can_modify: bool = False
    labels: tuple[str, ...] = ()
    milestone: int | None = None
    review_decision: str = ""
    requested_reviewers: tuple[str, ...] = ()
    merge_sha: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    checks: Fact[HeadChecks] | None = None
    reviews: Fact[tuple[Review, ...]] | None = None
    unresolved_threads: Fact[int] | None = None

    @property
    def open(self) -> bool:
        """Whether it is open."""
        return self.state == "open"


class Protection(msgspec.Struct, frozen=True):
    """What the base branch demands."""

    required_checks: tuple[str, ...] = ()
    strict: bool = False
    required_approvals: int = 0


class RepoSnapshot(msgspec.Struct, frozen=True):
    """What a loop decides from, read once per tick (FRG-004). ``refs`` are branches under ``herd/`` with their tips.

    ``issues`` are all open herd issues and all issues of the open batches' milestones.
    """

    repository: Fact[Repository]
    milestones: Fact[tuple[Milestone, ...]]
    issues: Fact[tuple[Issue, ...]]
    pulls: Fact[tuple[PullRequest, ...]]
    refs: Fact[Mapping[str, str]]
    requests: int = 0


class BatchSnapshot(msgspec.Struct, frozen=True):
    """One milestone with its issues (open and closed), its PR, and the branches under ``herd/``.

    ``issues`` is Unknown where fewer came than the milestone counts (BAT-111); ``pull`` is the newest PR, of any
    state, whose head is the batch branch in this repository, or None where there is definitely none.
    """

    repository: Fact[Repository]
    milestone: Fact[Milestone]
    issues: Fact[tuple[Issue, ...]]
    refs: Fact[Mapping[str, str]]
    pull: Fact[PullRequest | None]
    requests: int = 0
