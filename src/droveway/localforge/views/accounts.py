"""Accounts in REST's shape."""

from __future__ import annotations

from typing import Any

from droveway.localforge import nodes
from droveway.localforge.db import Tx

Json = dict[str, Any]


def login_of(tx: Tx, user_id: int) -> str:
    """Give an account's login."""
    key = ("login", user_id)
    if key not in tx.memo:
        tx.memo[key] = tx.get("users", user_id)["login"]
    login: str = tx.memo[key]
    return login


def user(tx: Tx, user_id: int | None) -> Json | None:
    """Give GitHub's "simple user", or None for nobody."""
    return account(tx, user_id) if user_id else None


def account(tx: Tx, user_id: int) -> Json:
    """Give GitHub's "simple user"."""
    key = ("user", user_id)
    if key not in tx.memo:
        row = tx.get("users", user_id)
        login = row["login"]
        api = f"{tx.api}/users/{login}"
        tx.memo[key] = {
            "login": login,
            "id": row["id"],
            "node_id": nodes.encode(row["kind"], row["id"]),
            "avatar_url": f"{tx.web}/avatars/{row['id']}",
            "gravatar_id": "",
            "url": api,
            "html_url": f"{tx.web}/{login}",
            "followers_url": f"{api}/followers",
            "following_url": f"{api}/following{{/other_user}}",
            "gists_url": f"{api}/gists{{/gist_id}}",
            "starred_url": f"{api}/starred{{/owner}}{{/repo}}",
            "subscriptions_url": f"{api}/subscriptions",
            "organizations_url": f"{api}/orgs",
            "repos_url": f"{api}/repos",
            "events_url": f"{api}/events{{/privacy}}",
            "received_events_url": f"{api}/received_events",
            "type": row["kind"],
            "user_view_type": "public",
            "site_admin": bool(row["site_admin"]),
        }
    found: Json = tx.memo[key]
    return found


def public_user(tx: Tx, user_id: int) -> Json:
    """Give the account's own page: the simple user and what stands only there."""
    row = tx.get("users", user_id)
    count = tx.value("SELECT count(*) FROM repos WHERE owner_id = ? AND private = 0", user_id)
    return {
        **account(tx, user_id),
        "name": row["name"],
        "company": None,
        "blog": "",
        "location": None,
        "email": row["email"],
        "hireable": None,
        "bio": None,
        "twitter_username": None,
        "public_repos": count,
        "public_gists": 0,
        "followers": 0,
        "following": 0,
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
    }
