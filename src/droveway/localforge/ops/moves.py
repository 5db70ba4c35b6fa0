"""Refs move here, by push or by request: journal, move, apply (FRG-033).

``journal`` writes the intent and commits it; then refs move; ``apply`` writes what the move means and removes the
intent, in one transaction. An open intent is also the lock of its refs: a second move of one of them is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from droveway.core.points import sync_point
from droveway.localforge.access import Actor, Refused, actor_of, can
from droveway.localforge.db import Row, Tx
from droveway.localforge.gitrepo import ZERO, GitRepo, RefRace
from droveway.localforge.ops.checks import check_states
from droveway.localforge.ops.events import tell_pushed
from droveway.localforge.ops.protection import protection_of, required_checks

Update: TypeAlias = tuple[str, str, str]  # ref, old SHA, new SHA
#: What an intent of a kind means beyond the refs; the rooms' modules register themselves (``merge``).
APPLIERS: Final[dict[str, Callable[[Tx, Actor, Row, Row], None]]] = {}
#: Told of each ref that moved: (tx, actor, repo, update).
LISTENERS: Final[list[Callable[[Tx, Actor, Row, Update], None]]] = []


class MoveRefused(Refused):
    """A move that may not be. ``ref`` is the one it is about."""

    def __init__(self, ref: str, message: str, status: int = 422) -> None:
        """Hold the ref and one line for people."""
        super().__init__(status, message)
        self.ref = ref


def check(
    tx: Tx,
    actor: Actor,
    repo: Row,
    updates: Sequence[Update],
    *,
    forced: Callable[[Update], bool],
    merging: bool = False,
) -> None:
    """Refuse what protection, reserved names and open intents forbid. ``forced`` says whether commits would be lost.

    ``merging``: a pull request is being merged, which has met the branch's demands by itself.
    """
    busy = {
        update[0]
        for row in tx.all("SELECT updates FROM intents WHERE repo_id = ?", repo["id"])
        for update in json.loads(row[0])
    }
    for update in updates:
        ref, old, new = update
        if ref.startswith(("refs/pull/", "refs/forge/")):
            raise MoveRefused(ref, "deny updating a hidden ref")
        if ref in busy:
            raise MoveRefused(ref, "the reference is being updated by another request; try again", 409)
        if not ref.startswith("refs/heads/"):
            continue
        branch = ref.removeprefix("refs/heads/")
        if new == ZERO and branch == repo["default_branch"]:
            raise MoveRefused(ref, "refusing to delete the current branch: " + ref)
        protection = protection_of(tx, repo["id"], branch)
        if protection is None:
            continue
        if new == ZERO and not protection["allow_delete"]:
            raise MoveRefused(ref, f"protected branch hook declined: cannot delete {branch}")
        if ZERO not in (old, new) and not protection["allow_force"] and forced(update):
            raise MoveRefused(ref, f"protected branch hook declined: cannot force-push to {branch}")
        if merging or new == ZERO or (can(tx, actor, repo, "admin") and not protection["enforce_admins"]):
            continue
        if protection["reviews"] is not None:
            raise MoveRefused(ref, "protected branch hook declined: changes must be made through a pull request")
        states = check_states(tx, repo["id"], new)
        for name in required_checks(protection) or ():
            if states.get(name) != "success":
                raise MoveRefused(ref, f'protected branch hook declined: required status check "{name}" is expected')


def journal(
    tx: Tx,
    actor: Actor,
    repo: Row,
    updates: Sequence[Update],
    *,
    kind: str = "push",
    data: dict[str, Any] | None = None,
) -> int:
    """Write an intent; the caller commits before any ref moves."""
    return tx.insert(
        "intents",
        repo_id=repo["id"],
        user_id=actor.id,
        kind=kind,
        updates=json.dumps(list(updates)),
        data=json.dumps(data or {}),
        created_at=tx.now,
    )


def apply(tx: Tx, intent_id: int) -> list[Update]:
    """Write what the moved refs of an intent mean, and remove it. Gives the updates whose refs are really there."""
    intent = tx.one("SELECT * FROM intents WHERE id = ?", intent_id)
    if intent is None:
        return []
    repo = tx.get("repos", intent["repo_id"])
    actor = actor_of(tx, intent["user_id"])
    git = tx.kernel.git(repo["id"])
    updates = [(ref, old, new) for ref, old, new in json.loads(intent["updates"])]
    moved = [update for update in updates if (git.ref(update[0]) or ZERO) == update[2] and update[1] != update[2]]
    tx.run("DELETE FROM intents WHERE id = ?", intent_id)
    if not moved:
        return []
    if len(moved) == len(updates) and intent["kind"] in APPLIERS:
        APPLIERS[intent["kind"]](tx, actor, repo, intent)
    tx.update("repos", repo["id"], pushed_at=tx.now, updated_at=tx.now)
    _adopt_default(tx, git, repo, moved)
    for update in moved:
        for listener in LISTENERS:
            listener(tx, actor, tx.get("repos", repo["id"]), update)
        tell_pushed(tx, repo, update[0], update[2])
    return moved


def _adopt_default(tx: Tx, git: GitRepo, repo: Row, moved: Sequence[Update]) -> None:
    """The first push to an empty repository names its default branch where it does not bring the one that was meant."""
    if git.branch(repo["default_branch"]):
        return
    names = [ref.removeprefix("refs/heads/") for ref, _, new in moved if ref.startswith("refs/heads/") and new != ZERO]
    if names:
        chosen = "master" if "master" in names else names[0]
        tx.update("repos", repo["id"], default_branch=chosen)
        git.set_head(chosen)


def move(
    tx: Tx,
    actor: Actor,
    repo: Row,
    updates: Sequence[Update],
    *,
    kind: str = "push",
    data: dict[str, Any] | None = None,
) -> None:
    """Move refs by request, all or none, and apply what it means. Raises Refused 409 where one has moved meanwhile."""
    git = tx.kernel.git(repo["id"])
    check(tx, actor, repo, updates, forced=lambda update: _loses(git, update), merging=kind == "merge")
    intent_id = journal(tx, actor, repo, updates, kind=kind, data=data)
    tx.checkpoint()
    sync_point("localforge.push.journaled")
    try:
        git.move(updates)
    except RefRace as error:
        tx.run("DELETE FROM intents WHERE id = ?", intent_id)
        tx.checkpoint()
        raise Refused(409, "Reference was updated by another request. Try again.") from error
    # From here on a rollback must not lose the move: what the intent means is then written by itself.
    kernel = tx.kernel

    def again() -> None:
        with kernel.write() as fresh:
            apply(fresh, intent_id)

    tx.undo = again
    sync_point("localforge.push.refs")
    apply(tx, intent_id)


def _loses(git: GitRepo, update: Update) -> bool:
    return not git.is_ancestor(update[1], update[2])


def recover(tx: Tx) -> int:
    """At start: apply the intents whose refs moved, drop the others. Gives how many were found."""
    rows = tx.all("SELECT id FROM intents ORDER BY id")
    for row in rows:
        apply(tx, row["id"])
    return len(rows)
