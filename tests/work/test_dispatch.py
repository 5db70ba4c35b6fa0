"""Which issues start a worker, and which do not and why."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from droveway.core.decisions import Comment, Decision, SetStatus, StartJob
from droveway.core.jobs import ACTIVE, JobInfo, JobState
from droveway.core.settings import Settings, Workers
from droveway.core.vocabulary import Status
from droveway.work import (
    Author,
    BatchView,
    DispatchFacts,
    FrontMatter,
    IssueBody,
    RepairFacts,
    Task,
    Unreadable,
    dispatch_decisions,
    order,
    repair_decisions,
    start_refused,
    why_issue,
)

REPO = "o/r"
NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
BATCHES = (
    BatchView(1, "herd/batch/1-a", Author("Ann", "ann@x")),
    BatchView(2, "herd/batch/2-b", Author("Bob", "bob@x")),
)


def task(number: int, batch: int | None = 1, status: Status | None = Status.READY, **more: object) -> Task:
    priority = more.pop("priority", 0)
    values = {
        "number": number,
        "title": f"Task {number}",
        "milestone": batch,
        "open": True,
        "statuses": (status,) if status else (),
        "body": IssueBody(FrontMatter(priority=priority)),  # type: ignore[arg-type]
        **more,
    }
    return Task(**values)  # type: ignore[arg-type]


def job(issue: int, attempt: int = 1, state: JobState = JobState.RUNNING, batch: int = 1, **more: object) -> JobInfo:
    return JobInfo(f"worker/{REPO}/{issue}/{attempt}", "worker", state, {"batch": batch}, **more)  # type: ignore[arg-type]


def facts(*tasks: Task, jobs: tuple[JobInfo, ...] = (), slots: int = 3, **more: object) -> DispatchFacts:
    settings = Settings(workers=Workers(max_concurrent=slots))
    return DispatchFacts(REPO, settings, BATCHES, tasks, jobs, **more)  # type: ignore[arg-type]


def started(decisions: tuple[Decision, ...]) -> list[int]:
    return [a.job.args["issue"] for d in decisions for a in d.actions if isinstance(a, StartJob)]


def codes(decision: Decision) -> set[str]:
    return {blocker.code for blocker in decision.blockers}


@pytest.mark.req("BAT-105", "BAT-109")
def test_the_status_is_set_before_the_run_is_started() -> None:
    (decision,) = dispatch_decisions(facts(task(7)))
    status, start = decision.actions
    assert isinstance(status, SetStatus)
    assert (status.to, status.expected) == (Status.IN_PROGRESS, (Status.READY,))
    assert isinstance(start, StartJob)
    assert start.job.id == "worker/o/r/7/1"
    assert start.job.args == {
        "repo": REPO, "issue": 7, "batch": 1, "branch": "herd/worker/7-task-7", "batch_branch": "herd/batch/1-a",
        "mode": "batch", "attempt": 1, "timeout_minutes": 30, "author": {"name": "Ann", "email": "ann@x"},
        "by_hand": False,
    }  # fmt: skip
    assert start.job.deadline_seconds == 1800


@pytest.mark.req("BAT-106")
def test_with_three_slots_a_fourth_task_waits_and_says_so() -> None:
    decisions = dispatch_decisions(facts(*(task(n) for n in (1, 2, 3, 4))))
    assert started(decisions) == [1, 2, 3]
    assert codes(decisions[3]) == {"no-slot"}
    assert started(dispatch_decisions(facts(*(task(n) for n in (1, 2, 3, 4)), ignore_limit=True))) == [1, 2, 3, 4]


@pytest.mark.req("BAT-106")
def test_only_active_workers_of_this_repository_take_slots() -> None:
    jobs = (
        job(8, state=JobState.QUEUED), job(9, state=JobState.DONE), job(10, state=JobState.FAILED),
        JobInfo("review/o/r/1", "review", JobState.RUNNING), JobInfo("worker/o/other/1/1", "worker", JobState.RUNNING),
    )  # fmt: skip
    assert started(dispatch_decisions(facts(*(task(n) for n in (1, 2, 3)), jobs=jobs))) == [1, 2]


@pytest.mark.req("BAT-107")
def test_slots_go_by_priority_then_in_turn_over_batches_then_by_number() -> None:
    tasks = [task(1), task(2), task(3), task(10, 2), task(11, 2), task(4, priority=5)]
    assert [t.number for t in order(tasks)] == [4, 10, 1, 11, 2, 3]
    assert [t.number for t in order([task(1), task(10, 2)], {1: 2})] == [10, 1]


@pytest.mark.req("BAT-107")
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2)), max_size=20))
def test_of_equal_priority_no_batch_is_two_ahead_of_one_that_waits(rows: list[tuple[int, int]]) -> None:
    tasks = [task(n, batch, priority=0) for n, (batch, _) in enumerate(rows, 1)]
    ranked = order(tasks)
    for at in range(len(ranked)):
        count = {b: sum(t.milestone == b for t in ranked[:at]) for b in {t.milestone for t in ranked}}
        waiting = {t.milestone for t in ranked[at:]}
        if waiting and at:
            assert max(count[b] for b in count) - min(count[b] for b in waiting) <= 1


@pytest.mark.req("BAT-108")
@pytest.mark.parametrize("state", sorted(ACTIVE))
def test_an_issue_with_an_active_run_is_left_alone(state: JobState) -> None:
    (decision,) = dispatch_decisions(facts(task(1), jobs=(job(1, state=state),)))
    assert codes(decision) == {"active"}
    assert not decision.actions


@pytest.mark.req("BAT-108", "BAT-124")
def test_the_attempt_is_one_above_all_that_engine_and_forge_know() -> None:
    jobs = (job(1, 2, JobState.FAILED), job(11, 9, JobState.FAILED))
    for known, wanted in ((0, 3), (5, 6)):
        (decision,) = dispatch_decisions(
            facts(task(1, status=Status.FAILED), jobs=jobs, retries=frozenset({1}), attempts={1: known})
        )
        start = decision.actions[1]
        assert isinstance(start, StartJob)
        assert start.job.id == f"worker/o/r/1/{wanted}"
        assert decision.actions[0].expected == (Status.FAILED,)  # type: ignore[union-attr]


@pytest.mark.req("BAT-105", "BAT-112", "BAT-240", "BAT-027")
@pytest.mark.parametrize(
    ("found", "more", "code"),
    [
        (task(1, manual=True), {}, "manual"),
        (task(1, open=False), {}, "closed"),
        (task(1, status=Status.BLOCKED), {}, "status"),
        (task(1, status=Status.FAILED), {}, "status"),
        (task(1, status=Status.CANCELLED), {"retries": frozenset({1})}, "status"),
        (task(1, status=None), {}, "status"),
        (task(1, body=Unreadable("broken")), {}, "unreadable"),
        (task(1, body=IssueBody(FrontMatter(branch="main"))), {}, "unreadable"),
        (task(1, body=IssueBody(FrontMatter(branch="herd/worker/10-x"))), {}, "unreadable"),
        (task(1, batch=9), {}, "no-batch"),
        (task(1), {"blocked_by": {1: (5,)}}, "blocked"),
    ],
)
def test_what_may_not_start_says_why(found: Task, more: dict[str, object], code: str) -> None:
    (decision,) = dispatch_decisions(facts(found, **more))
    assert code in codes(decision)
    assert not decision.actions
    assert all(blocker.because for blocker in decision.blockers)


@pytest.mark.req("BAT-112", "BAT-240", "BAT-165")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"open": False}, "batch-closed"),
        ({"paused": True}, "paused"),
        ({"started": False}, "not-started"),
        ({"started": None}, "unknown"),
    ],
)
def test_a_batch_that_is_closed_paused_or_not_started_starts_nothing(change: dict[str, object], code: str) -> None:
    given_facts = facts(task(1))
    batch = msgspec.structs.replace(BATCHES[0], **change)
    (decision,) = dispatch_decisions(msgspec.structs.replace(given_facts, batches=(batch,)))
    assert codes(decision) == {code}


@pytest.mark.req("BAT-105")
def test_all_blockers_are_told_at_once() -> None:
    found = task(1, manual=True, status=Status.BLOCKED)
    (decision,) = dispatch_decisions(facts(found, blocked_by={1: (2,)}))
    assert codes(decision) == {"manual", "status", "blocked"}


@pytest.mark.req("BAT-109")
def test_a_refused_start_ends_as_failed_with_a_comment() -> None:
    decision = start_refused(REPO, task(1), 1, "the queue is closed")
    status, comment = decision.actions
    assert isinstance(status, SetStatus)
    assert (status.to, status.expected) == (Status.FAILED, (Status.IN_PROGRESS,))
    assert isinstance(comment, Comment)
    assert comment.body.startswith("**Worker failed:**")
    assert "the queue is closed" in comment.body


def repair(
    found: Task, *jobs: JobInfo, attempts: dict[int, int] | None = None, age: float = 600
) -> tuple[Decision, ...]:
    dispatch = facts(found, jobs=jobs, attempts=attempts or {})
    return repair_decisions(RepairFacts(dispatch, NOW, {found.number: NOW - timedelta(seconds=age)}))


@pytest.mark.req("BAT-108", "MON-004")
def test_an_issue_in_progress_whose_run_never_existed_gets_that_run() -> None:
    (decision,) = repair(task(1, status=Status.IN_PROGRESS))
    assert started((decision,)) == [1]
    assert not any(isinstance(action, SetStatus) for action in decision.actions)


@pytest.mark.req("MON-004", "BAT-173")
@pytest.mark.parametrize(
    ("ended", "to"),
    [
        (job(1, state=JobState.FAILED, error="it broke", ended_at=NOW - timedelta(minutes=9)), Status.FAILED),
        (job(1, state=JobState.CANCELLED), Status.FAILED),
        (job(1, state=JobState.DONE, result={"outcome": "failed"}), Status.FAILED),
        (job(1, state=JobState.DONE, result={"outcome": "success"}), Status.DONE),
        (job(1, state=JobState.DONE, result={"outcome": "noop"}), Status.DONE),
        (job(1, state=JobState.DONE, result=None), Status.FAILED),
    ],
)
def test_an_orphaned_issue_is_settled_by_its_last_run(ended: JobInfo, to: Status) -> None:
    (decision,) = repair(task(1, status=Status.IN_PROGRESS), ended)
    assert [action.to for action in decision.actions if isinstance(action, SetStatus)] == [to]


@pytest.mark.req("MON-005")
def test_nothing_is_repaired_within_the_grace_or_while_a_run_is_active() -> None:
    found = task(1, status=Status.IN_PROGRESS)
    assert repair(found, job(1, state=JobState.QUEUED)) == ()
    assert repair(found, job(1, state=JobState.FAILED), age=60) == ()
    assert repair(found, job(1, state=JobState.FAILED, ended_at=NOW - timedelta(seconds=30))) == ()
    assert repair(task(1), job(1, state=JobState.FAILED)) == ()


@pytest.mark.req("BAT-173")
def test_a_run_that_the_engine_lost_counts_as_lost_and_not_as_never_started() -> None:
    (decision,) = repair(task(1, status=Status.IN_PROGRESS), attempts={1: 2})
    assert started((decision,)) == []
    assert [action.to for action in decision.actions if isinstance(action, SetStatus)] == [Status.FAILED]


@pytest.mark.parametrize(
    ("found", "jobs", "words"),
    [
        (task(1), (), "ready"),
        (task(1, status=Status.BLOCKED), (), "blocked"),
        (task(1, status=Status.IN_PROGRESS), (job(1, started_at=NOW - timedelta(minutes=4)),), "running for 4 min"),
        (task(1, status=Status.IN_PROGRESS), (job(1, state=JobState.QUEUED),), "queued"),
        (task(1, status=Status.IN_PROGRESS), (), "without a run"),
        (task(1, status=Status.DONE), (), "done"),
        (task(1, status=None), (), "repaired"),
        (task(1, status=Status.READY, open=False), (), "closed"),
    ],
)
def test_why_says_the_state_in_words(found: Task, jobs: tuple[JobInfo, ...], words: str) -> None:
    assert words in why_issue(found, facts(found, jobs=jobs), now=NOW).state


def test_why_names_every_blocker_with_who_can_clear_it() -> None:
    found = task(1, status=Status.READY, manual=True)
    assert {(b.code, b.who) for b in why_issue(found, facts(found), now=NOW).blockers} == {("manual", "a person")}
    busy = tuple(job(n) for n in (2, 3, 4))
    assert [b.code for b in why_issue(task(1), facts(task(1), jobs=busy), now=NOW).blockers] == ["no-slot"]
