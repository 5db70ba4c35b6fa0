"""Webhooks and their deliveries."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from droveway.localforge.access import not_found
from droveway.localforge.db import Row, Tx
from droveway.localforge.ops import hooks as ops
from droveway.localforge.ops.events import queue
from droveway.localforge.routing import Answer, Call, created, empty, paged, route
from droveway.localforge.views.accounts import account
from droveway.localforge.views.repos import api_url, repository


def _shape(tx: Tx, repo: Row, row: Row) -> dict[str, Any]:
    url = f"{api_url(tx, repo)}/hooks/{row['id']}"
    config = {"content_type": row["content_type"], "insecure_ssl": row["insecure_ssl"], "url": row["url"]}
    if row["secret"]:
        config["secret"] = "********"  # noqa: S105 - what GitHub shows instead
    last = tx.one(
        "SELECT state, status_code FROM deliveries WHERE hook_id = ? AND state IN ('sent', 'failed') ORDER BY id DESC",
        row["id"],
    )
    return {
        "type": "Repository",
        "id": row["id"],
        "name": "web",
        "active": bool(row["active"]),
        "events": json.loads(row["events"]),
        "config": config,
        "updated_at": row["updated_at"],
        "created_at": row["created_at"],
        "url": url,
        "test_url": f"{url}/test",
        "ping_url": f"{url}/pings",
        "deliveries_url": f"{url}/deliveries",
        "last_response": {
            "code": last["status_code"] if last else None,
            "status": last["state"] if last else "unused",
            "message": None,
        },
    }


def _delivery(row: Row, *, full: bool = False, url: str = "") -> dict[str, Any]:
    words = {"queued": "pending", "sending": "pending", "sent": "OK", "failed": "failed to connect to host"}
    shaped: dict[str, Any] = {
        "id": row["id"],
        "guid": row["guid"],
        "delivered_at": row["delivered_at"] or row["created_at"],
        "redelivery": bool(row["redelivery"]),
        "duration": row["duration"] or 0.0,
        "status": words[row["state"]],
        "status_code": row["status_code"] or 0,
        "event": row["event"],
        "action": row["action"],
        "installation_id": None,
        "repository_id": None,
        "throttled_at": None,
    }
    if full:
        shaped["url"] = url
        shaped["request"] = {"headers": {"X-GitHub-Event": row["event"]}, "payload": json.loads(row["payload"])}
        shaped["response"] = {"headers": {}, "payload": row["response"]}
    return shaped


@route("GET", "/repos/{owner}/{repo}/hooks", "List webhooks")
def index(tx: Tx, call: Call) -> Answer:
    """Give the hooks; administrators only."""
    repo = call.repo(tx, "admin")
    rows = tx.all("SELECT * FROM hooks WHERE repo_id = ? ORDER BY id", repo["id"])
    return paged(call, rows, lambda row: _shape(tx, repo, row))


@route("POST", "/repos/{owner}/{repo}/hooks", "Create a webhook")
def create(tx: Tx, call: Call) -> Answer:
    """Make a hook; it is pinged."""
    repo = call.repo(tx)
    row = ops.create(tx, call.actor, repo, call.object())
    _ping(tx, call, repo, row)
    shaped = _shape(tx, repo, row)
    return created(shaped, shaped["url"])


def _ping(tx: Tx, call: Call, repo: Row, row: Row) -> None:
    payload = {
        "zen": "Keep it logically awesome.",
        "hook_id": row["id"],
        "hook": _shape(tx, repo, row),
        "repository": repository(tx, repo),
        "sender": account(tx, call.actor.id),
    }
    queue(tx, row["id"], "ping", None, msgspec.json.encode(payload).decode())


@route("GET", "/repos/{owner}/{repo}/hooks/{hook:int}", "Get a webhook")
def get(tx: Tx, call: Call) -> Answer:
    """Give one hook."""
    repo = call.repo(tx)
    return Answer(_shape(tx, repo, ops.find(tx, call.actor, repo, call.number("hook"))))


@route("PATCH", "/repos/{owner}/{repo}/hooks/{hook:int}", "Update a webhook")
def edit(tx: Tx, call: Call) -> Answer:
    """Change a hook."""
    repo = call.repo(tx)
    hook = ops.find(tx, call.actor, repo, call.number("hook"))
    return Answer(_shape(tx, repo, ops.edit(tx, call.actor, repo, hook, call.object())))


@route("DELETE", "/repos/{owner}/{repo}/hooks/{hook:int}", "Delete a webhook")
def delete(tx: Tx, call: Call) -> Answer:
    """Delete a hook."""
    repo = call.repo(tx)
    ops.delete(tx, call.actor, repo, ops.find(tx, call.actor, repo, call.number("hook")))
    return empty()


@route("POST", "/repos/{owner}/{repo}/hooks/{hook:int}/pings", "Ping a webhook")
def ping(tx: Tx, call: Call) -> Answer:
    """Send a ping."""
    repo = call.repo(tx)
    _ping(tx, call, repo, ops.find(tx, call.actor, repo, call.number("hook")))
    return empty()


@route("GET", "/repos/{owner}/{repo}/hooks/{hook:int}/deliveries", "List a webhook's deliveries")
def deliveries(tx: Tx, call: Call) -> Answer:
    """Give the deliveries, newest first."""
    repo = call.repo(tx)
    hook = ops.find(tx, call.actor, repo, call.number("hook"))
    rows = tx.all("SELECT * FROM deliveries WHERE hook_id = ? ORDER BY id DESC LIMIT 1000", hook["id"])
    return paged(call, rows, _delivery)


def _find_delivery(tx: Tx, call: Call, hook: Row) -> Row:
    row = tx.one("SELECT * FROM deliveries WHERE id = ? AND hook_id = ?", call.number("delivery"), hook["id"])
    if row is None:
        raise not_found()
    return row


@route("GET", "/repos/{owner}/{repo}/hooks/{hook:int}/deliveries/{delivery:int}", "Get a delivery")
def delivery(tx: Tx, call: Call) -> Answer:
    """Give one delivery with its payload."""
    repo = call.repo(tx)
    hook = ops.find(tx, call.actor, repo, call.number("hook"))
    return Answer(_delivery(_find_delivery(tx, call, hook), full=True, url=hook["url"]))


@route("POST", "/repos/{owner}/{repo}/hooks/{hook:int}/deliveries/{delivery:int}/attempts", "Redeliver")
def redeliver(tx: Tx, call: Call) -> Answer:
    """Send a delivery once more."""
    repo = call.repo(tx)
    hook = ops.find(tx, call.actor, repo, call.number("hook"))
    ops.redeliver(tx, call.actor, repo, hook, _find_delivery(tx, call, hook))
    return Answer({}, 202)
