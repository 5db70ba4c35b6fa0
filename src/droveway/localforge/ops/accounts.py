"""Accounts, tokens, repositories and roles."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from droveway.localforge.access import ROLES, Actor, find_repo, hashed, invalid, need, new_token
from droveway.localforge.db import Row, Tx
from droveway.localforge.ops.labels import UNSET, create_label

BOT: Final = "herd-bot"
_LOGIN: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,37}[A-Za-z0-9])?(?:\[bot\])?")
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_LABELS: Final = (
    ("bug", "d73a4a", "Something isn't working"),
    ("documentation", "0075ca", "Improvements or additions to documentation"),
    ("duplicate", "cfd3d7", "This issue or pull request already exists"),
    ("enhancement", "a2eeef", "New feature or request"),
    ("good first issue", "7057ff", "Good for newcomers"),
    ("help wanted", "008672", "Extra attention is needed"),
    ("invalid", "e4e669", "This doesn't seem right"),
    ("question", "d876e3", "Further information is requested"),
    ("wontfix", "ffffff", "This will not be worked on"),
)


def create_user(tx: Tx, login: str, *, kind: str = "User", site_admin: bool = False) -> Row:
    """Make an account; ``kind`` is User or Bot."""
    if not _LOGIN.fullmatch(login) or kind not in ("User", "Bot"):
        raise invalid("User", "login", "invalid", value=login)
    if tx.value("SELECT id FROM users WHERE login = ?", login):
        raise invalid("User", "login", "already_exists", value=login)
    user_id = tx.insert(
        "users",
        login=login,
        kind=kind,
        email="",
        site_admin=int(site_admin),
        created_at=tx.now,
        updated_at=tx.now,
    )
    tx.update("users", user_id, email=f"{user_id}+{login}@users.noreply.github.com")
    return tx.get("users", user_id)


def issue_token(tx: Tx, user_id: int, scopes: str = "repo, read:org, workflow") -> str:
    """Make a token for an account. Only its digest is kept: this is the one time that it can be read."""
    token = new_token()
    tx.insert("tokens", user_id=user_id, hash=hashed(token), scopes=scopes, created_at=tx.now)
    return token


def create_repo(
    tx: Tx,
    owner: Row,
    name: str,
    *,
    default_branch: str = "main",
    private: bool = False,
    description: str | None = None,
) -> Row:
    """Make an empty repository with GitHub's usual labels; the product's bot may maintain it."""
    if not _NAME.fullmatch(name) or name in (".", "..") or name.lower().endswith(".git"):
        raise invalid("Repository", "name", "custom", "name is invalid", value=name)
    if find_repo(tx, owner["login"], name):
        raise invalid("Repository", "name", "custom", "name already exists on this account")
    repo_id = tx.insert(
        "repos",
        owner_id=owner["id"],
        name=name,
        description=description,
        private=int(private),
        default_branch=default_branch,
        created_at=tx.now,
        updated_at=tx.now,
        pushed_at=tx.now,
    )
    repo = tx.get("repos", repo_id)
    bot = tx.value("SELECT id FROM users WHERE login = ?", BOT)
    if bot and bot != owner["id"]:
        tx.insert("roles", repo_id=repo_id, user_id=bot, role="maintain")
    own = Actor(owner["id"], owner["login"], owner["kind"])
    for label, color, text in _LABELS:
        create_label(tx, own, repo, label, color, text, default=True)
    # A repository on the disk without a row does no harm; a row without one would.
    tx.kernel.git(repo_id).init(default_branch)
    return repo


def edit_repo(tx: Tx, actor: Actor, repo: Row, values: dict[str, Any]) -> Row:
    """Change a repository's settings."""
    need(tx, actor, repo, "admin")
    flags = (
        "private",
        "archived",
        "allow_merge_commit",
        "allow_squash_merge",
        "allow_rebase_merge",
        "allow_auto_merge",
        "allow_update_branch",
        "delete_branch_on_merge",
    )
    columns: dict[str, Any] = {key: int(bool(values[key])) for key in flags if values.get(key) is not None}
    if "description" in values:
        columns["description"] = values["description"]
    name, branch = values.get("name") or UNSET, values.get("default_branch") or UNSET
    if name is not UNSET and name.lower() != repo["name"].lower():
        owner = tx.get("users", repo["owner_id"])
        if not _NAME.fullmatch(name) or find_repo(tx, owner["login"], name):
            raise invalid("Repository", "name", "custom", "name already exists on this account")
        columns["name"] = name
    git = tx.kernel.git(repo["id"])
    if branch is not UNSET and branch != repo["default_branch"]:
        if git.branch(branch) is None:
            raise invalid("Repository", "default_branch", "invalid", f"The branch {branch} was not found.")
        columns["default_branch"] = branch
        git.set_head(branch)
    if columns:
        tx.update("repos", repo["id"], **columns, updated_at=tx.now)
    return tx.get("repos", repo["id"])


def delete_repo(tx: Tx, actor: Actor, repo: Row) -> None:
    """Delete a repository with everything in it."""
    need(tx, actor, repo, "admin")
    tx.run("DELETE FROM pulls WHERE head_repo_id = ?", repo["id"])
    tx.run("DELETE FROM repos WHERE id = ?", repo["id"])
    tx.after.append(tx.kernel.git(repo["id"]).remove)


def set_role(tx: Tx, repo: Row, user_id: int, role: str) -> None:
    """Give an account a role: read, triage, write, maintain, admin; an empty one takes it away."""
    if role and role not in ROLES:
        raise invalid("Repository", "permission", "invalid", value=role)
    tx.run("DELETE FROM roles WHERE repo_id = ? AND user_id = ?", repo["id"], user_id)
    if role and user_id != repo["owner_id"]:
        tx.insert("roles", repo_id=repo["id"], user_id=user_id, role=role)


def collaborators(tx: Tx, repo: Row) -> Sequence[int]:
    """Give the owner and everybody with a role."""
    rows = tx.all("SELECT user_id FROM roles WHERE repo_id = ? ORDER BY user_id", repo["id"])
    return list(dict.fromkeys([repo["owner_id"], *(row[0] for row in rows)]))
