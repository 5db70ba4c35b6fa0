"""Issues: lists, text, labels, assignees, timeline."""

from __future__ import annotations

from typing import Any

from droveway.localforge.access import Refused, invalid, not_found
from droveway.localforge.db import Row, Tx
from droveway.localforge.ops import issues as ops
from droveway.localforge.ops.labels import find_label
from droveway.localforge.routing import Answer, Call, created, empty, limit_of, paged, route
from droveway.localforge.timeline import timeline
from droveway.localforge.views import issues as shape

_SORTS = {"created": "issues.number", "updated": "issues.updated_at", "comments": "comment_count"}


def _filters(call: Call, repo: Row) -> tuple[str, list[Any]]:
    query = call.query
    where, values = ["issues.repo_id = ?"], [repo["id"]]
    state = query.get("state", "open")
    if state not in ("open", "closed", "all"):
        raise Refused(422, "Invalid request.\n\nstate must be one of open, closed, all.")
    if state != "all":
        where.append("issues.state = ?")
        values.append(state)
    for name in filter(None, query.get("labels", "").split(",")):
        where.append(
            "issues.id IN (SELECT issue_id FROM issue_labels JOIN labels ON labels.id = label_id"
            " WHERE labels.repo_id = ? AND labels.name = ?)"
        )
        values += [repo["id"], name]
    milestone = query.get("milestone")
    if milestone == "none":
        where.append("issues.milestone_id IS NULL")
    elif milestone == "*":
        where.append("issues.milestone_id IS NOT NULL")
    elif milestone:
        if not milestone.isdigit():
            raise invalid("Issue", "milestone", "invalid", value=milestone)
        where.append("issues.milestone_id = (SELECT id FROM milestones WHERE repo_id = ? AND number = ?)")
        values += [repo["id"], int(milestone)]
    if query.get("creator"):
        where.append("issues.author_id = (SELECT id FROM users WHERE login = ?)")
        values.append(query["creator"])
    assignee = query.get("assignee")
    if assignee == "none":
        where.append("issues.id NOT IN (SELECT issue_id FROM assignees)")
    elif assignee == "*":
        where.append("issues.id IN (SELECT issue_id FROM assignees)")
    elif assignee:
        where.append("issues.id IN (SELECT issue_id FROM assignees JOIN users ON users.id = user_id WHERE login = ?)")
        values.append(assignee)
    if query.get("since"):
        where.append("issues.updated_at >= ?")
        values.append(query["since"])
    return " AND ".join(where), values


@route("GET", "/repos/{owner}/{repo}/issues", "List issues and pull requests")
def index(tx: Tx, call: Call) -> Answer:
    """Filter by state, labels, milestone, assignee, creator, since; sort by created, updated or comments."""
    repo = call.repo(tx)
    where, values = _filters(call, repo)
    sort = _SORTS.get(call.query.get("sort", "created"), "issues.number")
    way = "ASC" if call.query.get("direction") == "asc" else "DESC"
    page, per_page, limit, offset = limit_of(call)
    total = tx.value(f"SELECT count(*) FROM issues WHERE {where}", *values)  # noqa: S608 - built from constants
    extra = (
        ", (SELECT count(*) FROM comments WHERE issue_id = issues.id) AS comment_count"
        if sort == "comment_count"
        else ""
    )
    sql = (
        f"SELECT issues.*{extra} FROM issues WHERE {where} ORDER BY {sort} {way}, issues.number {way} LIMIT ? OFFSET ?"  # noqa: S608
    )
    rows = tx.all(sql, *values, limit, offset)
    return Answer([shape.issue(tx, repo, row) for row in rows], page=(page, per_page, total))


@route("POST", "/repos/{owner}/{repo}/issues", "Create an issue")
def create(tx: Tx, call: Call) -> Answer:
    """Open an issue."""
    repo, body = call.repo(tx), call.object()
    title: Any = body.get("title")
    if isinstance(title, int):
        title = str(title)
    assignees = body.get("assignees") or ([body["assignee"]] if body.get("assignee") else ())
    row = ops.create(
        tx,
        call.actor,
        repo,
        title,
        body.get("body"),
        labels=body.get("labels") or (),
        milestone=_milestone(body.get("milestone")),
        assignees=assignees,
    )
    shaped = shape.issue(tx, repo, row, full=True)
    return created(shaped, shaped["url"])


def _milestone(value: Any) -> int | None:
    if value is None or value == "":
        return None
    if isinstance(value, int) or (isinstance(value, str) and value.isdigit()):
        return int(value)
    raise invalid("Issue", "milestone", "invalid", value=value)


@route("GET", "/repos/{owner}/{repo}/issues/{number:int}", "Get an issue")
def get(tx: Tx, call: Call) -> Answer:
    """Give an issue, or a pull request seen as one."""
    repo = call.repo(tx)
    return Answer(shape.issue(tx, repo, ops.find(tx, repo, call.number()), full=True))


@route("PATCH", "/repos/{owner}/{repo}/issues/{number:int}", "Update an issue")
def edit(tx: Tx, call: Call) -> Answer:
    """Change text, state, labels (the whole list), milestone and assignees at once."""
    repo = call.repo(tx)
    values = call.given("title", "body", "state", "state_reason", "labels", "assignees", "milestone")
    values = {key: value for key, value in values.items() if value is not None or key in ("body", "milestone")}
    if "milestone" in values:
        values["milestone"] = _milestone(values["milestone"])
    row = ops.edit(tx, call.actor, repo, ops.find(tx, repo, call.number()), **values)
    return Answer(shape.issue(tx, repo, row, full=True))


# --- labels of an issue ---


@route("GET", "/repos/{owner}/{repo}/issues/{number:int}/labels", "List an issue's labels")
def labels(tx: Tx, call: Call) -> Answer:
    """Give the labels."""
    repo = call.repo(tx)
    rows = ops.label_rows(tx, ops.find(tx, repo, call.number())["id"])
    return paged(call, rows, lambda row: shape.label(tx, repo, row))


def _names(call: Call) -> list[Any]:
    names = call.body.get("labels", []) if isinstance(call.body, dict) else call.body
    if not isinstance(names, list):
        raise Refused(422, "Invalid request.\n\nlabels is not an array.")
    return names


@route("POST", "/repos/{owner}/{repo}/issues/{number:int}/labels", "Add labels to an issue")
def add_labels(tx: Tx, call: Call) -> Answer:
    """Add; unknown ones are made."""
    repo = call.repo(tx)
    issue = ops.find(tx, repo, call.number())
    ops.add_labels(tx, call.actor, repo, issue, _names(call))
    return Answer(shape.labels_of(tx, repo, issue["id"]))


@route("PUT", "/repos/{owner}/{repo}/issues/{number:int}/labels", "Set an issue's labels")
def set_labels(tx: Tx, call: Call) -> Answer:
    """Replace the whole list."""
    repo = call.repo(tx)
    issue = ops.find(tx, repo, call.number())
    ops.set_labels(tx, call.actor, repo, issue, _names(call) if call.body is not None else [])
    return Answer(shape.labels_of(tx, repo, issue["id"]))


@route("DELETE", "/repos/{owner}/{repo}/issues/{number:int}/labels", "Remove all labels from an issue")
def clear_labels(tx: Tx, call: Call) -> Answer:
    """Take all off."""
    repo = call.repo(tx)
    ops.set_labels(tx, call.actor, repo, ops.find(tx, repo, call.number()), [])
    return empty()


@route("DELETE", "/repos/{owner}/{repo}/issues/{number:int}/labels/{name:path}", "Remove a label from an issue")
def remove_label(tx: Tx, call: Call) -> Answer:
    """Take one off; 404 where the issue does not have it."""
    repo = call.repo(tx)
    issue = ops.find(tx, repo, call.number())
    label = find_label(tx, repo, call.params["name"])
    if label is None or label["id"] not in {row["id"] for row in ops.label_rows(tx, issue["id"])}:
        raise Refused(404, "Label does not exist")
    ops.remove_labels(tx, call.actor, repo, issue, [label])
    return Answer(shape.labels_of(tx, repo, issue["id"]))


# --- assignees, lock ---


@route("POST", "/repos/{owner}/{repo}/issues/{number:int}/assignees", "Add assignees to an issue")
def add_assignees(tx: Tx, call: Call) -> Answer:
    """Assign accounts."""
    repo = call.repo(tx)
    issue = ops.find(tx, repo, call.number())
    logins = call.object().get("assignees") or []
    ops.add_assignees(tx, call.actor, repo, issue, ops.user_ids(tx, repo, logins, field="assignees"))
    return created(shape.issue(tx, repo, tx.get("issues", issue["id"])))


@route("DELETE", "/repos/{owner}/{repo}/issues/{number:int}/assignees", "Remove assignees from an issue")
def remove_assignees(tx: Tx, call: Call) -> Answer:
    """Unassign accounts."""
    repo = call.repo(tx)
    issue = ops.find(tx, repo, call.number())
    logins = call.object().get("assignees") or []
    ops.remove_assignees(tx, call.actor, repo, issue, ops.user_ids(tx, repo, logins, field="assignees"))
    return Answer(shape.issue(tx, repo, tx.get("issues", issue["id"])))


@route("PUT", "/repos/{owner}/{repo}/issues/{number:int}/lock", "Lock an issue")
def lock(tx: Tx, call: Call) -> Answer:
    """Lock the conversation."""
    repo = call.repo(tx)
    ops.lock(tx, call.actor, repo, ops.find(tx, repo, call.number()), locked=True)
    return empty()


@route("DELETE", "/repos/{owner}/{repo}/issues/{number:int}/lock", "Unlock an issue")
def unlock(tx: Tx, call: Call) -> Answer:
    """Unlock the conversation."""
    repo = call.repo(tx)
    ops.lock(tx, call.actor, repo, ops.find(tx, repo, call.number()), locked=False)
    return empty()


# --- history ---


@route("GET", "/repos/{owner}/{repo}/issues/{number:int}/events", "List an issue's events")
def events(tx: Tx, call: Call) -> Answer:
    """Give the events, oldest first."""
    repo = call.repo(tx)
    rows = tx.all("SELECT * FROM events WHERE issue_id = ? ORDER BY id", ops.find(tx, repo, call.number())["id"])
    return paged(call, rows, lambda row: shape.event(tx, repo, row))


@route("GET", "/repos/{owner}/{repo}/issues/{number:int}/timeline", "List an issue's timeline")
def history(tx: Tx, call: Call) -> Answer:
    """Give events, comments, commits and reviews in the order of their times."""
    repo = call.repo(tx)
    entries = timeline(tx, repo, ops.find(tx, repo, call.number()))
    return paged(call, entries, lambda make: make())


@route("GET", "/repos/{owner}/{repo}/issues/events", "List a repository's issue events")
def all_events(tx: Tx, call: Call) -> Answer:
    """Give the events of all issues, newest first."""
    repo = call.repo(tx)
    rows = tx.all("SELECT * FROM events WHERE repo_id = ? ORDER BY id DESC LIMIT 10000", repo["id"])
    return paged(call, rows, lambda row: _with_issue(tx, repo, row))


@route("GET", "/repos/{owner}/{repo}/issues/events/{event:int}", "Get an issue event")
def one_event(tx: Tx, call: Call) -> Answer:
    """Give one event with its issue."""
    repo = call.repo(tx)
    row = tx.one("SELECT * FROM events WHERE id = ? AND repo_id = ?", call.number("event"), repo["id"])
    if row is None:
        raise not_found()
    return Answer(_with_issue(tx, repo, row))


def _with_issue(tx: Tx, repo: Row, row: Row) -> dict[str, Any]:
    return {**shape.event(tx, repo, row), "issue": shape.issue(tx, repo, tx.get("issues", row["issue_id"]))}
