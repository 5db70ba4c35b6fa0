"""Conditional requests, pagination, rates, counters, absolute targets, unknown routes (FRG-027)."""

from __future__ import annotations

import pytest

from droveway.localforge import operations

from .world import World


@pytest.mark.req("FRG-027")
async def test_an_unchanged_answer_is_a_304_that_costs_nothing(world: World) -> None:
    first = await world.bot.http.get("/repos/owner/road/issues")
    again = await world.bot.http.get("/repos/owner/road/issues", headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304
    assert again.content == b""
    assert again.headers["x-ratelimit-remaining"] == first.headers["x-ratelimit-remaining"]
    await world.bot.repo("POST", "/issues", {"title": "x"}, want=201)
    changed = await world.bot.http.get("/repos/owner/road/issues", headers={"If-None-Match": first.headers["etag"]})
    assert changed.status_code == 200
    assert changed.headers["etag"] != first.headers["etag"]


@pytest.mark.req("FRG-027")
async def test_pages_are_linked_and_hold_at_most_a_hundred(world: World) -> None:
    for number in range(105):
        await world.bot.repo("POST", "/labels", {"name": f"l{number:03}"}, want=201)
    first = await world.bot.http.get("/repos/owner/road/labels?per_page=500")
    assert len(first.json()) == 100
    assert 'page=2>; rel="next"' in first.headers["link"]
    assert 'page=2>; rel="last"' in first.headers["link"]
    url = first.links["next"]["url"]
    assert url.startswith("http://forge.test/repos/owner/road/labels?per_page=500")
    second = await world.bot.http.get(url)
    assert len(second.json()) == 105 + 9 - 100
    assert "next" not in second.links
    assert second.links["prev"]["url"].endswith("page=1")
    assert "link" not in (await world.bot.http.get("/repos/owner/road/milestones")).headers


@pytest.mark.req("FRG-027")
async def test_every_answer_names_its_request_its_bucket_and_what_is_left(world: World) -> None:
    core = await world.bot.http.get("/repos/owner/road")
    found = await world.bot.http.get("/search/issues?q=is:open")
    assert core.headers["x-github-request-id"] != found.headers["x-github-request-id"]
    assert (core.headers["x-ratelimit-resource"], found.headers["x-ratelimit-resource"]) == ("core", "search")
    state = (await world.bot("GET", "/rate_limit"))["resources"]
    assert state["core"]["used"] == 1
    assert state["search"]["used"] == 1
    assert state["graphql"]["used"] == 0
    assert "repo" in core.headers["x-oauth-scopes"]


@pytest.mark.req("FRG-027")
async def test_requests_are_counted_by_route_and_token(world: World) -> None:
    world.forge.reset_counters()
    await world.bot.repo("GET", "/issues")
    await world.bot.repo("GET", "/issues")
    await world.owner.repo("GET", "/labels/bug")
    await world.owner("POST", "/graphql", {"query": "{viewer{login}}"})
    assert world.forge.counters() == {
        "GET /repos/{owner}/{repo}/issues": 2,
        "GET /repos/{owner}/{repo}/labels/{name}": 1,
        "POST /graphql": 1,
        "token:herd-bot": 2,
        "token:owner": 2,
        "total": 4,
    }


async def test_an_unknown_route_lists_its_neighbours(world: World) -> None:
    answer = await world.bot("GET", "/repos/owner/road/isues", want=404)
    assert "GET /repos/{owner}/{repo}/issues" in answer["nearby"]
    answer = await world.bot("PUT", "/repos/owner/road/issues/1", want=404)
    assert "PATCH /repos/{owner}/{repo}/issues/{number}" in answer["nearby"]


async def test_the_enterprise_prefix_and_absolute_targets_reach_the_same_routes(world: World) -> None:
    answer = await world.bot("GET", "/api/v3/repos/owner/road")
    assert answer["url"] == "http://forge.test/api/v3/repos/owner/road"
    scope = {
        "type": "http", "method": "GET", "scheme": "http", "path": "http://api.github.localhost/user",
        "raw_path": b"http://api.github.localhost/user", "query_string": b"",
        "headers": [(b"authorization", f"token {world.bot_token}".encode())],
    }  # fmt: skip
    sent = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    await world.forge.app(scope, receive, send)  # type: ignore[arg-type]
    assert sent[0]["status"] == 200
    assert b'"url":"http://api.github.localhost/users/herd-bot"' in sent[1]["body"]  # type: ignore[operator]


async def test_a_body_that_is_no_json_is_400(world: World) -> None:
    response = await world.bot.http.post("/repos/owner/road/issues", content=b"{nonsense")
    assert response.status_code == 400
    assert response.json()["message"] == "Problems parsing JSON"


async def test_a_label_with_a_slash_is_found_encoded_or_not(world: World) -> None:
    await world.bot.repo("POST", "/labels", {"name": "herd/status:ready", "color": "00ff00"}, want=201)
    for shown in ("herd%2Fstatus%3Aready", "herd/status:ready"):
        assert (await world.bot.repo("GET", f"/labels/{shown}"))["color"] == "00ff00"


@pytest.mark.req("FRG-022")
def test_every_operation_is_listed_once_with_a_summary() -> None:
    listed = operations()
    assert len(listed) > 130
    assert len({(method, template) for method, template, _ in listed}) == len(listed)
    assert all(summary and "{" not in summary for _, _, summary in listed)
