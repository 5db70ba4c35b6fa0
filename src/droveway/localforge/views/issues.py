"""Labels, milestones, issues, comments, reactions and the timeline in REST's shape."""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import quote

from droveway.localforge import nodes
from droveway.localforge.access import association
from droveway.localforge.db import Row, Tx
from droveway.localforge.views.accounts import account, user
from droveway.localforge.views.repos import api_url, web_url

Json = dict[str, Any]
REACTIONS: Final = ("+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes")


def label(tx: Tx, repo: Row, row: Row) -> Json:
    """Give a label."""
    return {
        "id": row["id"],
        "node_id": nodes.encode("Label", row["id"]),
        "url": f"{api_url(tx, repo)}/labels/{quote(row['name'], safe='')}",
        "name": row["name"],
        "color": row["color"],
        "default": bool(row["is_default"]),
        "description": row["description"],
    }


def labels_of(tx: Tx, repo: Row, issue_id: int) -> list[Json]:
    """Give an issue's labels by name."""
    rows = tx.all(
        "SELECT labels.* FROM issue_labels JOIN labels ON labels.id = label_id WHERE issue_id = ? ORDER BY labels.name",
        issue_id,
    )
    return [label(tx, repo, row) for row in rows]


def milestone(tx: Tx, repo: Row, row: Row) -> Json:
    """Give a milestone with its counts, in which pull requests count as issues."""
    counts: dict[str, int] = dict(
        tx.pairs("SELECT state, count(*) FROM issues WHERE milestone_id = ? GROUP BY state", row["id"])
    )
    url = f"{api_url(tx, repo)}/milestones/{row['number']}"
    return {
        "url": url,
        "html_url": f"{web_url(tx, repo)}/milestone/{row['number']}",
        "labels_url": f"{url}/labels",
        "id": row["id"],
        "node_id": nodes.encode("Milestone", row["id"]),
        "number": row["number"],
        "state": row["state"],
        "title": row["title"],
        "description": row["description"],
        "creator": account(tx, row["creator_id"]),
        "open_issues": counts.get("open", 0),
        "closed_issues": counts.get("closed", 0),
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
        "closed_at": row["closed_at"],
        "due_on": row["due_on"],
    }


def milestone_of(tx: Tx, repo: Row, milestone_id: int | None) -> Json | None:
    """Give the milestone of an issue, read once per transaction."""
    if milestone_id is None:
        return None
    key = ("milestone", milestone_id)
    if key not in tx.memo:
        tx.memo[key] = milestone(tx, repo, tx.get("milestones", milestone_id))
    found: Json = tx.memo[key]
    return found


def reaction_counts(tx: Tx, kind: str, subject_id: int, url: str) -> Json:
    """Give the roll-up of reactions of an issue or comment."""
    sql = "SELECT content, count(*) FROM reactions WHERE subject_kind = ? AND subject_id = ? GROUP BY content"
    counts: dict[str, int] = dict(tx.pairs(sql, kind, subject_id))
    return {"url": f"{url}/reactions", "total_count": sum(counts.values()), **{c: counts.get(c, 0) for c in REACTIONS}}


def reaction(tx: Tx, row: Row) -> Json:
    """Give one reaction."""
    return {
        "id": row["id"],
        "node_id": nodes.encode("Reaction", row["id"]),
        "user": account(tx, row["user_id"]),
        "content": row["content"],
        "created_at": row["created_at"],
    }


def assignees_of(tx: Tx, issue_id: int) -> list[Json]:
    """Give who is assigned."""
    return [
        account(tx, row[0])
        for row in tx.all("SELECT user_id FROM assignees WHERE issue_id = ? ORDER BY user_id", issue_id)
    ]


def issue(tx: Tx, repo: Row, row: Row, *, full: bool = False) -> Json:
    """Give an issue, or a pull request seen as one. ``full``: with ``closed_by``."""
    url = f"{api_url(tx, repo)}/issues/{row['number']}"
    page = f"{web_url(tx, repo)}/{'pull' if row['is_pull'] else 'issues'}/{row['number']}"
    people = assignees_of(tx, row["id"])
    shaped: Json = {
        "url": url,
        "repository_url": api_url(tx, repo),
        "labels_url": f"{url}/labels{{/name}}",
        "comments_url": f"{url}/comments",
        "events_url": f"{url}/events",
        "html_url": page,
        "id": row["id"],
        "node_id": nodes.encode("PullRequest" if row["is_pull"] else "Issue", row["id"]),
        "number": row["number"],
        "title": row["title"],
        "user": account(tx, row["author_id"]),
        "labels": labels_of(tx, repo, row["id"]),
        "state": row["state"],
        "locked": bool(row["locked"]),
        "assignee": people[0] if people else None,
        "assignees": people,
        "milestone": milestone_of(tx, repo, row["milestone_id"]),
        "comments": tx.value("SELECT count(*) FROM comments WHERE issue_id = ?", row["id"]),
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
        "closed_at": row["closed_at"],
        "author_association": association(tx, row["author_id"], repo),
        "active_lock_reason": None,
        "body": row["body"],
        "reactions": reaction_counts(tx, "issue", row["id"], url),
        "timeline_url": f"{url}/timeline",
        "performed_via_github_app": None,
        "state_reason": row["state_reason"],
    }
    if row["is_pull"]:
        pull = tx.get("pulls", row["id"])
        shaped["draft"] = bool(pull["draft"])
        shaped["pull_request"] = {
            "url": f"{api_url(tx, repo)}/pulls/{row['number']}",
            "html_url": page,
            "diff_url": f"{page}.diff",
            "patch_url": f"{page}.patch",
            "merged_at": pull["merged_at"],
        }
    if full:
        shaped["closed_by"] = user(tx, row["closed_by_id"])
    return shaped


def comment(tx: Tx, repo: Row, row: Row) -> Json:
    """Give a comment on an issue or pull request."""
    subject = tx.get("issues", row["issue_id"])
    url = f"{api_url(tx, repo)}/issues/comments/{row['id']}"
    page = f"{web_url(tx, repo)}/{'pull' if subject['is_pull'] else 'issues'}/{subject['number']}"
    return {
        "url": url,
        "html_url": f"{page}#issuecomment-{row['id']}",
        "issue_url": f"{api_url(tx, repo)}/issues/{subject['number']}",
        "id": row["id"],
        "node_id": nodes.encode("IssueComment", row["id"]),
        "user": account(tx, row["author_id"]),
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
        "author_association": association(tx, row["author_id"], repo),
        "body": row["body"],
        "reactions": reaction_counts(tx, "comment", row["id"], url),
        "performed_via_github_app": None,
    }


def event(tx: Tx, repo: Row, row: Row) -> Json:
    """Give one event of an issue's history; what it is about (label, rename, milestone, …) stands beside it."""
    people = {}
    data = json.loads(row["data"])
    for key in ("assignee", "assigner", "requested_reviewer", "review_requester"):
        if key in data:
            people[key] = account(tx, data.pop(key))
    return {
        "id": row["id"],
        "node_id": nodes.encode("Event", row["id"]),
        "url": f"{api_url(tx, repo)}/issues/events/{row['id']}",
        "actor": user(tx, row["actor_id"]),
        "event": row["kind"],
        "commit_id": row["commit_sha"],
        "commit_url": f"{api_url(tx, repo)}/commits/{row['commit_sha']}" if row["commit_sha"] else None,
        "created_at": row["created_at"],
        "performed_via_github_app": None,
        **data,
        **people,
    }
