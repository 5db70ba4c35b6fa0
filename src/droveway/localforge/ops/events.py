"""Two kinds of traces: the timeline of issues, and webhooks to be sent after the commit (FRG-026)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec

from droveway.localforge.access import Actor
from droveway.localforge.db import Row, Tx
from droveway.localforge.views.accounts import account
from droveway.localforge.views.repos import full_name, repository


def record(tx: Tx, issue: Row, actor: Actor | None, kind: str, *, commit: str | None = None, **data: Any) -> int:
    """Write an event into an issue's timeline. People in ``data`` are user ids."""
    return tx.insert(
        "events",
        repo_id=issue["repo_id"],
        issue_id=issue["id"],
        actor_id=actor.id if actor else None,
        kind=kind,
        commit_sha=commit,
        data=json.dumps(data, separators=(",", ":")),
        created_at=tx.now,
    )


def touch(tx: Tx, issue_id: int) -> None:
    """Mark an issue as updated now."""
    tx.update("issues", issue_id, updated_at=tx.now)


def tell_pushed(tx: Tx, repo: Row, ref: str, sha: str) -> None:
    """Tell who listens in this process that a ref is at a commit, once the transaction has committed."""
    told = tx.kernel.pushed
    if told is not None:
        name = full_name(tx, repo)
        tx.after.append(lambda: told(name, ref, sha))


def listeners(tx: Tx, repo_id: int, event: str) -> list[Row]:
    """Give the active hooks that want this event."""
    key = ("hooks", repo_id)
    if key not in tx.memo:
        rows = tx.all("SELECT * FROM hooks WHERE repo_id = ? AND active = 1 ORDER BY id", repo_id)
        tx.memo[key] = [(row, frozenset(json.loads(row["events"]))) for row in rows]
    return [row for row, wanted in tx.memo[key] if event in wanted or "*" in wanted]


def notify(
    tx: Tx, repo: Row, actor: Actor, event: str, action: str | None, parts: Callable[[], dict[str, Any]]
) -> None:
    """Queue a webhook for every hook that wants it. ``parts`` makes its own part, only where somebody listens."""
    hooks = listeners(tx, repo["id"], event)
    if not hooks:
        return
    repo = tx.get("repos", repo["id"])
    payload = {
        **({"action": action} if action else {}),
        **parts(),
        "repository": repository(tx, repo),
        "sender": account(tx, actor.id),
    }
    text = msgspec.json.encode(payload).decode()
    for hook in hooks:
        queue(tx, hook["id"], event, action, text)


def queue(tx: Tx, hook_id: int, event: str, action: str | None, payload: str, *, guid: str = "") -> int:
    """Queue one delivery; the sender is woken once the transaction has committed. ``guid``: this is a redelivery."""
    fresh = tx.kernel.ids.new()
    delivery = tx.insert(
        "deliveries",
        hook_id=hook_id,
        guid=guid or f"{fresh[:8]}-{fresh[8:12]}-{fresh[12:16]}-{fresh[16:20]}-{fresh[20:]}",
        event=event,
        action=action,
        payload=payload,
        redelivery=int(bool(guid)),
        created_at=tx.now,
    )
    if tx.kernel.wake not in tx.after:
        tx.after.append(tx.kernel.wake)
    return delivery
