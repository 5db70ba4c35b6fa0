"""Statuses, check suites and check runs in REST's shape."""

from __future__ import annotations

import json
from typing import Any

from droveway.localforge import nodes
from droveway.localforge.db import Row, Tx
from droveway.localforge.views.accounts import account
from droveway.localforge.views.repos import api_url, minimal, web_url

Json = dict[str, Any]


def status(tx: Tx, repo: Row, row: Row) -> Json:
    """Give one commit status."""
    creator = account(tx, row["creator_id"])
    return {
        "url": f"{api_url(tx, repo)}/statuses/{row['sha']}",
        "avatar_url": creator["avatar_url"],
        "id": row["id"],
        "node_id": nodes.encode("StatusContext", row["id"]),
        "state": row["state"],
        "description": row["description"],
        "target_url": row["target_url"],
        "context": row["context"],
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
        "creator": creator,
    }


def latest_statuses(tx: Tx, repo_id: int, sha: str) -> list[Row]:
    """Give the newest status of each context of a commit."""
    return tx.all(
        "SELECT * FROM statuses WHERE id IN"
        " (SELECT max(id) FROM statuses WHERE repo_id = ? AND sha = ? GROUP BY context) ORDER BY id",
        repo_id,
        sha,
    )


def combined(tx: Tx, repo: Row, sha: str, shown: list[Row], total: list[Row]) -> Json:
    """Give the combined status: failure beats pending beats success; no status at all is pending."""
    states = {row["state"] for row in total}
    if states & {"failure", "error"}:
        state = "failure"
    else:
        state = "success" if states == {"success"} else "pending"
    api = api_url(tx, repo)
    return {
        "state": state,
        "statuses": [{key: value for key, value in status(tx, repo, row).items() if key != "creator"} for row in shown],
        "sha": sha,
        "total_count": len(total),
        "repository": minimal(tx, repo),
        "commit_url": f"{api}/commits/{sha}",
        "url": f"{api}/commits/{sha}/status",
    }


def app(tx: Tx, app_id: int) -> Json:
    """Give the app that reports checks."""
    row = tx.get("apps", app_id)
    return {
        "id": row["id"],
        "slug": row["slug"],
        "node_id": nodes.encode("App", row["id"]),
        "client_id": f"Iv1.{row['id']:016x}",
        "owner": account(tx, row["owner_id"]),
        "name": row["name"],
        "description": None,
        "external_url": f"{tx.web}/apps/{row['slug']}",
        "html_url": f"{tx.web}/apps/{row['slug']}",
        "created_at": row["created_at"],
        "updated_at": row["created_at"],
        "permissions": {"checks": "write", "contents": "read", "metadata": "read"},
        "events": [],
    }


def pulls_at(tx: Tx, repo: Row, sha: str) -> list[Json]:
    """Give the open pull requests with this head, in the short form."""
    rows = tx.all(
        "SELECT issues.id, number, head_ref, head_sha, base_ref, base_sha FROM pulls"
        " JOIN issues ON issues.id = issue_id WHERE head_sha = ? AND repo_id = ? AND state = 'open' ORDER BY number",
        sha,
        repo["id"],
    )
    where = {"id": repo["id"], "url": api_url(tx, repo), "name": repo["name"]}
    return [
        {
            "url": f"{api_url(tx, repo)}/pulls/{row['number']}",
            "id": row["id"],
            "number": row["number"],
            "head": {"ref": row["head_ref"], "sha": row["head_sha"], "repo": where},
            "base": {"ref": row["base_ref"], "sha": row["base_sha"], "repo": where},
        }
        for row in rows
    ]


def check_run(tx: Tx, repo: Row, row: Row) -> Json:
    """Give a check run."""
    url = f"{api_url(tx, repo)}/check-runs/{row['id']}"
    page = f"{web_url(tx, repo)}/runs/{row['id']}"
    return {
        "id": row["id"],
        "name": row["name"],
        "node_id": nodes.encode("CheckRun", row["id"]),
        "head_sha": row["sha"],
        "external_id": row["external_id"],
        "url": url,
        "html_url": page,
        "details_url": row["details_url"] or page,
        "status": row["status"],
        "conclusion": row["conclusion"],
        "started_at": row["started_at"],
        "completed_at": row["completed_at"],
        "output": {
            "title": row["title"],
            "summary": row["summary"],
            "text": row["text"],
            "annotations_count": len(json.loads(row["annotations"])),
            "annotations_url": f"{url}/annotations",
        },
        "check_suite": {"id": row["suite_id"]},
        "app": app(tx, tx.get("check_suites", row["suite_id"])["app_id"]),
        "pull_requests": pulls_at(tx, repo, row["sha"]),
    }


def check_suite(tx: Tx, repo: Row, row: Row) -> Json:
    """Give a check suite."""
    url = f"{api_url(tx, repo)}/check-suites/{row['id']}"
    return {
        "id": row["id"],
        "node_id": nodes.encode("CheckSuite", row["id"]),
        "head_branch": row["branch"],
        "head_sha": row["sha"],
        "status": row["status"],
        "conclusion": row["conclusion"],
        "url": url,
        "before": None,
        "after": row["sha"],
        "pull_requests": pulls_at(tx, repo, row["sha"]),
        "app": app(tx, row["app_id"]),
        "repository": minimal(tx, repo),
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
        "latest_check_runs_count": tx.value("SELECT count(*) FROM check_runs WHERE suite_id = ?", row["id"]),
        "check_runs_url": f"{url}/check-runs",
        "head_commit": None,
        "rerequestable": False,
        "runs_rerequestable": False,
    }
