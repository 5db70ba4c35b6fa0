"""The gate: limits, retries, deadlines, priorities, counts (FRG-006, case R01)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest

from droveway.core.clock import VirtualClock
from droveway.forge import ForgeError, LimitedError, PermissionDeniedError, Priority
from droveway.forge.gate import Gate, Turnstile

from .scripting import REPO, Answer, epoch, reply, scripted

Virtually = Callable[[Callable[[VirtualClock], Any]], Any]
SECONDARY = {"message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}
ISSUE = {"number": 7, "state": "open"}


def read_once(*answers: Callable[[VirtualClock], Answer]) -> Callable[[VirtualClock], Any]:
    """Read one issue; give when each request was sent, and the outcome."""

    async def play(clock: VirtualClock) -> tuple[list[float], Any]:
        forge, script = scripted(clock, *(answer(clock) for answer in answers))
        try:
            outcome: Any = await forge.issue(REPO, 7)
        except ForgeError as error:
            outcome = error
        await forge.close()
        return script.times, outcome

    return play


def good(_: VirtualClock) -> Answer:
    return reply(body=ISSUE)


@pytest.mark.req("FRG-006")
@pytest.mark.parametrize(
    ("limit", "wait"),
    [
        (lambda c: reply(403, SECONDARY, x_ratelimit_remaining="4000", x_ratelimit_limit="5000"), 60),
        (lambda c: reply(429, {"message": "slow down"}, retry_after="7"), 7),
        (lambda c: reply(403, {"message": "API rate limit exceeded"}, x_ratelimit_remaining="0",
                         x_ratelimit_limit="5000", x_ratelimit_reset=epoch(c, 40)), 41),
        (lambda c: reply(429, {}, retry_after=format_datetime(c.now() + timedelta(seconds=90), usegmt=True)), 90),
        (lambda c: reply(403, {"message": "API rate limit exceeded"}, x_ratelimit_remaining="0",
                         x_ratelimit_limit="5000", x_ratelimit_reset=epoch(c, -3)), 5),
        (lambda c: reply(429, {}), 60),
        (lambda c: reply(403, SECONDARY, x_ratelimit_remaining="0", x_ratelimit_limit="5000",
                         x_ratelimit_reset=epoch(c, 10)), 11),
        (lambda c: reply(429, {}, retry_after="0"), 5),
        (lambda c: reply(403, {}, retry_after="not a time"), None),
    ],
    ids=["a secondary without time", "b Retry-After seconds", "c empty bucket", "e Retry-After date",
         "f reset in the past", "429 without anything", "secondary with reset", "Retry-After 0", "nonsense"],
)  # fmt: skip
def test_a_limit_is_waited_for_and_then_the_call_goes_on(
    virtually: Virtually, limit: Callable[[VirtualClock], Answer], wait: float | None
) -> None:
    times, outcome = virtually(read_once(limit, good))
    if wait is None:
        assert isinstance(outcome, PermissionDeniedError)
        return
    assert outcome.number == 7
    assert len(times) == 2
    assert times[1] - times[0] == pytest.approx(wait, abs=1)


@pytest.mark.req("FRG-006")
def test_the_clocks_of_the_forge_and_ours_may_differ(virtually: Virtually) -> None:
    """The forge's clock is an hour ahead: the wait is the difference on its own clock."""

    def limit(clock: VirtualClock) -> Answer:
        there = clock.now() + timedelta(hours=1)
        return reply(
            403, {}, x_ratelimit_remaining="0", x_ratelimit_limit="60", x_ratelimit_reset=epoch(clock, 3600 + 30),
            date=format_datetime(there, usegmt=True),
        )  # fmt: skip

    times, outcome = virtually(read_once(limit, good))
    assert outcome.number == 7
    assert times[1] - times[0] == pytest.approx(31, abs=1)


@pytest.mark.req("FRG-006")
def test_a_limit_without_a_time_is_waited_for_longer_each_time(virtually: Virtually) -> None:
    def limit(_: VirtualClock) -> Answer:
        return reply(403, SECONDARY)

    times, outcome = virtually(read_once(limit, limit, limit, good))
    assert outcome.number == 7
    assert [b - a for a, b in itertools.pairwise(times)] == pytest.approx([60, 120, 240], abs=1)


@pytest.mark.req("FRG-006")
@pytest.mark.parametrize(
    ("headers", "named"),
    [
        ({"x_accepted_github_permissions": "issues=write"}, "issues=write"),
        ({"x_accepted_oauth_scopes": "repo", "x_oauth_scopes": "gist"}, "repo"),
        ({}, "not accessible"),
    ],
)
def test_a_plain_403_fails_at_once_and_names_the_permission(
    virtually: Virtually, headers: dict[str, str], named: str
) -> None:
    def denied(_: VirtualClock) -> Answer:
        return reply(403, {"message": "Resource not accessible by personal access token"}, **headers)

    times, outcome = virtually(read_once(denied))
    assert isinstance(outcome, PermissionDeniedError)
    assert len(times) == 1
    assert named in str(outcome)


@pytest.mark.req("FRG-006")
def test_all_callers_of_the_token_share_the_wait(virtually: Virtually) -> None:
    async def play(clock: VirtualClock) -> list[float]:
        forge, script = scripted(clock, reply(403, SECONDARY), reply(body=ISSUE))
        first = asyncio.ensure_future(forge.issue(REPO, 7))
        await clock.sleep(1)
        await asyncio.gather(forge.issue(REPO, 7), forge.set_status(REPO, "a" * 40, context="x", state="success"))
        await first
        await forge.close()
        return script.times

    times = virtually(play)
    assert len(times) == 4
    assert times[0] == 0
    assert all(time >= 60 for time in times[1:])


@pytest.mark.req("FRG-006")
def test_a_limit_of_one_bucket_holds_up_no_other(virtually: Virtually) -> None:
    async def play(clock: VirtualClock) -> list[float]:
        def answer(request: httpx.Request) -> httpx.Response:
            if request.url.path == "/graphql" and len(script.requests) == 1:
                return reply(200, {"data": None, "errors": [{"type": "RATE_LIMITED", "message": "API rate limit"}]},
                             x_ratelimit_limit="5000", x_ratelimit_remaining="0", x_ratelimit_resource="graphql",
                             x_ratelimit_reset=epoch(clock, 300))  # fmt: skip
            return reply(body=ISSUE) if request.url.path != "/graphql" else reply(body={"data": {"repository": None}})

        forge, script = scripted(clock, answer)
        waiting = asyncio.ensure_future(forge.repo_snapshot(REPO))
        await clock.sleep(1)
        await forge.issue(REPO, 7)
        await waiting
        await forge.close()
        return script.times

    times = virtually(play)
    assert times[1] == pytest.approx(1, abs=1)
    assert times[2] == pytest.approx(301, abs=2)


@pytest.mark.req("FRG-006")
def test_a_limit_beyond_the_patience_fails_and_says_until_when(virtually: Virtually) -> None:
    def limit(clock: VirtualClock) -> Answer:
        return reply(403, {}, x_ratelimit_remaining="0", x_ratelimit_limit="60", x_ratelimit_reset=epoch(clock, 3000))

    times, outcome = virtually(read_once(limit))
    assert isinstance(outcome, LimitedError)
    assert "3001 s" in str(outcome) or "3000 s" in str(outcome)
    assert times == [0]


@pytest.mark.req("FRG-006")
@pytest.mark.parametrize("failure", [reply(502), reply(500), httpx.ReadError("gone"), httpx.ConnectError("refused")])
def test_a_read_is_tried_again_after_1_2_and_4_seconds(virtually: Virtually, failure: Answer) -> None:
    times, outcome = virtually(read_once(lambda _: failure, lambda _: failure, lambda _: failure, good))
    assert outcome.number == 7
    assert times == pytest.approx([0, 1, 3, 7], abs=0.5)


@pytest.mark.req("FRG-006")
def test_a_read_that_fails_four_times_has_failed(virtually: Virtually) -> None:
    times, outcome = virtually(read_once(lambda _: reply(502, b"<html>")))
    assert isinstance(outcome, ForgeError)
    assert outcome.status == 502
    assert len(times) == 4


async def comment_once(clock: VirtualClock, *answers: Answer) -> tuple[int, Any]:
    forge, script = scripted(clock, *answers)
    try:
        outcome: Any = await forge.create_comment(REPO, 7, "hello")
    except ForgeError as error:
        outcome = error
    await forge.close()
    return len(script.requests), outcome


@pytest.mark.req("FRG-006")
@pytest.mark.parametrize(
    ("failure", "sent", "ok"),
    [
        (reply(502), 1, False),
        (httpx.ReadError("gone"), 1, False),
        (httpx.RemoteProtocolError("closed"), 1, False),
        (httpx.ConnectError("refused"), 2, True),  # it was never sent
        (reply(403, SECONDARY), 2, True),  # the forge refused it
        (reply(429, {}, retry_after="3"), 2, True),
    ],
)
def test_a_write_is_never_sent_again_unless_it_surely_did_nothing(
    virtually: Virtually, failure: Answer, sent: int, ok: bool
) -> None:
    count, outcome = virtually(lambda clock: comment_once(clock, failure, reply(201, {"id": 5, "body": "hello"})))
    assert count == sent
    assert isinstance(outcome, ForgeError) is not ok


@pytest.mark.req("FRG-006")
def test_an_idempotent_write_is_sent_again(virtually: Virtually) -> None:
    async def play(clock: VirtualClock) -> int:
        forge, script = scripted(clock, reply(502), httpx.ReadError("gone"), reply(200, ISSUE))
        await forge.edit_issue(REPO, 7, labels=["a"])
        await forge.close()
        return len(script.requests)

    assert virtually(play) == 3


@pytest.mark.req("FRG-006")
async def test_every_request_has_a_deadline() -> None:
    from droveway.core.clock import SystemClock

    class Silent(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            await asyncio.Event().wait()
            raise AssertionError

    gate = Gate(Silent(), SystemClock(), attempt_seconds=0.05)
    async with httpx.AsyncClient(transport=gate) as client:
        with pytest.raises(httpx.ReadTimeout, match=r"0\.05 s"):
            await client.post("http://forge.invalid/x")


@pytest.mark.req("FRG-006")
def test_observation_leaves_the_reserve_to_the_others(virtually: Virtually) -> None:
    async def play(clock: VirtualClock) -> list[tuple[str, float]]:
        low = {"x_ratelimit_limit": "100", "x_ratelimit_remaining": "8", "x_ratelimit_reset": epoch(clock, 50)}
        forge, script = scripted(clock, reply(body=ISSUE, **low), reply(201, ISSUE, **low), reply(body=ISSUE))
        await forge.issue(REPO, 7)
        observing = asyncio.ensure_future(forge.issue(REPO, 8))
        await clock.sleep(1)
        await forge.create_comment(REPO, 9, "a repair may go on")
        with forge.priority(Priority.COMMAND):
            await forge.issue(REPO, 10)
        await observing
        assert forge.ledger["core"].remaining == 8
        await forge.close()
        return [(path.rsplit("/repos/owner/road", 1)[1], time) for path, time in
                zip(script.asked, script.times, strict=True)]  # fmt: skip

    order = virtually(play)
    assert [path for path, _ in order] == ["/issues/7", "/issues/9/comments", "/issues/10", "/issues/8"]
    assert order[3][1] >= 50


@pytest.mark.req("FRG-006")
def test_who_waits_for_a_slot_enters_by_priority(virtually: Virtually) -> None:
    async def play(clock: VirtualClock) -> list[str]:
        turnstile = Turnstile(1)
        order: list[str] = []

        async def enter(name: str, priority: Priority) -> None:
            async with turnstile.turn(priority):
                order.append(name)
                await clock.sleep(1)

        async with asyncio.TaskGroup() as group:
            group.create_task(enter("first", Priority.DASHBOARD))
            await clock.sleep(0.1)
            for name, priority in (("page", Priority.DASHBOARD), ("look", Priority.OBSERVE), ("fix", Priority.REPAIR),
                                   ("merge", Priority.MERGE), ("look2", Priority.OBSERVE)):  # fmt: skip
                group.create_task(enter(name, priority))
            leaving = group.create_task(enter("gone", Priority.MERGE))
            await clock.sleep(0.1)
            leaving.cancel()
        return order

    assert virtually(play) == ["first", "merge", "fix", "look", "look2", "page"]


@pytest.mark.req("FRG-006")
def test_requests_are_counted_per_loop_and_in_total(virtually: Virtually) -> None:
    async def play(clock: VirtualClock) -> None:
        forge, _ = scripted(clock, reply(502), reply(200, ISSUE))
        with forge.counting("integrate") as count:
            await forge.issue(REPO, 7)  # two requests: one is retried
            async with asyncio.TaskGroup() as group:
                group.create_task(forge.issue(REPO, 7))
            with forge.counting("inner") as inner:
                await forge.create_comment(REPO, 7, "x")
        await forge.issue(REPO, 7)
        with forge.counting("integrate") as again:
            await forge.issue(REPO, 7)
        assert (count.requests, count.reads, count.writes) == (4, 3, 1)
        assert (inner.requests, again.requests, forge.requests()) == (1, 1, 6)
        assert forge.counters.by_loop["integrate"].requests == 5
        assert forge.counters.by_route["GET /repos/issues/N"] == 5
        await forge.close()

    virtually(play)
