"""A repository's page, its collaborators and branches."""

from __future__ import annotations

from droveway.localforge.access import ROLES, Refused, actor_of, need, not_found, role_of
from droveway.localforge.db import Row, Tx
from droveway.localforge.gitdata import commit as read_commit
from droveway.localforge.ops import accounts
from droveway.localforge.ops.protection import protection_of, required_checks
from droveway.localforge.routing import Answer, Call, empty, paged, route
from droveway.localforge.views.accounts import account
from droveway.localforge.views.commits import commit, short_branch
from droveway.localforge.views.repos import api_url, full, permissions, web_url

_LEGACY = {"read": "read", "triage": "read", "write": "write", "maintain": "write", "admin": "admin"}


@route("GET", "/repos/{owner}/{repo}", "Get a repository")
def get(tx: Tx, call: Call) -> Answer:
    """Give a repository's page."""
    return Answer(full(tx, call.repo(tx), call.actor))


@route("PATCH", "/repos/{owner}/{repo}", "Update a repository")
def edit(tx: Tx, call: Call) -> Answer:
    """Change settings."""
    return Answer(full(tx, accounts.edit_repo(tx, call.actor, call.repo(tx), call.object()), call.actor))


@route("DELETE", "/repos/{owner}/{repo}", "Delete a repository")
def delete(tx: Tx, call: Call) -> Answer:
    """Delete it with everything in it."""
    accounts.delete_repo(tx, call.actor, call.repo(tx))
    return empty()


def _account_id(tx: Tx, call: Call) -> int:
    user_id: int | None = tx.value("SELECT id FROM users WHERE login = ?", call.params["login"])
    if user_id is None:
        raise not_found()
    return user_id


@route("GET", "/repos/{owner}/{repo}/collaborators", "List collaborators")
def collaborators(tx: Tx, call: Call) -> Answer:
    """Give the owner and everybody with a role."""
    repo = call.repo(tx, "write")
    return paged(call, list(accounts.collaborators(tx, repo)), lambda user_id: _collaborator(tx, repo, user_id))


def _collaborator(tx: Tx, repo: Row, user_id: int) -> dict[str, object]:
    shaped = account(tx, user_id)
    return {
        **shaped,
        "permissions": permissions(tx, actor_of(tx, user_id), repo),
        "role_name": role_of(tx, user_id, repo) or "read",
    }


@route("GET", "/repos/{owner}/{repo}/collaborators/{login}", "Check whether an account is a collaborator")
def is_collaborator(tx: Tx, call: Call) -> Answer:
    """204 for yes, 404 for no."""
    repo = call.repo(tx, "write")
    if role_of(tx, _account_id(tx, call), repo) is None:
        raise not_found()
    return empty()


@route("PUT", "/repos/{owner}/{repo}/collaborators/{login}", "Add a collaborator or change the role")
def add_collaborator(tx: Tx, call: Call) -> Answer:
    """Give an account a role at once; there are no invitations here."""
    repo = call.repo(tx)
    need(tx, call.actor, repo, "admin")
    words = {"pull": "read", "push": "write"}
    wanted = call.object().get("permission") or "push"
    accounts.set_role(tx, repo, _account_id(tx, call), words.get(wanted, wanted))
    return empty()


@route("DELETE", "/repos/{owner}/{repo}/collaborators/{login}", "Remove a collaborator")
def remove_collaborator(tx: Tx, call: Call) -> Answer:
    """Take the role away."""
    repo = call.repo(tx)
    need(tx, call.actor, repo, "admin")
    accounts.set_role(tx, repo, _account_id(tx, call), "")
    return empty()


@route("GET", "/repos/{owner}/{repo}/collaborators/{login}/permission", "Get an account's permission")
def permission(tx: Tx, call: Call) -> Answer:
    """Give the role in GitHub's old words and its own."""
    repo = call.repo(tx, "read")
    user_id = _account_id(tx, call)
    role = role_of(tx, user_id, repo)
    if role is None and not repo["private"]:
        role = "read"
    return Answer(
        {
            "permission": _LEGACY[role] if role else "none",
            "role_name": role or "",
            "user": {**account(tx, user_id), "permissions": _flags(role), "role_name": role or ""},
        }
    )


def _flags(role: str | None) -> dict[str, bool]:
    rank = ROLES.index(role) if role else -1
    words = {"admin": 4, "maintain": 3, "push": 2, "triage": 1, "pull": 0}
    return {word: rank >= need_rank for word, need_rank in words.items()}


@route("GET", "/repos/{owner}/{repo}/assignees", "List who can be assigned")
def assignees(tx: Tx, call: Call) -> Answer:
    """Give who may be assigned to issues."""
    repo = call.repo(tx)
    return paged(call, list(accounts.collaborators(tx, repo)), lambda user_id: account(tx, user_id))


@route("GET", "/repos/{owner}/{repo}/assignees/{login}", "Check whether an account can be assigned")
def assignable(tx: Tx, call: Call) -> Answer:
    """204 for yes, 404 for no."""
    repo = call.repo(tx)
    if role_of(tx, _account_id(tx, call), repo) is None:
        raise not_found()
    return empty()


@route("GET", "/repos/{owner}/{repo}/branches", "List branches")
def branches(tx: Tx, call: Call) -> Answer:
    """Give the branches by name; ``protected`` filters."""
    repo = call.repo(tx)
    found = tx.kernel.git(repo["id"]).refs("refs/heads/")
    shielded = {row[0] for row in tx.all("SELECT branch FROM protections WHERE repo_id = ?", repo["id"])}
    rows = [(name.removeprefix("refs/heads/"), sha) for name, sha in found.items()]
    wanted = call.query.get("protected")
    if wanted is not None:
        rows = [row for row in rows if (row[0] in shielded) is (wanted == "true")]
    return paged(call, rows, lambda row: short_branch(tx, repo, *row, protected=row[0] in shielded))


@route("GET", "/repos/{owner}/{repo}/branches/{branch:path}", "Get a branch")
def branch(tx: Tx, call: Call) -> Answer:
    """Give a branch with its tip."""
    repo, name = call.repo(tx), call.params["branch"]
    git = tx.kernel.git(repo["id"])
    sha = git.branch(name)
    if sha is None:
        raise Refused(404, "Branch not found")
    found = read_commit(tx.kernel, git, sha)
    protection = protection_of(tx, repo["id"], name)
    shaped = short_branch(tx, repo, name, sha, protected=protection is not None)
    checks = required_checks(protection)
    return Answer(
        {
            **shaped,
            "commit": commit(tx, repo, found) if found else shaped["commit"],
            "_links": {
                "self": f"{api_url(tx, repo)}/branches/{name}",
                "html": f"{web_url(tx, repo)}/tree/{name}",
            },
            "protection": {
                "enabled": protection is not None,
                "required_status_checks": {
                    "enforcement_level": "off"
                    if checks is None
                    else ("everyone" if protection and protection["enforce_admins"] else "non_admins"),
                    "contexts": list(checks or ()),
                    "checks": [{"context": name, "app_id": None} for name in checks or ()],
                },
            },
        }
    )
