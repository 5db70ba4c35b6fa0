"""Reviews of pull requests, their threads and comments."""

# ruff: noqa: S608 (fragments of this module alone are put together; values are parameters)
from __future__ import annotations

from typing import Any, Final

from droveway.localforge.graphql import source
from droveway.localforge.graphql.commits import commit_of
from droveway.localforge.graphql.context import children, context, node_id, user
from droveway.localforge.graphql.issues import load, path
from droveway.localforge.graphql.pages import Connection, Node, Page, listed
from droveway.localforge.graphql.registry import Info, attribute, field

_IN: Final = "IN (SELECT value FROM json_each(?))"


def reviews_of(node: Node, info: Info) -> list[Node]:
    """Give the reviews that who asks may see: a pending one is its author's alone."""
    sql = f"SELECT * FROM reviews WHERE issue_id {_IN} ORDER BY id"
    found = children(node, info, "reviews", "PullRequestReview", sql)
    viewer = source.viewer_id(context(info))
    for each in found:
        each.extra = node
    return [each for each in found if each.row["state"] != "PENDING" or each.row["author_id"] == viewer]


@field("PullRequest.reviews")
def reviews(
    node: Node, info: Info, states: list[str] | None = None, author: str | None = None, **arguments: Any
) -> Connection:
    """Give the reviews, oldest first."""
    found = reviews_of(node, info)
    if states is not None:
        found = [each for each in found if each.row["state"] in states]
    if author is not None:
        context(info).users(each.row["author_id"] for each in found)
        found = [each for each in found if _login(each, info) == author.lower()]
    return listed(info, arguments, found)


def _login(node: Node, info: Info) -> str:
    who = user(node, info, "author_id")
    return who.row["login"].lower() if who else ""


def latest(node: Node, info: Info, *, opinions: bool) -> list[Node]:
    """Give each reviewer's newest review, in order of their coming; with ``opinions`` a comment replaces none."""
    newest: dict[int, Node] = {}
    for each in reviews_of(node, info):
        if each.row["state"] == "PENDING" or (opinions and each.row["state"] == "COMMENTED"):
            continue
        newest.pop(each.row["author_id"], None)
        newest[each.row["author_id"]] = each
    return list(newest.values())


@field("PullRequest.latestReviews")
def latest_reviews(node: Node, info: Info, **arguments: Any) -> Connection:
    """Give each reviewer's newest review; who was asked again is left out."""
    sql = f"SELECT r.*, r.user_id AS id FROM review_requests r WHERE r.issue_id {_IN} ORDER BY r.issue_id, r.user_id"
    asked = {each.row["user_id"] for each in children(node, info, "requests", "ReviewRequest", sql)}
    found = [each for each in latest(node, info, opinions=False) if each.row["author_id"] not in asked]
    return listed(info, arguments, found)


@field("PullRequest.latestOpinionatedReviews")
def latest_opinions(node: Node, info: Info, writersOnly: bool = False, **arguments: Any) -> Connection:  # noqa: N803
    """Give each reviewer's newest review that is no mere comment."""
    found = latest(node, info, opinions=True)
    if writersOnly:
        found = [each for each in found if source.may_write(context(info), node.row["repo_id"], each.row["author_id"])]
    return listed(info, arguments, found)


@field("PullRequest.reviewDecision")
def decision(node: Node, info: Info) -> str | None:
    """Give the reviews' verdict, None where none is required and none was given."""
    there = context(info)
    repo_id = node.row["repo_id"]
    words = [
        each.row["state"]
        for each in latest(node, info, opinions=True)
        if each.row["author_id"] != node.row["author_id"] and source.may_write(there, repo_id, each.row["author_id"])
    ]
    if "CHANGES_REQUESTED" in words:
        return "CHANGES_REQUESTED"
    rule = source.protection(there, repo_id, node.row["base_ref"])
    needed = rule["reviews"] if rule else None
    approvals = words.count("APPROVED")
    if needed and approvals < needed:
        return "REVIEW_REQUIRED"
    return "APPROVED" if approvals else None


@field("PullRequest.totalCommentsCount")
def all_comments(node: Node, info: Info) -> int:
    """Count comments, reviews with a text, and review comments."""
    sql = """SELECT (SELECT count(*) FROM comments WHERE issue_id = ?1)
             + (SELECT count(*) FROM reviews WHERE issue_id = ?1 AND body <> '' AND state <> 'PENDING')
             + (SELECT count(*) FROM review_comments WHERE issue_id = ?1)"""
    return int(context(info).tx.value(sql, node.row["id"]))


attribute("PullRequestReview.state", of="state")
attribute("PullRequestReview.submittedAt", of="submitted_at")
for _kind in ("PullRequestReview", "PullRequestReviewThread", "PullRequestReviewComment"):
    field(f"{_kind}.id")(node_id(_kind))


def pull_of(node: Node, info: Info) -> Node:
    """Give the PR of a review, a thread or a review comment."""
    if node.extra is None:
        node.extra = load(info, "PullRequest", [node.row["issue_id"]])[0]
    found: Node = node.extra
    return found


field(
    *(f"{_kind}.pullRequest" for _kind in ("PullRequestReview", "PullRequestReviewThread", "PullRequestReviewComment"))
)(pull_of)


@field("PullRequestReview.repository", "PullRequestReviewThread.repository", "PullRequestReviewComment.repository")
def review_repository(node: Node, info: Info) -> Node:
    """Give the repository."""
    return source.repository(context(info), source.repo_id(node, info))


@field("PullRequestReview.commit", "PullRequestReviewComment.commit")
def review_commit(node: Node, info: Info) -> Node | None:
    """Give the commit that was looked at."""
    return commit_of(node, node.row["commit_sha"], source.repo_id(node, info), "commits", "commit_sha")


@field("PullRequestReview.resourcePath")
def review_path(node: Node, info: Info) -> str:
    """Give the path of the review on the PR's page."""
    return f"{path(pull_of(node, info), info)}#pullrequestreview-{node.row['id']}"


@field("PullRequestReview.url")
def review_url(node: Node, info: Info) -> str:
    """Give the address of the review."""
    return source.html(context(info)) + review_path(node, info)


_COMMENTS: Final = """SELECT c.*, t.path, t.line, t.start_line, t.original_line, t.original_sha, t.diff_hunk,
                      t.outdated, r.state AS review_state FROM review_comments c JOIN threads t ON t.id = c.thread_id
                      JOIN reviews r ON r.id = c.review_id"""


def review_comments(info: Info, where: str, *values: Any) -> list[Node]:
    """Read review comments with what their threads know."""
    page = Page()
    rows = context(info).tx.all(f"{_COMMENTS} WHERE {where} ORDER BY c.id", *values)
    return [Node("PullRequestReviewComment", row, page) for row in rows]


@field("PullRequestReview.comments")
def comments_of_review(node: Node, info: Info, **arguments: Any) -> Connection:
    """Give the review's comments."""
    sql = f"{_COMMENTS} WHERE c.review_id {_IN} ORDER BY c.id"
    found = children(node, info, "comments", "PullRequestReviewComment", sql, parent="review_id")
    return listed(info, arguments, _of(found, node.extra))


def _of(found: list[Node], pull: Node | None) -> list[Node]:
    for each in found:
        each.extra = pull
    return found


# --- threads ---
@field("PullRequest.reviewThreads")
def threads(node: Node, info: Info, **arguments: Any) -> Connection:
    """Give the review threads, oldest first."""
    sql = f"SELECT * FROM threads WHERE issue_id {_IN} ORDER BY id"
    return listed(info, arguments, _of(children(node, info, "threads", "PullRequestReviewThread", sql), node))


@field("PullRequestReviewThread.comments")
def comments_of_thread(node: Node, info: Info, **arguments: Any) -> Connection:
    """Give the thread's comments."""
    sql = f"{_COMMENTS} WHERE c.thread_id {_IN} ORDER BY c.id"
    found = children(node, info, "comments", "PullRequestReviewComment", sql, parent="thread_id")
    return listed(info, arguments, _of(found, node.extra))


for _name, _column in {
    "path": "path", "line": "line", "startLine": "start_line", "originalLine": "original_line",
    "originalStartLine": "original_start_line", "diffSide": "side", "startDiffSide": "start_side",
}.items():  # fmt: skip
    attribute(f"PullRequestReviewThread.{_name}", of=_column)


@field("PullRequestReviewThread.isResolved", "PullRequestReviewThread.viewerCanUnresolve")
def resolved(node: Node, _info: Info) -> bool:
    """Whether it is resolved."""
    return bool(node.row["resolved"])


@field("PullRequestReviewThread.viewerCanResolve")
def resolvable(node: Node, _info: Info) -> bool:
    """Whether there is something to resolve."""
    return not node.row["resolved"]


@field("PullRequestReviewThread.isCollapsed")
def collapsed(node: Node, _info: Info) -> bool:
    """Whether a page would fold it."""
    return bool(node.row["resolved"] or node.row["outdated"])


@field("PullRequestReviewThread.isOutdated", "PullRequestReviewComment.outdated")
def outdated(node: Node, _info: Info) -> bool:
    """Whether its line is gone from the diff."""
    return bool(node.row["outdated"])


@field("PullRequestReviewThread.viewerCanReply")
def may_reply(node: Node, info: Info) -> bool:
    """Whether who asks may answer: whoever may read may."""
    return not pull_of(node, info).row["locked"]


@field("PullRequestReviewThread.resolvedBy")
def resolved_by(node: Node, info: Info) -> Node | None:
    """Give who resolved it; the type holds users alone."""
    who = user(node, info, "resolved_by_id")
    return who if who and who.type == "User" else None


@field("PullRequestReviewThread.subjectType")
def subject_type(node: Node, _info: Info) -> str:
    """Give LINE or FILE."""
    return str(node.row["subject_type"]).upper()


for _name, _column in {
    "path": "path", "line": "line", "startLine": "start_line", "originalLine": "original_line", "diffHunk": "diff_hunk",
}.items():  # fmt: skip
    attribute(f"PullRequestReviewComment.{_name}", of=_column)


@field("PullRequestReviewComment.state")
def comment_state(node: Node, _info: Info) -> str:
    """Give PENDING or SUBMITTED."""
    return "PENDING" if node.row["review_state"] == "PENDING" else "SUBMITTED"


@field("PullRequestReviewComment.originalCommit")
def original_commit(node: Node, info: Info) -> Node | None:
    """Give the commit on which the thread began."""
    return commit_of(node, node.row["original_sha"], source.repo_id(node, info), "originals", "original_sha")


@field("PullRequestReviewComment.pullRequestReview")
def comment_review(node: Node, info: Info) -> Node:
    """Give the review that the comment came with."""
    return Node("PullRequestReview", context(info).tx.get("reviews", node.row["review_id"]), Page(), node.extra)


@field("PullRequestReviewComment.replyTo")
def reply_to(node: Node, info: Info) -> Node | None:
    """Give the comment that it answers."""
    first = node.row["in_reply_to_id"]
    found = review_comments(info, "c.id = ?", first) if first else []
    return found[0] if found else None


@field("PullRequestReviewComment.resourcePath")
def review_comment_path(node: Node, info: Info) -> str:
    """Give the path of the comment on the PR's page."""
    return f"{path(pull_of(node, info), info)}#discussion_r{node.row['id']}"


@field("PullRequestReviewComment.url")
def review_comment_url(node: Node, info: Info) -> str:
    """Give the address of the comment."""
    return source.html(context(info)) + review_comment_path(node, info)
