"""What holds when processes die and stop: real processes, kill -9, SIGSTOP, on both databases (ENG-009, QLT-020)."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import Any

import pytest
import sqlalchemy as sa

from droveway.core.database import IDLE_TRANSACTION_SECONDS
from droveway.engine import Existing, Job, JobState
from droveway.store import make_engine
from private_postgres import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.req("ENG-009", "ENG-004", "QLT-020")]


async def ended(executors: Any, *names: str) -> list[JobState]:
    """Wait for the ends of jobs, by looking."""
    infos: dict[str, Any] = {}

    async def look() -> bool:
        infos.update({info.id: info for info in await executors.client.jobs() if info.id in names})
        return len(infos) == len(names) and all(info.ended_at for info in infos.values())

    async with asyncio.timeout(60):
        while not await look():  # noqa: ASYNC110 - another process's doing
            await asyncio.sleep(0.05)
    return [infos[name].state for name in names]


def job(name: str, **args: Any) -> Job:
    return Job(name, "work", "issue:1", args)


async def test_a_killed_executor_runs_its_job_again_when_it_is_started_again(executors: Any) -> None:
    process = await executors.start("a")
    await executors.client.enqueue(job("one"))
    await executors.until(lambda: executors.events("start", "one"))
    process.kill()
    process.wait()
    executors.open_gate("all")
    await executors.start("a")
    assert await ended(executors, "one") == [JobState.DONE]
    assert len(executors.events("start", "one")) == 2
    assert executors.events("effect") == [("effect", "one", "a")]
    assert await executors.client.enqueue(job("one")) == Existing("one", JobState.DONE)


@pytest.mark.req("QLT-032")
async def test_of_three_executors_one_is_killed_and_the_others_take_its_jobs_within_the_global_cap(
    executors: Any,
) -> None:
    processes = {name: await executors.start(name, slots=2, global_slots=4) for name in ("a", "b", "c")}
    names = [f"job-{number}" for number in range(8)]
    for name in names:
        await executors.client.enqueue(job(name))
    await executors.until(lambda: len(executors.events("start")) == 4)
    victim = executors.events("start")[0][2]
    processes[victim].kill()
    processes[victim].wait()
    executors.say("killed", victim)
    executors.open_gate("all")
    assert await ended(executors, *names) == [JobState.DONE] * 8
    effects = executors.events("effect")
    assert sorted(line[1] for line in effects) == names
    assert victim not in {line[2] for line in effects}
    live: set[tuple[str, ...]] = set()
    for line in executors.log:
        match line:
            case ("start", name, executor, *_):
                live.add((name, executor))
            case ("effect", name, executor):
                live.discard((name, executor))
            case ("killed", executor):
                live = {entry for entry in live if entry[1] != executor}
        assert len(live) <= 4


async def test_an_executor_that_was_stopped_and_wakes_does_no_second_effect_and_goes_on_working(
    executors: Any,
) -> None:
    sleeper = await executors.start("a")
    await executors.client.enqueue(job("one", lease="shared"))
    await executors.until(lambda: executors.events("start", "one", "a"))
    (first,) = executors.events("start", "one", "a")
    await executors.suspend(sleeper)
    other = await executors.start("b")
    await executors.until(lambda: executors.events("start", "one", "b"))
    (second,) = executors.events("start", "one", "b")
    assert [int(epoch) for epoch in second[4:]] == [int(epoch) + 1 for epoch in first[4:]]
    executors.open_gate("a")
    sleeper.send_signal(signal.SIGCONT)
    await executors.until(lambda: executors.events("lost"))
    executors.open_gate("b")
    assert await ended(executors, "one") == [JobState.DONE]
    assert executors.events("effect") == [("effect", "one", "b")]
    other.terminate()
    await executors.until(lambda: executors.events("stopped", "b"))
    await executors.client.enqueue(job("two"))
    assert await ended(executors, "two") == [JobState.DONE]
    assert executors.events("effect", "two") == [("effect", "two", "a")]


async def test_a_process_that_stops_in_a_transaction_keeps_its_locks_for_a_moment_only(postgres: Cluster) -> None:
    url = postgres.database()
    holder, other = make_engine(url), make_engine(url)
    with holder.begin() as db:
        db.execute(sa.text("CREATE TABLE x (n int)"))
        db.execute(sa.text("INSERT INTO x VALUES (1)"))
    stopped = holder.connect()
    stopped.execute(sa.text("UPDATE x SET n = 2"))
    begun = time.monotonic()
    with other.begin() as writer:
        writer.execute(sa.text("UPDATE x SET n = 3"))
    assert IDLE_TRANSACTION_SECONDS - 1 < time.monotonic() - begun < 4 * IDLE_TRANSACTION_SECONDS
    stopped.invalidate()
    stopped.close()
    holder.dispose()
    other.dispose()


@pytest.mark.req("ENG-005")
async def test_a_terminated_executor_hands_its_job_over_at_once(executors: Any) -> None:
    leaver = await executors.start("a")
    await executors.client.enqueue(job("one"))
    await executors.until(lambda: executors.events("start", "one", "a"))
    await executors.start("b")
    leaver.terminate()
    await executors.until(lambda: executors.events("stopped", "a"))
    assert leaver.wait(10) == 0
    executors.open_gate("b")
    assert await ended(executors, "one") == [JobState.DONE]
    assert executors.events("effect") == [("effect", "one", "b")]


async def test_a_job_that_a_client_cancels_ends_in_the_process_that_runs_it(executors: Any) -> None:
    await executors.start("a")
    await executors.client.enqueue(job("one"))
    await executors.until(lambda: executors.events("start", "one"))
    await executors.client.cancel("one")
    await executors.client.enqueue(job("two"))
    assert await ended(executors, "one") == [JobState.CANCELLED]
    executors.open_gate("all")
    assert await ended(executors, "two") == [JobState.DONE]
    assert executors.events("effect") == [("effect", "two", "a")]
