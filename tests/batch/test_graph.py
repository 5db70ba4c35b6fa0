"""Tiers come from the issues' bodies; what can't be read holds back, what is complete does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from droveway.batch import advance
from droveway.core.vocabulary import Status

from .make import facts, issue, resolver

D, F, R, P, B, C = (
    Status.DONE,
    Status.FAILED,
    Status.READY,
    Status.IN_PROGRESS,
    Status.BLOCKED,
    Status.CANCELLED,
)


@pytest.mark.req("BAT-097", "BAT-100")
def test_the_current_tier_is_the_first_that_is_not_complete() -> None:
    graph = facts([issue(1, D), issue(2, R, needs=[1]), issue(3, B, needs=[2]), issue(4, B, needs=[1, 3])]).graph
    assert graph.tier == {1: 0, 2: 1, 3: 2, 4: 3}
    assert graph.current == 1
    assert not graph.complete


@pytest.mark.req("BAT-101")
def test_a_failed_issue_that_is_closed_is_complete() -> None:
    graph = facts([issue(1, F, open=False), issue(2, B, needs=[1])]).graph
    assert graph.current == 1


@pytest.mark.req("BAT-102")
@pytest.mark.parametrize(("status", "active"), [(R, True), (P, True), (D, False), (F, False)])
def test_a_fix_issue_holds_back_no_tier(status: Status, active: bool) -> None:
    graph = facts([issue(1, D), issue(2, status, type="fix", fix_cycle=1), resolver(3, 1, D)]).graph
    assert graph.complete
    assert bool(graph.active_fixes) is active


@pytest.mark.req("BAT-099")
def test_a_dependency_outside_the_batch_makes_a_task_unreadable_and_not_free() -> None:
    graph = facts([issue(1, R, needs=[99]), issue(2, B, needs=[1])]).graph
    assert "#99" in graph.unreadable[1]
    assert graph.current == 0
    assert [task.number for task in advance.due_tasks(graph)] == []


@pytest.mark.req("BAT-027")
def test_a_broken_block_counts_as_an_incomplete_task_of_tier_0_unless_its_task_is_complete() -> None:
    broken = "---\nherd: [\n---\n## Task\nx"
    seen = facts([issue(1, B, body=broken), issue(2, R), issue(3, B, needs=[2]), issue(4, D, body=broken)])
    graph = seen.graph
    assert set(graph.unreadable) == {1}
    assert [task.number for task in advance.candidates(seen)] == [2]
    (decision,) = advance.report_decisions(seen)
    assert decision.rule == "BAT-027"
    done = facts([issue(1, B, body=broken), issue(2, D), issue(3, B, needs=[2])])
    assert advance.unblock_decisions(done) == ()
    assert {blocker.code for blocker in advance.waiting(done)} == {"unreadable"}


@pytest.mark.req("BAT-027")
def test_a_body_without_a_block_is_a_plain_prompt_without_dependencies() -> None:
    graph = facts([issue(1, R, body="just do it")]).graph
    assert graph.tier == {1: 0}
    assert graph.unreadable == {}


@pytest.mark.req("BAT-098")
def test_a_circle_made_by_an_edit_starts_nothing_and_is_reported() -> None:
    seen = facts([issue(1, R, needs=[3]), issue(2, R, needs=[1]), issue(3, R, needs=[2]), issue(4, R)])
    assert seen.graph.cycle == (1, 3, 2)
    assert advance.candidates(seen) == ()
    assert advance.unblock_decisions(seen) == ()
    assert "#1 → #3 → #2 → #1" in advance.waiting(seen)[0].because
    (decision,) = advance.report_decisions(seen)
    assert decision.rule == "BAT-098"


def test_an_issue_that_a_person_attached_is_no_task() -> None:
    foreign = issue(5, (), body="a note")
    foreign = type(foreign)(**{f: getattr(foreign, f) for f in foreign.__struct_fields__} | {"labels": ("bug",)})
    seen = facts([issue(1, D), foreign])
    assert set(seen.graph.tasks) == {1}
    assert seen.graph.complete


@given(st.lists(st.tuples(st.sampled_from(list(Status)), st.booleans(), st.sets(st.integers(1, 6))), max_size=6))
def test_nothing_of_a_later_tier_is_ever_due(rows: list[tuple[Status, bool, set[int]]]) -> None:
    count = len(rows)
    issues = [
        issue(n, status, open=is_open, needs=sorted(x for x in needs if x <= count and x != n))
        for n, (status, is_open, needs) in enumerate(rows, 1)
    ]
    seen = facts(issues)
    graph = seen.graph
    for task in advance.due_tasks(graph):
        assert not task.complete
        assert graph.waits_for(task.number) == ()
        for number, tier in graph.tier.items():
            assert graph.tasks[number].complete or tier >= graph.tier[task.number]
    if graph.complete:
        assert all(task.complete for task in graph.tasks.values())
