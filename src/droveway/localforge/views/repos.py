"""Repositories in REST's shape."""

from __future__ import annotations

from typing import Any, Final

from droveway.localforge import nodes
from droveway.localforge.access import ROLES, Actor, can, role_of
from droveway.localforge.db import Row, Tx
from droveway.localforge.views.accounts import account, login_of

Json = dict[str, Any]

_LINKS: Final = {
    "forks": "/forks",
    "keys": "/keys{/key_id}",
    "collaborators": "/collaborators{/collaborator}",
    "teams": "/teams",
    "hooks": "/hooks",
    "issue_events": "/issues/events{/number}",
    "events": "/events",
    "assignees": "/assignees{/user}",
    "branches": "/branches{/branch}",
    "tags": "/tags",
    "blobs": "/git/blobs{/sha}",
    "git_tags": "/git/tags{/sha}",
    "git_refs": "/git/refs{/sha}",
    "trees": "/git/trees{/sha}",
    "statuses": "/statuses/{sha}",
    "languages": "/languages",
    "stargazers": "/stargazers",
    "contributors": "/contributors",
    "subscribers": "/subscribers",
    "subscription": "/subscription",
    "commits": "/commits{/sha}",
    "git_commits": "/git/commits{/sha}",
    "comments": "/comments{/number}",
    "issue_comment": "/issues/comments{/number}",
    "contents": "/contents/{+path}",
    "compare": "/compare/{base}...{head}",
    "merges": "/merges",
    "archive": "/{archive_format}{/ref}",
    "downloads": "/downloads",
    "issues": "/issues{/number}",
    "pulls": "/pulls{/number}",
    "milestones": "/milestones{/number}",
    "notifications": "/notifications{?since,all,participating}",
    "labels": "/labels{/name}",
    "releases": "/releases{/id}",
    "deployments": "/deployments",
}
_WORDS: Final = {"read": "pull", "triage": "triage", "write": "push", "maintain": "maintain", "admin": "admin"}


def full_name(tx: Tx, repo: Row) -> str:
    """Give ``owner/name``."""
    return f"{login_of(tx, repo['owner_id'])}/{repo['name']}"


def api_url(tx: Tx, repo: Row) -> str:
    """Give the address that all of a repository's REST addresses start with."""
    return f"{tx.api}/repos/{full_name(tx, repo)}"


def web_url(tx: Tx, repo: Row) -> str:
    """Give the address of a repository's page."""
    return f"{tx.web}/{full_name(tx, repo)}"


def permissions(tx: Tx, actor: Actor, repo: Row) -> dict[str, bool]:
    """Give what the actor may do, in REST's words."""
    return {_WORDS[role]: can(tx, actor, repo, role) for role in reversed(ROLES)}


def minimal(tx: Tx, repo: Row) -> Json:
    """Give the first part of a repository, as events and check suites have it."""
    name, api, web = full_name(tx, repo), api_url(tx, repo), web_url(tx, repo)
    return {
        "id": repo["id"],
        "node_id": nodes.encode("Repository", repo["id"]),
        "name": repo["name"],
        "full_name": name,
        "private": bool(repo["private"]),
        "owner": account(tx, repo["owner_id"]),
        "html_url": web,
        "description": repo["description"],
        "fork": False,
        "url": api,
        **{f"{key}_url": api + rest for key, rest in _LINKS.items()},
    }


def repository(tx: Tx, repo: Row, actor: Actor | None = None) -> Json:
    """Give a repository as lists, pull requests and webhooks have it."""
    key = ("repository", repo["id"], actor.id if actor else None)
    if key in tx.memo:
        return tx.memo[key]  # type: ignore[no-any-return]
    name, web = full_name(tx, repo), web_url(tx, repo)
    issues = tx.value("SELECT count(*) FROM issues WHERE repo_id = ? AND state = 'open'", repo["id"])
    host = tx.web.partition("://")[2]
    shaped = {
        **minimal(tx, repo),
        "git_url": f"git://{host}/{name}.git",
        "ssh_url": f"git@{host}:{name}.git",
        "clone_url": f"{web}.git",
        "svn_url": web,
        "mirror_url": None,
        "homepage": None,
        "language": None,
        "forks_count": 0,
        "forks": 0,
        "stargazers_count": 0,
        "watchers_count": 0,
        "watchers": 0,
        "size": 0,
        "default_branch": repo["default_branch"],
        "open_issues_count": issues,
        "open_issues": issues,
        "is_template": False,
        "topics": [],
        "has_issues": True,
        "has_projects": False,
        "has_wiki": False,
        "has_pages": False,
        "has_downloads": False,
        "has_discussions": False,
        "archived": bool(repo["archived"]),
        "disabled": False,
        "license": None,
        "visibility": "private" if repo["private"] else "public",
        "pushed_at": repo["pushed_at"],
        "created_at": repo["created_at"],
        "updated_at": repo["updated_at"],
        "allow_forking": False,
        "web_commit_signoff_required": False,
        **(
            {"permissions": permissions(tx, actor, repo), "role_name": role_of(tx, actor.id, repo) or "read"}
            if actor
            else {}
        ),
    }
    tx.memo[key] = shaped
    return shaped


def full(tx: Tx, repo: Row, actor: Actor) -> Json:
    """Give the single repository's page: merge settings too, for those who may push."""
    shaped = {**repository(tx, repo, actor), "network_count": 0, "subscribers_count": 0}
    if can(tx, actor, repo, "write"):
        names = (
            "allow_merge_commit",
            "allow_squash_merge",
            "allow_rebase_merge",
            "allow_auto_merge",
            "allow_update_branch",
            "delete_branch_on_merge",
        )
        shaped |= {name: bool(repo[name]) for name in names}
        shaped |= {
            "use_squash_pr_title_as_default": True,
            "squash_merge_commit_title": "PR_TITLE",
            "squash_merge_commit_message": "COMMIT_MESSAGES",
            "merge_commit_title": "MERGE_MESSAGE",
            "merge_commit_message": "PR_TITLE",
        }
    return shaped
