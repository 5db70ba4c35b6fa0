"""Mutations of issues, and of what issues and pull requests share."""

from __future__ import annotations

from typing import Any

from droveway.localforge.graphql.context import context
from droveway.localforge.graphql.issues import BOTH, load
from droveway.localforge.graphql.mutations import (
    Input,
    again,
    changed,
    issue_row,
    label_names,
    logins,
    me,
    milestone_number,
    mutation,
    repo_of,
    target,
)
from droveway.localforge.graphql.pages import Edge, encode, one
from droveway.localforge.graphql.registry import Info
from droveway.localforge.ops import issues as ops


@mutation("createIssue")
def create(info: Info, wanted: Input) -> dict[str, Any]:
    """Open an issue."""
    there = context(info)
    repo = repo_of(info, target(info, wanted["repositoryId"], "Repository"))
    row = ops.create(
        there.tx,
        there.actor,
        repo,
        wanted["title"],
        wanted.get("body"),
        labels=label_names(info, wanted.get("labelIds") or ()),
        milestone=milestone_number(info, wanted.get("milestoneId")),
        assignees=logins(info, wanted.get("assigneeIds") or ()),
    )
    there.forget()
    return {"issue": load(info, "Issue", [row["id"]])[0]}


@mutation("updateIssue")
def update(info: Info, wanted: Input) -> dict[str, Any]:
    """Change an issue."""
    there = context(info)
    node = target(info, wanted["id"], "Issue")
    ops.edit(there.tx, there.actor, repo_of(info, node), issue_row(info, node), **changed(info, wanted))
    return {"issue": again(info, node), "actor": me(info)}


@mutation("closeIssue")
def close(info: Info, wanted: Input) -> dict[str, Any]:
    """Close an issue."""
    there = context(info)
    node = target(info, wanted["issueId"], "Issue")
    reason = (wanted.get("stateReason") or "COMPLETED").lower()
    ops.set_state(there.tx, there.actor, repo_of(info, node), issue_row(info, node), "closed", reason)
    return {"issue": again(info, node)}


@mutation("reopenIssue")
def reopen(info: Info, wanted: Input) -> dict[str, Any]:
    """Open a closed issue again."""
    there = context(info)
    node = target(info, wanted["issueId"], "Issue")
    ops.set_state(there.tx, there.actor, repo_of(info, node), issue_row(info, node), "open")
    return {"issue": again(info, node)}


@mutation("addComment")
def comment(info: Info, wanted: Input) -> dict[str, Any]:
    """Comment on an issue or PR."""
    there = context(info)
    node = target(info, wanted["subjectId"], *BOTH)
    row = ops.comment(there.tx, there.actor, repo_of(info, node), issue_row(info, node), wanted["body"])
    subject = again(info, node)
    made = one("IssueComment", row)
    made.extra = subject
    return {"commentEdge": Edge(encode((row["id"], row["id"])), made), "subject": subject}


@mutation("updateIssueComment")
def edit_comment(info: Info, wanted: Input) -> dict[str, Any]:
    """Change a comment."""
    there = context(info)
    node = target(info, wanted["id"], "IssueComment")
    ops.edit_comment(there.tx, there.actor, repo_of(info, node), node.row, wanted["body"])
    return {"issueComment": again(info, node)}


@mutation("deleteIssueComment")
def delete_comment(info: Info, wanted: Input) -> dict[str, Any]:
    """Delete a comment."""
    there = context(info)
    node = target(info, wanted["id"], "IssueComment")
    ops.delete_comment(there.tx, there.actor, repo_of(info, node), node.row)
    there.forget()
    return {}


@mutation("addLabelsToLabelable")
def add_labels(info: Info, wanted: Input) -> dict[str, Any]:
    """Add labels to an issue or PR."""
    there = context(info)
    node = target(info, wanted["labelableId"], *BOTH)
    names = label_names(info, wanted["labelIds"])
    ops.add_labels(there.tx, there.actor, repo_of(info, node), issue_row(info, node), names)
    return {"labelable": again(info, node)}


@mutation("removeLabelsFromLabelable")
def remove_labels(info: Info, wanted: Input) -> dict[str, Any]:
    """Take labels off an issue or PR."""
    there = context(info)
    node = target(info, wanted["labelableId"], *BOTH)
    rows = [target(info, each, "Label").row for each in wanted["labelIds"]]
    ops.remove_labels(there.tx, there.actor, repo_of(info, node), issue_row(info, node), rows)
    return {"labelable": again(info, node)}


def _user_ids(info: Info, repo: Any, names: list[str]) -> list[int]:
    return ops.user_ids(context(info).tx, repo, names, field="assignees")


@mutation("addAssigneesToAssignable")
def assign(info: Info, wanted: Input) -> dict[str, Any]:
    """Assign people to an issue or PR."""
    there = context(info)
    node = target(info, wanted["assignableId"], *BOTH)
    repo = repo_of(info, node)
    ids = _user_ids(info, repo, logins(info, wanted["assigneeIds"]))
    ops.add_assignees(there.tx, there.actor, repo, issue_row(info, node), ids)
    return {"assignable": again(info, node)}


@mutation("removeAssigneesFromAssignable")
def unassign(info: Info, wanted: Input) -> dict[str, Any]:
    """Unassign people."""
    there = context(info)
    node = target(info, wanted["assignableId"], *BOTH)
    ids = [int(target(info, each, "User", "Bot").row["id"]) for each in wanted["assigneeIds"]]
    ops.remove_assignees(there.tx, there.actor, repo_of(info, node), issue_row(info, node), ids)
    return {"assignable": again(info, node)}


@mutation("replaceActorsForAssignable")
def reassign(info: Info, wanted: Input) -> dict[str, Any]:
    """Replace the assignees, by ids or by logins."""
    there = context(info)
    node = target(info, wanted["assignableId"], *BOTH)
    repo = repo_of(info, node)
    names = [*logins(info, wanted.get("actorIds") or ()), *(wanted.get("actorLogins") or ())]
    ops.set_assignees(there.tx, there.actor, repo, issue_row(info, node), _user_ids(info, repo, names))
    return {"assignable": again(info, node)}
