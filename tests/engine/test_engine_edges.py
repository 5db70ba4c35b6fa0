"""The engine's edges: checks at the start, effects, virtual time, what is imported, what is printed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from droveway.core.actuator import Done, EffectError, Ready
from droveway.core.clock import SystemClock, VirtualClock
from droveway.core.decisions import CancelJob, Receipt, StartJob
from droveway.core.errors import HerdError
from droveway.core.ids import RandomIds, SeededIds
from droveway.engine import (
    RECOVERIES,
    DbosEngine,
    EngineClient,
    Enqueued,
    InlineEngine,
    Job,
    JobContext,
    JobState,
    check_runtime,
)
from droveway.engine.effects import handlers
from droveway.engine.ledger import Ledger
from droveway.engine.sqlite import ensure, problem
from droveway.store import make_engine
from private_postgres import Cluster


@pytest.mark.req("ENG-009")
@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://x/y", "sqlite:///PATH or postgresql://"),
        ("sqlite://", "needs a SQLite file"),
        ("sqlite:////proc/droveway/x.db", "can't be used"),
        ("postgresql://herd@/x?host=/nowhere", "can't be reached"),
    ],
)
def test_a_start_says_in_one_line_what_is_wrong_with_its_database(url: str, words: str) -> None:
    with pytest.raises(HerdError, match=words) as caught:
        check_runtime(url)
    assert "\n" not in str(caught.value)


@pytest.mark.req("ENG-009", "ENG-001")
def test_a_good_database_passes_and_sqlite_is_in_wal_mode(tmp_path: Path, postgres: Cluster) -> None:
    check_runtime(postgres.database())
    check_runtime(f"sqlite:///{tmp_path / 'state' / 'droveway.db'}")
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    with make_engine(f"sqlite:///{tmp_path / 'state' / 'droveway.db'}").connect() as db:
        assert db.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


@pytest.mark.req("ENG-009")
def test_the_sqlite_in_use_can_run_the_engine_and_an_old_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ensure() == sys.modules["sqlite3"].sqlite_version
    assert problem() == ""
    monkeypatch.setitem(sys.modules, "pysqlite3", None)  # not installed
    monkeypatch.setitem(sys.modules, "sqlite3", types.SimpleNamespace(sqlite_version="3.40.1"))
    if sys.version_info >= (3, 12):
        assert "with SQLite 3.40.1 cannot run the engine: install pysqlite3-binary" in problem()
    else:
        assert problem() == ""


async def test_starting_and_cancelling_jobs_are_effects_that_are_found_again() -> None:
    engine = InlineEngine(clock=SystemClock(), ids=RandomIds(), slots={"workers": 1})
    gate = asyncio.Event()

    async def work(_context: JobContext) -> Any:
        await gate.wait()

    engine.register("work", "workers", work)
    await engine.start()
    by_type = handlers(engine)
    start = StartJob("o/r", "k", job=Job("one", "work", "issue:1"))
    cancel = CancelJob("o/r", "k", job_id="one")
    assert await by_type[CancelJob].look(cancel) == Done(Receipt(note="unknown"))
    assert await by_type[StartJob].look(start) == Ready()
    assert await by_type[StartJob].apply(start) == Receipt(note="enqueued")
    assert await by_type[StartJob].look(start) == Done(Receipt(note="running"))
    assert await by_type[StartJob].apply(start) == Receipt(note="running")
    assert await by_type[CancelJob].look(cancel) == Ready()
    await by_type[CancelJob].apply(cancel)
    assert await by_type[CancelJob].look(cancel) == Done(Receipt(note="cancelled"))
    with pytest.raises(EffectError, match="priority"):
        await by_type[StartJob].apply(StartJob("o/r", "k", job=Job("two", "work", "issue:1", priority=0)))
    gate.set()
    await engine.stop()


def test_hours_of_jobs_take_no_time_on_a_virtual_clock(virtually: Callable[..., Any]) -> None:
    async def run(clock: VirtualClock) -> list[tuple[str, JobState, float]]:
        engine = InlineEngine(clock=clock, ids=SeededIds(1), slots={"workers": 1})

        async def work(context: JobContext) -> Any:
            await clock.sleep(3600 * context.job.args["hours"])

        engine.register("work", "workers", work)
        for name, hours in (("a", 2), ("b", 50), ("c", 3)):
            await engine.enqueue(Job(name, "work", "issue:1", {"hours": hours}, deadline_seconds=36000))
        await engine.start()
        infos = [await engine.wait(name) for name in "abc"]
        await engine.stop()
        return [(info.id, info.state, clock.monotonic() and (info.ended_at - clock.EPOCH).total_seconds() / 3600)
                for info in infos]  # fmt: skip

    assert virtually(run) == [("a", JobState.DONE, 2), ("b", JobState.FAILED, 12), ("c", JobState.DONE, 15)]


def test_importing_the_engine_does_not_import_dbos() -> None:
    code = "import sys, droveway.engine; print(sorted({'dbos', 'sqlalchemy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


@pytest.mark.req("ENG-004")
async def test_a_job_that_no_process_lives_through_is_given_up(database_url: str) -> None:
    database = make_engine(database_url)
    ledger = Ledger(database)
    ledger.register("dead", "dead-1")
    for _ in range(RECOVERIES + 1):
        assert ledger.claim("poison", "dead-1")
    engine = DbosEngine(
        database, executor_id="a", clock=SystemClock(), ids=RandomIds(), slots={"workers": 1}, poll_seconds=0.05
    )
    ran: list[str] = []

    async def work(context: JobContext) -> None:
        ran.append(context.job.id)

    engine.register("work", "workers", work)
    await engine.start()
    try:
        await engine.enqueue(Job("poison", "work", "issue:1"))
        info = await engine.wait("poison", 20)
        assert (info.state, ran) == (JobState.FAILED, [])
        assert "given up" in info.error
    finally:
        await engine.stop()
        database.dispose()


async def test_a_client_works_beside_a_running_engine_and_on_an_empty_database(
    database_url: str, tmp_path: Path
) -> None:
    empty = EngineClient(f"sqlite:///{tmp_path / 'empty.db'}")
    assert await empty.jobs() == []
    assert await empty.job("x") is None
    await empty.cancel("x")
    with pytest.raises(HerdError, match="has run on this database"):
        await empty.enqueue(Job("x", "work", "issue:1"))
    empty.close()

    engine = DbosEngine(
        database_url, executor_id="a", clock=SystemClock(), ids=RandomIds(), slots={"workers": 1}, poll_seconds=0.05
    )

    async def work(context: JobContext) -> Any:
        return context.job.args

    engine.register("work", "workers", work)
    await engine.start()
    client = EngineClient(database_url)
    try:
        assert await client.enqueue(Job("x", "work", "issue:1", {"n": 1})) == Enqueued("x")
        await engine.wait("x", 20)
        info = await client.job("x")
        assert info is not None
        assert (info.state, info.result, info.executor) == (JobState.DONE, {"n": 1}, "a")
    finally:
        client.close()
        await engine.stop()


async def test_dbos_says_nothing_on_the_terminal(database_url: str, capfd: pytest.CaptureFixture[str]) -> None:
    capfd.readouterr()
    engine = DbosEngine(
        database_url, executor_id="a", clock=SystemClock(), ids=RandomIds(), slots={"workers": 1}, poll_seconds=0.05
    )

    async def work(_context: JobContext) -> None:
        raise ValueError("it broke")

    engine.register("work", "workers", work)
    await engine.start()
    await engine.enqueue(Job("x", "work", "issue:1"))
    await engine.wait("x", 20)
    await engine.stop()
    assert capfd.readouterr() == ("", "")


@pytest.mark.req("QLT-033")
async def test_killed_database_connections_cost_no_job(postgres: Cluster, postgres_template: str) -> None:
    url = postgres.database(postgres_template)
    engine = DbosEngine(
        url, executor_id="a", clock=SystemClock(), ids=RandomIds(), slots={"workers": 2}, poll_seconds=0.05
    )
    gate = asyncio.Event()

    async def work(context: JobContext) -> Any:
        await gate.wait()
        await context.lease.check()
        return context.job.id

    engine.register("work", "workers", work)
    await engine.start()
    try:
        await engine.enqueue(Job("running", "work", "issue:1"))
        async with asyncio.timeout(20):
            while (await engine.jobs(active_only=True))[0].state is not JobState.RUNNING:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        gate.set()
        assert (await engine.wait("running", 20)).result == "running"
        await engine.enqueue(Job("next", "work", "issue:1"))
        assert (await engine.wait("next", 20)).result == "next"
    finally:
        await engine.stop()
