"""Branch protection, and what it says about one pull request."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from droveway.localforge.access import Actor, can, need, not_found
from droveway.localforge.db import Row, Tx
from droveway.localforge.ops.checks import check_states

OPINIONS = ("APPROVED", "CHANGES_REQUESTED", "DISMISSED")


def protection_of(tx: Tx, repo_id: int, branch: str) -> Row | None:
    """Give a branch's protection, or None."""
    return tx.one("SELECT * FROM protections WHERE repo_id = ? AND branch = ?", repo_id, branch)


def required_checks(protection: Row | None) -> tuple[str, ...] | None:
    """Give the required contexts; None where no checks are required."""
    if protection is None or protection["checks"] is None:
        return None
    return tuple(json.loads(protection["checks"]))


def protect(tx: Tx, actor: Actor, repo: Row, branch: str, **values: Any) -> Row:
    """Set a branch's whole protection (columns of ``protections``)."""
    need(tx, actor, repo, "admin")
    if tx.kernel.git(repo["id"]).branch(branch) is None:
        raise not_found()
    tx.run("DELETE FROM protections WHERE repo_id = ? AND branch = ?", repo["id"], branch)
    return tx.get("protections", tx.insert("protections", repo_id=repo["id"], branch=branch, **values))


def unprotect(tx: Tx, actor: Actor, repo: Row, branch: str) -> None:
    """Take a branch's protection away."""
    need(tx, actor, repo, "admin")
    if not tx.run("DELETE FROM protections WHERE repo_id = ? AND branch = ?", repo["id"], branch):
        raise not_found()


def opinions(tx: Tx, issue_id: int) -> dict[int, Row]:
    """Give each reviewer's latest review that is an opinion (approved, changes requested) or was dismissed."""
    rows = tx.all("SELECT * FROM reviews WHERE issue_id = ? ORDER BY submitted_at, id", issue_id)
    return {row["author_id"]: row for row in rows if row["state"] in OPINIONS}


def approvals(tx: Tx, repo: Row, issue_id: int) -> tuple[int, int]:
    """Give (approvals, requests for changes) of those who may write."""
    states = [row["state"] for user_id, row in opinions(tx, issue_id).items() if _may_write(tx, user_id, repo)]
    return states.count("APPROVED"), states.count("CHANGES_REQUESTED")


def _may_write(tx: Tx, user_id: int, repo: Row) -> bool:
    return can(tx, Actor(user_id, "", "User"), repo, "write")


def review_decision(tx: Tx, repo: Row, issue: Row, pull: Row) -> str | None:
    """Give GraphQL's ``reviewDecision``: APPROVED, CHANGES_REQUESTED, REVIEW_REQUIRED, or None."""
    yes, no = approvals(tx, repo, issue["id"])
    protection = protection_of(tx, repo["id"], pull["base_ref"])
    wanted = protection["reviews"] if protection and protection["reviews"] is not None else None
    if no:
        return "CHANGES_REQUESTED"
    if wanted and yes < wanted:
        return "REVIEW_REQUIRED"
    return "APPROVED" if yes else None


class Verdict(msgspec.Struct, frozen=True):
    """What stands between a pull request and its merge, besides conflicts. ``blocks`` are lines for people."""

    blocks: tuple[str, ...] = ()
    behind: bool = False
    unstable: bool = False


def judge(tx: Tx, repo: Row, issue: Row, pull: Row) -> Verdict:
    """Compare a pull request with its base branch's protection."""
    protection = protection_of(tx, repo["id"], pull["base_ref"])
    states = check_states(tx, repo["id"], pull["head_sha"])
    required = required_checks(protection) or ()
    unstable = any(state != "success" for name, state in states.items() if name not in required)
    if protection is None:
        return Verdict(unstable=unstable)
    words = {None: "expected", "failure": "failing", "pending": "in progress"}
    found = [(name, states.get(name)) for name in required]
    blocks = [f'Required status check "{name}" is {words[state]}.' for name, state in found if state in words]
    if protection["reviews"] is not None:
        yes, no = approvals(tx, repo, issue["id"])
        if no:
            blocks.append("Changes have been requested.")
        if yes < protection["reviews"]:
            blocks.append(
                f"At least {protection['reviews']} approving review is required by reviewers with write access."
            )
    if protection["conversations"] and tx.value(
        "SELECT count(*) FROM threads WHERE issue_id = ? AND resolved = 0", issue["id"]
    ):
        blocks.append("A conversation must be resolved before this pull request can be merged.")
    behind = False
    if protection["strict"]:
        git = tx.kernel.git(repo["id"])
        behind = not git.is_ancestor(git.branch(pull["base_ref"]) or pull["base_sha"], pull["head_sha"])
    return Verdict(tuple(blocks), behind, unstable)
