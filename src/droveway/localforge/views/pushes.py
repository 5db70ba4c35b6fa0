"""A push in the shape of its webhook."""

from __future__ import annotations

from typing import Any

from droveway.localforge import gitdata
from droveway.localforge.access import Actor
from droveway.localforge.db import Row, Tx
from droveway.localforge.gitdata import Commit
from droveway.localforge.gitrepo import ZERO, GitRepo
from droveway.localforge.views.commits import account_of
from droveway.localforge.views.repos import web_url

Json = dict[str, Any]


def push(tx: Tx, repo: Row, actor: Actor, update: tuple[str, str, str], *, forced: bool) -> Json:
    """Give a push's own part: at most 20 commits are listed, as in GitHub's events."""
    ref, old, new = update
    git = tx.kernel.git(repo["id"])
    web = web_url(tx, repo)
    shas: list[str] = []
    if new != ZERO and git.kind(new) == "commit":
        span = (
            [f"{old}..{new}"]
            if old != ZERO
            else [new, f"^{repo['default_branch']}"]
            if _known(git, repo, new)
            else [new]
        )
        shas = git.rev_list("-n", "20", *span)
    listed = [_commit(tx, git, web, found) for found in reversed(gitdata.commits(tx.kernel, git, shas))]
    head = gitdata.commit(tx.kernel, git, new) if new != ZERO else None
    return {
        "ref": ref,
        "before": old,
        "after": new,
        "created": old == ZERO,
        "deleted": new == ZERO,
        "forced": forced,
        "base_ref": None,
        "compare": f"{web}/compare/{old[:12]}...{new[:12]}",
        "commits": listed,
        "head_commit": _commit(tx, git, web, head) if head else None,
        "pusher": {"name": actor.login, "email": tx.get("users", actor.id)["email"]},
    }


def _known(git: GitRepo, repo: Row, new: str) -> bool:
    tip = git.branch(repo["default_branch"])
    return tip is not None and tip != new


def _commit(tx: Tx, git: GitRepo, web: str, commit: Commit) -> Json:
    parent = commit.parents[0] if commit.parents else gitdata.EMPTY_TREE
    files = gitdata.changed_files(git, parent, commit.sha, patches=False)

    def person(who: gitdata.Person) -> Json:
        known = account_of(tx, who)
        return {
            "name": who.name,
            "email": who.email,
            "date": who.local,
            **({"username": known["login"]} if known else {}),
        }

    return {
        "id": commit.sha,
        "tree_id": commit.tree,
        "distinct": True,
        "message": commit.message,
        "timestamp": commit.committer.local,
        "url": f"{web}/commit/{commit.sha}",
        "author": person(commit.author),
        "committer": person(commit.committer),
        "added": [each.path for each in files if each.status == "added"],
        "removed": [each.path for each in files if each.status == "removed"],
        "modified": [each.path for each in files if each.status not in ("added", "removed")],
    }
