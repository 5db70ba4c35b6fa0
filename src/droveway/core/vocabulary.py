"""The words of the product, once: statuses, labels, transitions, branch names, commit contexts, message kinds."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import msgspec

from droveway.core.text import slug


class Status(enum.StrEnum):
    """The status of a herd issue; its label is ``herd/status:<value>``."""

    READY = "ready"
    IN_PROGRESS = "in-progress"
    DONE = "done"
    FAILED = "failed"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"

    @property
    def label(self) -> str:
        """Give the label's name."""
        return f"herd/status:{self.value}"


class LabelSpec(msgspec.Struct, frozen=True):
    """A label as ``herd init`` makes it."""

    name: str
    color: str
    description: str


TYPE_FEATURE = "herd/type:feature"
TYPE_BUGFIX = "herd/type:bugfix"
TYPE_FIX = "herd/type:fix"
TYPE_STANDALONE_FIX = "herd/type:standalone-fix"
TYPE_MANUAL = "herd/type:manual"
CI_FIX_PENDING = "herd/ci-fix-pending"
REBASE_PENDING = "herd/rebase-pending"
RETRY_PENDING = "herd/retry-pending"
STABLE_DISAGREEMENT = "herd/stable-disagreement"
REVIEW_NONCONVERGING = "herd/review-nonconverging"
CASCADE_FAILED = "herd/cascade-failed"
PAUSED = "herd/paused"

LABELS: tuple[LabelSpec, ...] = (
    LabelSpec(Status.READY.label, "0E8A16", "may be picked up"),
    LabelSpec(Status.IN_PROGRESS.label, "FBCA04", "a worker is queued or running"),
    LabelSpec(Status.DONE.label, "6F42C1", "worker finished, branch may be consolidated"),
    LabelSpec(Status.FAILED.label, "D93F0B", "needs re-dispatch or a person"),
    LabelSpec(Status.BLOCKED.label, "C5DEF5", "a dependency is open"),
    LabelSpec(Status.CANCELLED.label, "B60205", "terminal; never re-dispatched"),
    LabelSpec(TYPE_FEATURE, "1D76DB", "a new capability, from the planner"),
    LabelSpec(TYPE_BUGFIX, "D93F0B", "a repair, from the planner"),
    LabelSpec(TYPE_FIX, "E99695", "review, CI or conflict fix"),
    LabelSpec(TYPE_STANDALONE_FIX, "FBCA04", "a fix on a PR that is no batch PR"),
    LabelSpec(TYPE_MANUAL, "BFD4F2", "a person's task"),
    LabelSpec(CI_FIX_PENDING, "E4E669", "on the batch PR: a CI fix is asked for"),
    LabelSpec(REBASE_PENDING, "FBCA04", "on the batch PR: a base conflict is being resolved"),
    LabelSpec(RETRY_PENDING, "D4C5F9", "on a failed issue: a retry is asked for"),
    LabelSpec(STABLE_DISAGREEMENT, "E11D48", "on the batch PR: automatic review suspended"),
    LabelSpec(REVIEW_NONCONVERGING, "FBCA04", "on the strategy-fix issue"),
    LabelSpec(CASCADE_FAILED, "B60205", "on the batch PR: resolvers paused"),
    LabelSpec(PAUSED, "BFD4F2", "nothing new of this batch is dispatched"),
)

_S = Status
# BAT-056. failed → done is legal only for the two rules that say so; they pass ``settling=True``.
TRANSITIONS: Mapping[Status, frozenset[Status]] = MappingProxyType(
    {
        _S.BLOCKED: frozenset({_S.READY, _S.FAILED, _S.CANCELLED}),
        _S.READY: frozenset({_S.IN_PROGRESS, _S.BLOCKED, _S.FAILED, _S.CANCELLED}),
        _S.IN_PROGRESS: frozenset({_S.DONE, _S.FAILED, _S.READY, _S.CANCELLED}),
        _S.FAILED: frozenset({_S.READY, _S.IN_PROGRESS, _S.CANCELLED}),
        _S.DONE: frozenset({_S.FAILED}),
        _S.CANCELLED: frozenset(),
    }
)
SETTLING = "BAT-187"


def legal(old: Status | None, new: Status, *, settling: bool = False) -> bool:
    """Whether an issue may go from ``old`` (None: it has no status yet) to ``new`` (BAT-056).

    ``settling`` is for BAT-187 and BAT-205 alone: a failed origin whose work is contained becomes done.
    """
    if old is None or old is new:
        return True
    if settling and old is _S.FAILED and new is _S.DONE:
        return True
    return new in TRANSITIONS[old]


def statuses(labels: Iterable[str]) -> tuple[Status, ...]:
    """Give all statuses among the labels: a sound issue has exactly one (BAT-058)."""
    by_label = {status.label: status for status in Status}
    return tuple(by_label[name] for name in labels if name in by_label)


def is_herd(labels: Iterable[str]) -> bool:
    """Whether the labels make an issue one of ours."""
    return any(name.startswith(("herd/status:", "herd/type:")) for name in labels)


# --- names (BAT-033 … BAT-039) ---------------------------------------------------------------------------------------

WORKER_PREFIX = "herd/worker/"
BATCH_PREFIX = "herd/batch/"
ATTIC_PREFIX = "refs/herd/attic/"
PROGRESS_DIR = ".herd/progress"
REVIEW_CONTEXT = "herd/review"
OWN_CONTEXT_PREFIX = "herd/"


def worker_branch(number: int, title: str) -> str:
    """Name the branch of an issue's worker (BAT-033); fixed in the body at creation (BAT-025)."""
    return f"{WORKER_PREFIX}{number}-{slug(title, 'task')}"


def batch_branch(milestone: int, title: str) -> str:
    """Name the branch of a batch (BAT-034)."""
    return f"{BATCH_PREFIX}{milestone}-{slug(title, 'batch')}"


def branch_issue(branch: str) -> int | None:
    """Give the issue number between the last ``/`` and the first ``-`` after it, for a worker branch (BAT-039)."""
    match = re.fullmatch(r"herd/worker/(\d+)-[^/]*", branch)
    return int(match.group(1)) if match else None


def branch_batch(branch: str) -> int | None:
    """Give the milestone number of a batch branch, or None."""
    match = re.fullmatch(r"herd/batch/(\d+)-[^/]*", branch)
    return int(match.group(1)) if match else None


class Message(enum.StrEnum):
    """Every kind of text that we post; BAT-115 tells our texts by marker, or by the prefix in PREFIXES."""

    ATTEMPT = "attempt"
    WORKER_REPORT = "worker-report"
    WORKER_FAILED = "worker-failed"
    NOOP_VERDICT = "noop-verdict"
    NOOP_SUMMARY = "noop-summary"
    BODY_PART = "body-part"
    MANUAL_TASK = "manual-task"
    CONFLICT = "conflict"
    CASCADE = "cascade"
    RESOLVER_PAUSED = "resolver-paused"
    PUSH_REJECTED = "push-rejected"
    UNREADABLE = "unreadable"
    BATCH = "batch"
    TASK_ISSUE = "task-issue"
    FIX_ISSUE = "fix-issue"
    RESOLVER_ISSUE = "resolver-issue"
    BATCH_PULL = "batch-pull"
    REVIEW = "review"
    REVIEW_NOTE = "review-note"
    LANDING = "landing"
    COMMAND = "command"
    ALERT = "alert"
    CI = "ci"


PREFIXES: Mapping[Message, str] = MappingProxyType(
    {
        Message.ATTEMPT: "📋 **Worker Progress**",
        Message.WORKER_REPORT: "**Worker Report**",
        Message.WORKER_FAILED: "**Worker failed:**",
        Message.NOOP_VERDICT: "**Worker #",
        Message.NOOP_SUMMARY: "Worker #",
        Message.BODY_PART: "_Part ",
        Message.MANUAL_TASK: "👋 **Manual task**",
        Message.CONFLICT: "⚠️ **Merge conflict**",
        Message.CASCADE: "⚠️ Conflict resolution cascade failed",
        Message.RESOLVER_PAUSED: "⚠️ Conflict resolution is paused",
        Message.PUSH_REJECTED: "⚠️ **Push rejected**",
        Message.UNREADABLE: "⚠️ **Unreadable task**",
        Message.BATCH: "🧭 **Droveway**",
        Message.REVIEW: "🔍 **Droveway Agent Review**",
        Message.REVIEW_NOTE: "⚠️ **Droveway",
        Message.LANDING: "🏁 **Landed**",
        Message.COMMAND: "❌ **Droveway Command Failed**",
        Message.ALERT: "⚠️ **Droveway Monitor Alert**",
        Message.CI: "🔧 **CI**",
    }
)
# These are bodies of issues and PRs, not comments: nobody has to tell them from a person's comment.
MESSAGES_WITH_NO_PREFIX = frozenset({Message.TASK_ISSUE, Message.FIX_ISSUE, Message.RESOLVER_ISSUE, Message.BATCH_PULL})
