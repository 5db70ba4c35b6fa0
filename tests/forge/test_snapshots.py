"""Snapshots: everything that is there, in few requests; whatever is missing is unknown, never empty (FRG-004)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from graphql import build_schema, parse, validate

from droveway.core.clock import VirtualClock
from droveway.core.facts import Complete, Unknown, known
from droveway.core.keys import marker
from droveway.core.vocabulary import TYPE_FEATURE, Status, batch_branch
from droveway.forge import queries

from .conftest import Road
from .scripting import REPO, reply, scripted

Data = dict[str, Any]
READY = Status.READY.label


class Tamper(httpx.AsyncBaseTransport):
    """The embedded forge behind a proxy that spoils answers to GraphQL queries of one name."""

    def __init__(self, inner: httpx.AsyncBaseTransport, query: str, spoil: Callable[[Data], Data | int]) -> None:
        self.inner = inner
        self.query = query
        self.spoil = spoil

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self.inner.handle_async_request(request)
        body = await response.aread()
        if request.url.path != "/graphql" or f"query {self.query}(" not in json.loads(request.content)["query"]:
            return response
        spoiled = self.spoil(json.loads(body))
        if isinstance(spoiled, int):
            return httpx.Response(spoiled, content=b"<html>bad gateway</html>")
        return httpx.Response(200, content=json.dumps(spoiled).encode())


async def batch_of(road: Road, issues: int, *, closed: int = 0, named: bool = True) -> int:
    meta = {"version": 1, "batch_branch": "herd/batch/1-x"}
    description = f"A batch.\n\n{marker('batch-metadata', meta)}" if named else "A batch."
    batch = await road.bot.create_milestone(road.repo, "X", description)
    for at in range(issues):
        made = await road.bot.create_issue(
            road.repo, f"task {at}", f"body {at}", labels=[READY, TYPE_FEATURE], milestone=batch.number
        )
        if at < closed:
            await road.bot.edit_issue(road.repo, made.number, state="closed")
    return batch.number


@pytest.mark.req("FRG-004", "BAT-111")
async def test_a_batch_snapshot_has_everything_and_costs_one_request_once_it_knows_the_branch(road: Road) -> None:
    batch = await batch_of(road, 3, closed=1)
    tip = road.branch("herd/batch/1-x", {"new.txt": "1\n"})
    worker = road.branch("herd/worker/1-task-0", {"other.txt": "1\n"})
    pull = await road.bot.create_pull(road.repo, title="P", body="", head="herd/batch/1-x", base="main")
    await road.bot.edit_issue(road.repo, pull.number, milestone=batch)
    first = await road.bot.batch_snapshot(road.repo, batch)
    before = road.bot.requests()
    seen = await road.bot.batch_snapshot(road.repo, batch)
    assert first.requests == 3  # the branch's name has to be learned from the milestone, then the PR be read
    assert (seen.requests, road.bot.requests() - before) == (1, 1)
    assert known(seen.repository, "repository").default_sha == road.git("rev-parse", "main")
    milestone = known(seen.milestone, "milestone")
    assert (milestone.open_issues, milestone.closed_issues, milestone.state) == (2, 1, "open")
    assert [(i.title, i.open, i.milestone, set(i.labels)) for i in known(seen.issues, "issues")] == [
        (f"task {at}", at > 0, batch, {READY, TYPE_FEATURE}) for at in range(3)
    ]
    assert known(seen.refs, "refs") == {"herd/batch/1-x": tip, "herd/worker/1-task-0": worker}
    there = known(seen.pull, "pull")
    assert there is not None
    assert (there.number, there.head_sha, there.open, there.author) == (pull.number, tip, True, "herd-bot")
    assert isinstance(there.checks, Complete)


async def test_a_batch_without_a_pull_request_definitely_has_none(road: Road) -> None:
    batch = await batch_of(road, 1, named=False)
    for _ in range(2):
        seen = await road.bot.batch_snapshot(road.repo, batch)
        assert isinstance(seen.pull, Complete)
        assert seen.pull.value is None
    tip = road.branch(batch_branch(batch, "X"), {"n": "1\n"})
    pull = await road.bot.create_pull(road.repo, title="P", body="", head=batch_branch(batch, "X"), base="main")
    seen = await road.bot.batch_snapshot(road.repo, batch)
    found = known(seen.pull, "pull")
    assert found is not None
    assert (found.number, found.head_sha) == (pull.number, tip)


async def test_the_newest_pull_request_of_the_branch_is_the_batch_pull_request(road: Road) -> None:
    batch = await batch_of(road, 1)
    road.branch("herd/batch/1-x", {"new.txt": "1\n"})
    old = await road.bot.create_pull(road.repo, title="P", body="", head="herd/batch/1-x", base="main")
    await road.bot.batch_snapshot(road.repo, batch)
    await road.bot.edit_issue(road.repo, old.number, state="closed")
    seen = known((await road.bot.batch_snapshot(road.repo, batch)).pull, "pull")
    assert seen is not None
    assert seen.state == "closed"
    new = await road.bot.create_pull(road.repo, title="P", body="", head="herd/batch/1-x", base="main")
    seen = known((await road.bot.batch_snapshot(road.repo, batch)).pull, "pull")
    assert seen is not None
    assert (seen.number, seen.state) == (new.number, "open")


@pytest.mark.req("FRG-004", "BAT-111")
async def test_many_issues_come_over_several_pages(road: Road) -> None:
    batch = await batch_of(road, 103)
    seen = await road.bot.batch_snapshot(road.repo, batch)
    assert len(known(seen.issues, "issues")) == 103
    assert seen.requests == 3


@pytest.mark.req("FRG-004")
async def test_a_milestone_that_is_not_there_is_unknown_and_the_rest_is_not(road: Road) -> None:
    seen = await road.bot.batch_snapshot(road.repo, 99)
    assert isinstance(seen.milestone, Unknown)
    assert isinstance(seen.issues, Unknown)
    assert isinstance(seen.pull, Unknown)
    assert isinstance(seen.refs, Complete)


def nodes(answer: Data, *path: str) -> Data:
    found: Any = answer["data"]["repository"]
    for name in path:
        found = found[name]
    assert isinstance(found, dict)
    return found


def dropped(answer: Data) -> Data:
    nodes(answer, "milestone", "issues")["nodes"].pop()
    return answer


def null_list(answer: Data) -> Data:
    nodes(answer, "milestone", "issues")["nodes"] = None
    return answer


def null_node(answer: Data) -> Data:
    nodes(answer, "milestone", "issues")["nodes"][0] = None
    return answer


def with_error(answer: Data) -> Data:
    return answer | {"errors": [{"message": "boom", "path": ["repository", "milestone", "issues", "nodes", 1, "body"]}]}


def null_connection(answer: Data) -> Data:
    nodes(answer, "milestone")["issues"] = None
    return answer


def cursorless(answer: Data) -> Data:
    nodes(answer, "milestone", "issues")["pageInfo"] = {"hasNextPage": True, "endCursor": None}
    return answer


@pytest.mark.req("FRG-004", "BAT-111")
@pytest.mark.parametrize("spoil", [dropped, null_list, null_node, with_error, null_connection, cursorless])
async def test_a_spoiled_issue_list_is_unknown_and_only_it(road: Road, spoil: Callable[[Data], Data]) -> None:
    batch = await batch_of(road, 3)
    forge = road.client(road.bot_token, Tamper(road.transport, "Batch", spoil))
    seen = await forge.batch_snapshot(road.repo, batch)
    assert isinstance(seen.issues, Unknown)
    assert seen.issues.reason
    for section in (seen.repository, seen.milestone, seen.refs, seen.pull):
        assert isinstance(section, Complete), section
    await forge.close()


@pytest.mark.req("FRG-004")
@pytest.mark.parametrize(
    "spoil",
    [
        lambda _: 502,
        lambda _: {"data": None, "errors": [{"message": "Something went wrong"}]},
        lambda _: {"data": {"repository": None}},
        lambda _: {},
        lambda answer: answer | {"errors": [{"message": "without a path"}]},
    ],
    ids=["502", "no data", "null repository", "empty", "an error without a path"],
)
def test_a_failed_request_leaves_every_section_unknown(virtually: Any, spoil: Callable[[Data], Any]) -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        spoiled = spoil({"data": {"repository": {"milestone": None}}})
        return reply(spoiled, b"") if isinstance(spoiled, int) else reply(200, spoiled)

    async def play(clock: VirtualClock) -> None:
        forge, _ = scripted(clock, answer)
        batch = await forge.batch_snapshot(REPO, 1)
        repo = await forge.repo_snapshot(REPO)
        for section in (batch.repository, batch.milestone, batch.issues, batch.refs, batch.pull,
                        repo.repository, repo.milestones, repo.issues, repo.pulls, repo.refs):  # fmt: skip
            assert isinstance(section, Unknown), section
        await forge.close()

    virtually(play)


def repeated(answer: Data) -> Data:
    issues = nodes(answer, "milestone", "issues")
    issues["pageInfo"] = {"hasNextPage": True, "endCursor": "same"}
    issues["totalCount"] = 500
    return answer


class Forgetful(httpx.AsyncBaseTransport):
    """Takes the cursor ``same`` for no cursor at all, so that the first page comes for ever."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self.inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content or b"{}")
        if body.get("variables", {}).get("after") == "same":
            body["variables"]["after"] = None
            headers = {name: value for name, value in request.headers.items() if name != "content-length"}
            request = httpx.Request("POST", request.url, headers=headers, json=body)
        return await self.inner.handle_async_request(request)


@pytest.mark.req("FRG-004")
async def test_a_cursor_that_comes_again_ends_the_reading(road: Road) -> None:
    batch = await batch_of(road, 2)
    spoiled = Tamper(Tamper(road.transport, "BatchIssues", repeated), "Batch", repeated)
    forge = road.client(road.bot_token, Forgetful(spoiled))
    seen = await forge.batch_snapshot(road.repo, batch)
    assert isinstance(seen.issues, Unknown)
    assert "came again" in seen.issues.reason
    await forge.close()


def error_in_checks(answer: Data) -> Data:
    for node in nodes(answer, "pullRequests")["nodes"]:
        node["commits"] = None
    path = ["repository", "pullRequests", "nodes", 0, "commits"]
    return answer | {"errors": [{"message": "Resource not accessible", "type": "FORBIDDEN", "path": path}]}


def many_threads(answer: Data) -> Data:
    nodes(answer, "pullRequests")["nodes"][0]["reviewThreads"]["totalCount"] = 230
    return answer


def null_pull(answer: Data) -> Data:
    nodes(answer, "pullRequests")["nodes"].insert(0, None)
    return answer


@pytest.mark.req("FRG-004")
@pytest.mark.parametrize(
    ("spoil", "unknown"),
    [(error_in_checks, "checks"), (many_threads, "unresolved_threads"), (null_pull, "pulls")],
)
async def test_a_part_of_a_pull_request_may_be_unknown_alone(
    road: Road, spoil: Callable[[Data], Data], unknown: str
) -> None:
    road.branch("herd/batch/1-x", {"new.txt": "1\n"})
    await road.bot.create_pull(road.repo, title="P", body="", head="herd/batch/1-x", base="main")
    forge = road.client(road.bot_token, Tamper(road.transport, "Repo", spoil))
    seen = await forge.repo_snapshot(road.repo)
    await forge.close()
    if unknown == "pulls":
        assert isinstance(seen.pulls, Unknown)
        return
    (pull,) = known(seen.pulls, "pulls")
    for name in ("checks", "reviews", "unresolved_threads"):
        assert isinstance(getattr(pull, name), Unknown if name == unknown else Complete), name


@pytest.mark.req("FRG-004")
async def test_a_repository_snapshot_has_the_herd_issues_and_the_closed_ones_of_open_batches(road: Road) -> None:
    batch = await batch_of(road, 3, closed=2)
    plain = await road.person.create_issue(road.repo, "a person's", "")
    alone = await road.person.create_issue(road.repo, "a fix alone", "", labels=["herd/type:standalone-fix"])
    over = await road.bot.create_milestone(road.repo, "over", "")
    away = await road.bot.create_issue(road.repo, "done long ago", "", labels=[READY], milestone=over.number)
    await road.bot.edit_issue(road.repo, away.number, state="closed")
    await road.bot.edit_milestone(road.repo, over.number, state="closed")
    tip = road.branch("herd/batch/1-x", {"new.txt": "1\n"})
    pull = await road.bot.create_pull(road.repo, title="P", body="", head="herd/batch/1-x", base="main")
    seen = await road.bot.repo_snapshot(road.repo)
    assert [each.number for each in known(seen.milestones, "milestones")] == [batch]
    numbers = {each.number for each in known(seen.issues, "issues")}
    assert numbers == {1, 2, 3, alone.number}
    assert plain.number not in numbers
    assert [(each.number, each.head_sha) for each in known(seen.pulls, "pulls")] == [(pull.number, tip)]
    assert known(seen.refs, "refs") == {"herd/batch/1-x": tip}
    assert seen.requests == 2


@pytest.mark.req("FRG-004")
async def test_more_than_one_page_of_pull_requests(road: Road) -> None:
    for at in range(52):
        name = f"herd/worker/{at}-x"
        road.git("checkout", "-q", "-B", name, "main")
        road.commit(f"w{at}", {f"f{at}": "1\n"})
    road.local.import_repo("owner", "road", road.clone)
    for at in range(52):
        await road.bot.create_pull(road.repo, title=f"P{at}", body="", head=f"herd/worker/{at}-x", base="main")
    seen = await road.bot.repo_snapshot(road.repo)
    assert len(known(seen.pulls, "pulls")) == 52
    assert len(known(seen.refs, "refs")) == 52
    assert seen.requests == 2


TEXTS = {name: text for name, text in vars(queries).items() if name.isupper() and "query " in str(text)}
TEXTS = {name: text for name, text in TEXTS.items() if not name.startswith("_")} | {
    "closed": queries.closed_issues([1, 2])
}


@pytest.mark.req("FRG-004", "FRG-031")
def test_every_query_is_valid_against_the_published_schema() -> None:
    place = os.environ.get("HERD_JUDGES")
    assert place, "HERD_JUDGES is not set: it names the folder where npm installed @octokit/graphql-schema"
    path = Path(place, "node_modules", "@octokit", "graphql-schema", "schema.graphql")
    schema = build_schema(path.read_text(), assume_valid=True)
    assert {name: validate(schema, parse(text)) for name, text in TEXTS.items()} == {name: [] for name in TEXTS}
