"""The timeline of an issue or pull request: events, comments, commits and reviews in the order of their times."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from droveway.localforge import diffs, gitdata
from droveway.localforge.db import Row, Tx
from droveway.localforge.gitdata import Commit
from droveway.localforge.views import commits as commit_shape
from droveway.localforge.views import issues as shape
from droveway.localforge.views import pulls as pull_shape
from droveway.localforge.views.accounts import account
from droveway.localforge.views.repos import api_url, web_url

Entry = Callable[[], dict[str, Any]]


def timeline(tx: Tx, repo: Row, issue: Row) -> list[Entry]:
    """Give the entries oldest first; each is shaped when it is called."""
    found: list[tuple[str, int, int, Entry]] = []

    def add(moment: str, rank: int, place: int, entry: Entry) -> None:
        found.append((moment, rank, place, entry))

    for row in tx.all("SELECT * FROM events WHERE issue_id = ?", issue["id"]):
        add(row["created_at"], 2, row["id"], functools.partial(shape.event, tx, repo, row))
    for row in tx.all("SELECT * FROM comments WHERE issue_id = ?", issue["id"]):
        add(row["created_at"], 1, row["id"], functools.partial(_comment, tx, repo, row))
    if issue["is_pull"]:
        pull = tx.get("pulls", issue["id"])
        shas = diffs.pull_commits(tx, repo, pull)[-250:]
        for place, commit in enumerate(gitdata.commits(tx.kernel, tx.kernel.git(repo["id"]), shas)):
            add(commit.committer.date, 0, place, functools.partial(_commit, tx, repo, commit))
        for row in tx.all("SELECT * FROM reviews WHERE issue_id = ? AND submitted_at IS NOT NULL", issue["id"]):
            add(row["submitted_at"], 1, row["id"], functools.partial(_review, tx, repo, issue, row))
    return [entry for *_, entry in sorted(found, key=lambda each: each[:3])]


def _comment(tx: Tx, repo: Row, row: Row) -> dict[str, Any]:
    shaped = shape.comment(tx, repo, row)
    return {**shaped, "event": "commented", "actor": shaped["user"]}


def _review(tx: Tx, repo: Row, issue: Row, row: Row) -> dict[str, Any]:
    shaped = pull_shape.review(tx, repo, issue, row)
    return {**shaped, "state": row["state"].lower(), "event": "reviewed", "actor": account(tx, row["author_id"])}


def _commit(tx: Tx, repo: Row, commit: Commit) -> dict[str, Any]:
    shaped = commit_shape.git_commit(tx, repo, commit)
    url = f"{api_url(tx, repo)}/git/commits/{commit.sha}"
    return {**shaped, "event": "committed", "url": url, "html_url": f"{web_url(tx, repo)}/commit/{commit.sha}"}
