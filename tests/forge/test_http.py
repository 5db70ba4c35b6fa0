"""REST lists and conditional reads: all or nothing, and the token goes to no other host (FRG-005, case R04)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from droveway.core.clock import VirtualClock
from droveway.core.facts import Complete
from droveway.core.text import Redactor
from droveway.forge import ForgeError, GitHubForge, IncompleteError, NotFoundError

from .conftest import Road
from .scripting import REPO, Answer, reply, scripted

Virtually = Callable[[Callable[[VirtualClock], Any]], Any]
PAGE = '<http://forge.invalid/repos/owner/road/issues?page={}>; rel="next"'


def issues(virtually: Virtually, *answers: Answer) -> Any:
    async def play(clock: VirtualClock) -> Any:
        forge, _ = scripted(clock, *answers)
        try:
            return [each.number for each in await forge.issues(REPO)]
        except ForgeError as error:
            return error
        finally:
            await forge.close()

    return virtually(play)


def page(*numbers: int, next_page: int = 0) -> httpx.Response:
    link = {"link": PAGE.format(next_page)} if next_page else {}
    return reply(200, [{"number": number} for number in numbers], **link)


@pytest.mark.req("FRG-004", "FRG-006")
@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([page(1, next_page=2), page(2, next_page=3), page(3)], [1, 2, 3]),
        ([page(1, next_page=2), page(2, next_page=3), reply(502), reply(502), reply(502), reply(502)], ForgeError),
        ([page(1, next_page=2), page(2, next_page=3), reply(502), page(3)], [1, 2, 3]),
        ([page(1, next_page=2), page(2, next_page=2)], IncompleteError),
        ([page(1, next_page=2), reply(200, None)], IncompleteError),
        ([page(1, next_page=2), reply(200, [None])], IncompleteError),
        ([page(1, next_page=2), reply(200, b'[{"number": 2}, {"numb')], IncompleteError),
        ([reply(200, [{"number": 1}], link='<http://elsewhere.invalid/x>; rel="next"')], IncompleteError),
        ([reply(404)], NotFoundError),
        ([reply(200, [])], []),
    ],
    ids=["three pages", "page 3 is 502", "page 3 comes the second time", "the same page again", "no list", "a null",
         "cut short", "another host", "not found", "empty"],
)  # fmt: skip
def test_a_list_is_whole_or_an_error(virtually: Virtually, answers: list[Answer], expected: Any) -> None:
    found = issues(virtually, *answers)
    if isinstance(expected, type):
        assert isinstance(found, expected), found
    else:
        assert found == expected


@pytest.mark.req("BAT-165")
@pytest.mark.parametrize("status", [500, 502, 403, 401, 422])
def test_only_a_definite_not_found_means_that_a_branch_is_gone(virtually: Virtually, status: int) -> None:
    async def play(clock: VirtualClock) -> None:
        forge, _ = scripted(clock, reply(status, {"message": "no"}))
        with pytest.raises(ForgeError):
            await forge.ref(REPO, "refs/heads/herd/worker/1-x")
        await forge.close()
        forge, _ = scripted(clock, reply(404, {"message": "Not Found"}))
        assert await forge.ref(REPO, "refs/heads/herd/worker/1-x") is None
        await forge.close()

    virtually(play)


def test_a_diff_that_the_forge_refuses_says_406(virtually: Virtually) -> None:
    async def play(clock: VirtualClock) -> None:
        forge, _ = scripted(clock, reply(406, {"message": "Sorry, the diff exceeded the maximum number of files"}))
        with pytest.raises(ForgeError) as caught:
            await forge.diff(REPO, 7)
        assert caught.value.status == 406
        await forge.close()

    virtually(play)


def test_a_write_follows_only_a_redirect_that_keeps_its_method(virtually: Virtually) -> None:
    async def play(clock: VirtualClock) -> None:
        forge, script = scripted(
            clock, reply(301, {"message": "Moved"}, location="http://forge.invalid/repositories/1")
        )
        with pytest.raises(ForgeError):
            await forge.create_comment(REPO, 7, "x")
        assert script.asked == ["POST /repos/owner/road/issues/7/comments"]
        await forge.close()
        moved = reply(307, {"message": "Moved"}, location="http://forge.invalid/repositories/1/issues/7/comments")
        forge, script = scripted(clock, moved, reply(201, {"id": 5, "body": "x"}))
        assert (await forge.create_comment(REPO, 7, "x")).id == 5
        assert script.asked[1] == "POST /repositories/1/issues/7/comments"
        assert script.body() == {"body": "x"}
        await forge.close()

    virtually(play)


@pytest.mark.req("FRG-001")
@pytest.mark.parametrize(
    ("url", "host", "git_url", "graphql"),
    [
        ("https://api.github.com", "github.com", "https://github.com", "https://api.github.com/graphql"),
        ("https://git.example/api/v3/", "git.example", "https://git.example", "https://git.example/api/graphql"),
        ("http://127.0.0.1:8080", "127.0.0.1", "http://127.0.0.1:8080", "http://127.0.0.1:8080/graphql"),
    ],
)
def test_the_address_chooses_the_server(virtually: Virtually, url: str, host: str, git_url: str, graphql: str) -> None:
    async def play(clock: VirtualClock) -> None:
        forge, script = scripted(clock, reply(200, {"data": {"repository": None}}), url=url)
        await forge.repo_snapshot(REPO)
        assert (forge.host, forge.git_url, str(script.requests[0].url)) == (host, git_url, graphql)
        assert script.requests[0].headers["authorization"] == f"Bearer {forge.token}"
        await forge.close()

    virtually(play)


class Etags:
    """An ETag store in a dictionary, as the real one keeps it in a table."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[str, bytes]] = {}

    async def etag(self, key: str) -> tuple[str, bytes] | None:
        return self.kept.get(key)

    async def put_etag(self, key: str, etag: str, body: bytes) -> None:
        self.kept[key] = (etag, body)


@pytest.mark.req("FRG-005")
async def test_an_unchanged_list_is_not_sent_again_nor_charged_and_pages_go_on(road: Road) -> None:
    etags = Etags()
    forge = GitHubForge(
        "http://127.0.0.1", road.bot_token, clock=road.bot.clock, store_etags=etags, redactor=Redactor(),
        transport=road.transport,
    )  # fmt: skip
    await forge.connect()
    issue = await forge.create_issue(road.repo, "t", "b")
    for number in range(101):
        await forge.create_comment(road.repo, issue.number, str(number))
    first = await forge.comments(road.repo, issue.number)
    second = await forge.comments(road.repo, issue.number)
    assert len(first) == 101
    assert first == second
    assert forge.counters.total.free == 2
    await forge.create_comment(road.repo, issue.number, "new")
    assert [each.body for each in await forge.comments(road.repo, issue.number)][-1] == "new"
    await forge.close()


@pytest.mark.req("FRG-003")
def test_what_is_new_to_us_is_unknown_and_never_crashes(virtually: Virtually) -> None:
    pull = {
        "number": 7, "state": "OPEN", "title": None, "mergeable": "PERHAPS", "mergeStateStatus": "SHINY",
        "headRefOid": "a" * 40, "author": None, "headRepository": None, "surprise": {"deep": [1]},
        "reviews": {"totalCount": 1, "nodes": [{"databaseId": 1, "state": "SHRUGGED", "author": None}]},
        "reviewThreads": {"totalCount": 0, "nodes": []},
        "commits": {"nodes": [{"commit": {"oid": "a" * 40, "committedDate": "not a date", "checkSuites": None,
                    "statusCheckRollup": {"contexts": {"totalCount": 1, "nodes": [
                        {"__typename": "CheckRun", "databaseId": 1, "name": "unit", "status": "DREAMING"}]}}}}]},
    }  # fmt: skip

    async def play(clock: VirtualClock) -> None:
        forge, _ = scripted(clock, reply(200, {"data": {"repository": {"pullRequest": pull}}}))
        seen = await forge._reader.pull(REPO, 7)
        assert seen is not None
        assert (seen.mergeable, seen.merge_state.value, seen.author, seen.title) == (None, "UNKNOWN", "ghost", "")
        assert isinstance(seen.reviews, Complete)
        assert seen.reviews.value[0].state.value == "UNKNOWN"
        assert isinstance(seen.checks, Complete)
        assert seen.checks.value.runs[0].status == "dreaming"
        await forge.close()

    virtually(play)
