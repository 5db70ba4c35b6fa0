"""The store on both databases."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from droveway.core.actuator import AuditRecord
from droveway.core.decisions import Blocker
from droveway.core.ids import RandomIds
from droveway.store import Store, UsageTotals
from droveway.store import store as store_module
from private_postgres import Cluster

pytestmark = pytest.mark.req("ENG-001")


@pytest.mark.req("ENG-002")
async def test_a_subject_has_one_task_of_a_kind_and_its_links_are_kept(store: Store) -> None:
    asked = [store.task("o/r", kind="worker", subject="issue:1", title="Do it", issue=1, batch=3) for _ in range(8)]
    first, *others = await asyncio.gather(*asked)
    assert set(others) == {first}
    assert await store.task("o/r", kind="worker", subject="issue:1", title="Do it well", pr=9) == first
    assert await store.task("o/r", kind="review", subject="issue:1", title="Look") != first
    assert await store.task("o/other", kind="worker", subject="issue:1", title="Do it") != first
    (info,) = await store.tasks("o/r", batch=3)
    assert (info.id, info.title, info.issue, info.batch, info.pr) == (first, "Do it well", 1, 3, 9)


@pytest.mark.req("ENG-002", "AGT-009")
async def test_a_session_keeps_its_turns_and_its_conversation(store: Store, clock: Any) -> None:
    task = await store.task("o/r", kind="worker", subject="issue:1", title="Do it", issue=1, batch=3)
    session = await store.open_session(task, role="worker", provider="claude", model="m", identity="bot")
    turn = await store.start_turn(session, job="j/1", attempt=1, prompt_digest="d", transcript="/t.jsonl")
    (running,) = await store.turns(job="j/1")
    assert (running.outcome, running.ended_at, running.transcript) == ("", None, "/t.jsonl")
    ended = clock.later(seconds=90)
    await store.end_turn(
        turn,
        outcome="ok",
        text="all \0 done \ud800",
        tokens_in=10,
        tokens_out=2,
        cost_usd=0.5,
        seconds=90.0,
        conversation="c-1",
    )
    (info,) = await store.turns(task=task)
    assert (info.id, info.outcome, info.tokens_in, info.tokens_cached, info.cost_usd) == (turn, "ok", 10, None, 0.5)
    assert (info.ended_at, info.seconds) == (ended, 90.0)
    assert info.text == "all \ufffd done ?"
    (kept,) = await store.sessions(task)
    assert (kept.id, kept.conversation, kept.identity) == (session, "c-1", "bot")
    await store.end_turn(turn, outcome="ok", text="x" * 100_000)
    assert len((await store.turns(session=session))[0].text) == 20_000


@pytest.mark.req("AGT-009")
async def test_usage_is_summed_by_batch_issue_task_identity_and_day(store: Store, clock: Any) -> None:
    begun = clock.now()
    tasks = []
    for issue, batch, identity in ((1, 3, "ann"), (2, 3, "bob"), (3, 4, "ann")):
        task = await store.task("o/r", kind="worker", subject=f"issue:{issue}", title="T", issue=issue, batch=batch)
        session = await store.open_session(task, role="worker", provider="p", model="m", identity=identity)
        turn = await store.start_turn(session, job=f"j/{issue}", attempt=1, prompt_digest="d")
        cost = None if issue == 2 else 1.0
        await store.end_turn(turn, outcome="ok", tokens_in=100 * issue, tokens_out=issue, cost_usd=cost, seconds=10)
        tasks.append(task)
        clock.later(days=1)
    await store.start_turn(session, job="j/running", attempt=1, prompt_digest="d")
    assert await store.usage(repo="o/r") == UsageTotals(3, 600, 6, 0, 2.0, 30.0, 1)
    assert await store.usage(repo="o/r", batch=3) == UsageTotals(2, 300, 3, 0, 1.0, 20.0, 1)
    assert (await store.usage(repo="o/r", issue=2)).tokens_in == 200
    assert (await store.usage(task=tasks[0])).tokens_in == 100
    assert (await store.usage(identity="ann")).turns == 2
    day = begun + timedelta(hours=23)
    assert (await store.usage(repo="o/r", since=day, until=day + timedelta(days=1))).tokens_in == 200
    assert await store.usage(repo="o/none") == UsageTotals()


@pytest.mark.req("ENG-002")
async def test_each_waiting_message_is_given_to_one_turn(store: Store, clock: Any) -> None:
    task = await store.task("o/r", kind="chat", subject="session:1", title="Talk")
    session = await store.open_session(task, role="worker", provider="p", model="m")
    for body in ("first", "second"):
        await store.add_message(session, author="ann", body=body)
        clock.later(seconds=1)
    turns = [await store.start_turn(session, job="j", attempt=1, prompt_digest="d") for _ in range(3)]
    taken = await asyncio.gather(*(store.answer_messages(session, turn) for turn in turns))
    assert sorted(len(messages) for messages in taken) == [0, 0, 2]
    assert [message.body for messages in taken for message in messages] == ["first", "second"]
    (turn,) = {message.turn for messages in taken for message in messages}
    assert turn is not None
    await store.add_message(session, author="ann", body="third")
    assert [message.turn for message in await store.messages(session)] == [turn, turn, None]
    assert [message.body for message in await store.answer_messages(session, turn)] == ["first", "second", "third"]


def record(name: str, clock: Any, **changes: Any) -> AuditRecord:
    values: dict[str, Any] = {
        "id": name, "at": clock.later(seconds=1), "loop": "integrate", "rule": "BAT-110", "repo": "o/r",
        "subject": "issue:1", "head": "-", "facts": ("the branch is ahead",), "blockers": (), "actions": [],
        "outcomes": [], "requests": 2,
    }  # fmt: skip
    return AuditRecord(**{**values, **changes})


ACT = [{"do": "set-status", "repo": "o/r", "key": "k", "issue": 1, "to": "done"}]


@pytest.mark.req("ENG-007")
async def test_acts_and_changes_of_blockers_are_recorded_and_repetitions_are_not(store: Store, clock: Any) -> None:
    red = (Blocker("checks", "build is red", "a green build", "ci"),)
    tests = (Blocker("checks", "tests are red", "green tests", "ci"),)
    await store.record(record("nothing", clock))
    await store.record(record("red", clock, blockers=red))
    await store.record(record("red-again", clock, blockers=red))
    await store.record(record("red-elsewhere", clock, blockers=red, subject="issue:2"))
    await store.record(record("red-other-rule", clock, blockers=red, rule="BAT-111"))
    await store.record(record("tests", clock, blockers=tests))
    await store.record(record("clear", clock))
    await store.record(record("clear-again", clock))
    outcome = [{"outcome": "applied", "detail": "", "receipt": {"number": None, "sha": None, "note": ""}}]
    acted = record("act", clock, actions=ACT, outcomes=outcome)
    await store.record(acted)
    await store.record(acted)
    await store.record(record("act-again", clock, actions=ACT))
    await store.record(record("red-after-act", clock, blockers=red))
    found = [row.id for row in await store.decisions(repo="o/r")]
    assert found == ["red-after-act", "act-again", "act", "clear", "tests", "red-other-rule", "red-elsewhere", "red"]
    assert [row.id for row in await store.decisions(repo="o/r", subject="issue:2")] == ["red-elsewhere"]
    assert [row.id for row in await store.decisions(repo="o/r", rule="BAT-110", limit=2)] == found[:2]
    assert [row.id for row in await store.decisions(since=acted.at, repo="o/r")] == found[:3]
    assert (await store.decisions(repo="o/r"))[2] == acted


@pytest.mark.req("ENG-007")
async def test_facts_are_kept_once_per_digest_and_everything_is_dropped_in_its_time(
    store: Store, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await store.keep_facts({"issues": ["old"] * 500})
    assert await store.keep_facts({"issues": ["old"] * 500}) == old
    await store.record(record("old", clock, actions=ACT))
    clock.later(days=6)
    new = await store.keep_facts({"issues": ["new"]})
    await store.prune(clock.now())
    assert await store.facts(old) == {"issues": ["old"] * 500}
    clock.later(days=2)
    await store.prune(clock.now())
    assert await store.facts(old) is None
    assert await store.facts(new) == {"issues": ["new"]}
    assert len(await store.decisions(repo="o/r")) == 1
    newer = await store.keep_facts({"issues": ["newer"]})
    monkeypatch.setattr(store_module, "FACTS_BYTES", 40)
    await store.prune(clock.now())
    assert await store.facts(new) is None
    assert await store.facts(newer) == {"issues": ["newer"]}
    clock.later(days=23)
    await store.prune(clock.now())
    assert await store.decisions(repo="o/r") == []


async def test_etags_and_settings_are_the_last_that_were_put(store: Store) -> None:
    key = "GET https://api.github.com/repos/o/r/issues?" + "x" * 3000
    assert await store.etag(key) is None
    await store.put_etag(key, 'W/"1"', b"[1]")
    await store.put_etag(key, 'W/"2"', b"\x00\xff")
    assert await store.etag(key) == ('W/"2"', b"\x00\xff")
    assert await store.get("a") is None
    await store.put("a", {"n": [1, None]})
    await store.put("a", {"n": [2, "\0"]})
    assert await store.get("a") == {"n": [2, "\0"]}
    await store.put("a", None)
    assert await store.get("a") is None


async def test_text_that_is_no_proper_unicode_is_kept_as_well_as_can_be(store: Store, clock: Any) -> None:
    await store.record(record("odd", clock, actions=ACT, facts=("half \ud800 and \0",)))
    assert (await store.decisions(repo="o/r"))[0].facts == ("half ? and \0",)


@pytest.mark.req("QLT-033")
async def test_killed_database_connections_cost_nothing(store_postgres: Cluster, clock: Any) -> None:
    url = store_postgres.database()
    store = await Store.open(url, clock=clock, ids=RandomIds())
    for number in range(5):
        killing = asyncio.create_task(asyncio.to_thread(kill_connections, url))
        task = await store.task("o/r", kind="worker", subject=f"issue:{number}", title="Do it")
        session = await store.open_session(task, role="worker", provider="p", model="m")
        await store.add_message(session, author="ann", body="hello")
        assert [message.body for message in await store.messages(session)] == ["hello"]
        await killing
    assert len(await store.tasks("o/r")) == 5
    await store.close()


def kill_connections(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
