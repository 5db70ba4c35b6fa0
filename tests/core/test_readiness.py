"""Merge readiness: all blockers, whatever the order of the facts (FRG-009, BAT-196, cases M01 … M13)."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from droveway.core.checks import CheckState, CheckVerdict
from droveway.core.readiness import Conflict, PullFacts, Vote, blockers, conflict_state, deciding_votes

HEAD, OLDER = "a" * 40, "b" * 40
T0 = datetime(2026, 3, 1, tzinfo=UTC)
GREEN = CheckVerdict(CheckState.SUCCESS, passed=("unit",))
READY = PullFacts(
    author="bot",
    head_sha=HEAD,
    mergeable=True,
    merge_state="CLEAN",
    checks=GREEN,
    votes=(),
    unresolved_threads=0,
)


def vote(author: str, state: str, at: int = 0, commit: str = HEAD, **more: Any) -> Vote:
    return Vote(author, state, commit, T0 + timedelta(minutes=at), **more)


def checks(state: CheckState, **names: tuple[str, ...]) -> CheckVerdict:
    return CheckVerdict(state, **names)


F = CheckState.FAILURE
P = CheckState.PENDING
ROWS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("nothing is in the way", {}, []),
    ("merged says nothing else", {"state": "merged", "draft": True, "mergeable": None}, ["merged"]),
    ("closed says nothing else", {"state": "closed", "checks": None}, ["closed"]),
    ("a state that we do not know", {"state": "frozen"}, ["state-unknown"]),
    ("draft", {"draft": True}, ["draft"]),
    ("draft by the merge state", {"merge_state": "DRAFT"}, ["draft"]),
    ("draft with all green stays a draft", {"draft": True, "votes": (vote("r", "APPROVED"),)}, ["draft"]),
    ("conflict by mergeable", {"mergeable": False}, ["conflict"]),
    ("conflict by state", {"merge_state": "DIRTY"}, ["conflict"]),
    ("mergeable null", {"mergeable": None}, ["mergeability-unknown"]),
    ("mergeable null and state unknown", {"mergeable": None, "merge_state": "UNKNOWN"}, ["mergeability-unknown"]),
    ("behind", {"merge_state": "BEHIND"}, ["behind"]),
    ("behind, strict", {"merge_state": "BEHIND", "strict": True}, ["behind"]),
    ("unstable is no blocker by itself", {"merge_state": "UNSTABLE"}, []),
    ("has hooks", {"merge_state": "HAS_HOOKS"}, []),
    ("blocked without a reason", {"merge_state": "BLOCKED"}, ["forge-blocked"]),
    ("blocked with a reason", {"merge_state": "BLOCKED", "required_approvals": 1}, ["review-missing"]),
    ("blocked and held", {"merge_state": "BLOCKED", "holds": ("herd/paused",)}, ["hold", "forge-blocked"]),
    ("checks could not be read", {"checks": None}, ["checks-unknown"]),
    ("checks are unknown", {"checks": checks(CheckState.UNKNOWN)}, ["checks-unknown"]),
    ("a check failed", {"checks": checks(F, failing=("unit",))}, ["check-failed"]),
    ("two checks failed", {"checks": checks(F, failing=("lint", "unit"))}, ["check-failed", "check-failed"]),
    ("an optional check failed (M01)", {"checks": checks(F, failing=("unit",), required=("all",))},
     ["optional-check-failed"]),
    ("a required check failed", {"checks": checks(F, failing=("unit",), required=("unit",))}, ["check-failed"]),
    ("pending", {"checks": checks(P, pending=("unit",))}, ["check-pending"]),
    ("missing", {"checks": checks(P, missing=("types",), required=("types",))}, ["check-missing"]),
    ("cancelled", {"checks": checks(P, cancelled=("unit",))}, ["check-cancelled"]),
    ("action required", {"checks": checks(CheckState.ACTION_REQUIRED, waiting=("d",))}, ["check-action-required"]),
    ("not understood", {"checks": checks(CheckState.UNKNOWN, unread=("unit",))}, ["checks-unknown"]),
    ("pending and failed, both told", {"checks": checks(F, failing=("a",), pending=("b",))},
     ["check-failed", "check-pending"]),
    ("reviews could not be read", {"votes": None}, ["reviews-unknown"]),
    ("approvals are missing", {"required_approvals": 2, "votes": (vote("r", "APPROVED"),)}, ["review-missing"]),
    ("enough approvals", {"required_approvals": 1, "votes": (vote("r", "APPROVED"),)}, []),
    ("M12a approve, then comment",
     {"required_approvals": 1, "votes": (vote("r", "APPROVED"), vote("r", "COMMENTED", 1))},
     []),
    ("M12b approve, changes requested, that one dismissed",
     {"required_approvals": 1, "votes": (vote("r", "APPROVED"), vote("r", "DISMISSED", 1))}, ["review-missing"]),
    ("M12c changes requested, then comment",
     {"votes": (vote("r", "CHANGES_REQUESTED"), vote("r", "COMMENTED", 1))}, ["changes-requested"]),
    ("M12d approve, dismissed by a push",
     {"required_approvals": 1, "votes": (vote("r", "DISMISSED", 1),)}, ["review-missing"]),
    ("changes requested, then approved", {"votes": (vote("r", "CHANGES_REQUESTED"), vote("r", "APPROVED", 1))}, []),
    ("approved by one, refused by another",
     {"votes": (vote("r", "APPROVED"), vote("q", "CHANGES_REQUESTED"))}, ["changes-requested"]),
    ("a stranger's refusal blocks nothing", {"votes": (vote("x", "CHANGES_REQUESTED", counts=False),)}, []),
    ("a stranger's approval counts for nothing",
     {"required_approvals": 1, "votes": (vote("x", "APPROVED", counts=False),)}, ["review-missing"]),
    ("the author's approval counts for nothing",
     {"required_approvals": 1, "votes": (vote("Bot", "APPROVED"),)}, ["review-missing"]),
    ("an approval of an older head is stale",
     {"required_approvals": 1, "votes": (vote("r", "APPROVED", commit=OLDER),)}, ["review-stale"]),
    ("a pending review says nothing", {"votes": (vote("r", "PENDING"),)}, []),
    ("a review that we do not understand", {"votes": (vote("r", "UNKNOWN"),)}, ["reviews-unknown"]),
    ("the forge wants a review", {"review_decision": "REVIEW_REQUIRED"}, ["review-missing"]),
    ("the forge says changes requested", {"review_decision": "CHANGES_REQUESTED"}, ["changes-requested"]),
    ("both say changes requested, told once",
     {"review_decision": "CHANGES_REQUESTED", "votes": (vote("r", "CHANGES_REQUESTED"),)}, ["changes-requested"]),
    ("a review is asked for", {"requested_reviewers": ("q", "r")}, ["review-requested", "review-requested"]),
    ("one thread of 230 (M13)", {"unresolved_threads": 1}, ["threads-unresolved"]),
    ("all threads resolved", {"unresolved_threads": 0}, []),
    ("threads could not be read (M13)", {"unresolved_threads": None}, ["threads-unknown"]),
    ("held by two labels", {"holds": ("x", "herd/paused", "x")}, ["hold", "hold"]),
    ("the facts are old", {"fresh": False}, ["freshness-unknown"]),
    ("nobody knows how old the facts are", {"fresh": None}, ["freshness-unknown"]),
    ("the head moved (M10)", {"judged_sha": OLDER}, ["head-moved"]),
    ("the head is the judged one", {"judged_sha": HEAD}, []),
    ("the method is forbidden", {"method": "rebase", "methods": ("squash",)}, ["method-forbidden"]),
    ("the branch cannot be rebased", {"method": "rebase", "rebaseable": False}, ["not-rebaseable"]),
    ("not rebaseable does not matter to squash", {"method": "squash", "rebaseable": False}, []),
    ("whether it can be rebased is unknown", {"method": "rebase", "rebaseable": None}, []),
    ("everything at once",
     {"draft": True, "holds": ("h",), "mergeable": None, "merge_state": "BEHIND", "checks": None, "votes": None,
      "requested_reviewers": ("r",), "unresolved_threads": None, "fresh": None, "judged_sha": OLDER,
      "method": "merge", "methods": ()},
     ["freshness-unknown", "head-moved", "draft", "hold", "mergeability-unknown", "behind", "checks-unknown",
      "reviews-unknown", "review-requested", "threads-unknown", "method-forbidden"]),
]  # fmt: skip


@pytest.mark.req("FRG-009", "REV-095")
@pytest.mark.parametrize(("change", "codes"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_the_blockers_where(change: dict[str, Any], codes: list[str]) -> None:
    found = blockers(msgspec.structs.replace(READY, **change))
    assert [each.code for each in found] == codes


@pytest.mark.req("FRG-009")
@pytest.mark.parametrize("change", [row[1] for row in ROWS], ids=[row[0] for row in ROWS])
def test_each_blocker_names_the_fact_what_clears_it_and_who_can(change: dict[str, Any]) -> None:
    for each in blockers(msgspec.structs.replace(READY, **change)):
        assert each.because
        assert each.code == "merged" or (each.clears and each.who)


@pytest.mark.req("FRG-009")
def test_the_reason_names_the_failed_check_and_not_the_skipped_one() -> None:
    verdict = checks(F, failing=("unit",), passed=("all-green", "lint"), required=("all-green",))
    (only,) = blockers(msgspec.structs.replace(READY, checks=verdict))
    assert "unit" in only.because
    assert "all-green" not in only.because


@pytest.mark.req("BAT-196")
@pytest.mark.parametrize(
    ("mergeable", "state", "expected"),
    [
        (False, "DIRTY", Conflict.CONFLICT),
        (False, "UNKNOWN", Conflict.CONFLICT),
        (False, "BLOCKED", Conflict.CONFLICT),
        (None, "DIRTY", Conflict.CONFLICT),
        (True, "DIRTY", Conflict.CONFLICT),
        (None, "CONFLICTING", Conflict.CONFLICT),
        (None, "UNKNOWN", Conflict.UNKNOWN),
        (None, "", Conflict.UNKNOWN),
        (None, "BLOCKED", Conflict.UNKNOWN),
        (True, "CLEAN", Conflict.CLEAN),
        (True, "HAS_HOOKS", Conflict.CLEAN),
        (True, "UNSTABLE", Conflict.CLEAN),
        (True, "BEHIND", Conflict.CLEAN),
        (True, "UNKNOWN", Conflict.CLEAN),
        (True, "BLOCKED", Conflict.CLEAN),
        (True, "SOMETHING_NEW", Conflict.CLEAN),
        (True, "clean", Conflict.CLEAN),
    ],
)
def test_conflict_is_said_by_either_field_and_null_is_unknown(
    mergeable: bool | None, state: str, expected: Conflict
) -> None:
    assert conflict_state(mergeable, state) is expected


votes_of = st.lists(
    st.builds(
        vote,
        st.sampled_from(["r", "q", "bot"]),
        st.sampled_from(["APPROVED", "CHANGES_REQUESTED", "COMMENTED", "DISMISSED", "PENDING", "UNKNOWN"]),
        st.integers(0, 4),
        st.sampled_from([HEAD, OLDER]),
    ),
    max_size=8,
)


@pytest.mark.req("FRG-009")
@given(votes_of, st.integers(0, 2), st.randoms())
def test_the_order_of_the_reviews_never_matters(votes: list[Vote], needed: int, dice: random.Random) -> None:
    def codes() -> list[str]:
        facts = msgspec.structs.replace(READY, votes=tuple(votes), required_approvals=needed)
        return [each.code for each in blockers(facts)]

    before = codes()
    dice.shuffle(votes)
    assert codes() == before


@pytest.mark.req("FRG-009")
@given(votes_of, votes_of)
def test_comments_never_change_a_verdict(votes: list[Vote], more: list[Vote]) -> None:
    chatter = [msgspec.structs.replace(each, state="COMMENTED") for each in more]
    assert deciding_votes([*votes, *chatter]) == deciding_votes(votes)
