"""Labels and milestones of a repository."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from droveway.localforge.access import Actor, invalid, need, not_found
from droveway.localforge.db import Row, Tx
from droveway.localforge.ops.events import notify
from droveway.localforge.views import issues as shape

UNSET: Any = object()


def find_label(tx: Tx, repo: Row, name: str) -> Row | None:
    """Give a label by its name, in any case of letters."""
    return tx.one("SELECT * FROM labels WHERE repo_id = ? AND name = ?", repo["id"], name)


def _check_label(name: Any, color: Any, description: Any) -> None:
    if not isinstance(name, str) or not name.strip():
        raise invalid("Label", "name", "missing_field")
    if len(name) > 50:
        raise invalid("Label", "name", "invalid", "name is too long (maximum is 50 characters)", value=name)
    if not isinstance(color, str) or not re.fullmatch(r"[0-9a-fA-F]{6}", color):
        raise invalid("Label", "color", "invalid", value=color)
    if description is not None and (not isinstance(description, str) or len(description) > 100):
        raise invalid("Label", "description", "invalid", "description is too long (maximum is 100 characters)")


def create_label(
    tx: Tx,
    actor: Actor,
    repo: Row,
    name: str,
    color: str = "ededed",
    description: str | None = None,
    *,
    default: bool = False,
) -> Row:
    """Make a label. 422 ``already_exists`` where one of this name is there."""
    need(tx, actor, repo, "write")
    _check_label(name, color, description)
    if find_label(tx, repo, name):
        raise invalid("Label", "name", "already_exists", value=name)
    label_id = tx.insert(
        "labels",
        repo_id=repo["id"],
        name=name,
        color=color.lower(),
        description=description,
        is_default=int(default),
        created_at=tx.now,
        updated_at=tx.now,
    )
    row = tx.get("labels", label_id)
    notify(tx, repo, actor, "label", "created", lambda: {"label": shape.label(tx, repo, row)})
    return row


def edit_label(
    tx: Tx,
    actor: Actor,
    repo: Row,
    label: Row,
    *,
    name: str = UNSET,
    color: str = UNSET,
    description: str | None = UNSET,
) -> Row:
    """Change a label; issues keep it under its new name."""
    need(tx, actor, repo, "write")
    new: dict[str, Any] = {
        "name": label["name"] if name is UNSET else name,
        "color": label["color"] if color is UNSET else color,
        "description": label["description"] if description is UNSET else description,
    }
    _check_label(**new)
    other = find_label(tx, repo, new["name"])
    if other and other["id"] != label["id"]:
        raise invalid("Label", "name", "already_exists", value=new["name"])
    tx.update("labels", label["id"], **{**new, "color": new["color"].lower()}, updated_at=tx.now)
    row = tx.get("labels", label["id"])
    changes = {key: {"from": label[key]} for key in new if label[key] != row[key]}
    notify(tx, repo, actor, "label", "edited", lambda: {"label": shape.label(tx, repo, row), "changes": changes})
    return row


def delete_label(tx: Tx, actor: Actor, repo: Row, label: Row) -> None:
    """Delete a label, from all issues too."""
    need(tx, actor, repo, "write")
    shaped = shape.label(tx, repo, label)
    tx.run("DELETE FROM labels WHERE id = ?", label["id"])
    notify(tx, repo, actor, "label", "deleted", lambda: {"label": shaped})


def ensure_labels(tx: Tx, actor: Actor, repo: Row, names: Sequence[str]) -> list[Row]:
    """Give the labels of these names, making those that are missing, as GitHub does for those who may push."""
    rows = []
    for name in dict.fromkeys(names):
        row = find_label(tx, repo, name)
        rows.append(row or create_label(tx, actor, repo, name))
    return list({row["id"]: row for row in rows}.values())


# --- milestones ---


def find_milestone(tx: Tx, repo: Row, number: int) -> Row:
    """Give a milestone by its number, or refuse."""
    row = tx.one("SELECT * FROM milestones WHERE repo_id = ? AND number = ?", repo["id"], number)
    if row is None:
        raise not_found()
    return row


def _check_milestone(tx: Tx, repo: Row, title: Any, state: Any, own_id: int = 0) -> None:
    if not isinstance(title, str) or not title.strip():
        raise invalid("Milestone", "title", "missing_field")
    if len(title) > 255:
        raise invalid("Milestone", "title", "invalid", "title is too long (maximum is 255 characters)")
    if state not in ("open", "closed"):
        raise invalid("Milestone", "state", "invalid", value=state)
    other = tx.value("SELECT id FROM milestones WHERE repo_id = ? AND title = ?", repo["id"], title)
    if other and other != own_id:
        raise invalid("Milestone", "title", "already_exists")


def create_milestone(
    tx: Tx,
    actor: Actor,
    repo: Row,
    title: str,
    description: str | None = None,
    *,
    state: str = "open",
    due_on: str | None = None,
) -> Row:
    """Make a milestone with the next number."""
    need(tx, actor, repo, "triage")
    _check_milestone(tx, repo, title, state)
    number = tx.value(
        "UPDATE repos SET next_milestone = next_milestone + 1 WHERE id = ? RETURNING next_milestone - 1", repo["id"]
    )
    milestone_id = tx.insert(
        "milestones",
        repo_id=repo["id"],
        number=number,
        title=title,
        description=description,
        state=state,
        due_on=due_on,
        creator_id=actor.id,
        created_at=tx.now,
        updated_at=tx.now,
        closed_at=tx.now if state == "closed" else None,
    )
    row = tx.get("milestones", milestone_id)
    notify(tx, repo, actor, "milestone", "created", lambda: {"milestone": shape.milestone(tx, repo, row)})
    return row


def edit_milestone(
    tx: Tx,
    actor: Actor,
    repo: Row,
    milestone: Row,
    *,
    title: str = UNSET,
    description: str | None = UNSET,
    state: str = UNSET,
    due_on: str | None = UNSET,
) -> Row:
    """Change a milestone; closing it leaves its issues as they are."""
    need(tx, actor, repo, "triage")
    given = {"title": title, "description": description, "state": state, "due_on": due_on}
    new = {key: milestone[key] if value is UNSET else value for key, value in given.items()}
    _check_milestone(tx, repo, new["title"], new["state"], milestone["id"])
    turned = new["state"] != milestone["state"]
    closed_at = (tx.now if new["state"] == "closed" else None) if turned else milestone["closed_at"]
    tx.update("milestones", milestone["id"], **new, closed_at=closed_at, updated_at=tx.now)
    row = tx.get("milestones", milestone["id"])
    changes = {
        key: {"from": milestone[key]} for key in ("title", "description", "due_on") if milestone[key] != row[key]
    }
    if turned:
        action = "closed" if row["state"] == "closed" else "opened"
        notify(tx, repo, actor, "milestone", action, lambda: {"milestone": shape.milestone(tx, repo, row)})
    if changes:
        parts = lambda: {"milestone": shape.milestone(tx, repo, row), "changes": changes}  # noqa: E731
        notify(tx, repo, actor, "milestone", "edited", parts)
    return row


def delete_milestone(tx: Tx, actor: Actor, repo: Row, milestone: Row) -> None:
    """Delete a milestone; its issues stay, without one."""
    need(tx, actor, repo, "triage")
    shaped = shape.milestone(tx, repo, milestone)
    tx.run("DELETE FROM milestones WHERE id = ?", milestone["id"])
    notify(tx, repo, actor, "milestone", "deleted", lambda: {"milestone": shaped})
