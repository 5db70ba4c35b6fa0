"""Decisions and actions: what rules return, as frozen data (observe → decide → act)."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from droveway.core.jobs import Job
from droveway.core.vocabulary import Message, Status


class Blocker(msgspec.Struct, frozen=True):
    """One reason why something does not happen: what, the fact, what would clear it, and who can do that."""

    code: str
    because: str
    clears: str = ""
    who: str = ""


class Action(msgspec.Struct, frozen=True, tag_field="do"):
    """One effect. ``repo`` is ``owner/name``; ``key`` is the effect's identity (see ``core.keys.Key``)."""

    repo: str
    key: str


class SetStatus(Action, frozen=True, tag="set-status"):
    """Change an issue's one status label, by the table of BAT-056 against a fresh read.

    ``expected`` lists the states in which the change is meant; in any other the action is stale.
    """

    issue: int
    to: Status
    expected: tuple[Status, ...] = ()


class SetLabels(Action, frozen=True, tag="set-labels"):
    """Add and delete labels that are no status labels, one at a time, on an issue or PR."""

    number: int
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


class Comment(Action, frozen=True, tag="comment"):
    """Post a comment once; its key is looked for first. ``body`` is without marker."""

    number: int
    message: Message
    body: str
    markers: tuple[str, ...] = ()


class EditComment(Action, frozen=True, tag="edit-comment"):
    """Give the comment of ours that carries ``key`` this text; it is posted where there is none yet (BAT-124, BAT-162).

    The key is the comment's, not the edit's: an edit that is repeated changes nothing.
    """

    number: int
    message: Message
    body: str
    markers: tuple[str, ...] = ()


class CreateIssue(Action, frozen=True, tag="create-issue"):
    """Create an issue with its labels in one request; the key in its body is looked for first.

    ``body`` may exceed the size limit: the rest is posted as parts (BAT-030).
    """

    title: str
    body: str
    labels: tuple[str, ...] = ()
    milestone: int | None = None


class EditIssue(Action, frozen=True, tag="edit-issue"):
    """Edit title, body or state of an issue or PR; None leaves a field as it is.

    ``expected_body`` guards a body: if it has changed since, the action is stale.
    """

    number: int
    title: str | None = None
    body: str | None = None
    state: str | None = None
    expected_body: str | None = None


class CloseMilestone(Action, frozen=True, tag="close-milestone"):
    """Close a milestone."""

    milestone: int


class RefUpdate(msgspec.Struct, frozen=True):
    """One compare-and-set of a ref. ``old`` None: it must not exist; ``new`` None: delete it. Both are full SHAs."""

    ref: str
    old: str | None
    new: str | None


class MoveRefs(Action, frozen=True, tag="move-refs"):
    """Push from the repository's mirror: all refs or none, each by compare-and-set."""

    updates: tuple[RefUpdate, ...]


class OpenPull(Action, frozen=True, tag="open-pull"):
    """Open a PR from ``head`` (branch) to ``base``; one that is open already is the answer (BAT-215)."""

    title: str
    body: str
    head: str
    base: str
    milestone: int | None = None


class SubmitReview(Action, frozen=True, tag="submit-review"):
    """Submit a review of ``head_sha``. ``event`` is APPROVE, REQUEST_CHANGES or COMMENT.

    Where the forge refuses (own PR), the receipt says so and the action counts as done (REV-058).
    """

    pull: int
    head_sha: str
    event: str
    body: str


class SetCommitStatus(Action, frozen=True, tag="set-commit-status"):
    """Set a commit status; ``state`` is success, failure, pending or error."""

    sha: str
    context: str
    state: str
    description: str = ""


class MergePull(Action, frozen=True, tag="merge-pull"):
    """Merge a PR at exactly ``head_sha`` by ``method`` (squash, rebase, merge)."""

    pull: int
    head_sha: str
    method: str
    title: str = ""
    message: str = ""


class StartJob(Action, frozen=True, tag="start-job"):
    """Enqueue a job; its id is the idempotency key."""

    job: Job


class CancelJob(Action, frozen=True, tag="cancel-job"):
    """Cancel a job that is queued or running."""

    job_id: str


AnyAction: TypeAlias = (
    SetStatus
    | SetLabels
    | Comment
    | EditComment
    | CreateIssue
    | EditIssue
    | CloseMilestone
    | MoveRefs
    | OpenPull
    | SubmitReview
    | SetCommitStatus
    | MergePull
    | StartJob
    | CancelJob
)


class Decision(msgspec.Struct, frozen=True):
    """What a rule decided about one subject: the actions in order, or the blockers because of which it waits.

    ``rule`` is the id of the spec (``BAT-110``), ``facts`` are in words, ``head`` binds it to a revision.
    """

    rule: str
    repo: str
    subject: str
    facts: tuple[str, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    actions: tuple[AnyAction, ...] = ()
    head: str = "-"


class Receipt(msgspec.Struct, frozen=True):
    """What an effect gave: a number (issue, PR, comment id), a SHA, or words."""

    number: int | None = None
    sha: str | None = None
    note: str = ""
