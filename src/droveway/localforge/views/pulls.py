"""Pull requests, reviews and review comments in REST's shape."""

from __future__ import annotations

from typing import Any

from droveway.localforge import nodes
from droveway.localforge.access import association
from droveway.localforge.db import Row, Tx
from droveway.localforge.diffs import pull_size
from droveway.localforge.views.accounts import account, login_of, user
from droveway.localforge.views.issues import assignees_of, labels_of, milestone_of, reaction_counts
from droveway.localforge.views.repos import api_url, repository, web_url

Json = dict[str, Any]


def requested(tx: Tx, issue_id: int) -> list[Json]:
    """Give who was asked for a review."""
    rows = tx.all("SELECT user_id FROM review_requests WHERE issue_id = ? ORDER BY user_id", issue_id)
    return [account(tx, row[0]) for row in rows]


def _side(tx: Tx, repo: Row, ref: str, sha: str) -> Json:
    return {
        "label": f"{login_of(tx, repo['owner_id'])}:{ref}",
        "ref": ref,
        "sha": sha,
        "user": account(tx, repo["owner_id"]),
        "repo": repository(tx, repo),
    }


def pull(tx: Tx, repo: Row, issue: Row, *, full: bool = False, merge: Json | None = None) -> Json:
    """Give a pull request. ``full``: the single one's page with counts; ``merge``: what is known of mergeability."""
    row = tx.get("pulls", issue["id"])
    number = issue["number"]
    url, page = f"{api_url(tx, repo)}/pulls/{number}", f"{web_url(tx, repo)}/pull/{number}"
    as_issue = f"{api_url(tx, repo)}/issues/{number}"
    links = {
        "self": url,
        "html": page,
        "issue": as_issue,
        "comments": f"{as_issue}/comments",
        "review_comments": f"{url}/comments",
        "review_comment": f"{api_url(tx, repo)}/pulls/comments{{/number}}",
        "commits": f"{url}/commits",
        "statuses": f"{api_url(tx, repo)}/statuses/{row['head_sha']}",
    }
    people = assignees_of(tx, issue["id"])
    shaped: Json = {
        "url": url,
        "id": issue["id"],
        "node_id": nodes.encode("PullRequest", issue["id"]),
        "html_url": page,
        "diff_url": f"{page}.diff",
        "patch_url": f"{page}.patch",
        "issue_url": as_issue,
        "number": number,
        "state": issue["state"],
        "locked": bool(issue["locked"]),
        "title": issue["title"],
        "user": account(tx, issue["author_id"]),
        "body": issue["body"],
        "created_at": issue["created_at"],
        "updated_at": issue["updated_at"],
        "closed_at": issue["closed_at"],
        "merged_at": row["merged_at"],
        "merge_commit_sha": row["merge_sha"] or (merge or {}).get("test_sha"),
        "assignee": people[0] if people else None,
        "assignees": people,
        "requested_reviewers": requested(tx, issue["id"]),
        "requested_teams": [],
        "labels": labels_of(tx, repo, issue["id"]),
        "milestone": milestone_of(tx, repo, issue["milestone_id"]),
        "draft": bool(row["draft"]),
        "commits_url": links["commits"],
        "review_comments_url": links["review_comments"],
        "review_comment_url": links["review_comment"],
        "comments_url": links["comments"],
        "statuses_url": links["statuses"],
        "head": _side(tx, repo, row["head_ref"], row["head_sha"]),
        "base": _side(tx, repo, row["base_ref"], row["base_sha"]),
        "_links": {name: {"href": address} for name, address in links.items()},
        "author_association": association(tx, issue["author_id"], repo),
        "auto_merge": None,
        "active_lock_reason": None,
    }
    if full:
        shaped |= {
            "merged": bool(row["merged"]),
            "mergeable": (merge or {}).get("mergeable"),
            "rebaseable": (merge or {}).get("rebaseable"),
            "mergeable_state": (merge or {}).get("state", "unknown"),
            "merged_by": user(tx, row["merged_by_id"]),
            "comments": tx.value("SELECT count(*) FROM comments WHERE issue_id = ?", issue["id"]),
            "review_comments": tx.value("SELECT count(*) FROM review_comments WHERE issue_id = ?", issue["id"]),
            "maintainer_can_modify": bool(row["maintainer_can_modify"]),
            **pull_size(tx, repo, row),
        }
    return shaped


def review(tx: Tx, repo: Row, issue: Row, row: Row) -> Json:
    """Give a review."""
    page = f"{web_url(tx, repo)}/pull/{issue['number']}#pullrequestreview-{row['id']}"
    url = f"{api_url(tx, repo)}/pulls/{issue['number']}"
    shaped = {
        "id": row["id"],
        "node_id": nodes.encode("PullRequestReview", row["id"]),
        "user": account(tx, row["author_id"]),
        "body": row["body"],
        "state": row["state"],
        "html_url": page,
        "pull_request_url": url,
        "author_association": association(tx, row["author_id"], repo),
        "_links": {"html": {"href": page}, "pull_request": {"href": url}},
        "commit_id": row["commit_sha"],
    }
    if row["submitted_at"]:
        shaped["submitted_at"] = row["submitted_at"]
    return shaped


def review_comment(tx: Tx, repo: Row, issue: Row, row: Row) -> Json:
    """Give a comment of a review thread. ``line`` and ``position`` are null where it is outdated."""
    thread = tx.get("threads", row["thread_id"])
    api = api_url(tx, repo)
    url, pull_url = f"{api}/pulls/comments/{row['id']}", f"{api}/pulls/{issue['number']}"
    page = f"{web_url(tx, repo)}/pull/{issue['number']}#discussion_r{row['id']}"
    shaped = {
        "url": url,
        "pull_request_review_id": row["review_id"],
        "id": row["id"],
        "node_id": nodes.encode("PullRequestReviewComment", row["id"]),
        "diff_hunk": thread["diff_hunk"],
        "path": thread["path"],
        "commit_id": tx.get("pulls", issue["id"])["head_sha"] if not thread["outdated"] else thread["original_sha"],
        "original_commit_id": thread["original_sha"],
        "user": account(tx, row["author_id"]),
        "body": row["body"],
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
        "html_url": page,
        "pull_request_url": pull_url,
        "author_association": association(tx, row["author_id"], repo),
        "_links": {"self": {"href": url}, "html": {"href": page}, "pull_request": {"href": pull_url}},
        "reactions": reaction_counts(tx, "review_comment", row["id"], url),
        "start_line": thread["start_line"],
        "original_start_line": thread["original_start_line"],
        "start_side": thread["start_side"],
        "line": thread["line"],
        "original_line": thread["original_line"],
        "side": thread["side"],
        "position": thread["line"],
        "original_position": thread["original_line"],
        "subject_type": thread["subject_type"],
    }
    if row["in_reply_to_id"]:
        shaped["in_reply_to_id"] = row["in_reply_to_id"]
    return shaped
