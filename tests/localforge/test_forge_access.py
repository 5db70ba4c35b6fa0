"""Accounts, tokens, roles: 404 for what may not be seen, 403 for what may not be done (FRG-021)."""

from __future__ import annotations

import sqlite3

import pytest

from .world import Api, World

pytestmark = pytest.mark.req("FRG-021")


async def test_a_private_repository_is_404_to_strangers_and_to_nobody(world: World) -> None:
    await world.owner.repo("PATCH", "", {"private": True})
    await world.stranger.repo("GET", want=404)
    await world.nobody.repo("GET", want=404)
    await world.stranger.repo("POST", "/issues", {"title": "x"}, want=404)
    await world.bot.repo("GET")


async def test_a_public_repository_is_read_by_all_and_written_by_roles(world: World) -> None:
    assert (await world.nobody.repo("GET"))["full_name"] == "owner/road"
    await world.nobody.repo("POST", "/issues", {"title": "x"}, want=401)
    made = await world.stranger.repo("POST", "/issues", {"title": "x", "labels": ["bug"]}, want=201)
    assert made["labels"] == []  # who has no role may not label: dropped in silence, as on GitHub
    await world.stranger.repo("PATCH", "/issues/1", {"body": "my own"})
    await world.stranger.repo("POST", "/labels", {"name": "x"}, want=403)
    await world.stranger.repo("PUT", "/issues/1/labels", {"labels": ["bug"]}, want=403)
    await world.stranger.repo("POST", "/pulls", {"title": "t", "head": "clean", "base": "main"}, want=403)
    await world.stranger.repo("POST", "/git/refs", {"ref": "refs/heads/x", "sha": world.sha("main")}, want=403)


@pytest.mark.parametrize(
    ("role", "label", "milestone", "status", "protect"),
    [
        ("read", 403, 403, 403, 403),
        ("triage", 200, 201, 403, 403),
        ("write", 200, 201, 201, 403),
        ("maintain", 200, 201, 201, 403),
        ("admin", 200, 201, 201, 200),
    ],
)
async def test_each_role_may_what_it_may(
    world: World, role: str, label: int, milestone: int, status: int, protect: int
) -> None:
    world.forge.create_user("person")
    world.forge.set_role("owner", "road", "person", role)
    person = Api(world.forge, world.forge.issue_token("person"))
    await world.bot.repo("POST", "/issues", {"title": "x"}, want=201)
    await person.repo("POST", "/issues/1/labels", {"labels": ["bug"]}, want=label)
    await person.repo("POST", "/milestones", {"title": "m"}, want=milestone)
    await person.repo("POST", f"/statuses/{world.sha('main')}", {"state": "success"}, want=status)
    body = dict.fromkeys(("required_status_checks", "enforce_admins", "required_pull_request_reviews", "restrictions"))
    await person.repo("PUT", "/branches/main/protection", body, want=protect)
    answer = await world.bot.repo("GET", "/collaborators/person/permission")
    legacy = {"triage": "read", "maintain": "write"}.get(role, role)
    assert (answer["permission"], answer["role_name"]) == (legacy, role)


async def test_the_permission_of_a_stranger_is_read_and_of_an_unknown_login_404(world: World) -> None:
    assert (await world.bot.repo("GET", "/collaborators/stranger/permission"))["permission"] == "read"
    await world.owner.repo("PATCH", "", {"private": True})
    assert (await world.bot.repo("GET", "/collaborators/stranger/permission"))["permission"] == "none"
    await world.bot.repo("GET", "/collaborators/ghost/permission", want=404)


async def test_both_schemes_of_tokens_work_and_a_wrong_one_is_401(world: World) -> None:
    bare = Api(world.forge, None)
    for scheme in ("token", "Bearer"):
        assert (await bare("GET", "/user", Authorization=f"{scheme} {world.bot_token}"))["login"] == "herd-bot"
    assert (await bare("GET", "/user", want=401, Authorization="token nonsense"))["message"] == "Bad credentials"
    await bare("GET", "/user", want=401)


async def test_tokens_are_kept_as_digests_only(world: World) -> None:
    rows = sqlite3.connect(world.tmp / "forge" / "forge.sqlite3")
    kept = " ".join(str(value) for row in rows.execute("SELECT * FROM tokens") for value in row)
    rows.close()
    assert world.bot_token not in kept
    assert world.owner_token not in kept


async def test_an_archived_repository_is_read_only(world: World) -> None:
    await world.owner.repo("PATCH", "", {"archived": True})
    await world.bot.repo("GET", "/issues")
    await world.bot.repo("POST", "/labels", {"name": "x"}, want=403)
