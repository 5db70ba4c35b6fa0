"""Reactions to issues, comments and review comments."""

from __future__ import annotations

from droveway.localforge.access import Actor, invalid, need, not_found
from droveway.localforge.db import Row, Tx
from droveway.localforge.views import issues as shape


def react(tx: Tx, actor: Actor, repo: Row, kind: str, subject_id: int, content: str) -> tuple[Row, bool]:
    """React to a subject (issue, comment, review_comment); gives the reaction and whether it is new."""
    need(tx, actor, repo, "read")
    if content not in shape.REACTIONS:
        raise invalid("Reaction", "content", "invalid", value=content)
    where = "subject_kind = ? AND subject_id = ? AND user_id = ? AND content = ?"
    key = (kind, subject_id, actor.id, content)
    old = tx.one(f"SELECT * FROM reactions WHERE {where}", *key)  # noqa: S608
    if old:
        return old, False
    made = tx.insert(
        "reactions", subject_kind=kind, subject_id=subject_id, user_id=actor.id, content=content, created_at=tx.now
    )
    return tx.get("reactions", made), True


def unreact(tx: Tx, actor: Actor, repo: Row, kind: str, subject_id: int, reaction_id: int) -> None:
    """Take a reaction back; one's own, or anybody's for admins."""
    row = tx.one(
        "SELECT * FROM reactions WHERE id = ? AND subject_kind = ? AND subject_id = ?", reaction_id, kind, subject_id
    )
    if row is None:
        raise not_found()
    need(tx, actor, repo, "read" if row["user_id"] == actor.id else "admin")
    tx.run("DELETE FROM reactions WHERE id = ?", reaction_id)
