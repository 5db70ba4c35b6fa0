"""Issues and what pull requests share with them: text, state, labels, assignees, milestone, comments, reactions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from droveway.localforge.access import Actor, Refused, can, forbidden, invalid, need, not_found, role_of
from droveway.localforge.db import Row, Tx
from droveway.localforge.ops.events import notify, record, touch
from droveway.localforge.ops.labels import UNSET, ensure_labels
from droveway.localforge.views import issues as shape
from droveway.localforge.views import pulls as pull_shape
from droveway.localforge.views.accounts import account

MAX_BODY = 65_536  # characters
MAX_TITLE = 256


def find(tx: Tx, repo: Row, number: int, *, pull: bool | None = None) -> Row:
    """Give an issue (or pull request) by its number, or refuse. ``pull``: only this kind."""
    row = tx.one("SELECT * FROM issues WHERE repo_id = ? AND number = ?", repo["id"], number)
    if row is None or (pull is not None and bool(row["is_pull"]) is not pull):
        raise not_found()
    return row


def check_text(resource: str, title: Any, body: Any) -> None:
    """Refuse a title that is none, and text that is too long."""
    if not isinstance(title, str) or not title.strip():
        raise invalid(resource, "title", "missing_field")
    if len(title) > MAX_TITLE:
        raise invalid(resource, "title", "invalid", f"title is too long (maximum is {MAX_TITLE} characters)")
    check_body(resource, body)


def check_body(resource: str, body: Any, *, needed: bool = False) -> None:
    """Refuse a body that is no text or too long."""
    if needed and (not isinstance(body, str) or not body.strip()):
        raise invalid(resource, "body", "missing_field", "Body can't be blank")
    if body is not None and not isinstance(body, str):
        raise invalid(resource, "body", "invalid")
    if body and len(body) > MAX_BODY:
        raise invalid(resource, "body", "unprocessable", f"body is too long (maximum is {MAX_BODY} characters)")


def tell(
    tx: Tx, repo: Row, actor: Actor, issue_id: int, action: str, more: Callable[[], dict[str, Any]] = dict
) -> None:
    """Queue the webhook ``issues`` or ``pull_request``, whichever the row is."""
    row = tx.get("issues", issue_id)
    if row["is_pull"]:
        pull = lambda: {"number": row["number"], "pull_request": pull_shape.pull(tx, repo, row, full=True), **more()}  # noqa: E731
        notify(tx, repo, actor, "pull_request", action, pull)
    else:
        notify(tx, repo, actor, "issues", action, lambda: {"issue": shape.issue(tx, repo, row), **more()})


def next_number(tx: Tx, repo: Row) -> int:
    """Take the repository's next number."""
    number: int = tx.value(
        "UPDATE repos SET next_issue = next_issue + 1 WHERE id = ? RETURNING next_issue - 1", repo["id"]
    )
    return number


def user_ids(tx: Tx, repo: Row, logins: Sequence[str], *, field: str, resource: str = "Issue") -> list[int]:
    """Give the accounts of these logins; each must have a role on the repository."""
    found = []
    for login in logins:
        user_id = tx.value("SELECT id FROM users WHERE login = ?", str(login).removeprefix("@"))
        if user_id is None or role_of(tx, user_id, repo) is None:
            raise invalid(resource, field, "invalid", value=login)
        found.append(user_id)
    return list(dict.fromkeys(found))


def create(
    tx: Tx,
    actor: Actor,
    repo: Row,
    title: str,
    body: str | None = None,
    *,
    labels: Sequence[str] = (),
    milestone: int | None = None,
    assignees: Sequence[str] = (),
) -> Row:
    """Open an issue. Labels, milestone (a number) and assignees by those who may not set them are dropped."""
    need(tx, actor, repo, "read")
    if not actor.id:
        raise Refused(401, "Requires authentication")
    check_text("Issue", title, body)
    issue_id = tx.insert(
        "issues",
        repo_id=repo["id"],
        number=next_number(tx, repo),
        title=title,
        body=body,
        author_id=actor.id,
        created_at=tx.now,
        updated_at=tx.now,
    )
    tell(tx, repo, actor, issue_id, "opened")
    decorate(tx, actor, repo, issue_id, labels=labels, milestone=milestone, assignees=assignees)
    return tx.get("issues", issue_id)


def decorate(
    tx: Tx,
    actor: Actor,
    repo: Row,
    issue_id: int,
    *,
    labels: Sequence[str],
    milestone: int | None,
    assignees: Sequence[str],
) -> None:
    """Set what a new issue or pull request came with, where the actor may."""
    if not can(tx, actor, repo, "triage"):
        return
    if labels:
        set_labels(tx, actor, repo, tx.get("issues", issue_id), labels)
    if milestone is not None:
        set_milestone(tx, actor, repo, tx.get("issues", issue_id), milestone)
    if assignees:
        set_assignees(tx, actor, repo, tx.get("issues", issue_id), user_ids(tx, repo, assignees, field="assignees"))


def edit(
    tx: Tx,
    actor: Actor,
    repo: Row,
    issue: Row,
    *,
    title: str = UNSET,
    body: str | None = UNSET,
    state: str = UNSET,
    state_reason: str | None = None,
    labels: Sequence[str] = UNSET,
    milestone: int | None = UNSET,
    assignees: Sequence[str] = UNSET,
) -> Row:
    """Change an issue or that side of a pull request, all in one; ``labels`` and ``assignees`` replace the lists."""
    own = actor.id == issue["author_id"]
    need(tx, actor, repo, "read" if own else "triage")
    if title is not UNSET or body is not UNSET:
        edit_text(tx, actor, repo, issue, title, body)
    triage = can(tx, actor, repo, "triage")
    if labels is not UNSET and triage:
        set_labels(tx, actor, repo, issue, labels)
    if milestone is not UNSET and triage:
        set_milestone(tx, actor, repo, issue, milestone)
    if assignees is not UNSET and triage:
        set_assignees(tx, actor, repo, issue, user_ids(tx, repo, assignees, field="assignees"))
    if state is not UNSET:
        set_state(tx, actor, repo, issue, state, state_reason)
    return tx.get("issues", issue["id"])


def edit_text(tx: Tx, actor: Actor, repo: Row, issue: Row, title: Any = UNSET, body: Any = UNSET) -> None:
    """Change title or body; the author may, and who may write."""
    if actor.id != issue["author_id"]:
        need(tx, actor, repo, "write" if body is not UNSET else "triage")
    new = {"title": issue["title"] if title is UNSET else title, "body": issue["body"] if body is UNSET else body}
    check_text("PullRequest" if issue["is_pull"] else "Issue", new["title"], new["body"])
    changes = {key: {"from": issue[key]} for key in new if new[key] != issue[key]}
    if not changes:
        return
    tx.update("issues", issue["id"], **new, edited_at=tx.now, editor_id=actor.id, updated_at=tx.now)
    if "title" in changes:
        record(tx, issue, actor, "renamed", rename={"from": issue["title"], "to": new["title"]})
    tell(tx, repo, actor, issue["id"], "edited", lambda: {"changes": changes})


def set_state(
    tx: Tx, actor: Actor, repo: Row, issue: Row, state: str, reason: str | None = None, *, commit: str | None = None
) -> None:
    """Close or reopen. ``reason``: completed, not_planned, reopened. A merged pull request stays closed."""
    resource = "PullRequest" if issue["is_pull"] else "Issue"
    if state not in ("open", "closed"):
        raise invalid(resource, "state", "invalid", value=state)
    if actor.id != issue["author_id"]:
        need(tx, actor, repo, "triage")
    if reason not in (None, "completed", "not_planned", "duplicate", "reopened"):
        raise invalid(resource, "state_reason", "invalid", value=reason)
    if issue["state"] == state:
        return
    if issue["is_pull"]:
        if state == "open":
            _reopenable(tx, repo, issue)
        reason = None
    else:
        reason = (reason or "completed") if state == "closed" else "reopened"
    closed = state == "closed"
    tx.update(
        "issues",
        issue["id"],
        state=state,
        state_reason=reason,
        closed_at=tx.now if closed else None,
        closed_by_id=actor.id if closed else None,
        updated_at=tx.now,
    )
    extra = {"state_reason": reason} if reason and not issue["is_pull"] else {}
    record(tx, issue, actor, "closed" if closed else "reopened", commit=commit, **extra)
    tell(tx, repo, actor, issue["id"], "closed" if closed else "reopened")


def _reopenable(tx: Tx, repo: Row, issue: Row) -> None:
    pull = tx.get("pulls", issue["id"])
    if pull["merged"]:
        raise invalid("PullRequest", "state", "invalid", "state cannot be changed. The pull request is already merged.")
    git = tx.kernel.git(repo["id"])
    tip = git.branch(pull["head_ref"])
    if tip is None:
        raise invalid(
            "PullRequest",
            "state",
            "invalid",
            f"state cannot be changed. The {pull['head_ref']} branch has been deleted.",
        )
    other = tx.value(
        "SELECT number FROM pulls JOIN issues ON issues.id = issue_id WHERE head_repo_id = ?"
        " AND head_ref = ? AND base_ref = ? AND state = 'open' AND issues.id <> ?",
        pull["head_repo_id"], pull["head_ref"], pull["base_ref"], issue["id"],
    )  # fmt: skip
    if other:
        message = f"There is already an open pull request from {pull['head_ref']} to {pull['base_ref']}."
        raise invalid("PullRequest", "state", "invalid", f"state cannot be changed. {message}")
    if tip != pull["head_sha"]:
        git.run("update-ref", f"refs/pull/{issue['number']}/head", tip)
        tx.update("pulls", issue["id"], head_sha=tip)
    tx.update("pulls", issue["id"], base_sha=git.branch(pull["base_ref"]) or pull["base_sha"])


# --- labels, milestone, assignees ---


def _label_data(label: Row) -> dict[str, str]:
    return {"name": label["name"], "color": label["color"]}


def label_rows(tx: Tx, issue_id: int) -> list[Row]:
    """Give an issue's labels by name."""
    return tx.all(
        "SELECT labels.* FROM issue_labels JOIN labels ON labels.id = label_id WHERE issue_id = ? ORDER BY labels.name",
        issue_id,
    )


def add_labels(tx: Tx, actor: Actor, repo: Row, issue: Row, names: Sequence[str]) -> None:
    """Add labels; those that are there already stay and make no event."""
    need(tx, actor, repo, "triage")
    rows = ensure_labels(tx, actor, repo, _names(names))
    have = {row["id"] for row in label_rows(tx, issue["id"])}
    for row in rows:
        if row["id"] not in have:
            if len(have) >= 100:
                raise invalid("Issue", "labels", "invalid", "an issue can have at most 100 labels")
            have.add(row["id"])
            tx.insert("issue_labels", issue_id=issue["id"], label_id=row["id"])
            _label_event(tx, actor, repo, issue, row, "labeled")


def remove_labels(tx: Tx, actor: Actor, repo: Row, issue: Row, rows: Sequence[Row]) -> None:
    """Take labels off an issue; those that it does not have make no event."""
    need(tx, actor, repo, "triage")
    for row in rows:
        if tx.run("DELETE FROM issue_labels WHERE issue_id = ? AND label_id = ?", issue["id"], row["id"]):
            _label_event(tx, actor, repo, issue, row, "unlabeled")


def set_labels(tx: Tx, actor: Actor, repo: Row, issue: Row, names: Sequence[str]) -> None:
    """Replace the whole list of labels at once."""
    need(tx, actor, repo, "triage")
    wanted = ensure_labels(tx, actor, repo, _names(names))
    keep = {row["id"] for row in wanted}
    remove_labels(tx, actor, repo, issue, [row for row in label_rows(tx, issue["id"]) if row["id"] not in keep])
    add_labels(tx, actor, repo, issue, [row["name"] for row in wanted])


def _names(names: Any) -> list[str]:
    if not isinstance(names, list | tuple):
        raise invalid("Issue", "labels", "invalid")
    found = []
    for each in names:
        name = each.get("name") if isinstance(each, dict) else each
        if not isinstance(name, str):
            raise invalid("Label", "name", "invalid", value=each)
        found.append(name)
    return found


def _label_event(tx: Tx, actor: Actor, repo: Row, issue: Row, label: Row, kind: str) -> None:
    record(tx, issue, actor, kind, label=_label_data(label))
    touch(tx, issue["id"])
    tell(tx, repo, actor, issue["id"], kind, lambda: {"label": shape.label(tx, repo, label)})


def set_milestone(tx: Tx, actor: Actor, repo: Row, issue: Row, number: int | None) -> None:
    """Put an issue into a milestone by its number, or take it out."""
    need(tx, actor, repo, "triage")
    new = None
    if number is not None:
        new = tx.one("SELECT * FROM milestones WHERE repo_id = ? AND number = ?", repo["id"], number)
        if new is None:
            raise invalid("Issue", "milestone", "invalid", value=number)
    old_id = issue["milestone_id"]
    if old_id == (new["id"] if new else None):
        return
    tx.update("issues", issue["id"], milestone_id=new["id"] if new else None, updated_at=tx.now)
    if old_id is not None:
        old = tx.get("milestones", old_id)
        record(tx, issue, actor, "demilestoned", milestone={"title": old["title"]})
        tell(tx, repo, actor, issue["id"], "demilestoned", lambda: {"milestone": shape.milestone(tx, repo, old)})
    if new is not None:
        fresh = new
        record(tx, issue, actor, "milestoned", milestone={"title": fresh["title"]})
        tell(tx, repo, actor, issue["id"], "milestoned", lambda: {"milestone": shape.milestone(tx, repo, fresh)})


def assignee_ids(tx: Tx, issue_id: int) -> list[int]:
    """Give who is assigned."""
    return [row[0] for row in tx.all("SELECT user_id FROM assignees WHERE issue_id = ? ORDER BY user_id", issue_id)]


def set_assignees(tx: Tx, actor: Actor, repo: Row, issue: Row, ids: Sequence[int]) -> None:
    """Replace the assignees."""
    need(tx, actor, repo, "triage")
    have = assignee_ids(tx, issue["id"])
    remove_assignees(tx, actor, repo, issue, [each for each in have if each not in ids])
    add_assignees(tx, actor, repo, issue, ids)


def add_assignees(tx: Tx, actor: Actor, repo: Row, issue: Row, ids: Sequence[int]) -> None:
    """Assign accounts."""
    need(tx, actor, repo, "triage")
    for user_id in ids:
        if tx.run("INSERT OR IGNORE INTO assignees (issue_id, user_id) VALUES (?, ?)", issue["id"], user_id):
            _assigned(tx, actor, repo, issue, user_id, "assigned")


def remove_assignees(tx: Tx, actor: Actor, repo: Row, issue: Row, ids: Sequence[int]) -> None:
    """Unassign accounts."""
    need(tx, actor, repo, "triage")
    for user_id in ids:
        if tx.run("DELETE FROM assignees WHERE issue_id = ? AND user_id = ?", issue["id"], user_id):
            _assigned(tx, actor, repo, issue, user_id, "unassigned")


def _assigned(tx: Tx, actor: Actor, repo: Row, issue: Row, user_id: int, kind: str) -> None:
    record(tx, issue, actor, kind, assignee=user_id, assigner=actor.id)
    touch(tx, issue["id"])
    tell(tx, repo, actor, issue["id"], kind, lambda: {"assignee": account(tx, user_id)})


def lock(tx: Tx, actor: Actor, repo: Row, issue: Row, *, locked: bool) -> None:
    """Lock or unlock the conversation."""
    need(tx, actor, repo, "triage")
    if bool(issue["locked"]) is not locked:
        tx.update("issues", issue["id"], locked=int(locked), updated_at=tx.now)
        record(tx, issue, actor, "locked" if locked else "unlocked")


# --- comments ---


def find_comment(tx: Tx, repo: Row, comment_id: int) -> Row:
    """Give a comment of the repository, or refuse."""
    row = tx.one("SELECT * FROM comments WHERE id = ? AND repo_id = ?", comment_id, repo["id"])
    if row is None:
        raise not_found()
    return row


def _tell_comment(
    tx: Tx, repo: Row, actor: Actor, row: Row, action: str, more: Callable[[], dict[str, Any]] = dict
) -> None:
    def parts() -> dict[str, Any]:
        issue = tx.get("issues", row["issue_id"])
        return {"issue": shape.issue(tx, repo, issue), "comment": shape.comment(tx, repo, row), **more()}

    notify(tx, repo, actor, "issue_comment", action, parts)


def comment(tx: Tx, actor: Actor, repo: Row, issue: Row, body: str) -> Row:
    """Comment on an issue or pull request."""
    need(tx, actor, repo, "read")
    if not actor.id:
        raise Refused(401, "Requires authentication")
    if issue["locked"] and not can(tx, actor, repo, "write"):
        raise forbidden("Unable to create comment because issue is locked.")
    check_body("IssueComment", body, needed=True)
    comment_id = tx.insert(
        "comments",
        repo_id=repo["id"],
        issue_id=issue["id"],
        author_id=actor.id,
        body=body,
        created_at=tx.now,
        updated_at=tx.now,
    )
    touch(tx, issue["id"])
    row = tx.get("comments", comment_id)
    _tell_comment(tx, repo, actor, row, "created")
    return row


def edit_comment(tx: Tx, actor: Actor, repo: Row, row: Row, body: str) -> Row:
    """Change a comment; its author may, and who may write."""
    need(tx, actor, repo, "read" if actor.id == row["author_id"] else "write")
    check_body("IssueComment", body, needed=True)
    tx.update("comments", row["id"], body=body, updated_at=tx.now, edited_at=tx.now, editor_id=actor.id)
    touch(tx, row["issue_id"])
    fresh = tx.get("comments", row["id"])
    _tell_comment(tx, repo, actor, fresh, "edited", lambda: {"changes": {"body": {"from": row["body"]}}})
    return fresh


def delete_comment(tx: Tx, actor: Actor, repo: Row, row: Row) -> None:
    """Delete a comment; its author may, and who may write."""
    need(tx, actor, repo, "read" if actor.id == row["author_id"] else "write")
    _tell_comment(tx, repo, actor, row, "deleted")
    tx.run("DELETE FROM reactions WHERE subject_kind = 'comment' AND subject_id = ?", row["id"])
    tx.run("DELETE FROM comments WHERE id = ?", row["id"])
    touch(tx, row["issue_id"])
