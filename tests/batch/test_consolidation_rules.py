"""One push for all that merges; each conflict is decided by itself; origins are settled once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from droveway.batch.consolidate import rules
from droveway.batch.consolidate.facts import SweepFacts, candidates, origins
from droveway.batch.facts import BatchFacts
from droveway.batch.resolvers import ConflictFacts, chain, conflict_decision, unsolved
from droveway.core.decisions import Comment, CreateIssue, Decision, MoveRefs, SetLabels, SetStatus
from droveway.core.jobs import JobState
from droveway.core.vocabulary import CASCADE_FAILED, TYPE_FIX, Status, worker_branch
from droveway.git import Conflict, SweepConflict, SweepContained, SweepFailure, SweepMerge, SweepResult
from droveway.work import IssueBody, parse_body

from .make import BRANCH, NOW, TIP, facts, issue, pull, resolver, run, setting, sha

D, F, R, P = Status.DONE, Status.FAILED, Status.READY, Status.IN_PROGRESS
FINAL = "f" * 40
CLASH = Conflict(("src/a.py", "src/b.py"), (), ("CONFLICT (contents)",))


def branch(number: int) -> str:
    return worker_branch(number, f"task {number}")


def sweep(
    merged: tuple[int, ...] = (), contained: tuple[int, ...] = (), conflicts: tuple[int, ...] = (), **more: Any
) -> SweepResult:
    return SweepResult(
        tip=TIP,
        final=FINAL if merged else TIP,
        merged=tuple(SweepMerge(n, branch(n), sha(n), sha(n + 500)) for n in merged),
        contained=tuple(SweepContained(n, branch(n), sha(n)) for n in contained),
        conflicts=tuple(SweepConflict(n, branch(n), sha(n), CLASH) for n in conflicts),
        **more,
    )


def swept(result: SweepResult | None = None, seen: BatchFacts | None = None, **more: Any) -> SweepFacts:
    return SweepFacts(TIP, dict(seen.refs) if seen else {}, result, **more)


def clash(seen: BatchFacts, number: int, others: tuple[int, ...] = ()) -> ConflictFacts:
    task = next(task for task in seen.tasks if task.number == number)
    return ConflictFacts(task.branch, sha(number), CLASH.paths, CLASH.kinds, others, task)


def actions(decision: Decision, kind: type[Any]) -> list[Any]:
    return [action for action in decision.actions if isinstance(action, kind)]


@pytest.mark.req("BAT-178")
def test_candidates_are_done_issues_whose_branch_exists_by_number() -> None:
    seen = facts(
        [issue(100, D), issue(10, D), issue(3, F), issue(4, P), issue(5, D), issue(6, D, open=False)],
        branches=[100, 10, 3, 4, 6],
    )
    assert [task.number for task, _ in candidates(seen, seen.refs)] == [6, 10, 100]


@pytest.mark.req("BAT-025", "BAT-039")
def test_a_renamed_issue_keeps_its_branch_and_10_is_not_100() -> None:
    renamed = msgspec.structs.replace(issue(10, D), title="Another name")
    seen = facts([renamed, issue(100, D)], refs={BRANCH: TIP, "herd/worker/10-task-10": sha(10)})
    assert [(task.number, at) for task, at in candidates(seen, seen.refs)] == [(10, sha(10))]


@pytest.mark.req("BAT-180", "BAT-179", "BAT-181", "BAT-188")
def test_one_push_moves_the_batch_branch_and_deletes_what_is_in_it_and_nothing_else() -> None:
    seen = facts([issue(n, D) for n in (1, 2, 3)], branches=[1, 2, 3])
    decision = rules.push_decision(seen, swept(sweep(merged=(2,), contained=(1,), conflicts=(3,))))
    assert decision is not None
    (move,) = decision.actions
    assert isinstance(move, MoveRefs)
    assert [(u.ref.removeprefix("refs/heads/"), u.old, u.new) for u in move.updates] == [
        (BRANCH, TIP, FINAL),
        (branch(1), sha(1), None),
        (branch(2), sha(2), None),
    ]
    alone = rules.push_decision(seen, swept(sweep(merged=(2,))), deletions=False)
    assert alone is not None
    assert len(actions(alone, MoveRefs)[0].updates) == 1
    assert rules.push_decision(seen, swept(sweep(conflicts=(3,)))) is None


@pytest.mark.req("BAT-183")
def test_after_lost_races_every_issue_of_the_push_goes_back_to_failed_with_a_comment() -> None:
    seen = facts([issue(n, D) for n in (1, 2)], branches=[1, 2])
    decisions = rules.rejected_decisions(seen, swept(sweep(merged=(1, 2))), "stale info")
    assert [a.issue for d in decisions for a in actions(d, SetStatus)] == [1, 2]
    for decision in decisions:
        comment, status = decision.actions
        assert isinstance(comment, Comment)
        assert isinstance(status, SetStatus)
        assert (status.to, status.expected) == (F, (D,))
        assert "Push rejected" in comment.body


@pytest.mark.req("BAT-191", "BAT-192", "BAT-029", "BAT-036")
def test_a_conflict_makes_a_ready_resolver_that_names_files_intents_and_steps() -> None:
    seen = facts([issue(1, D), issue(2, D, title="task 2")], branches=[2])
    decision = conflict_decision(seen, clash(seen, 2, others=(1,)))
    (create,) = decision.actions
    assert isinstance(create, CreateIssue)
    assert create.title == "Resolve conflict: #2 (task 2)"
    assert set(create.labels) == {TYPE_FIX, R.label}
    assert create.milestone == 7
    body = parse_body(create.body)
    assert isinstance(body, IssueBody)
    assert body.front.is_resolver
    assert (body.front.origin, body.front.conflicting_branches) == (2, (branch(2),))
    assert body.files == ("src/a.py", "src/b.py")
    for wanted in ("src/a.py", "do task 2", "do task 1", f"git merge origin/{branch(2)}", "git fetch origin"):
        assert wanted in create.body


@pytest.mark.req("BAT-191")
def test_the_origin_fails_only_once_its_resolver_is_there_and_no_second_one_is_made() -> None:
    for status in (R, P):
        seen = facts([issue(1, D), issue(2, D), resolver(3, 2, status)], branches=[2])
        decision = conflict_decision(seen, clash(seen, 2))
        comment, failed = decision.actions
        assert isinstance(comment, Comment)
        assert "#3 resolves it" in comment.body
        assert isinstance(failed, SetStatus)
        assert (failed.issue, failed.to, failed.expected) == (2, F, (D,))


@pytest.mark.req("BAT-190", "BAT-184")
def test_with_notify_people_are_told_with_the_details_and_no_resolver_is_made() -> None:
    seen = facts([issue(2, D)], branches=[2], settings=setting(integrator__on_conflict="notify"))
    decision = conflict_decision(seen, clash(seen, 2))
    assert decision.rule == "BAT-190"
    assert not actions(decision, CreateIssue)
    assert "src/a.py" in actions(decision, Comment)[0].body
    assert actions(decision, SetStatus)[0].to is F


@pytest.mark.req("BAT-202")
def test_the_cap_counts_the_chain_and_not_what_was_solved() -> None:
    solved = [resolver(10, 1, D), resolver(11, 2, D)]
    seen = facts([issue(1, D), issue(2, D), issue(3, D), *solved], branches=[3])
    assert conflict_decision(seen, clash(seen, 3)).rule == "BAT-191"
    again = facts([issue(1, D), *[resolver(n, 1, D) for n in (10, 11, 12)]], branches=[1])
    assert conflict_decision(again, clash(again, 1)).rule == "BAT-191"


@pytest.mark.req("BAT-201", "BAT-202")
@pytest.mark.parametrize("with_pull", [True, False])
def test_at_the_cap_the_chain_is_told_with_the_way_out_and_the_label_is_set(with_pull: bool) -> None:
    chained = [issue(641, F), resolver(643, 641, F), resolver(644, 643, D)]
    seen = facts(chained, branches=[641, 643, 644], pr=pull() if with_pull else None)
    assert chain(seen, next(t for t in seen.tasks if t.number == 644)) == (641, 643, 644)
    decision = conflict_decision(seen, clash(seen, 644))
    assert decision.rule == "BAT-201"
    (labels,) = actions(decision, SetLabels)
    (comment,) = actions(decision, Comment)
    assert labels.add == (CASCADE_FAILED,)
    assert labels.number == comment.number == (90 if with_pull else 644)
    assert "#641 → #643 → #644 (failed)" in comment.body
    steps = [comment.body.index(text) for text in ("git checkout", "force-push", "close #641")]
    assert steps == sorted(steps)
    assert not actions(decision, CreateIssue)
    assert actions(decision, SetStatus)[0].issue == 644


@pytest.mark.req("BAT-202")
def test_a_circle_of_origins_ends() -> None:
    seen = facts([resolver(10, 11, D), resolver(11, 10, D)], branches=[10])
    task = next(t for t in seen.tasks if t.number == 10)
    assert set(chain(seen, task)) == {10, 11}
    assert conflict_decision(seen, clash(seen, 10)).rule in ("BAT-191", "BAT-201")
    assert unsolved(seen, 10)


@pytest.mark.req("BAT-203")
def test_while_the_cascade_label_is_set_no_resolver_is_made() -> None:
    for pr, label in ((pull(labels=(CASCADE_FAILED,)), []), (None, [CASCADE_FAILED])):
        seen = facts([issue(1, F, labels=label), issue(2, D)], branches=[2], pr=pr)
        decision = conflict_decision(seen, clash(seen, 2))
        assert decision.rule == "BAT-203"
        assert not actions(decision, CreateIssue)
        assert "paused" in actions(decision, Comment)[0].body


@pytest.mark.req("BAT-181", "BAT-193")
def test_what_cannot_be_merged_and_what_resolves_nothing_fails_alone() -> None:
    seen = facts([issue(1, D), resolver(2, 1, D)], branches=[1, 2])
    result = sweep(failed=(SweepFailure(1, branch(1), sha(1), "unrelated histories"),))
    decisions = rules.failure_decisions(seen, swept(result, seen, bad={2: "a.py still holds conflict markers"}))
    assert [(d.rule, actions(d, SetStatus)[0].issue) for d in decisions] == [("BAT-193", 2), ("BAT-181", 1)]


@pytest.mark.req("BAT-187")
def test_an_origin_whose_branch_came_in_with_its_resolver_is_done() -> None:
    seen = facts([issue(1, F), resolver(2, 1, D)], branches=[1])
    assert [task.number for task in origins(seen)] == [1]
    (decision,) = rules.settle_decisions(seen, swept(None, seen, contained={1: True}))
    (settle,) = decision.actions
    assert isinstance(settle, SetStatus)
    assert (settle.issue, settle.to, settle.expected) == (1, D, (F,))
    assert settle.key.startswith("BAT-187/")


@pytest.mark.req("BAT-187")
def test_an_origin_that_is_not_in_is_started_again_and_only_once() -> None:
    seen = facts([issue(1, F), resolver(2, 1, D)], branches=[1])
    (decision,) = rules.settle_decisions(seen, swept(None, seen, contained={1: False}))
    assert actions(decision, SetStatus)[0].to is R
    younger = run(1, 2, JobState.FAILED)
    later = facts([issue(1, F), resolver(2, 1, D)], branches=[1], jobs=[younger])
    assert rules.settle_decisions(later, swept(None, later, contained={1: False})) == ()
    older = msgspec.structs.replace(younger, created_at=NOW - timedelta(days=1))
    before = facts([issue(1, F), resolver(2, 1, D)], branches=[1], jobs=[older])
    assert rules.settle_decisions(before, swept(None, before, contained={1: False})) != ()


@pytest.mark.req("BAT-187")
@pytest.mark.parametrize(
    ("status", "branches", "contained"), [(P, [1], False), (F, [1], False), (D, [1, 2], False), (R, [1], True)]
)
def test_an_origin_waits_while_its_resolver_has_no_result_in_the_batch(
    status: Status, branches: list[int], contained: bool
) -> None:
    seen = facts([issue(1, F), resolver(2, 1, status)], branches=branches)
    assert rules.settle_decisions(seen, swept(None, seen, contained={1: contained})) == ()


@pytest.mark.req("BAT-187")
def test_an_issue_that_failed_without_a_resolver_is_never_revived() -> None:
    seen = facts([issue(1, F), issue(3, D)], branches=[1])
    assert origins(seen) == ()
    assert rules.settle_decisions(seen, swept(None, seen, contained={1: True})) == ()


@pytest.mark.req("G05")
def test_names_that_fold_to_one_are_warned_of_and_nothing_is_dropped() -> None:
    seen = facts([issue(1, D)], branches=[1])
    found = swept(sweep(merged=(1,), warnings=("Old.txt and OLD.txt",)))
    decision = rules.warning_decision(seen, found)
    assert decision is not None
    assert "OLD.txt" in actions(decision, Comment)[0].body
    assert rules.warning_decision(seen, swept(sweep(merged=(1,)))) is None
