"""Commits, branches, refs and files of a difference in REST's shape."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from droveway.localforge import nodes
from droveway.localforge.db import Row, Tx
from droveway.localforge.gitdata import Commit, FileChange, Person
from droveway.localforge.views.accounts import user
from droveway.localforge.views.repos import api_url, web_url

Json = dict[str, Any]
UNVERIFIED: Json = {"verified": False, "reason": "unsigned", "signature": None, "payload": None, "verified_at": None}


def account_of(tx: Tx, person: Person) -> Json | None:
    """Give the account whose address a commit carries."""
    key = ("email", person.email)
    if key not in tx.memo:
        tx.memo[key] = user(tx, tx.value("SELECT id FROM users WHERE email = ? COLLATE NOCASE", person.email))
    found: Json | None = tx.memo[key]
    return found


def git_person(person: Person) -> Json:
    """Give name, email and date."""
    return {"name": person.name, "email": person.email, "date": person.date}


def git_commit(tx: Tx, repo: Row, commit: Commit) -> Json:
    """Give the bare git commit (``/git/commits``)."""
    api = f"{api_url(tx, repo)}/git"
    return {
        "sha": commit.sha,
        "node_id": nodes.encode("Commit", repo["id"], commit.sha),
        "url": f"{api}/commits/{commit.sha}",
        "html_url": f"{web_url(tx, repo)}/commit/{commit.sha}",
        "author": git_person(commit.author),
        "committer": git_person(commit.committer),
        "tree": {"sha": commit.tree, "url": f"{api}/trees/{commit.tree}"},
        "message": commit.message,
        "parents": [_parent(tx, repo, sha, "/git") for sha in commit.parents],
        "verification": UNVERIFIED,
    }


def _parent(tx: Tx, repo: Row, sha: str, infix: str = "") -> Json:
    return {
        "sha": sha,
        "url": f"{api_url(tx, repo)}{infix}/commits/{sha}",
        "html_url": f"{web_url(tx, repo)}/commit/{sha}",
    }


def commit(tx: Tx, repo: Row, found: Commit) -> Json:
    """Give a commit as lists have it."""
    api = api_url(tx, repo)
    url = f"{api}/commits/{found.sha}"
    return {
        "sha": found.sha,
        "node_id": nodes.encode("Commit", repo["id"], found.sha),
        "commit": {
            "author": git_person(found.author),
            "committer": git_person(found.committer),
            "message": found.message,
            "tree": {"sha": found.tree, "url": f"{api}/git/trees/{found.tree}"},
            "url": f"{api}/git/commits/{found.sha}",
            "comment_count": 0,
            "verification": UNVERIFIED,
        },
        "url": url,
        "html_url": f"{web_url(tx, repo)}/commit/{found.sha}",
        "comments_url": f"{url}/comments",
        "author": account_of(tx, found.author),
        "committer": account_of(tx, found.committer),
        "parents": [_parent(tx, repo, sha) for sha in found.parents],
    }


def file(tx: Tx, repo: Row, sha: str, change: FileChange) -> Json:
    """Give one changed file."""
    name = quote(change.path)
    shaped: Json = {
        "sha": change.sha,
        "filename": change.path,
        "status": change.status,
        "additions": change.additions,
        "deletions": change.deletions,
        "changes": change.additions + change.deletions,
        "blob_url": f"{web_url(tx, repo)}/blob/{sha}/{name}",
        "raw_url": f"{web_url(tx, repo)}/raw/{sha}/{name}",
        "contents_url": f"{api_url(tx, repo)}/contents/{name}?ref={sha}",
    }
    if change.patch is not None:
        shaped["patch"] = change.patch
    if change.previous is not None:
        shaped["previous_filename"] = change.previous
    return shaped


def ref(tx: Tx, repo: Row, name: str, sha: str, kind: str = "commit") -> Json:
    """Give a git ref."""
    api = f"{api_url(tx, repo)}/git"
    return {
        "ref": name,
        "node_id": nodes.encode("Ref", repo["id"], name),
        "url": f"{api}/{quote(name)}",
        "object": {"sha": sha, "type": kind, "url": f"{api}/{kind}s/{sha}"},
    }


def short_branch(tx: Tx, repo: Row, name: str, sha: str, *, protected: bool) -> Json:
    """Give a branch as lists have it."""
    api = api_url(tx, repo)
    return {
        "name": name,
        "commit": {"sha": sha, "url": f"{api}/commits/{sha}"},
        "protected": protected,
        "protection_url": f"{api}/branches/{quote(name, safe='')}/protection",
    }
