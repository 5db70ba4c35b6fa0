"""Comments on issues and pull requests, and reactions."""

from __future__ import annotations

from droveway.localforge.db import Row, Tx
from droveway.localforge.ops import issues as ops
from droveway.localforge.ops import reactions
from droveway.localforge.ops.reviews import find_comment as find_review_comment
from droveway.localforge.routing import Answer, Call, created, empty, limit_of, paged, route
from droveway.localforge.views import issues as shape


@route("GET", "/repos/{owner}/{repo}/issues/{number:int}/comments", "List an issue's comments")
def index(tx: Tx, call: Call) -> Answer:
    """Give the comments oldest first; ``since`` keeps those updated later."""
    repo = call.repo(tx)
    issue = ops.find(tx, repo, call.number())
    page, per_page, limit, offset = limit_of(call)
    since = call.query.get("since", "")
    where = "issue_id = ? AND updated_at >= ?"
    total = tx.value(f"SELECT count(*) FROM comments WHERE {where}", issue["id"], since)  # noqa: S608
    sql = f"SELECT * FROM comments WHERE {where} ORDER BY id LIMIT ? OFFSET ?"  # noqa: S608
    rows = tx.all(sql, issue["id"], since, limit, offset)
    return Answer([shape.comment(tx, repo, row) for row in rows], page=(page, per_page, total))


@route("POST", "/repos/{owner}/{repo}/issues/{number:int}/comments", "Create a comment")
def create(tx: Tx, call: Call) -> Answer:
    """Comment."""
    repo = call.repo(tx)
    issue = ops.find(tx, repo, call.number())
    row = ops.comment(tx, call.actor, repo, issue, call.text("body", resource="IssueComment"))
    shaped = shape.comment(tx, repo, row)
    return created(shaped, shaped["url"])


@route("GET", "/repos/{owner}/{repo}/issues/comments", "List a repository's comments")
def everywhere(tx: Tx, call: Call) -> Answer:
    """Give the comments of all issues; sort by created or updated, ``since`` keeps those updated later."""
    repo = call.repo(tx)
    page, per_page, limit, offset = limit_of(call)
    since = call.query.get("since", "")
    sort = "updated_at" if call.query.get("sort") == "updated" else "id"
    way = "DESC" if call.query.get("direction") == "desc" else "ASC"
    where = "repo_id = ? AND updated_at >= ?"
    total = tx.value(f"SELECT count(*) FROM comments WHERE {where}", repo["id"], since)  # noqa: S608
    sql = f"SELECT * FROM comments WHERE {where} ORDER BY {sort} {way}, id {way} LIMIT ? OFFSET ?"  # noqa: S608
    rows = tx.all(sql, repo["id"], since, limit, offset)
    return Answer([shape.comment(tx, repo, row) for row in rows], page=(page, per_page, total))


@route("GET", "/repos/{owner}/{repo}/issues/comments/{comment:int}", "Get a comment")
def get(tx: Tx, call: Call) -> Answer:
    """Give one comment."""
    repo = call.repo(tx)
    return Answer(shape.comment(tx, repo, ops.find_comment(tx, repo, call.number("comment"))))


@route("PATCH", "/repos/{owner}/{repo}/issues/comments/{comment:int}", "Update a comment")
def edit(tx: Tx, call: Call) -> Answer:
    """Change a comment."""
    repo = call.repo(tx)
    row = ops.find_comment(tx, repo, call.number("comment"))
    body = call.text("body", resource="IssueComment")
    return Answer(shape.comment(tx, repo, ops.edit_comment(tx, call.actor, repo, row, body)))


@route("DELETE", "/repos/{owner}/{repo}/issues/comments/{comment:int}", "Delete a comment")
def delete(tx: Tx, call: Call) -> Answer:
    """Delete a comment."""
    repo = call.repo(tx)
    ops.delete_comment(tx, call.actor, repo, ops.find_comment(tx, repo, call.number("comment")))
    return empty()


# --- reactions: the same three operations on three kinds of subjects ---


def _subject(tx: Tx, call: Call, repo: Row) -> tuple[str, int]:
    if "number" in call.params:
        return "issue", ops.find(tx, repo, call.number())["id"]
    if "comment" in call.params:
        return "comment", ops.find_comment(tx, repo, call.number("comment"))["id"]
    return "review_comment", find_review_comment(tx, repo, call.number("line_comment"))[0]["id"]


def _list(tx: Tx, call: Call) -> Answer:
    repo = call.repo(tx)
    kind, subject_id = _subject(tx, call, repo)
    content = call.query.get("content")
    rows = tx.all(
        "SELECT * FROM reactions WHERE subject_kind = ? AND subject_id = ? AND (? IS NULL OR content = ?) ORDER BY id",
        kind,
        subject_id,
        content,
        content,
    )
    return paged(call, rows, lambda row: shape.reaction(tx, row))


def _add(tx: Tx, call: Call) -> Answer:
    repo = call.repo(tx)
    content = call.text("content", resource="Reaction")
    row, fresh = reactions.react(tx, call.actor, repo, *_subject(tx, call, repo), content)
    return Answer(shape.reaction(tx, row), 201 if fresh else 200)


def _remove(tx: Tx, call: Call) -> Answer:
    repo = call.repo(tx)
    reactions.unreact(tx, call.actor, repo, *_subject(tx, call, repo), call.number("reaction"))
    return empty()


for _path, _word in (
    ("issues/{number:int}", "an issue"),
    ("issues/comments/{comment:int}", "a comment"),
    ("pulls/comments/{line_comment:int}", "a review comment"),
):
    _base = f"/repos/{{owner}}/{{repo}}/{_path}/reactions"
    route("GET", _base, f"List the reactions to {_word}")(_list)
    route("POST", _base, f"React to {_word}")(_add)
    route("DELETE", _base + "/{reaction:int}", f"Delete a reaction to {_word}")(_remove)
