"""What starts, what is unblocked, and what is left alone."""

from __future__ import annotations

import pytest

from droveway.batch import advance
from droveway.batch.hand import pause_decision
from droveway.core.decisions import EditIssue, SetLabels, SetStatus, StartJob
from droveway.core.facts import FactUnknownError
from droveway.core.jobs import JobState
from droveway.core.vocabulary import PAUSED, Status
from droveway.work import IssueBody, parse_body

from .make import facts, issue, pull, resolver, run, setting, unknown

D, F, R, P, B, C = (
    Status.DONE,
    Status.FAILED,
    Status.READY,
    Status.IN_PROGRESS,
    Status.BLOCKED,
    Status.CANCELLED,
)


def started(seen: advance.BatchFacts) -> list[int]:
    return [
        action.job.args["issue"]
        for decision in advance.start_decisions(seen)
        for action in decision.actions
        if isinstance(action, StartJob)
    ]


def unblocked(seen: advance.BatchFacts) -> list[int]:
    return [a.issue for d in advance.unblock_decisions(seen) for a in d.actions if isinstance(a, SetStatus)]


@pytest.mark.req("BAT-110")
def test_blocked_and_leftover_ready_issues_of_the_current_tier_go_on() -> None:
    seen = facts([issue(1, D), issue(2, B, needs=[1]), issue(3, R, needs=[1]), issue(4, B, needs=[2])])
    assert unblocked(seen) == [2]
    assert started(seen) == [3]
    assert started(advance.with_statuses(seen, {2: R})) == [2, 3]


@pytest.mark.req("BAT-100")
def test_a_failed_issue_holds_its_tier_and_what_is_ready_beside_it_starts() -> None:
    seen = facts([issue(1, F), issue(2, R), issue(3, B, needs=[2])])
    assert unblocked(seen) == []
    assert started(seen) == [2]
    assert {b.code for b in advance.waiting(seen)} == {"failed", "ready"}


@pytest.mark.req("BAT-106")
def test_a_fourth_task_waits_as_ready_with_three_slots_and_other_jobs_do_not_count() -> None:
    seen = facts([issue(n, R) for n in (1, 2, 3, 4)], jobs=[run(9, 1, JobState.DONE)])
    assert started(seen) == [1, 2, 3]
    *_, last = advance.start_decisions(seen)
    assert [b.code for b in last.blockers] == ["no-slot"]
    busy = facts([issue(n, R) for n in (1, 2)], jobs=[run(50), run(51), run(52, 1, JobState.QUEUED)])
    assert started(busy) == []


@pytest.mark.req("BAT-105", "BAT-102")
def test_manual_tasks_never_start_and_ready_fixes_do() -> None:
    seen = facts([issue(1, R, manual=True), resolver(2, 1, R), issue(3, R, type="fix", fix_cycle=1)])
    assert started(seen) == [2, 3]


@pytest.mark.req("BAT-108")
def test_an_issue_with_an_active_run_is_left_alone() -> None:
    seen = facts([issue(1, R), issue(2, P)], jobs=[run(1), run(2)])
    assert started(seen) == []
    assert advance.orphan_decisions(seen) == ()


@pytest.mark.req("BAT-240")
@pytest.mark.parametrize("state", ["open", "closed"])
def test_a_batch_without_its_branch_or_with_a_closed_milestone_is_not_touched(state: str) -> None:
    seen = facts([issue(1, R), issue(2, B, needs=[1])], started=state == "closed", state=state)
    assert [b.code for b in advance.gates(seen)] == ["closed" if state == "closed" else "not-started"]


@pytest.mark.req("BAT-240", "BAT-165")
def test_only_a_definite_answer_means_not_started_and_a_lost_branch_is_told_once() -> None:
    with pytest.raises(FactUnknownError):
        advance.gates(facts([issue(1, R)], refs=unknown()))
    lost = facts([issue(1, D), issue(2, R)], started=False)
    assert [b.code for b in advance.gates(lost)] == ["branch-gone"]
    decision = advance.lost_branch_decision(lost)
    assert decision is not None
    assert len({a.key for a in decision.actions}) == 1
    assert advance.lost_branch_decision(facts([issue(1, R)], started=False)) is None


@pytest.mark.req("BAT-111", "BAT-216")
def test_an_incomplete_list_decides_nothing() -> None:
    seen = facts(unknown())
    for rule in (advance.unblock_decisions, advance.start_decisions, advance.report_decisions, advance.waiting):
        with pytest.raises(FactUnknownError):
            rule(seen)
    with pytest.raises(FactUnknownError):
        advance.start_decisions(facts([issue(1, R)], jobs=unknown()))


@pytest.mark.req("BAT-112", "BAT-055")
@pytest.mark.parametrize("where", ["issue", "pull"])
def test_a_paused_batch_starts_nothing(where: str) -> None:
    labels = [PAUSED] if where == "issue" else []
    pr = pull(labels=(PAUSED,)) if where == "pull" else None
    seen = facts([issue(1, D, labels=labels), issue(2, R)], pr=pr)
    assert started(seen) == []
    assert "paused" in {b.code for b in advance.waiting(seen)}


@pytest.mark.req("BAT-228")
def test_pausing_labels_the_pr_or_an_issue_and_resuming_takes_every_label_off() -> None:
    before = facts([issue(1, D), issue(2, R)])
    decision = pause_decision(before, paused=True)
    assert decision is not None
    (action,) = decision.actions
    assert isinstance(action, SetLabels)
    assert (action.number, action.add) == (1, (PAUSED,))
    assert pause_decision(before, paused=False) is None
    both = facts([issue(1, D, labels=[PAUSED]), issue(2, R)], pr=pull(labels=(PAUSED,)))
    decision = pause_decision(both, paused=False)
    assert decision is not None
    assert [a.number for a in decision.actions if isinstance(a, SetLabels)] == [90, 1]


@pytest.mark.req("BAT-025")
def test_a_fix_issue_without_a_branch_gets_it_written_into_its_body() -> None:
    seen = facts([issue(1, D), issue(2, R, type="fix", fix_cycle=1, branch="")])
    (decision,) = advance.naming_decisions(seen)
    (edit,) = decision.actions
    assert isinstance(edit, EditIssue)
    body = parse_body(edit.body or "")
    assert isinstance(body, IssueBody)
    assert body.front.branch == "herd/worker/2-task-2"
    assert advance.naming_decisions(facts([issue(2, R, type="fix")])) == ()


@pytest.mark.req("BAT-128")
def test_workers_of_a_later_tier_commit_in_the_name_of_the_planner() -> None:
    (decision,) = advance.start_decisions(facts([issue(1, D), issue(2, R, needs=[1])]))
    job = next(a.job for a in decision.actions if isinstance(a, StartJob))
    assert job.args["author"] == {"name": "Ann", "email": "ann@example.org"}


@pytest.mark.req("REV-100")
def test_every_waiting_task_says_who_can_change_it() -> None:
    rows = [issue(n, status) for n, status in enumerate((F, R, P, B, C, None), 1)]
    for blocker in advance.waiting(facts(rows, settings=setting(workers__max_concurrent=1))):
        assert blocker.because
        assert blocker.clears
        assert blocker.who
