"""Who asks and what they may do: tokens, roles, and refusals in GitHub's words (FRG-021)."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from droveway.localforge.db import Row, Tx

ROLES: Final = ("read", "triage", "write", "maintain", "admin")


class Refused(Exception):  # noqa: N818 - `raise Refused(404, …)` says it in one word
    """An answer that is no success: status, GitHub's message, and its ``errors`` list. REST and GraphQL share it."""

    def __init__(self, status: int, message: str, errors: Sequence[Any] = ()) -> None:
        """Hold the parts of the answer."""
        super().__init__(message)
        self.status = status
        self.message = message
        self.errors = list(errors)


def not_found() -> Refused:
    """404: it does not exist, or may not be seen."""
    return Refused(404, "Not Found")


def forbidden(message: str = "Must have admin rights to Repository.") -> Refused:
    """403: it may be seen, and this may not be done."""
    return Refused(403, message)


def invalid(resource: str, field: str, code: str = "invalid", message: str = "", *, value: Any = None) -> Refused:
    """422 with one entry of ``errors``. ``code``: missing_field, invalid, already_exists, unprocessable, custom."""
    entry: dict[str, Any] = {"resource": resource, "field": field, "code": code}
    if value is not None:
        entry["value"] = value
    if message:
        entry["message"] = message
    return Refused(422, "Validation Failed", [entry])


def unprocessable(message: str, *errors: Any) -> Refused:
    """422 with a message of its own."""
    return Refused(422, message, errors)


class Actor(msgspec.Struct, frozen=True):
    """The account behind a request."""

    id: int
    login: str
    kind: str
    token_id: int = 0
    scopes: str = "repo"
    site_admin: bool = False


ANONYMOUS: Final = Actor(0, "", "User")


def hashed(token: str) -> str:
    """Give what is kept of a token: it has 160 random bits, so a plain digest is enough."""
    return hashlib.sha256(token.encode()).hexdigest()


def new_token() -> str:
    """Make a token in GitHub's shape. Secrets come from the system's randomness, never from the ids port."""
    return "ghp_" + secrets.token_hex(20)


def actor_of_token(tx: Tx, token: str) -> Actor | None:
    """Give the account of a token, or None where nobody has it."""
    row = tx.one(
        "SELECT users.*, tokens.id AS token_id, scopes FROM tokens JOIN users ON users.id = user_id WHERE hash = ?",
        hashed(token),
    )
    if row is None:
        return None
    return Actor(row["id"], row["login"], row["kind"], row["token_id"], row["scopes"], bool(row["site_admin"]))


def actor_of(tx: Tx, user_id: int) -> Actor:
    """Give an account as the one who acts: for what the forge itself does in somebody's name."""
    row = tx.get("users", user_id)
    return Actor(row["id"], row["login"], row["kind"], site_admin=bool(row["site_admin"]))


def role_of(tx: Tx, user_id: int, repo: Row) -> str | None:
    """Give an account's own role on a repository; None where it has none (it may still read a public one)."""
    key = ("role", user_id, repo["id"])
    if key not in tx.memo:
        if (user_id and user_id == repo["owner_id"]) or (
            user_id and tx.value("SELECT site_admin FROM users WHERE id = ?", user_id)
        ):
            tx.memo[key] = "admin"
        else:
            tx.memo[key] = tx.value("SELECT role FROM roles WHERE repo_id = ? AND user_id = ?", repo["id"], user_id)
    role: str | None = tx.memo[key]
    return role


def can(tx: Tx, actor: Actor, repo: Row, role: str) -> bool:
    """Whether the actor has at least this role; everybody may read a public repository."""
    own = role_of(tx, actor.id, repo)
    if own is None:
        return role == "read" and not repo["private"]
    return ROLES.index(own) >= ROLES.index(role)


def need(tx: Tx, actor: Actor, repo: Row, role: str) -> None:
    """Refuse an actor without the role: 404 where not even reading is allowed, 403 (401 unnamed) otherwise."""
    if not can(tx, actor, repo, "read"):
        raise not_found()
    if role != "read" and not actor.id:
        raise Refused(401, "Requires authentication")
    if not can(tx, actor, repo, role):
        raise forbidden(
            "Must have admin rights to Repository."
            if role == "admin"
            else "Resource not accessible by personal access token"
        )
    if role != "read" and repo["archived"]:
        raise forbidden("Repository was archived so is read-only.")


def find_repo(tx: Tx, owner: str, name: str) -> Row | None:
    """Give a repository by its full name, whoever asks."""
    return tx.one(
        "SELECT repos.* FROM repos JOIN users ON users.id = repos.owner_id WHERE users.login = ? AND repos.name = ?",
        owner,
        name,
    )


def visible_repo(tx: Tx, actor: Actor, owner: str, name: str, role: str = "read") -> Row:
    """Give a repository on which the actor has the role, or refuse."""
    repo = find_repo(tx, owner, name)
    if repo is None:
        raise not_found()
    need(tx, actor, repo, role)
    return repo


def association(tx: Tx, user_id: int, repo: Row) -> str:
    """Give GitHub's author association: OWNER, COLLABORATOR, CONTRIBUTOR, NONE."""
    if user_id == repo["owner_id"]:
        return "OWNER"
    if role_of(tx, user_id, repo) is not None:
        return "COLLABORATOR"
    return "NONE"
