"""Mutations of pull requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from droveway.localforge.access import unprocessable
from droveway.localforge.graphql.context import context
from droveway.localforge.graphql.issues import load
from droveway.localforge.graphql.mutations import (
    Input,
    again,
    changed,
    issue_row,
    logins,
    me,
    mutation,
    repo_of,
    target,
)
from droveway.localforge.graphql.pages import Node
from droveway.localforge.graphql.registry import Info
from droveway.localforge.ops import issues as issue_ops
from droveway.localforge.ops import merging, pulls


@mutation("createPullRequest")
def create(info: Info, wanted: Input) -> dict[str, Any]:
    """Open a PR."""
    there = context(info)
    node = target(info, wanted["repositoryId"], "Repository")
    head_repo = wanted.get("headRepositoryId")
    if head_repo and target(info, head_repo, "Repository").row["id"] != node.row["id"]:
        raise unprocessable("The head must be a branch of the same repository: there are no forks here.")
    row = pulls.create(
        there.tx,
        there.actor,
        repo_of(info, node),
        title=wanted["title"],
        body=wanted.get("body"),
        head=wanted["headRefName"].removeprefix("refs/heads/"),
        base=wanted["baseRefName"].removeprefix("refs/heads/"),
        draft=bool(wanted.get("draft")),
        maintainer_can_modify=bool(wanted.get("maintainerCanModify")),
    )
    there.forget()
    return {"pullRequest": load(info, "PullRequest", [row["id"]])[0]}


def _pull(info: Info, ident: str) -> Node:
    return target(info, ident, "PullRequest")


@mutation("updatePullRequest")
def update(info: Info, wanted: Input) -> dict[str, Any]:
    """Change a PR."""
    there = context(info)
    node = _pull(info, wanted["pullRequestId"])
    repo = repo_of(info, node)
    changes = changed(info, wanted)
    own: dict[str, Any] = {key: changes.pop(key) for key in ("title", "body", "state") if key in changes}
    if wanted.get("baseRefName") is not None:
        own["base"] = wanted["baseRefName"].removeprefix("refs/heads/")
    if wanted.get("maintainerCanModify") is not None:
        own["maintainer_can_modify"] = wanted["maintainerCanModify"]
    if own:
        pulls.edit(there.tx, there.actor, repo, issue_row(info, node), **own)
    issue_ops.edit(there.tx, there.actor, repo, issue_row(info, node), **changes)
    return {"pullRequest": again(info, node), "actor": me(info)}


def _turn(info: Info, ident: str, state: str) -> dict[str, Any]:
    there = context(info)
    node = _pull(info, ident)
    issue_ops.set_state(there.tx, there.actor, repo_of(info, node), issue_row(info, node), state)
    return {"pullRequest": again(info, node)}


@mutation("closePullRequest")
def close(info: Info, wanted: Input) -> dict[str, Any]:
    """Close a PR."""
    return _turn(info, wanted["pullRequestId"], "closed")


@mutation("reopenPullRequest")
def reopen(info: Info, wanted: Input) -> dict[str, Any]:
    """Open a closed PR again."""
    return _turn(info, wanted["pullRequestId"], "open")


def _draft(info: Info, ident: str, *, draft: bool) -> dict[str, Any]:
    there = context(info)
    node = _pull(info, ident)
    pulls.set_draft(there.tx, there.actor, repo_of(info, node), issue_row(info, node), draft=draft)
    return {"pullRequest": again(info, node)}


@mutation("markPullRequestReadyForReview")
def ready(info: Info, wanted: Input) -> dict[str, Any]:
    """Make a draft ready."""
    return _draft(info, wanted["pullRequestId"], draft=False)


@mutation("convertPullRequestToDraft")
def draft(info: Info, wanted: Input) -> dict[str, Any]:
    """Make a draft of a PR."""
    return _draft(info, wanted["pullRequestId"], draft=True)


@mutation("mergePullRequest")
def merge(info: Info, wanted: Input) -> dict[str, Any]:
    """Merge a PR; ``expectedHeadOid`` must still be its head."""
    there = context(info)
    node = _pull(info, wanted["pullRequestId"])
    merging.merge(
        there.tx,
        there.actor,
        repo_of(info, node),
        issue_row(info, node),
        method=(wanted.get("mergeMethod") or "MERGE").lower(),
        sha=wanted.get("expectedHeadOid"),
        title=wanted.get("commitHeadline"),
        message=wanted.get("commitBody"),
    )
    return {"pullRequest": again(info, node), "actor": me(info)}


@mutation("updatePullRequestBranch")
def update_branch(info: Info, wanted: Input) -> dict[str, Any]:
    """Merge the base into the head. Rebasing it is not offered here."""
    there = context(info)
    node = _pull(info, wanted["pullRequestId"])
    if wanted.get("updateMethod") == "REBASE":
        raise unprocessable("This forge updates a branch by merging its base into it, not by rebasing.")
    repo, row = repo_of(info, node), issue_row(info, node)
    merging.update_branch(there.tx, there.actor, repo, row, expected=wanted.get("expectedHeadOid"))
    return {"pullRequest": again(info, node)}


def _request(info: Info, node: Node, names: Sequence[str], *, union: bool) -> dict[str, Any]:
    there = context(info)
    repo, row = repo_of(info, node), issue_row(info, node)
    if not union:
        rows = there.tx.all(
            "SELECT login FROM review_requests JOIN users ON users.id = user_id WHERE issue_id = ?", row["id"]
        )
        keep = {name.lower() for name in names}
        gone = [each["login"] for each in rows if each["login"].lower() not in keep]
        pulls.request_reviews(there.tx, there.actor, repo, row, gone, wanted=False)
    pulls.request_reviews(there.tx, there.actor, repo, row, names)
    return {"pullRequest": again(info, node), "actor": me(info)}


@mutation("requestReviews")
def request(info: Info, wanted: Input) -> dict[str, Any]:
    """Ask people for a review; without ``union`` they replace those asked before."""
    node = _pull(info, wanted["pullRequestId"])
    return _request(info, node, logins(info, wanted.get("userIds") or ()), union=bool(wanted.get("union")))


@mutation("requestReviewsByLogin")
def request_by_login(info: Info, wanted: Input) -> dict[str, Any]:
    """Ask people for a review, by their logins."""
    node = _pull(info, wanted["pullRequestId"])
    names = [*(wanted.get("userLogins") or ()), *(wanted.get("botLogins") or ())]
    return _request(info, node, names, union=bool(wanted.get("union")))
