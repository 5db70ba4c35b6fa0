"""Reviews and review comments."""

from __future__ import annotations

from droveway.localforge.access import Refused, not_found
from droveway.localforge.db import Row, Tx
from droveway.localforge.ops import issues as issue_ops
from droveway.localforge.ops import reviews as ops
from droveway.localforge.routing import Answer, Call, created, empty, paged, route
from droveway.localforge.views import pulls as shape


def _pull(tx: Tx, call: Call, repo: Row) -> Row:
    return issue_ops.find(tx, repo, call.number(), pull=True)


def _visible(call: Call, row: Row) -> bool:
    """Whether the actor may see it: a pending review is its author's alone."""
    return bool(row["state"] != "PENDING" or row["author_id"] == call.actor.id)


def _review(tx: Tx, call: Call, issue: Row) -> Row:
    row = ops.find_review(tx, issue, call.number("review"))
    if not _visible(call, row):
        raise not_found()
    return row


@route("GET", "/repos/{owner}/{repo}/pulls/{number:int}/reviews", "List reviews")
def index(tx: Tx, call: Call) -> Answer:
    """Give the reviews, oldest first."""
    repo = call.repo(tx)
    issue = _pull(tx, call, repo)
    rows = tx.all("SELECT * FROM reviews WHERE issue_id = ? ORDER BY id", issue["id"])
    return paged(call, [row for row in rows if _visible(call, row)], lambda row: shape.review(tx, repo, issue, row))


@route("POST", "/repos/{owner}/{repo}/pulls/{number:int}/reviews", "Create a review")
def create(tx: Tx, call: Call) -> Answer:
    """Review; without an ``event`` it stays pending."""
    repo, body = call.repo(tx), call.object()
    issue = _pull(tx, call, repo)
    row = ops.create(
        tx,
        call.actor,
        repo,
        issue,
        event=body.get("event") or None,
        body=body.get("body"),
        commit=body.get("commit_id"),
        comments=body.get("comments") or (),
    )
    return Answer(shape.review(tx, repo, issue, row))


@route("GET", "/repos/{owner}/{repo}/pulls/{number:int}/reviews/{review:int}", "Get a review")
def get(tx: Tx, call: Call) -> Answer:
    """Give one review."""
    repo = call.repo(tx)
    issue = _pull(tx, call, repo)
    return Answer(shape.review(tx, repo, issue, _review(tx, call, issue)))


@route("PUT", "/repos/{owner}/{repo}/pulls/{number:int}/reviews/{review:int}", "Update a review")
def edit(tx: Tx, call: Call) -> Answer:
    """Change the text."""
    repo = call.repo(tx)
    issue = _pull(tx, call, repo)
    body = call.text("body", resource="PullRequestReview")
    row = ops.edit(tx, call.actor, repo, issue, _review(tx, call, issue), body)
    return Answer(shape.review(tx, repo, issue, row))


@route("DELETE", "/repos/{owner}/{repo}/pulls/{number:int}/reviews/{review:int}", "Delete a pending review")
def delete(tx: Tx, call: Call) -> Answer:
    """Delete a pending review."""
    repo = call.repo(tx)
    issue = _pull(tx, call, repo)
    row = _review(tx, call, issue)
    shaped = shape.review(tx, repo, issue, row)
    ops.delete(tx, call.actor, row)
    return Answer(shaped)


@route("POST", "/repos/{owner}/{repo}/pulls/{number:int}/reviews/{review:int}/events", "Submit a review")
def submit(tx: Tx, call: Call) -> Answer:
    """Submit a pending review."""
    repo = call.repo(tx)
    issue = _pull(tx, call, repo)
    event = call.text("event", resource="PullRequestReview")
    row = ops.submit(tx, call.actor, repo, issue, _review(tx, call, issue), event=event, body=call.object().get("body"))
    return Answer(shape.review(tx, repo, issue, row))


@route("PUT", "/repos/{owner}/{repo}/pulls/{number:int}/reviews/{review:int}/dismissals", "Dismiss a review")
def dismiss(tx: Tx, call: Call) -> Answer:
    """Dismiss an approval or a request for changes."""
    repo = call.repo(tx)
    issue = _pull(tx, call, repo)
    message = call.text("message", resource="PullRequestReview")
    row = ops.dismiss(tx, call.actor, repo, issue, _review(tx, call, issue), message)
    return Answer(shape.review(tx, repo, issue, row))


@route("GET", "/repos/{owner}/{repo}/pulls/{number:int}/reviews/{review:int}/comments", "List a review's comments")
def of_review(tx: Tx, call: Call) -> Answer:
    """Give the comments of one review."""
    repo = call.repo(tx)
    issue = _pull(tx, call, repo)
    rows = tx.all("SELECT * FROM review_comments WHERE review_id = ? ORDER BY id", _review(tx, call, issue)["id"])
    return paged(call, rows, lambda row: shape.review_comment(tx, repo, issue, row))


# --- review comments ---

_SEEN = (
    "SELECT review_comments.* FROM review_comments JOIN reviews ON reviews.id = review_id"
    " WHERE (reviews.state <> 'PENDING' OR reviews.author_id = ?)"
)


@route("GET", "/repos/{owner}/{repo}/pulls/{number:int}/comments", "List a pull request's review comments")
def comments(tx: Tx, call: Call) -> Answer:
    """Give the comments on lines."""
    repo = call.repo(tx)
    issue = _pull(tx, call, repo)
    since = call.query.get("since", "")
    sql = f"{_SEEN} AND review_comments.issue_id = ? AND review_comments.updated_at >= ? ORDER BY review_comments.id"
    rows = tx.all(sql, call.actor.id, issue["id"], since)
    if call.query.get("direction") == "desc":
        rows.reverse()
    return paged(call, rows, lambda row: shape.review_comment(tx, repo, issue, row))


@route("GET", "/repos/{owner}/{repo}/pulls/comments", "List a repository's review comments")
def all_comments(tx: Tx, call: Call) -> Answer:
    """Give the comments on lines of all pull requests."""
    repo = call.repo(tx)
    sql = (
        f"{_SEEN} AND review_comments.issue_id IN (SELECT id FROM issues WHERE repo_id = ?)"  # noqa: S608 - a constant
        " AND review_comments.updated_at >= ? ORDER BY review_comments.id"
    )
    rows = tx.all(sql, call.actor.id, repo["id"], call.query.get("since", ""))
    return paged(call, rows, lambda row: shape.review_comment(tx, repo, tx.get("issues", row["issue_id"]), row))


@route("POST", "/repos/{owner}/{repo}/pulls/{number:int}/comments", "Create a review comment")
def create_comment(tx: Tx, call: Call) -> Answer:
    """Comment on a line, or answer with ``in_reply_to``."""
    repo, body = call.repo(tx), call.object()
    issue = _pull(tx, call, repo)
    if body.get("in_reply_to") is None and not body.get("commit_id"):
        raise Refused(422, 'Invalid request.\n\n"commit_id" wasn\'t supplied.')
    row = ops.comment(tx, call.actor, repo, issue, body)
    shaped = shape.review_comment(tx, repo, issue, row)
    return created(shaped, shaped["url"])


@route("POST", "/repos/{owner}/{repo}/pulls/{number:int}/comments/{comment:int}/replies", "Reply to a review comment")
def reply(tx: Tx, call: Call) -> Answer:
    """Answer in a thread."""
    repo = call.repo(tx)
    issue = _pull(tx, call, repo)
    values = {"body": call.object().get("body"), "in_reply_to": call.number("comment")}
    shaped = shape.review_comment(tx, repo, issue, ops.comment(tx, call.actor, repo, issue, values))
    return created(shaped, shaped["url"])


@route("GET", "/repos/{owner}/{repo}/pulls/comments/{comment:int}", "Get a review comment")
def get_comment(tx: Tx, call: Call) -> Answer:
    """Give one comment."""
    repo = call.repo(tx)
    row, issue = ops.find_comment(tx, repo, call.number("comment"))
    return Answer(shape.review_comment(tx, repo, issue, row))


@route("PATCH", "/repos/{owner}/{repo}/pulls/comments/{comment:int}", "Update a review comment")
def edit_comment(tx: Tx, call: Call) -> Answer:
    """Change the text."""
    repo = call.repo(tx)
    row, issue = ops.find_comment(tx, repo, call.number("comment"))
    body = call.text("body", resource="PullRequestReviewComment")
    return Answer(shape.review_comment(tx, repo, issue, ops.edit_comment(tx, call.actor, repo, row, body)))


@route("DELETE", "/repos/{owner}/{repo}/pulls/comments/{comment:int}", "Delete a review comment")
def delete_comment(tx: Tx, call: Call) -> Answer:
    """Delete a comment."""
    repo = call.repo(tx)
    ops.delete_comment(tx, call.actor, repo, ops.find_comment(tx, repo, call.number("comment"))[0])
    return empty()
