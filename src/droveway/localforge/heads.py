"""What a runner of checks beside this forge asks it, in its own process and without a request (FRG-028)."""

from __future__ import annotations

import msgspec

from droveway.localforge.access import actor_of, can
from droveway.localforge.db import Tx
from droveway.localforge.views.repos import full_name

BATCHES = "refs/heads/herd/batch/"


class CiView(msgspec.Struct, frozen=True):
    """One repository: ``heads`` are refs and tips of open PRs and of batch branches.

    ``unfinished`` are (check run's id, SHA) of those that were asked for and are not completed.
    """

    repo: str
    heads: dict[str, str]
    unfinished: tuple[tuple[int, str], ...]


def ci_view(tx: Tx, login: str, external_id: str) -> list[CiView]:
    """Give every repository that the account may write to. ``external_id`` marks the check runs that are meant."""
    user = tx.value("SELECT id FROM users WHERE login = ?", login)
    if user is None:
        return []
    actor = actor_of(tx, user)
    return [
        CiView(full_name(tx, repo), _heads(tx, repo["id"]), _unfinished(tx, repo["id"], external_id))
        for repo in tx.all("SELECT * FROM repos ORDER BY id")
        if can(tx, actor, repo, "write")
    ]


def _heads(tx: Tx, repo_id: int) -> dict[str, str]:
    pulls = tx.pairs(
        "SELECT head_ref, head_sha FROM pulls JOIN issues ON issues.id = issue_id"
        " WHERE repo_id = ? AND state = 'open' ORDER BY number",
        repo_id,
    )
    return {**{f"refs/heads/{ref}": sha for ref, sha in pulls}, **tx.kernel.git(repo_id).refs(BATCHES)}


def _unfinished(tx: Tx, repo_id: int, external_id: str) -> tuple[tuple[int, str], ...]:
    sql = "SELECT id, sha FROM check_runs WHERE repo_id = ? AND external_id = ? AND status <> 'completed' ORDER BY id"
    return tuple(tx.pairs(sql, repo_id, external_id))
