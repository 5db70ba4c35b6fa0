"""An issue of ours as the rules see it: status, front matter, kind, branch."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from droveway.core.vocabulary import TYPE_MANUAL, Status, branch_issue, statuses, worker_branch
from droveway.forge import Comment, Issue, MissingPartError, join_parts
from droveway.work.body import IssueBody, Unreadable, parse_body
from droveway.work.frontmatter import FrontMatter


class Author(msgspec.Struct, frozen=True):
    """The user in whose name a worker commits (BAT-128)."""

    name: str
    email: str


class Task(msgspec.Struct, frozen=True):
    """One issue, read. ``body`` is Unreadable where its block does not parse (BAT-027)."""

    number: int
    title: str
    milestone: int | None
    open: bool
    statuses: tuple[Status, ...]
    body: IssueBody | Unreadable
    manual: bool = False

    @property
    def status(self) -> Status | None:
        """Give the one status; None where it has none or two (BAT-058)."""
        return self.statuses[0] if len(self.statuses) == 1 else None

    @property
    def unreadable(self) -> str:
        """Give why the body can't be read, or nothing."""
        if isinstance(self.body, Unreadable):
            return self.body.error
        branch = self.body.front.branch
        if branch and branch_issue(branch) != self.number:
            return f"branch {branch!r} is no worker branch of issue #{self.number}"
        return ""

    @property
    def front(self) -> FrontMatter:
        """Give the front matter; that of an unreadable body says nothing."""
        return FrontMatter() if isinstance(self.body, Unreadable) else self.body.front

    @property
    def branch(self) -> str:
        """Give the worker branch: the one that the body fixes, else by the name rule (BAT-025)."""
        return self.front.branch or worker_branch(self.number, self.title)

    @property
    def complete(self) -> bool:
        """Whether it is done, or closed, which is complete whatever its labels (BAT-101)."""
        return not self.open or Status.DONE in self.statuses

    @property
    def role(self) -> str:
        """Give the agent's role: worker, fixer or resolver (AGT-002)."""
        if self.front.is_resolver:
            return "resolver"
        return "fixer" if self.front.is_fix_type or self.front.is_standalone else "worker"


def read_task(issue: Issue, comments: Sequence[Comment] = ()) -> Task:
    """Read an issue; with its comments, the parts of a long body are joined (BAT-031).

    Only parts of our own identity count. Raises MissingPartError, whose message goes to the issue.
    """
    text = join_parts(issue.body, comments) if comments else issue.body
    return Task(
        number=issue.number,
        title=issue.title,
        milestone=issue.milestone,
        open=issue.open,
        statuses=statuses(issue.labels),
        body=parse_body(text),
        manual=TYPE_MANUAL in issue.labels,
    )


__all__ = ["Author", "MissingPartError", "Task", "read_task"]
