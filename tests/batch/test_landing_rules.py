"""When a review is due, what stands against a merge, how a batch ends, what the PR says."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from droveway.batch import land, landing, texts
from droveway.batch.facts import BatchFacts
from droveway.batch.finish import cancel_decisions, landing_decisions
from droveway.batch.pull import BaseFacts, base_decision, open_decision, ready_for_pull
from droveway.batch.views import lifecycle
from droveway.core.decisions import (
    CancelJob,
    CloseMilestone,
    EditIssue,
    MergePull,
    MoveRefs,
    OpenPull,
    SetStatus,
    StartJob,
)
from droveway.core.facts import Complete
from droveway.core.jobs import JobInfo, JobState
from droveway.core.vocabulary import CASCADE_FAILED, PAUSED, STABLE_DISAGREEMENT, Status
from droveway.forge.model import (
    CheckRun,
    HeadChecks,
    MergeState,
    Protection,
    PullRequest,
    Review,
    ReviewState,
)
from droveway.git import Conflict, Merged
from droveway.review import ReviewResult, ReviewStatus

from .make import BRANCH, NOW, REPO, TIP, facts, issue, pull, resolver, run, setting, sha, unknown

D, F, R, P, B = Status.DONE, Status.FAILED, Status.READY, Status.IN_PROGRESS, Status.BLOCKED
AUTO = setting(pull_requests__auto_merge=True)
OLD = NOW - timedelta(hours=1)


def good_pull(**more: Any) -> PullRequest:
    checks = HeadChecks(TIP, (CheckRun(1, "test", "ci", "completed", "success"),), committed_at=OLD)
    values: dict[str, Any] = {
        "merge_state": MergeState.CLEAN,
        "checks": Complete(checks, NOW),
        "reviews": Complete((), NOW),
        "unresolved_threads": Complete(0, NOW),
        **more,
    }
    return pull(**values)


def result(status: ReviewStatus = ReviewStatus.APPROVED, head: str = TIP) -> ReviewResult:
    return ReviewResult(90, head, "", status, 1, 0)


def review_run(turn: int, state: JobState) -> JobInfo:
    return JobInfo(f"review/{REPO}/pr:90/{TIP}/{turn}", "review", state)


def seen(*results: ReviewResult, jobs: tuple[JobInfo, ...] = (), at: PullRequest | None = None) -> land.LandFacts:
    return land.LandFacts(at or good_pull(), Complete(results, NOW), Complete(jobs, NOW))


def batch(*more: Any, settings: Any = AUTO, **kwargs: Any) -> BatchFacts:
    return facts([issue(1, D), *more], pr=good_pull(), settings=settings, **kwargs)


def codes(at: BatchFacts, what: land.LandFacts, protection: Protection | None = Protection()) -> list[str]:  # noqa: B008
    fact = Complete(protection, NOW) if protection else unknown()
    return [blocker.code for blocker in landing.land_blockers(at, what, landing.MergeFacts(fact))]


@pytest.mark.req("REV-001", "REV-003", "REV-004", "REV-005", "REV-056")
def test_a_review_starts_once_for_a_head_without_a_result_and_behind_the_gates() -> None:
    decision = land.review_decision(batch(), seen())
    assert decision is not None
    (start,) = decision.actions
    assert isinstance(start, StartJob)
    assert start.job.id == f"review/{REPO}/pr:90/{TIP}/0"
    assert start.job.args == {"repo": REPO, "pull": 90, "batch": 7, "head": TIP}
    off = setting(integrator__review=False)
    assert land.review_decision(batch(settings=off), seen()) is None
    assert land.review_decision(batch(), seen(result())) is None
    rows = [
        (batch(issue(2, P, type="fix", fix_cycle=1)), seen(), "active-fix"),
        (batch(), seen(jobs=(review_run(0, JobState.RUNNING),)), "reviewing"),
        (batch(), seen(jobs=tuple(review_run(n, JobState.FAILED) for n in range(3))), "review-failed"),
        (batch(), seen(at=good_pull(labels=(STABLE_DISAGREEMENT,))), "disagreement"),
        (batch(issue(2, D, labels=[PAUSED])), seen(), "paused"),
    ]
    for at, what, code in rows:
        waits = land.review_decision(at, what)
        assert waits is not None
        assert waits.actions == ()
        assert [blocker.code for blocker in waits.blockers] == [code]


@pytest.mark.req("REV-044", "REV-094")
def test_a_doubt_about_criteria_holds_back_auto_merge_until_a_person_approves_that_head() -> None:
    doubt = msgspec.structs.replace(result(), criteria=1, created_at=OLD.isoformat(timespec="seconds"))
    yes: dict[str, Any] = {
        "id": 1, "author": "ann", "state": ReviewState.APPROVED, "commit": TIP, "submitted_at": NOW,
        "association": "OWNER",
    }  # fmt: skip
    assert codes(batch(), seen(result())) == []
    assert codes(batch(), seen(doubt)) == ["criteria"]
    assert codes(batch(settings=setting(integrator__review=False, pull_requests__auto_merge=True)), seen(doubt)) == []
    rows: list[tuple[dict[str, Any], bool]] = [
        ({}, True),
        ({"author": batch().login.upper()}, False),
        ({"association": "NONE"}, False),
        ({"commit": sha(5)}, False),
        ({"state": ReviewState.COMMENTED}, False),
        ({"submitted_at": OLD - timedelta(seconds=1)}, False),
        ({"submitted_at": None}, False),
    ]
    for changed, answered in rows:
        reviewed = good_pull(reviews=Complete((Review(**{**yes, **changed}),), NOW))
        assert ("criteria" not in codes(batch(), seen(doubt, at=reviewed))) is answered, changed
    merge = landing.MergeFacts(Complete(Protection(), NOW))
    assert landing.land_blockers(batch(), seen(doubt), merge, by_hand=True) == ()


@pytest.mark.req("REV-117", "REV-094")
def test_a_result_for_another_head_counts_for_nothing() -> None:
    other = seen(result(head=sha(5)))
    assert land.review_decision(batch(), other) is not None
    assert codes(batch(), other) == ["review-due"]


@pytest.mark.req("REV-002", "REV-072")
def test_a_fix_that_ends_without_a_new_head_leads_to_one_more_review() -> None:
    asked = seen(result(ReviewStatus.CHANGES_REQUESTED))
    assert land.review_decision(batch(), asked) is None
    ended = batch(issue(2, D, type="fix", fix_cycle=1, pr_head_sha=TIP, batch_pr=90))
    decision = land.review_decision(ended, asked)
    assert decision is not None
    assert decision.actions
    twice = seen(result(ReviewStatus.CHANGES_REQUESTED), result(ReviewStatus.CHANGES_REQUESTED))
    assert land.review_decision(ended, twice) is None


@pytest.mark.req("REV-091", "REV-094", "REV-095", "REV-100", "BAT-206")
def test_everything_good_merges_at_exactly_the_judged_head() -> None:
    at, what = batch(), seen(result())
    assert codes(at, what) == []
    decision = landing.merge_decision(at, what, (), "REV-091")
    (merge,) = decision.actions
    assert isinstance(merge, MergePull)
    assert (merge.head_sha, merge.method, decision.head) == (TIP, "squash", TIP)


def failing(conclusion: str) -> PullRequest:
    checks = HeadChecks(TIP, (CheckRun(1, "test", "ci", "completed", conclusion),), committed_at=OLD)
    return good_pull(checks=Complete(checks, NOW))


def review(state: ReviewState, association: str = "MEMBER") -> PullRequest:
    return good_pull(reviews=Complete((Review(1, "pat", state, TIP, association=association),), NOW))


@pytest.mark.req("REV-094", "BAT-206", "BAT-196")
@pytest.mark.parametrize(
    ("at", "code"),
    [
        (good_pull(draft=True), "draft"),
        (failing("failure"), "check-failed"),
        (failing("cancelled"), "check-cancelled"),
        (good_pull(checks=unknown()), "checks-unknown"),
        (good_pull(mergeable=False), "conflict"),
        (good_pull(mergeable=None, merge_state=MergeState.UNKNOWN), "mergeability-unknown"),
        (review(ReviewState.CHANGES_REQUESTED), "changes-requested"),
        (good_pull(reviews=unknown()), "reviews-unknown"),
        (good_pull(labels=(CASCADE_FAILED,)), "hold"),
        (good_pull(labels=(PAUSED,)), "hold"),
        (good_pull(merge_state=MergeState.BLOCKED), "forge-blocked"),
    ],
)
def test_whatever_is_bad_or_unknown_is_a_no(at: PullRequest, code: str) -> None:
    assert codes(batch(), seen(result(), at=at)) == [code]


@pytest.mark.req("REV-094")
def test_a_strangers_request_for_changes_does_not_hold() -> None:
    at = review(ReviewState.CHANGES_REQUESTED, "NONE")
    assert codes(batch(), seen(result(), at=at)) == []


@pytest.mark.req("REV-094", "REV-098", "BAT-208")
def test_no_check_yet_is_no_success_and_either_order_ends_in_one_merge() -> None:
    none = good_pull(checks=Complete(HeadChecks(TIP, committed_at=NOW), NOW))
    old = good_pull(checks=Complete(HeadChecks(TIP, committed_at=OLD), NOW))
    off = setting(pull_requests__auto_merge=True, integrator__review=False)
    assert codes(batch(settings=off), seen(at=none)) == ["check-pending"]
    assert codes(batch(settings=off), seen(at=old)) == []
    assert codes(batch(settings=off), seen(at=old), Protection(required_checks=("build",))) == ["check-missing"]
    assert codes(batch(settings=off), seen(at=old), None) == ["checks-unknown"]
    assert codes(batch(settings=off), seen(at=old), Protection(required_checks=("herd/review",))) == []
    keys = set()
    for what in (seen(result()), seen(result(ReviewStatus.CHANGES_REQUESTED), result())):
        (merge,) = landing.merge_decision(batch(), what, (), "REV-091").actions
        keys.add(merge.key)
    assert len(keys) == 1


@pytest.mark.req("BAT-078")
def test_without_required_ci_a_red_check_does_not_hold() -> None:
    settings = setting(pull_requests__auto_merge=True, integrator__require_ci=False)
    assert codes(batch(settings=settings), seen(result(), at=failing("failure"))) == []


@pytest.mark.req("REV-090", "REV-093", "REV-096")
def test_without_auto_merge_only_a_person_merges_and_readiness_is_asked_all_the_same() -> None:
    at = batch(settings=setting(pull_requests__auto_merge=False))
    assert codes(at, seen(result())) == ["auto-merge-off"]
    merge = landing.MergeFacts(Complete(Protection(), NOW))
    assert landing.land_blockers(at, seen(result()), merge, by_hand=True) == ()
    assert landing.land_blockers(at, seen(result(), at=failing("failure")), merge, by_hand=True) != ()


@pytest.mark.req("REV-086", "REV-087", "REV-088", "REV-089", "REV-095")
@pytest.mark.parametrize("method", ["squash", "rebase", "merge"])
def test_the_strategy_gives_the_method_and_one_that_is_forbidden_is_reported(method: str) -> None:
    settings = setting(pull_requests__auto_merge=True, integrator__strategy=method)
    at = batch(settings=settings)
    assert land.merge_action(at, seen(result())).method == method
    repository = msgspec.structs.replace(at.repository, merge_methods=())
    forbidden = msgspec.structs.replace(at, repository_fact=Complete(repository, NOW))
    assert codes(forbidden, seen(result())) == ["method-forbidden"]
    stuck = seen(result(), at=good_pull(rebaseable=False))
    assert codes(at, stuck) == (["not-rebaseable"] if method == "rebase" else [])


@pytest.mark.req("BAT-226", "REV-099")
def test_landing_closes_cleans_and_closes_the_milestone_last() -> None:
    merged = good_pull(state="merged", merge_sha=sha(9))
    at = facts([issue(1, D), issue(2, D, open=False), issue(3, P)], branches=[1, 3], pr=merged, jobs=[run(3)])
    kinds = [type(action) for decision in landing_decisions(at) for action in decision.actions]
    assert kinds[-1] is CloseMilestone
    assert kinds.index(CancelJob) < kinds.index(EditIssue) < kinds.index(MoveRefs)
    closed = [a.number for d in landing_decisions(at) for a in d.actions if isinstance(a, EditIssue)]
    assert closed == [1, 3]
    gone = [u.ref for d in landing_decisions(at) for a in d.actions if isinstance(a, MoveRefs) for u in a.updates]
    assert f"refs/heads/{BRANCH}" in gone
    assert len(gone) == 3
    again = facts([issue(1, D, open=False)], refs={}, pr=merged, state="closed")
    assert landing_decisions(again) == ()


@pytest.mark.req("BAT-224", "BAT-225")
def test_cancelling_labels_first_and_touches_only_this_batch() -> None:
    rows = [issue(1, D), issue(2, P), issue(3, B), issue(4, F), issue(5, D, open=False)]
    at = facts(rows, branches=[1, 2], pr=good_pull(), jobs=[run(2), run(99)])
    every = [action for decision in cancel_decisions(at) for action in decision.actions]
    relabelled = [a.issue for a in every if isinstance(a, SetStatus)]
    assert relabelled == [2, 3, 4]
    assert [a.job_id for a in every if isinstance(a, CancelJob)] == [f"worker/{REPO}/2/1"]
    assert [a.number for a in every if isinstance(a, EditIssue)] == [1, 2, 3, 4, 90]
    order = [type(a) for a in every]
    assert max(i for i, k in enumerate(order) if k is SetStatus) < order.index(CancelJob)
    assert order[-1] is CloseMilestone


@pytest.mark.req("BAT-194", "BAT-103", "BAT-203")
def test_the_base_is_merged_in_or_resolved_or_the_pr_opens_in_conflict() -> None:
    clash = BaseFacts(TIP, "main", sha(2), Conflict(("a.py",)))
    at = facts([issue(1, D)])
    assert base_decision(at, BaseFacts(TIP, "main", sha(2))) is None
    decision = base_decision(at, BaseFacts(TIP, "main", sha(2), Merged(sha(3), sha(4))))
    assert decision is not None
    (move,) = decision.actions
    assert isinstance(move, MoveRefs)
    assert [(u.old, u.new) for u in move.updates] == [(TIP, sha(3))]
    rules = {
        "BAT-191": at,
        "BAT-190": facts([issue(1, D)], settings=setting(integrator__on_conflict="notify")),
        "BAT-201": facts([issue(1, D), resolver(5, None, F), resolver(6, None, F)]),
        "BAT-203": facts([issue(1, D, labels=[CASCADE_FAILED])]),
    }
    for rule, seen_ in rules.items():
        decision = base_decision(seen_, clash)
        assert decision is not None
        assert decision.rule == rule


@pytest.mark.req("BAT-035", "BAT-215", "BAT-217")
def test_the_pr_tells_what_was_done_without_an_agent() -> None:
    rows = [issue(n, D, title=f"Title {n} fixes #88 @team") for n in range(1, 8)]
    at = facts([*rows, issue(9, D, needs=[1]), resolver(20, 1, D)])
    (action,) = open_decision(at, BaseFacts(TIP, "main", sha(2))).actions
    assert isinstance(action, OpenPull)
    assert (action.title, action.head, action.base) == ("[herd] b (8 tasks)", BRANCH, "main")
    headings = [line for line in action.body.splitlines() if line.startswith("## ")]
    assert headings == ["## Summary", "## Validation", "## Tasks", "## Worker branches"]
    assert "- and 3 more" in action.body
    assert "| #9 | task 9 | 1 | done |" in action.body
    assert "@team" not in action.body
    assert "fixes #88" not in action.body
    last = action.body.rstrip().splitlines()[-1]
    assert last.startswith("Closes #1, closes #2")
    assert "#88" not in last


@pytest.mark.req("BAT-217", "BAT-006")
def test_a_pr_of_thousands_of_tasks_stays_within_the_limit() -> None:
    at = facts([issue(n, D, title="ä" * 200) for n in range(1, 1500)])
    (action,) = open_decision(at, BaseFacts(TIP, "main", sha(2))).actions
    assert isinstance(action, OpenPull)
    assert len(action.body.encode()) < 65_000
    assert len(texts.squash_message("x" * 9000, tuple(at.graph.tasks.values()), "a@b").encode()) < 65_000


@pytest.mark.req("BAT-102")
def test_what_is_done_and_not_merged_holds_the_pr_back() -> None:
    assert [b.code for b in ready_for_pull(facts([issue(1, D)], branches=[1]))] == ["unmerged"]
    assert ready_for_pull(facts([issue(1, D)])) == ()


@pytest.mark.req("BAT-219", "BAT-220", "BAT-221", "BAT-222", "BAT-223")
@pytest.mark.parametrize(
    ("rows", "pr", "state", "wanted"),
    [
        ([issue(1, R), issue(2, B, needs=[1])], None, "open", "created"),
        ([issue(1, P)], None, "open", "in progress"),
        ([issue(1, D), issue(2, R, needs=[1])], None, "open", "in progress"),
        ([issue(1, F)], None, "open", "stalled"),
        ([issue(1, D)], pull(), "open", "in review"),
        ([issue(1, D)], pull(state="merged"), "open", "landed"),
        ([issue(1, D, open=False)], None, "closed", "landed"),
        ([issue(1, D)], pull(state="closed"), "open", "cancelled"),
        ([issue(1, Status.CANCELLED, open=False)], None, "closed", "cancelled"),
    ],
)
def test_the_state_is_derived(rows: list[Any], pr: PullRequest | None, state: str, wanted: str) -> None:
    at = facts(rows, pr=pr, state=state)
    assert lifecycle(at.milestone, at.graph, at.pull) == wanted


@pytest.mark.req("REV-100", "CLI-005")
@pytest.mark.parametrize(
    ("fixes", "who", "word"),
    [
        ([issue(2, P, type="fix", fix_cycle=1)], "the fleet", "a new head with the fixes"),
        ([issue(2, F, type="fix", fix_cycle=1)], "a person", "herd dispatch 2"),
        ([], "a person", "by hand"),
    ],
)
def test_who_can_clear_requested_changes_depends_on_their_fix(fixes: list[Any], who: str, word: str) -> None:
    (told,) = landing.review_blockers(batch(*fixes), seen(result(ReviewStatus.CHANGES_REQUESTED)))
    assert (told.code, told.who) == ("review", who)
    assert word in told.clears
