"""Labels and milestones of a repository."""

from __future__ import annotations

from droveway.localforge.access import Refused, not_found
from droveway.localforge.db import Row, Tx
from droveway.localforge.ops import labels as ops
from droveway.localforge.routing import Answer, Call, created, empty, paged, route
from droveway.localforge.views import issues as shape


def _label(tx: Tx, repo: Row, name: str) -> Row:
    row = ops.find_label(tx, repo, name)
    if row is None:
        raise not_found()
    return row


@route("GET", "/repos/{owner}/{repo}/labels", "List labels")
def labels(tx: Tx, call: Call) -> Answer:
    """Give the labels by name."""
    repo = call.repo(tx)
    rows = tx.all("SELECT * FROM labels WHERE repo_id = ? ORDER BY name", repo["id"])
    return paged(call, rows, lambda row: shape.label(tx, repo, row))


@route("POST", "/repos/{owner}/{repo}/labels", "Create a label")
def create_label(tx: Tx, call: Call) -> Answer:
    """Make a label."""
    repo, body = call.repo(tx), call.object()
    color = str(body.get("color") or "ededed").removeprefix("#")
    name = call.text("name", resource="Label")
    row = ops.create_label(tx, call.actor, repo, name, color, call.text("description", resource="Label", needed=False))
    shaped = shape.label(tx, repo, row)
    return created(shaped, shaped["url"])


@route("GET", "/repos/{owner}/{repo}/labels/{name:path}", "Get a label")
def get_label(tx: Tx, call: Call) -> Answer:
    """Give one label."""
    repo = call.repo(tx)
    return Answer(shape.label(tx, repo, _label(tx, repo, call.params["name"])))


@route("PATCH", "/repos/{owner}/{repo}/labels/{name:path}", "Update a label")
def edit_label(tx: Tx, call: Call) -> Answer:
    """Change a label."""
    repo = call.repo(tx)
    values = call.given("color", "description", "name")
    if "new_name" in call.object():
        values["name"] = call.object()["new_name"]
    if isinstance(values.get("color"), str):
        values["color"] = values["color"].removeprefix("#")
    row = ops.edit_label(tx, call.actor, repo, _label(tx, repo, call.params["name"]), **values)
    return Answer(shape.label(tx, repo, row))


@route("DELETE", "/repos/{owner}/{repo}/labels/{name:path}", "Delete a label")
def delete_label(tx: Tx, call: Call) -> Answer:
    """Delete a label, from all issues too."""
    repo = call.repo(tx)
    ops.delete_label(tx, call.actor, repo, _label(tx, repo, call.params["name"]))
    return empty()


# --- milestones ---


@route("GET", "/repos/{owner}/{repo}/milestones", "List milestones")
def milestones(tx: Tx, call: Call) -> Answer:
    """Give milestones by due date or completeness; ``state`` is open by default."""
    repo = call.repo(tx)
    state, order = call.query.get("state", "open"), call.query.get("direction", "asc")
    if state not in ("open", "closed", "all"):
        raise Refused(422, "Invalid request.\n\nstate must be one of open, closed, all.")
    rows = tx.all(
        "SELECT * FROM milestones WHERE repo_id = ? AND (? = 'all' OR state = ?)"
        " ORDER BY due_on IS NULL, due_on, number",
        repo["id"],
        state,
        state,
    )
    if order == "desc":
        rows.reverse()
    return paged(call, rows, lambda row: shape.milestone(tx, repo, row))


@route("POST", "/repos/{owner}/{repo}/milestones", "Create a milestone")
def create_milestone(tx: Tx, call: Call) -> Answer:
    """Make a milestone."""
    repo = call.repo(tx)
    title = call.text("title", resource="Milestone")
    values = {key: value for key, value in call.given("description", "state", "due_on").items() if value is not None}
    shaped = shape.milestone(tx, repo, ops.create_milestone(tx, call.actor, repo, title, **values))
    return created(shaped, shaped["url"])


@route("GET", "/repos/{owner}/{repo}/milestones/{number:int}", "Get a milestone")
def get_milestone(tx: Tx, call: Call) -> Answer:
    """Give one milestone."""
    repo = call.repo(tx)
    return Answer(shape.milestone(tx, repo, ops.find_milestone(tx, repo, call.number())))


@route("PATCH", "/repos/{owner}/{repo}/milestones/{number:int}", "Update a milestone")
def edit_milestone(tx: Tx, call: Call) -> Answer:
    """Change a milestone."""
    repo = call.repo(tx)
    row = ops.find_milestone(tx, repo, call.number())
    values = call.given("title", "description", "state", "due_on")
    return Answer(shape.milestone(tx, repo, ops.edit_milestone(tx, call.actor, repo, row, **values)))


@route("DELETE", "/repos/{owner}/{repo}/milestones/{number:int}", "Delete a milestone")
def delete_milestone(tx: Tx, call: Call) -> Answer:
    """Delete a milestone; its issues stay."""
    repo = call.repo(tx)
    ops.delete_milestone(tx, call.actor, repo, ops.find_milestone(tx, repo, call.number()))
    return empty()


@route("GET", "/repos/{owner}/{repo}/milestones/{number:int}/labels", "List the labels of a milestone's issues")
def milestone_labels(tx: Tx, call: Call) -> Answer:
    """Give every label that an issue of the milestone has."""
    repo = call.repo(tx)
    rows = tx.all(
        "SELECT DISTINCT labels.* FROM labels JOIN issue_labels ON label_id = labels.id"
        " JOIN issues ON issues.id = issue_id WHERE milestone_id = ? ORDER BY labels.name",
        ops.find_milestone(tx, repo, call.number())["id"],
    )
    return paged(call, rows, lambda row: shape.label(tx, repo, row))
