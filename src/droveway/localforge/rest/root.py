"""The root, the machine's facts, and accounts."""

from __future__ import annotations

from droveway.localforge.access import Refused, not_found
from droveway.localforge.db import Tx
from droveway.localforge.ops import accounts
from droveway.localforge.routing import Answer, Call, created, paged, route
from droveway.localforge.views import repos as shape
from droveway.localforge.views.accounts import public_user
from droveway.localforge.views.repos import full, repository


@route("GET", "/", "List the addresses of the API")
def root(tx: Tx, _call: Call) -> Answer:
    """Answer who asks what this is."""
    api = tx.api
    return Answer(
        {
            "current_user_url": f"{api}/user",
            "issue_search_url": f"{api}/search/issues?q={{query}}{{&page,per_page,sort,order}}",
            "rate_limit_url": f"{api}/rate_limit",
            "repository_url": f"{api}/repos/{{owner}}/{{repo}}",
            "user_url": f"{api}/users/{{user}}",
            "user_repositories_url": f"{api}/users/{{user}}/repos{{?type,page,per_page,sort}}",
        }
    )


@route("GET", "/meta", "Get facts about the server")
def meta(_tx: Tx, _call: Call) -> Answer:
    """``gh`` asks for the version of an Enterprise server."""
    return Answer({"verifiable_password_authentication": False, "installed_version": "3.15.0"})


@route("GET", "/rate_limit", "Get the state of the rate limits")
def rate_limit(_tx: Tx, _call: Call) -> Answer:
    """Answered by the exchange, which keeps the rates; asking is free."""
    raise not_found()


@route("GET", "/zen", "Get a word of wisdom")
def zen(_tx: Tx, _call: Call) -> Answer:
    """Also a liveness probe."""
    return Answer(b"Keep it logically awesome.", media="text/plain;charset=utf-8")


@route("GET", "/user", "Get the authenticated account")
def me(tx: Tx, call: Call) -> Answer:
    """Say who the token belongs to."""
    if not call.actor.id:
        raise Refused(401, "Requires authentication")
    private = tx.value("SELECT count(*) FROM repos WHERE owner_id = ? AND private = 1", call.actor.id)
    more = {
        "private_gists": 0,
        "total_private_repos": private,
        "owned_private_repos": private,
        "disk_usage": 0,
        "collaborators": 0,
        "two_factor_authentication": True,
    }
    return Answer({**public_user(tx, call.actor.id), **more})


@route("GET", "/users/{login}", "Get an account")
def user(tx: Tx, call: Call) -> Answer:
    """Give an account's page."""
    user_id = tx.value("SELECT id FROM users WHERE login = ?", call.params["login"])
    if user_id is None:
        raise not_found()
    return Answer(public_user(tx, user_id))


@route("GET", "/user/repos", "List the repositories of the authenticated account")
def my_repos(tx: Tx, call: Call) -> Answer:
    """Give those that it owns and those where it has a role; an administrator of the server sees all."""
    actor = call.actor
    if not actor.id:
        raise Refused(401, "Requires authentication")
    rows = tx.all(
        "SELECT * FROM repos WHERE ? OR owner_id = ?"
        " OR id IN (SELECT repo_id FROM roles WHERE user_id = ?) ORDER BY id",
        int(actor.site_admin),
        actor.id,
        actor.id,
    )
    return paged(call, rows, lambda row: repository(tx, row, actor))


@route("GET", "/users/{login}/repos", "List the repositories of an account")
def their_repos(tx: Tx, call: Call) -> Answer:
    """Give those that the actor may see."""
    user_id = tx.value("SELECT id FROM users WHERE login = ?", call.params["login"])
    if user_id is None:
        raise not_found()
    rows = tx.all("SELECT * FROM repos WHERE owner_id = ? ORDER BY id", user_id)
    seen = [row for row in rows if shape.permissions(tx, call.actor, row)["pull"]]
    return paged(call, seen, lambda row: repository(tx, row, call.actor))


@route("POST", "/user/repos", "Create a repository")
def create_repo(tx: Tx, call: Call) -> Answer:
    """Make a repository of the authenticated account."""
    if not call.actor.id:
        raise Refused(401, "Requires authentication")
    body = call.object()
    row = accounts.create_repo(
        tx,
        tx.get("users", call.actor.id),
        call.text("name", resource="Repository"),
        private=bool(body.get("private")),
        description=body.get("description"),
    )
    return created(full(tx, row, call.actor))
