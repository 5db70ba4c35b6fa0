"""Reviews, their threads and comments."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from droveway.localforge import nodes
from droveway.localforge.access import Actor, Refused, can, forbidden, invalid, need, not_found, unprocessable
from droveway.localforge.db import Row, Tx
from droveway.localforge.diffs import pull_files
from droveway.localforge.ops import issues as issue_ops
from droveway.localforge.ops.events import notify, record, touch
from droveway.localforge.views import pulls as shape

EVENTS: Final = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}
_HUNK: Final = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def find_review(tx: Tx, issue: Row, review_id: int) -> Row:
    """Give a review of a pull request, or refuse."""
    row = tx.one("SELECT * FROM reviews WHERE id = ? AND issue_id = ?", review_id, issue["id"])
    if row is None:
        raise not_found()
    return row


def create(
    tx: Tx,
    actor: Actor,
    repo: Row,
    issue: Row,
    *,
    event: str | None = None,
    body: str | None = None,
    commit: str | None = None,
    comments: Sequence[Mapping[str, Any]] = (),
) -> Row:
    """Write a review. ``event``: APPROVE, REQUEST_CHANGES, COMMENT; None leaves it pending. 422 on one's own."""
    need(tx, actor, repo, "read")
    if not actor.id:
        raise Refused(401, "Requires authentication")
    _check_event(actor, issue, event, body, bool(comments))
    pull = tx.get("pulls", issue["id"])
    sha = commit or pull["head_sha"]
    if tx.kernel.git(repo["id"]).resolve(sha) is None:
        raise unprocessable("Unprocessable Entity", "No commit found for the oid")
    if event is None and tx.value(
        "SELECT count(*) FROM reviews WHERE issue_id = ? AND author_id = ? AND state = 'PENDING'", issue["id"], actor.id
    ):
        raise unprocessable("Unprocessable Entity", "User can only have one pending review per pull request")
    review_id = tx.insert(
        "reviews",
        issue_id=issue["id"],
        author_id=actor.id,
        state="PENDING",
        body=body or "",
        commit_sha=sha,
        created_at=tx.now,
        updated_at=tx.now,
    )
    for each in comments:
        add_comment(tx, actor, repo, issue, tx.get("reviews", review_id), each)
    if event is not None:
        return submit(tx, actor, repo, issue, tx.get("reviews", review_id), event=event)
    return tx.get("reviews", review_id)


def _check_event(actor: Actor, issue: Row, event: str | None, body: str | None, with_comments: bool) -> None:
    if event is not None and event not in EVENTS:
        raise unprocessable(
            "Unprocessable Entity", "Variable $event of type PullRequestReviewEvent was provided invalid value"
        )
    issue_ops.check_body("PullRequestReview", body)
    if event in ("APPROVE", "REQUEST_CHANGES") and actor.id == issue["author_id"]:
        word = "approve" if event == "APPROVE" else "request changes on"
        raise unprocessable("Unprocessable Entity", f"Can not {word} your own pull request")
    if event in ("COMMENT", "REQUEST_CHANGES") and not (body or "").strip() and not with_comments:
        raise unprocessable(
            "Unprocessable Entity",
            "Body can't be blank"
            if event == "COMMENT"
            else "You need to leave a comment indicating the requested changes.",
        )


def submit(tx: Tx, actor: Actor, repo: Row, issue: Row, review: Row, *, event: str, body: str | None = None) -> Row:
    """Submit a pending review."""
    if review["author_id"] != actor.id:
        raise not_found()
    if review["state"] != "PENDING":
        raise unprocessable("Could not submit the review: it is not pending.")
    text = review["body"] if body is None else body
    has_comments = bool(tx.value("SELECT count(*) FROM review_comments WHERE review_id = ?", review["id"]))
    _check_event(actor, issue, event, text, has_comments)
    tx.update("reviews", review["id"], state=EVENTS[event], body=text, submitted_at=tx.now, updated_at=tx.now)
    tx.run("DELETE FROM review_requests WHERE issue_id = ? AND user_id = ?", issue["id"], actor.id)
    touch(tx, issue["id"])
    row = tx.get("reviews", review["id"])
    _tell(tx, repo, actor, issue, row, "submitted")
    for each in tx.all("SELECT * FROM review_comments WHERE review_id = ? ORDER BY id", row["id"]):
        _tell_comment(tx, repo, actor, issue, each, "created")
    return row


def edit(tx: Tx, actor: Actor, repo: Row, issue: Row, review: Row, body: str) -> Row:
    """Change a review's text."""
    need(tx, actor, repo, "read" if review["author_id"] == actor.id else "write")
    issue_ops.check_body("PullRequestReview", body, needed=True)
    tx.update("reviews", review["id"], body=body, updated_at=tx.now)
    row = tx.get("reviews", review["id"])
    _tell(tx, repo, actor, issue, row, "edited", lambda: {"changes": {"body": {"from": review["body"]}}})
    return row


def delete(tx: Tx, actor: Actor, review: Row) -> None:
    """Delete a pending review; a submitted one stays."""
    if review["author_id"] != actor.id:
        raise not_found()
    if review["state"] != "PENDING":
        raise unprocessable("Can not delete a non-pending pull request review")
    tx.run("DELETE FROM reviews WHERE id = ?", review["id"])
    tx.run("DELETE FROM threads WHERE id NOT IN (SELECT thread_id FROM review_comments)")


def dismiss(tx: Tx, actor: Actor, repo: Row, issue: Row, review: Row, message: str) -> Row:
    """Dismiss an approval or a request for changes."""
    need(tx, actor, repo, "write")
    if review["state"] not in ("APPROVED", "CHANGES_REQUESTED"):
        raise unprocessable(f"Can not dismiss a {review['state'].lower()} pull request review")
    if not message:
        raise unprocessable(
            "Validation Failed", {"resource": "PullRequestReview", "field": "message", "code": "missing_field"}
        )
    tx.update("reviews", review["id"], state="DISMISSED", updated_at=tx.now)
    about = {"state": review["state"].lower(), "review_id": review["id"], "dismissal_message": message}
    record(tx, issue, actor, "review_dismissed", dismissed_review=about)
    touch(tx, issue["id"])
    row = tx.get("reviews", review["id"])
    _tell(tx, repo, actor, issue, row, "dismissed")
    return row


def _tell(
    tx: Tx, repo: Row, actor: Actor, issue: Row, row: Row, action: str, more: Callable[[], dict[str, Any]] = dict
) -> None:
    def parts() -> dict[str, Any]:
        review = {**shape.review(tx, repo, issue, row), "state": row["state"].lower()}
        return {"review": review, "pull_request": shape.pull(tx, repo, tx.get("issues", issue["id"])), **more()}

    notify(tx, repo, actor, "pull_request_review", action, parts)


# --- comments and threads ---


def comment(tx: Tx, actor: Actor, repo: Row, issue: Row, values: Mapping[str, Any]) -> Row:
    """Comment on a line at once, in a review of its own; ``in_reply_to`` answers in an existing thread."""
    need(tx, actor, repo, "read")
    if not actor.id:
        raise Refused(401, "Requires authentication")
    if issue["locked"] and not can(tx, actor, repo, "write"):
        raise forbidden("Unable to create comment because issue is locked.")
    pull = tx.get("pulls", issue["id"])
    review_id = tx.insert(
        "reviews",
        issue_id=issue["id"],
        author_id=actor.id,
        state="COMMENTED",
        commit_sha=values.get("commit_id") or pull["head_sha"],
        created_at=tx.now,
        updated_at=tx.now,
        submitted_at=tx.now,
    )
    row = add_comment(tx, actor, repo, issue, tx.get("reviews", review_id), values)
    touch(tx, issue["id"])
    _tell_comment(tx, repo, actor, issue, row, "created")
    return row


def add_comment(tx: Tx, actor: Actor, repo: Row, issue: Row, review: Row, values: Mapping[str, Any]) -> Row:
    """Write one comment of a review: path with line, start_line, side, or position, or ``in_reply_to``."""
    body = values.get("body")
    issue_ops.check_body("PullRequestReviewComment", body, needed=True)
    reply_to = values.get("in_reply_to")
    if reply_to is not None:
        parent = tx.one("SELECT * FROM review_comments WHERE id = ? AND issue_id = ?", reply_to, issue["id"])
        if parent is None:
            raise not_found()
        thread_id, root = parent["thread_id"], parent["in_reply_to_id"] or parent["id"]
    else:
        thread_id, root = _new_thread(tx, repo, issue, review, values), None
    comment_id = tx.insert(
        "review_comments",
        issue_id=issue["id"],
        thread_id=thread_id,
        review_id=review["id"],
        in_reply_to_id=root,
        author_id=actor.id,
        body=body,
        commit_sha=review["commit_sha"],
        created_at=tx.now,
        updated_at=tx.now,
    )
    return tx.get("review_comments", comment_id)


def _new_thread(tx: Tx, repo: Row, issue: Row, review: Row, values: Mapping[str, Any]) -> int:
    path, kind = values.get("path"), values.get("subject_type") or "line"
    if not isinstance(path, str):
        raise invalid("PullRequestReviewComment", "path", "missing_field")
    changed = {each.path: each for each in pull_files(tx, repo, tx.get("pulls", issue["id"]))}
    file = changed.get(path)
    if file is None:
        raise invalid("PullRequestReviewComment", "path", "invalid", f"{path} is not part of the pull request")
    side = values.get("side") or "RIGHT"
    line, start = values.get("line"), values.get("start_line")
    shown = list(hunk_lines(file.patch or ""))
    hunk = ""
    if kind == "line":
        if line is None and values.get("position") is not None:
            position = values["position"]
            if not 0 < position < len(shown) + 1:
                raise invalid("PullRequestReviewComment", "position", "invalid", "position is invalid")
            old, new, _ = shown[position - 1]
            side, line = ("RIGHT", new) if new is not None else ("LEFT", old)
        column = 1 if side == "RIGHT" else 0
        if not isinstance(line, int):
            raise invalid("PullRequestReviewComment", "line", "missing_field")
        for each in (line, start):
            if each is not None and each not in {entry[column] for entry in shown}:
                raise invalid("PullRequestReviewComment", "line", "invalid", "line must be part of the diff")
        if start is not None and start >= line:
            raise invalid("PullRequestReviewComment", "start_line", "invalid", "start_line must precede the end line.")
        hunk = hunk_to(file.patch or "", line, column)
    return tx.insert(
        "threads",
        issue_id=issue["id"],
        path=path,
        subject_type=kind,
        line=line,
        start_line=start,
        original_line=line,
        original_start_line=start,
        side=side,
        start_side=values.get("start_side") or (side if start is not None else None),
        original_sha=review["commit_sha"],
        diff_hunk=hunk,
    )


def hunk_lines(patch: str) -> Sequence[tuple[int | None, int | None, str]]:
    """Give a patch's positions: (old line, new line, text); a hunk's head, but the first, takes one too."""
    found: list[tuple[int | None, int | None, str]] = []
    old = new = 0
    for text in patch.split("\n"):
        match = _HUNK.match(text)
        if match:
            if found:
                found.append((None, None, text))
            old, new = int(match.group(1)), int(match.group(3))
        elif text.startswith("+"):
            found.append((None, new, text))
            new += 1
        elif text.startswith("-"):
            found.append((old, None, text))
            old += 1
        elif text.startswith(" ") or not text:
            found.append((old, new, text))
            old, new = old + 1, new + 1
    return found


def hunk_to(patch: str, line: int, column: int) -> str:
    """Give the hunk that holds the line, from its head to that line."""
    kept: list[str] = []
    numbers = [0, 0]
    for text in patch.split("\n"):
        match = _HUNK.match(text)
        if match:
            kept, numbers = [text], [int(match.group(1)), int(match.group(3))]
            continue
        kept.append(text)
        sides = {"+": (1,), "-": (0,), "\\": ()}.get(text[:1], (0, 1))
        if column in sides and numbers[column] == line:
            break
        for each in sides:
            numbers[each] += 1
    return "\n".join(kept)


def find_comment(tx: Tx, repo: Row, comment_id: int) -> tuple[Row, Row]:
    """Give (comment, its pull request's issue row), or refuse."""
    row = tx.one("SELECT * FROM review_comments WHERE id = ?", comment_id)
    if row is not None:
        issue = tx.get("issues", row["issue_id"])
        if issue["repo_id"] == repo["id"]:
            return row, issue
    raise not_found()


def edit_comment(tx: Tx, actor: Actor, repo: Row, row: Row, body: str) -> Row:
    """Change a review comment."""
    need(tx, actor, repo, "read" if actor.id == row["author_id"] else "write")
    issue_ops.check_body("PullRequestReviewComment", body, needed=True)
    tx.update("review_comments", row["id"], body=body, updated_at=tx.now, edited_at=tx.now)
    touch(tx, row["issue_id"])
    fresh = tx.get("review_comments", row["id"])
    _tell_comment(tx, repo, actor, tx.get("issues", row["issue_id"]), fresh, "edited", {"body": {"from": row["body"]}})
    return fresh


def delete_comment(tx: Tx, actor: Actor, repo: Row, row: Row) -> None:
    """Delete a review comment; a thread without comments goes too."""
    need(tx, actor, repo, "read" if actor.id == row["author_id"] else "write")
    _tell_comment(tx, repo, actor, tx.get("issues", row["issue_id"]), row, "deleted")
    tx.run("DELETE FROM reactions WHERE subject_kind = 'review_comment' AND subject_id = ?", row["id"])
    tx.run("DELETE FROM review_comments WHERE id = ?", row["id"])
    tx.run("DELETE FROM threads WHERE id = ? AND id NOT IN (SELECT thread_id FROM review_comments)", row["thread_id"])
    touch(tx, row["issue_id"])


def resolve(tx: Tx, actor: Actor, repo: Row, thread: Row, *, resolved: bool = True) -> Row:
    """Resolve or reopen a thread; who may write and the pull request's author may."""
    issue = tx.get("issues", thread["issue_id"])
    need(tx, actor, repo, "read" if actor.id == issue["author_id"] else "write")
    if bool(thread["resolved"]) is not resolved:
        tx.update("threads", thread["id"], resolved=int(resolved), resolved_by_id=actor.id if resolved else None)
        touch(tx, issue["id"])
        action = "resolved" if resolved else "unresolved"
        notify(
            tx, repo, actor, "pull_request_review_thread", action, lambda: _thread_parts(tx, repo, issue, thread["id"])
        )
    return tx.get("threads", thread["id"])


def _thread_parts(tx: Tx, repo: Row, issue: Row, thread_id: int) -> dict[str, Any]:

    rows = tx.all("SELECT * FROM review_comments WHERE thread_id = ? ORDER BY id", thread_id)
    thread = {
        "node_id": nodes.encode("PullRequestReviewThread", thread_id),
        "comments": [shape.review_comment(tx, repo, issue, row) for row in rows],
    }
    return {"pull_request": shape.pull(tx, repo, issue), "thread": thread}


def _tell_comment(
    tx: Tx, repo: Row, actor: Actor, issue: Row, row: Row, action: str, changes: dict[str, Any] | None = None
) -> None:
    def parts() -> dict[str, Any]:
        found = {"comment": shape.review_comment(tx, repo, issue, row), "pull_request": shape.pull(tx, repo, issue)}
        return {**found, **({"changes": changes} if changes else {})}

    notify(tx, repo, actor, "pull_request_review_comment", action, parts)
