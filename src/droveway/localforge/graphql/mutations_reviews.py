"""Mutations of reviews and review threads."""

from __future__ import annotations

from typing import Any

from droveway.localforge.graphql.context import context
from droveway.localforge.graphql.mutations import Input, again, issue_row, mutation, repo_of, target
from droveway.localforge.graphql.pages import Edge, encode, one
from droveway.localforge.graphql.registry import Info
from droveway.localforge.graphql.reviews import pull_of
from droveway.localforge.ops import reviews

_THREAD = {"startLine": "start_line", "startSide": "start_side"}


@mutation("addPullRequestReview")
def add(info: Info, wanted: Input) -> dict[str, Any]:
    """Write a review; without an event it stays pending."""
    there = context(info)
    node = target(info, wanted["pullRequestId"], "PullRequest")
    drafts = [*(wanted.get("comments") or ()), *(wanted.get("threads") or ())]
    row = reviews.create(
        there.tx,
        there.actor,
        repo_of(info, node),
        issue_row(info, node),
        event=wanted.get("event"),
        body=wanted.get("body"),
        commit=wanted.get("commitOID"),
        comments=[{_THREAD.get(key, key): value for key, value in each.items()} for each in drafts if each],
    )
    pull = again(info, node)
    made = one("PullRequestReview", row)
    made.extra = pull
    return {"pullRequestReview": made, "reviewEdge": Edge(encode((row["id"], row["id"])), made)}


@mutation("dismissPullRequestReview")
def dismiss(info: Info, wanted: Input) -> dict[str, Any]:
    """Dismiss a judgement."""
    there = context(info)
    node = target(info, wanted["pullRequestReviewId"], "PullRequestReview")
    row = issue_row(info, pull_of(node, info))
    reviews.dismiss(there.tx, there.actor, repo_of(info, node), row, node.row, wanted["message"])
    return {"pullRequestReview": again(info, node)}


def _resolve(info: Info, ident: str, *, resolved: bool) -> dict[str, Any]:
    there = context(info)
    node = target(info, ident, "PullRequestReviewThread")
    reviews.resolve(there.tx, there.actor, repo_of(info, node), node.row, resolved=resolved)
    return {"thread": again(info, node)}


@mutation("resolveReviewThread")
def resolve(info: Info, wanted: Input) -> dict[str, Any]:
    """Resolve a thread."""
    return _resolve(info, wanted["threadId"], resolved=True)


@mutation("unresolveReviewThread")
def unresolve(info: Info, wanted: Input) -> dict[str, Any]:
    """Open a resolved thread again."""
    return _resolve(info, wanted["threadId"], resolved=False)
