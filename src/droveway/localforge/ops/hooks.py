"""Webhooks of a repository."""

from __future__ import annotations

import json
from typing import Any

from droveway.localforge.access import Actor, invalid, need, not_found
from droveway.localforge.db import Row, Tx
from droveway.localforge.ops.events import queue


def find(tx: Tx, actor: Actor, repo: Row, hook_id: int) -> Row:
    """Give a hook of the repository, or refuse; only administrators see them."""
    need(tx, actor, repo, "admin")
    row = tx.one("SELECT * FROM hooks WHERE id = ? AND repo_id = ?", hook_id, repo["id"])
    if row is None:
        raise not_found()
    return row


def _columns(config: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    if "url" in config:
        url = config["url"]
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise invalid("Hook", "url", "invalid", "url is not a web address")
        columns["url"] = url
    if "secret" in config:
        columns["secret"] = config["secret"]
    if config.get("content_type") in ("json", "form"):
        columns["content_type"] = config["content_type"]
    if "insecure_ssl" in config:
        columns["insecure_ssl"] = str(config["insecure_ssl"])
    if values.get("events") is not None:
        columns["events"] = json.dumps(sorted({str(each) for each in values["events"]}))
    if values.get("active") is not None:
        columns["active"] = int(bool(values["active"]))
    return columns


def create(tx: Tx, actor: Actor, repo: Row, values: dict[str, Any]) -> Row:
    """Make a hook from ``config`` (url, secret, content_type), ``events`` and ``active``."""
    need(tx, actor, repo, "admin")
    columns = {"events": '["push"]', **_columns(values.get("config") or {}, values)}
    if "url" not in columns:
        raise invalid("Hook", "config", "missing_field", "url is missing")
    hook_id = tx.insert("hooks", repo_id=repo["id"], created_at=tx.now, updated_at=tx.now, **columns)
    return tx.get("hooks", hook_id)


def edit(tx: Tx, actor: Actor, repo: Row, hook: Row, values: dict[str, Any]) -> Row:
    """Change a hook; ``add_events`` and ``remove_events`` change its list."""
    need(tx, actor, repo, "admin")
    events = set(json.loads(hook["events"]))
    if values.get("add_events") or values.get("remove_events"):
        fresh = events | set(values.get("add_events") or ()) - set(values.get("remove_events") or ())
        values = {**values, "events": sorted(fresh - set(values.get("remove_events") or ()))}
    tx.update("hooks", hook["id"], **_columns(values.get("config") or {}, values), updated_at=tx.now)
    return tx.get("hooks", hook["id"])


def delete(tx: Tx, actor: Actor, repo: Row, hook: Row) -> None:
    """Delete a hook with its deliveries."""
    need(tx, actor, repo, "admin")
    tx.run("DELETE FROM hooks WHERE id = ?", hook["id"])


def redeliver(tx: Tx, actor: Actor, repo: Row, hook: Row, delivery: Row) -> None:
    """Send a delivery once more, under its old id."""
    need(tx, actor, repo, "admin")
    queue(tx, hook["id"], delivery["event"], delivery["action"], delivery["payload"], guid=delivery["guid"])
