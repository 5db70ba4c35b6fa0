"""Commit statuses, check suites and check runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from droveway.localforge.access import Actor, invalid, need, not_found
from droveway.localforge.db import Row, Tx
from droveway.localforge.gitdata import commit
from droveway.localforge.ops.events import notify
from droveway.localforge.views import checks as shape
from droveway.localforge.views import commits as commit_shape
from droveway.localforge.views.checks import latest_statuses
from droveway.localforge.views.repos import full_name

STATES: Final = ("error", "failure", "pending", "success")
STATUSES: Final = ("queued", "in_progress", "completed", "waiting", "requested", "pending")
CONCLUSIONS: Final = (
    "action_required",
    "cancelled",
    "failure",
    "neutral",
    "success",
    "skipped",
    "stale",
    "timed_out",
)
_GOOD: Final = ("success", "neutral", "skipped")


def need_commit(tx: Tx, repo: Row, sha: str, resource: str) -> str:
    """Give the full SHA of an existing commit, or refuse."""
    found = tx.kernel.git(repo["id"]).resolve(sha)
    if found is None:
        raise invalid(resource, "sha", "custom", f"No commit found for SHA: {sha}")
    return found


def set_status(
    tx: Tx,
    actor: Actor,
    repo: Row,
    sha: str,
    state: str,
    *,
    context: str = "default",
    description: str | None = None,
    target_url: str | None = None,
) -> Row:
    """Write a commit status; the newest of a context counts."""
    need(tx, actor, repo, "write")
    if state not in STATES:
        raise invalid("Status", "state", "invalid", value=state)
    if description is not None and len(description) > 140:
        raise invalid("Status", "description", "custom", "description is too long (maximum is 140 characters)")
    if len(context) > 255:
        raise invalid("Status", "context", "custom", "context is too long (maximum is 255 characters)")
    sha = need_commit(tx, repo, sha, "Status")
    status_id = tx.insert(
        "statuses",
        repo_id=repo["id"],
        sha=sha,
        context=context,
        state=state,
        description=description,
        target_url=target_url,
        creator_id=actor.id,
        created_at=tx.now,
        updated_at=tx.now,
    )
    row = tx.get("statuses", status_id)
    notify(tx, repo, actor, "status", None, lambda: _status_payload(tx, repo, row))
    return row


def _status_payload(tx: Tx, repo: Row, row: Row) -> dict[str, Any]:
    git = tx.kernel.git(repo["id"])
    found = commit(tx.kernel, git, row["sha"])
    assert found is not None
    names = [name.removeprefix("refs/heads/") for name, tip in git.refs("refs/heads/").items() if tip == row["sha"]]
    return {
        "id": row["id"],
        "sha": row["sha"],
        "name": full_name(tx, repo),
        "avatar_url": shape.status(tx, repo, row)["avatar_url"],
        "target_url": row["target_url"],
        "context": row["context"],
        "description": row["description"],
        "state": row["state"],
        "commit": commit_shape.commit(tx, repo, found),
        "branches": [
            {key: value for key, value in commit_shape.short_branch(tx, repo, name, row["sha"], protected=False).items()
             if key != "protection_url"}
            for name in names[:10]
        ],
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
    }  # fmt: skip


def check_states(tx: Tx, repo_id: int, sha: str) -> dict[str, str]:
    """Give each status context and check name of a commit as success, pending or failure; the newest decides."""
    states = {row["context"]: row["state"].replace("error", "failure") for row in latest_statuses(tx, repo_id, sha)}
    for row in latest_runs(tx, repo_id, sha):
        if row["status"] != "completed":
            state = "pending"
        else:
            state = "success" if row["conclusion"] in _GOOD else "failure"
        if states.get(row["name"], "success") == "success":
            states[row["name"]] = state
    return states


def latest_runs(tx: Tx, repo_id: int, sha: str) -> list[Row]:
    """Give the newest run of each app and name at a commit."""
    return tx.all(
        "SELECT check_runs.* FROM check_runs WHERE id IN (SELECT max(check_runs.id) FROM check_runs"
        " JOIN check_suites ON check_suites.id = suite_id WHERE check_runs.repo_id = ? AND check_runs.sha = ?"
        " GROUP BY app_id, name) ORDER BY id",
        repo_id,
        sha,
    )


def app_of(tx: Tx, actor: Actor) -> int:
    """Give the app as which an account reports checks; each account is one. (On GitHub only apps report check runs.)"""
    found: int | None = tx.value("SELECT id FROM apps WHERE slug = ?", actor.login.lower())
    return found or tx.insert("apps", slug=actor.login.lower(), name=actor.login, owner_id=actor.id, created_at=tx.now)


def ensure_suite(tx: Tx, actor: Actor, repo: Row, sha: str, *, branch: str | None = None) -> Row:
    """Give the actor's suite of a commit, making it where it is missing."""
    need(tx, actor, repo, "write")
    app_id = app_of(tx, actor)
    row = tx.one("SELECT * FROM check_suites WHERE repo_id = ? AND sha = ? AND app_id = ?", repo["id"], sha, app_id)
    if row:
        return row
    if branch is None:
        tips = tx.kernel.git(repo["id"]).refs("refs/heads/")
        branch = next((name.removeprefix("refs/heads/") for name, tip in tips.items() if tip == sha), None)
    made = tx.insert(
        "check_suites", repo_id=repo["id"], app_id=app_id, sha=sha, branch=branch, created_at=tx.now, updated_at=tx.now
    )
    return tx.get("check_suites", made)


def create_run(tx: Tx, actor: Actor, repo: Row, sha: str, name: str, values: dict[str, Any]) -> Row:
    """Make a check run. ``values``: status, conclusion, details_url, external_id, started_at, completed_at, output."""
    need(tx, actor, repo, "write")
    if not name:
        raise invalid("CheckRun", "name", "missing_field")
    sha = need_commit(tx, repo, sha, "CheckRun")
    suite = ensure_suite(tx, actor, repo, sha)
    columns = _columns(tx, {"status": "queued", **values}, None)
    run_id = tx.insert(
        "check_runs",
        repo_id=repo["id"],
        suite_id=suite["id"],
        sha=sha,
        name=name,
        created_at=tx.now,
        updated_at=tx.now,
        **columns,
    )
    _settle(tx, actor, repo, suite["id"])
    row = tx.get("check_runs", run_id)
    notify(tx, repo, actor, "check_run", "created", lambda: {"check_run": shape.check_run(tx, repo, row)})
    if row["status"] == "completed":
        notify(tx, repo, actor, "check_run", "completed", lambda: {"check_run": shape.check_run(tx, repo, row)})
    return row


def find_run(tx: Tx, repo: Row, run_id: int) -> Row:
    """Give a check run of the repository, or refuse."""
    row = tx.one("SELECT * FROM check_runs WHERE id = ? AND repo_id = ?", run_id, repo["id"])
    if row is None:
        raise not_found()
    return row


def update_run(tx: Tx, actor: Actor, repo: Row, run: Row, values: dict[str, Any]) -> Row:
    """Change a check run; only what is given changes, annotations are added."""
    need(tx, actor, repo, "write")
    columns = _columns(tx, values, run)
    if values.get("name"):
        columns["name"] = values["name"]
    tx.update("check_runs", run["id"], **columns, updated_at=tx.now)
    _settle(tx, actor, repo, run["suite_id"])
    row = tx.get("check_runs", run["id"])
    if row["status"] == "completed" and run["status"] != "completed":
        notify(tx, repo, actor, "check_run", "completed", lambda: {"check_run": shape.check_run(tx, repo, row)})
    return row


def _columns(tx: Tx, values: dict[str, Any], old: Row | None) -> dict[str, Any]:
    columns: dict[str, Any] = {
        key: values[key]
        for key in ("status", "conclusion", "details_url", "started_at", "completed_at")
        if key in values
    }
    if values.get("external_id") is not None:
        columns["external_id"] = values["external_id"]
    if columns.get("conclusion") is not None and "status" not in values:
        columns["status"] = "completed"
    if old is None and values.get("conclusion"):
        columns["status"] = "completed"
    status = columns.get("status", old["status"] if old else "queued")
    conclusion = columns.get("conclusion", old["conclusion"] if old else None)
    if status not in STATUSES:
        raise invalid("CheckRun", "status", "invalid", value=status)
    if status == "completed" and conclusion is None:
        raise invalid("CheckRun", "conclusion", "missing_field")
    if conclusion is not None and conclusion not in CONCLUSIONS:
        raise invalid("CheckRun", "conclusion", "invalid", value=conclusion)
    if status != "completed":
        columns["conclusion"] = columns["completed_at"] = None
    else:
        columns["completed_at"] = columns.get("completed_at") or (old["completed_at"] if old else None) or tx.now
    if status in ("in_progress", "completed") and not columns.get("started_at"):
        columns["started_at"] = (old["started_at"] if old else None) or tx.now
    output = values.get("output")
    if isinstance(output, dict):
        columns |= {key: output[key] for key in ("title", "summary", "text") if key in output}
        fresh: Sequence[Any] = output.get("annotations") or ()
        if len(fresh) > 50:
            raise invalid("CheckRun", "annotations", "invalid", "at most 50 annotations in one request")
        kept = json.loads(old["annotations"]) if old else []
        columns["annotations"] = json.dumps([*kept, *fresh])
    return columns


def _settle(tx: Tx, actor: Actor, repo: Row, suite_id: int) -> None:
    """Derive a suite's status and conclusion from its newest runs."""
    before = tx.get("check_suites", suite_id)
    runs = tx.all(
        "SELECT * FROM check_runs WHERE id IN (SELECT max(id) FROM check_runs WHERE suite_id = ? GROUP BY name)",
        suite_id,
    )
    conclusion = None
    if all(run["status"] == "completed" for run in runs):
        status = "completed"
        found = {run["conclusion"] for run in runs}
        order = ("failure", "timed_out", "cancelled", "action_required", "stale", "success", "neutral", "skipped")
        conclusion = next((word for word in order if word in found), "success")
    else:
        status = "in_progress" if any(run["status"] in ("in_progress", "completed") for run in runs) else "queued"
    if (status, conclusion) == (before["status"], before["conclusion"]):
        return
    tx.update("check_suites", suite_id, status=status, conclusion=conclusion, updated_at=tx.now)
    if status == "completed":
        row = tx.get("check_suites", suite_id)
        notify(tx, repo, actor, "check_suite", "completed", lambda: {"check_suite": shape.check_suite(tx, repo, row)})
