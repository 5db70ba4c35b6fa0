"""What the checks of a head amount to: one function, many rows (FRG-010, BAT-206 … BAT-208)."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from droveway.core.checks import CheckState, CheckVerdict, Context, Run, Suite, roll_up

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
OLD = NOW - timedelta(hours=4)
FRESH = NOW - timedelta(seconds=20)
GRACE = timedelta(seconds=120)


def run(name: str, conclusion: str = "success", *, at: int = 0, id: int = 0, status: str = "", **more: Any) -> Run:  # noqa: A002
    """A run that began ``at`` minutes after the head; without a conclusion it is in progress."""
    state = status or ("completed" if conclusion else "in_progress")
    return Run(name, more.get("app", "actions"), more.get("workflow", "ci"), state, conclusion, id,
               more.get("started", OLD + timedelta(minutes=at)), None)  # fmt: skip


def ctx(name: str, state: str, at: int = 0) -> Context:
    return Context(name, state, OLD + timedelta(minutes=at))


def roll(
    runs: Any = (), statuses: Any = (), suites: Any = (), required: Any = (), head: datetime | None = OLD, **more: Any
) -> CheckVerdict:
    return roll_up(runs, statuses, suites, required, NOW, more.pop("grace", GRACE), head, **more)


S, F, P, U, A = (
    CheckState.SUCCESS,
    CheckState.FAILURE,
    CheckState.PENDING,
    CheckState.UNKNOWN,
    CheckState.ACTION_REQUIRED,
)
ROWS: list[tuple[str, dict[str, Any], CheckState, dict[str, tuple[str, ...]]]] = [
    ("success passes", {"runs": [run("unit")]}, S, {"passed": ("unit",)}),
    ("neutral passes", {"runs": [run("unit", "neutral")]}, S, {}),
    ("skipped passes", {"runs": [run("unit", "skipped")], "required": ["unit"]}, S, {}),
    ("failure fails", {"runs": [run("unit", "failure")]}, F, {"failing": ("unit",)}),
    ("timed_out fails", {"runs": [run("unit", "timed_out")]}, F, {"failing": ("unit",)}),
    ("startup_failure fails", {"runs": [run("unit", "startup_failure")]}, F, {"failing": ("unit",)}),
    ("queued is pending", {"runs": [run("unit", "", status="queued")]}, P, {"pending": ("unit",)}),
    ("in_progress is pending", {"runs": [run("unit", "")]}, P, {"pending": ("unit",)}),
    ("waiting is pending", {"runs": [run("unit", "", status="waiting")]}, P, {}),
    ("stale is pending", {"runs": [run("unit", "stale")]}, P, {"pending": ("unit",)}),
    ("cancelled is no failure", {"runs": [run("unit", "cancelled")]}, P, {"cancelled": ("unit",), "failing": ()}),
    ("action_required waits", {"runs": [run("unit", "action_required")]}, A, {"waiting": ("unit",)}),
    ("a new conclusion is unknown", {"runs": [run("unit", "sparkling")]}, U, {"unread": ("unit",)}),
    ("a new status is unknown", {"runs": [run("unit", "", status="dreaming")]}, U, {"unread": ("unit",)}),
    ("completed without conclusion is unknown", {"runs": [run("unit", "", status="completed")]}, U, {}),
    ("status success passes", {"statuses": [ctx("ci", "success")]}, S, {"passed": ("ci",)}),
    ("status failure fails", {"statuses": [ctx("ci", "failure")]}, F, {"failing": ("ci",)}),
    ("status error fails", {"statuses": [ctx("ci", "error")]}, F, {"failing": ("ci",)}),
    ("status pending is pending", {"statuses": [ctx("ci", "pending")]}, P, {"pending": ("ci",)}),
    ("status expected is pending", {"statuses": [ctx("ci", "expected")]}, P, {}),
    ("a new status word is unknown", {"statuses": [ctx("ci", "maybe")]}, U, {}),
    ("failure beats unknown", {"runs": [run("a", "failure"), run("b", "odd")]}, F, {}),
    ("failure beats pending", {"runs": [run("a", "failure"), run("b", "")]}, F, {"pending": ("b",)}),
    ("unknown beats pending", {"runs": [run("a", "odd"), run("b", "")]}, U, {}),
    ("unknown beats action", {"runs": [run("a", "odd"), run("b", "action_required")]}, U, {}),
    ("action beats pending", {"runs": [run("a", ""), run("b", "action_required")]}, A, {}),
    ("pending beats success", {"runs": [run("a", ""), run("b")]}, P, {}),
    ("31 runs, the last fails", {"runs": [*(run(f"n{i}") for i in range(30)), run("last", "failure")]}, F,
     {"failing": ("last",)}),
    # M03
    ("the newest attempt passes", {"runs": [run("unit", "failure"), run("unit", "cancelled", at=5),
                                            run("unit", at=11)]}, S, {}),
    ("the newest attempt fails", {"runs": [run("unit"), run("unit", "failure", at=11)]}, F, {}),
    ("the newest attempt runs", {"runs": [run("unit"), run("unit", "", at=11)]}, P, {}),
    ("the newest attempt has no start yet",
     {"runs": [run("unit"), run("unit", "", status="queued", started=None)]}, P, {}),
    ("numbers order attempts where all have them",
     {"runs": [run("unit", "", id=5, status="queued", started=None), run("unit", id=9)]}, S, {}),
    ("a newer run supersedes a cancelled one", {"runs": [run("unit", "cancelled"), run("unit", at=1)]}, S, {}),
    ("another workflow is another check",
     {"runs": [run("unit", "failure", workflow="a"), run("unit", at=9, workflow="b")]}, F, {}),
    ("another app is another check", {"runs": [run("unit", "failure", app="x"), run("unit", at=9, app="y")]}, F, {}),
    # M01
    ("a failure beside a skipped required one",
     {"runs": [run("all-green", "skipped"), run("lint"), run("unit", "failure")],
     "required": ["all-green"]}, F, {"failing": ("unit",)}),
    # M05
    ("a required status, pending then success twice",
     {"statuses": [ctx("deploy/preview", "pending"), ctx("deploy/preview", "success", 1),
                   ctx("deploy/preview", "success", 2)], "required": ["deploy/preview"]}, S, {}),
    ("green runs and no status", {"runs": [run(f"n{i}") for i in range(5)]}, S, {}),
    ("an old empty suite is a note", {"runs": [run("unit")], "suites": [Suite("other", OLD)]}, S,
     {"notes": ("a suite of other is queued and has no runs",)}),
    ("a young empty suite waits", {"runs": [run("unit")], "suites": [Suite("other", FRESH)]}, P,
     {"pending": ("suite of other",)}),
    ("an empty suite without an age is a note", {"runs": [run("unit")], "suites": [Suite("other", None)]}, S, {}),
    # M06
    ("required, nothing yet", {"required": ["unit", "types"], "head": FRESH}, P, {"missing": ("types", "unit")}),
    ("required, another check is green", {"runs": [run("title-lint")], "required": ["unit", "types"]}, P, {}),
    ("required, one of two", {"runs": [run("unit")], "required": ["unit", "types"]}, P, {"missing": ("types",)}),
    ("required, both", {"runs": [run("unit"), run("types")], "required": ["unit", "types"]}, S, {"missing": ()}),
    ("required and absent for ever is never a pass", {"required": ["unit"], "head": OLD}, P, {"missing": ("unit",)}),
    # BAT-208
    ("no check, old head, nothing required", {"head": OLD}, S, {"notes": ("there is no check at all",)}),
    ("no check, young head", {"head": FRESH}, P, {"pending": ("no check yet",)}),
    ("no check, head from the future", {"head": NOW + timedelta(hours=1)}, P, {}),
    ("no check, unknown age", {"head": None}, U, {}),
    ("no check, no grace", {"head": FRESH, "grace": timedelta(0)}, S, {}),
    ("no check, exactly at the grace", {"head": NOW - GRACE}, P, {}),
    # BAT-206, own contexts
    ("our own status is left out", {"runs": [run("unit")], "statuses": [ctx("herd/review", "pending")]}, S, {}),
    ("our own required context is left out",
     {"runs": [run("unit")], "required": ["herd/review", "unit"]}, S, {"required": ("unit",)}),
    ("our own failing run is left out", {"runs": [run("unit"), run("herd/review", "failure")]}, S, {}),
    ("only our own contexts are no check", {"statuses": [ctx("herd/review", "success")], "head": FRESH}, P, {}),
    # BAT-207
    ("runs may not be read, statuses answer", {"runs": None, "statuses": [ctx("ci", "success")]}, S,
     {"notes": ("check runs may not be read",)}),
    ("statuses may not be read, runs answer", {"runs": [run("unit")], "statuses": None}, S,
     {"notes": ("statuses may not be read",)}),
    ("neither may be read", {"runs": None, "statuses": None}, U, {}),
    ("neither may be read, old head", {"runs": None, "statuses": None, "head": OLD}, U, {}),
    ("one absent, the required one missing", {"runs": None, "statuses": [], "required": ["unit"]}, P, {}),
]  # fmt: skip


@pytest.mark.req("FRG-010", "BAT-206", "BAT-207", "BAT-208")
@pytest.mark.parametrize(("given_", "state", "more"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_the_roll_up_of(given_: dict[str, Any], state: CheckState, more: dict[str, tuple[str, ...]]) -> None:
    verdict = roll(**given_)
    assert verdict.state is state, verdict
    for name, value in more.items():
        assert getattr(verdict, name) == value
    assert verdict.ok == (state is S)


@pytest.mark.req("FRG-010")
def test_a_check_that_is_not_required_beside_required_ones_is_optional() -> None:
    verdict = roll(runs=[run("unit", "failure"), run("all-green", "skipped")], required=["all-green"])
    assert verdict.optional("unit")
    assert not verdict.optional("all-green")
    assert not roll(runs=[run("unit", "failure")]).optional("unit")  # nothing is required: every check counts


words = st.sampled_from(["success", "failure", "cancelled", "skipped", "action_required", "odd", ""])
runs_of = st.lists(
    st.builds(
        lambda name, word, at, id_, app: run(name, word, at=at, id=id_, app=app),
        st.sampled_from(["unit", "lint", "herd/review"]),
        words,
        st.integers(0, 3),
        st.integers(0, 3),
        st.sampled_from(["a", "b"]),
    ),
    max_size=8,
)
statuses_of = st.lists(
    st.builds(ctx, st.sampled_from(["ci", "unit"]), st.sampled_from(["success", "failure", "pending", "odd"]),
              st.integers(0, 2)),
    max_size=6,
)  # fmt: skip
suites_of = st.lists(st.builds(Suite, st.sampled_from(["x", "y"]), st.sampled_from([OLD, FRESH, None])), max_size=3)


@pytest.mark.req("FRG-010")
@given(runs_of, statuses_of, suites_of, st.lists(st.sampled_from(["unit", "ci", "types"])), st.randoms())
def test_the_order_of_what_was_read_never_matters(
    runs: list[Run], statuses: list[Context], suites: list[Suite], required: list[str], dice: random.Random
) -> None:
    before = roll(runs, statuses, suites, required)
    for items in (runs, statuses, suites, required):
        dice.shuffle(items)
    assert roll(runs, statuses, suites, required) == before


@pytest.mark.req("FRG-010")
@given(runs_of, statuses_of, st.lists(st.sampled_from(["unit", "ci", "types"])))
def test_success_needs_every_required_name_and_no_bad_one(
    runs: list[Run], statuses: list[Context], required: list[str]
) -> None:
    verdict = roll(runs, statuses, (), required, FRESH)
    if verdict.ok:
        assert set(required) <= set(verdict.passed)
        assert not any((verdict.failing, verdict.pending, verdict.cancelled, verdict.waiting, verdict.unread))
