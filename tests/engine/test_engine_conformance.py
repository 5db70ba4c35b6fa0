"""What every engine does, the one in memory and DBOS on both databases."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from droveway.core.errors import HerdError
from droveway.engine import Enqueued, Existing, Job, JobContext, JobInterruptedError, JobState, LeaseLostError

pytestmark = pytest.mark.req("ENG-003")


class Told(msgspec.Struct, frozen=True):
    words: tuple[str, ...]


class Handlers:
    """A handler that notes who runs; jobs with ``wait`` go on when the event of their id, or ``all``, is set."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.ended: list[str] = []
        self.most = 0
        self.gates: dict[str, asyncio.Event] = {}
        self.contexts: dict[str, JobContext] = {}

    def gate(self, name: str) -> asyncio.Event:
        return self.gates.setdefault(name, asyncio.Event())

    async def __call__(self, context: JobContext) -> Any:
        job = context.job
        self.started.append(job.id)
        self.contexts[job.id] = context
        self.most = max(self.most, len(self.started) - len(self.ended))
        try:
            if job.args.get("wait"):
                await self.gate(job.id).wait()
            if job.args.get("obedient"):
                await context.cancelled.wait()
                raise JobInterruptedError("wound up")
            if job.args.get("fail"):
                raise ValueError("it broke")
            return Told(("done", job.id))
        finally:
            self.ended.append(job.id)


def job(name: str, **args: Any) -> Job:
    settings = {word: args.pop(word) for word in ("priority", "deadline_seconds", "kind") if word in args}
    return Job(name, settings.pop("kind", "work"), "issue:1", args, **settings)


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - it may be another thread's doing
            await asyncio.sleep(0.01)


async def started(bench: Any, **settings: Any) -> tuple[Any, Handlers]:
    engine, handlers = bench.engine(**settings), Handlers()
    engine.register("work", "workers", handlers)
    engine.register("review", "reviews", handlers)
    await engine.start()
    return engine, handlers


async def test_a_job_runs_once_and_its_id_never_again(bench: Any) -> None:
    engine, handlers = await started(bench)
    ends: list[Any] = []
    engine.on_end = ends.append
    assert await engine.job("a") is None
    assert await engine.enqueue(job("a", number=3)) == Enqueued("a")
    assert isinstance(await engine.enqueue(job("a", number=4)), Existing)
    info = await engine.wait("a", 20)
    assert (info.state, info.args, info.result) == (JobState.DONE, {"number": 3}, {"words": ["done", "a"]})
    assert None not in (info.created_at, info.started_at, info.ended_at)
    assert info.executor
    assert await engine.enqueue(job("a")) == Existing("a", JobState.DONE)
    await until(lambda: ends)
    assert (ends[0].id, ends[0].state) == ("a", JobState.DONE)
    assert handlers.started == ["a"]


async def test_a_handler_that_raises_makes_its_job_fail_for_good(bench: Any) -> None:
    engine, handlers = await started(bench)
    await engine.enqueue(job("a", fail=True))
    info = await engine.wait("a", 20)
    assert (info.state, info.error, info.result) == (JobState.FAILED, "ValueError: it broke", None)
    assert await engine.enqueue(job("a")) == Existing("a", JobState.FAILED)
    assert handlers.started == ["a"]


async def test_a_result_that_is_no_json_makes_the_job_fail(bench: Any) -> None:
    engine = bench.engine()

    async def strange(_context: JobContext) -> Any:
        return object()

    engine.register("strange", "workers", strange)
    await engine.start()
    await engine.enqueue(job("a", kind="strange"))
    info = await engine.wait("a", 20)
    assert info.state is JobState.FAILED
    assert "plain JSON" in info.error


async def test_lower_priority_numbers_start_first_and_slots_are_kept(bench: Any) -> None:
    engine, handlers = await started(bench, slots={"workers": 2, "reviews": 1})
    await engine.enqueue(job("first", wait=True))
    await engine.enqueue(job("second", wait=True))
    await until(lambda: len(handlers.started) == 2)
    for name, priority in (("late", 300), ("soon", 5), ("middle", 50)):
        await engine.enqueue(job(name, priority=priority))
    await engine.enqueue(job("other-queue", kind="review"))
    await engine.wait("other-queue", 20)
    assert sorted(handlers.started) == ["first", "other-queue", "second"]
    handlers.gate("first").set()
    await engine.wait("late", 20)
    assert [name for name in handlers.started if name in ("late", "soon", "middle")] == ["soon", "middle", "late"]
    handlers.gate("second").set()
    await engine.wait("second", 20)
    assert handlers.most == 3


async def test_a_queued_job_that_is_cancelled_never_starts(bench: Any) -> None:
    engine, handlers = await started(bench, slots={"workers": 1})
    await engine.enqueue(job("runs", wait=True))
    await until(lambda: handlers.started)
    await engine.enqueue(job("queued"))
    await engine.enqueue(job("after"))
    await engine.cancel("queued")
    await engine.cancel("queued")
    await engine.cancel("unknown")
    info = await engine.job("queued")
    assert info.state is JobState.CANCELLED
    handlers.gate("runs").set()
    await engine.wait("after", 20)
    await engine.cancel("after")
    assert (await engine.job("after")).state is JobState.DONE
    assert handlers.started == ["runs", "after"]
    assert await engine.enqueue(job("queued")) == Existing("queued", JobState.CANCELLED)


@pytest.mark.req("ENG-004")
async def test_a_running_job_that_is_cancelled_is_told_and_may_act_no_more(bench: Any) -> None:
    engine, handlers = await started(bench)
    await engine.enqueue(job("a", obedient=True))
    await until(lambda: "a" in handlers.contexts)
    context = handlers.contexts["a"]
    await context.lease.check()
    await engine.cancel("a")
    assert (await engine.wait("a", 20)).state is JobState.CANCELLED
    with pytest.raises(LeaseLostError):
        await context.lease.check()
    await until(lambda: handlers.ended)
    assert context.cancelled.is_set()
    assert (await engine.job("a")).state is JobState.CANCELLED


async def test_a_result_that_comes_after_the_cancelling_does_not_count(bench: Any) -> None:
    engine, handlers = await started(bench)
    await engine.enqueue(job("a", wait=True))
    await until(lambda: handlers.started)
    await engine.cancel("a")
    handlers.gate("a").set()
    await until(lambda: handlers.ended)
    await engine.enqueue(job("b"))
    await engine.wait("b", 20)
    info = await engine.job("a")
    assert (info.state, info.result) == (JobState.CANCELLED, None)


async def test_a_deadline_ends_the_handler_and_fails_the_job(bench: Any) -> None:
    engine, handlers = await started(bench)
    await engine.enqueue(job("a", wait=True, deadline_seconds=0.3))
    info = await engine.wait("a", 20)
    assert (info.state, info.error) == (JobState.FAILED, "the deadline of 0.3 s passed")
    assert handlers.ended == ["a"]
    context = handlers.contexts["a"]
    assert context.cancelled.is_set()
    assert (context.deadline - context.attempt_started).total_seconds() == pytest.approx(0.3)


async def test_giving_up_without_being_told_to_is_a_failure(bench: Any) -> None:
    engine = bench.engine()

    async def gives_up(context: JobContext) -> Any:
        raise JobInterruptedError("no reason") if context.job.id == "a" else LeaseLostError("some other lease")

    engine.register("work", "workers", gives_up)
    await engine.start()
    for name in ("a", "b"):
        await engine.enqueue(job(name))
        assert (await engine.wait(name, 20)).state is JobState.FAILED


@pytest.mark.req("ENG-005")
async def test_a_stop_tells_running_jobs_and_a_later_start_runs_them_again(bench: Any) -> None:
    engine, handlers = await started(bench, slots={"workers": 2})
    await engine.enqueue(job("polite", obedient=True))
    await engine.enqueue(job("deaf", wait=True))
    await until(lambda: len(handlers.started) == 2)
    await engine.enqueue(job("queued"))
    await engine.stop(grace=0.3)
    assert sorted(handlers.ended) == ["deaf", "polite"]
    again = engine if bench.url is None else bench.engine(slots={"workers": 2})
    handlers.started.clear()
    handlers.gate("deaf").set()
    if bench.url is not None:
        again.register("work", "workers", handlers)
    await again.start()
    assert (await again.wait("deaf", 20)).state is JobState.DONE
    assert (await again.wait("queued", 20)).state is JobState.DONE
    await until(lambda: "polite" in handlers.started)


async def test_jobs_are_found_by_kind_prefix_and_activity(bench: Any) -> None:
    engine, handlers = await started(bench, slots={"workers": 1, "reviews": 1})
    await engine.enqueue(job("x/1"))
    await engine.wait("x/1", 20)
    await engine.enqueue(job("x/2", wait=True))
    await until(lambda: "x/2" in handlers.started)
    await engine.enqueue(job("x/3"))
    await engine.enqueue(job("y/1", kind="review"))
    await engine.wait("y/1", 20)
    assert {info.id for info in await engine.jobs()} == {"x/1", "x/2", "x/3", "y/1"}
    assert {info.id for info in await engine.jobs(kind="review")} == {"y/1"}
    assert {info.id for info in await engine.jobs(id_prefix="x/")} == {"x/1", "x/2", "x/3"}
    active = {info.id: info.state for info in await engine.jobs(active_only=True)}
    assert active == {"x/2": JobState.RUNNING, "x/3": JobState.QUEUED}
    handlers.gate("x/2").set()
    await engine.wait("x/3", 20)


async def test_waiting_ends_at_its_limit_and_for_what_does_not_exist(bench: Any) -> None:
    engine, handlers = await started(bench)
    await engine.enqueue(job("a", wait=True))
    with pytest.raises(TimeoutError):
        await engine.wait("a", 0.2)
    with pytest.raises(HerdError, match="nowhere"):
        await engine.wait("nowhere", 5)
    with pytest.raises(HerdError, match="unheard-of"):
        await engine.enqueue(job("b", kind="unheard-of"))
    handlers.gate("a").set()
    await engine.wait("a", 20)


@pytest.mark.req("ENG-004")
async def test_a_lease_is_held_by_one_and_each_holding_has_a_new_epoch(bench: Any) -> None:
    engine, _ = await started(bench)
    first = await engine.lease("integrate/o/r/3", ttl=5)
    assert first is not None
    assert await engine.lease("integrate/o/r/3", ttl=5) is None
    other = await engine.lease("integrate/o/r/4", ttl=5)
    assert other is not None
    await first.check()
    await engine.release(first)
    with pytest.raises(LeaseLostError):
        await first.check()
    second = await engine.lease("integrate/o/r/3", ttl=5)
    assert second is not None
    assert second.epoch == first.epoch + 1
    await engine.release(first)  # too late: it is somebody else's now
    await second.check()
    await other.check()


@pytest.mark.req("ENG-004")
async def test_a_lease_lasts_longer_than_its_time_to_live_while_its_holder_lives(bench: Any) -> None:
    engine, _ = await started(bench)
    lease = await engine.lease("key", ttl=0.6)
    assert lease is not None
    async with asyncio.timeout(20):
        begun = bench.clock.monotonic()
        while bench.clock.monotonic() - begun < 1.5:
            await lease.check()
            assert await engine.lease("key", ttl=0.6) is None
            await asyncio.sleep(0.05)
