"""The roll-up of a head's checks: one pure function for all rooms (FRG-010, BAT-206 … BAT-208)."""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from droveway.core.vocabulary import OWN_CONTEXT_PREFIX

SUITE_GRACE = timedelta(seconds=120)
_NEVER = datetime.min.replace(tzinfo=UTC)
_FAILED = frozenset({"failure", "timed_out", "startup_failure", "error"})
_PASSED = frozenset({"success", "neutral", "skipped"})
_PENDING = frozenset({"queued", "in_progress", "pending", "stale", "waiting", "requested", "expected"})


class CheckState(enum.StrEnum):
    """What the checks of a head say together."""

    SUCCESS = "success"
    FAILURE = "failure"
    PENDING = "pending"
    UNKNOWN = "unknown"
    ACTION_REQUIRED = "action-required"


class Run(msgspec.Struct, frozen=True, order=True):
    """An attempt of a check run. ``id`` grows with creation, 0 where the forge gives none; words are lower case."""

    name: str
    app: str = ""
    workflow: str = ""
    status: str = "completed"
    conclusion: str = ""
    id: int = 0
    started_at: datetime | None = None
    completed_at: datetime | None = None


class Context(msgspec.Struct, frozen=True, order=True):
    """A commit status of one context; ``state`` is success, failure, error or pending."""

    context: str
    state: str
    at: datetime | None = None


class Suite(msgspec.Struct, frozen=True, order=True):
    """A queued check suite that has no runs."""

    app: str
    created_at: datetime | None = None


class CheckVerdict(msgspec.Struct, frozen=True):
    """What was found; all names are sorted. ``cancelled``, ``missing`` and ``waiting`` hold the state at pending.

    ``waiting`` names what needs a person (``action_required``); ``unread`` what the forge says in words that we do
    not know; ``notes`` explain and block nothing. ``required`` are the required names without our own contexts.
    """

    state: CheckState
    failing: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    cancelled: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether all is green."""
        return self.state is CheckState.SUCCESS

    def optional(self, name: str) -> bool:
        """Whether a check is one that the base branch does not require, though it requires others (case M01)."""
        return bool(self.required) and name not in self.required


def unreadable(reason: str) -> CheckVerdict:
    """Give the verdict of checks that could not be read."""
    return CheckVerdict(CheckState.UNKNOWN, notes=(reason,))


def roll_up(
    runs: Sequence[Run] | None,
    statuses: Sequence[Context] | None,
    suites: Iterable[Suite],
    required: Iterable[str],
    now: datetime,
    grace: timedelta,
    head_committed_at: datetime | None,
    *,
    suite_grace: timedelta = SUITE_GRACE,
) -> CheckVerdict:
    """Say what the checks of one head amount to. The order of the inputs never matters.

    ``runs`` or ``statuses`` None: that source may not be read (BAT-207). ``grace`` is how long after the head's commit
    no check at all still means "not yet" (BAT-208); ``suite_grace`` the same for a queued suite without runs.
    Failure beats unknown beats "a person must act" beats pending beats success.
    """
    wanted = tuple(sorted({name for name in required if name and not _own(name)}))
    if runs is None and statuses is None:
        return CheckVerdict(CheckState.UNKNOWN, required=wanted, notes=("neither check runs nor statuses may be read",))
    found: dict[str, set[str]] = defaultdict(set)
    for run in _newest_runs(runs or ()):
        found[_class_of_run(run)].add(run.name)
    for status in _newest_statuses(statuses or ()):
        found[_class_of(status.state)].add(status.context)
    seen = {name for names in found.values() for name in names}
    missing = tuple(name for name in wanted if name not in seen)
    notes = [
        f"{what} may not be read" for what, items in (("check runs", runs), ("statuses", statuses)) if items is None
    ]
    for suite in suites:
        if suite.created_at is not None and now - suite.created_at < suite_grace:
            found["pending"].add(f"suite of {suite.app or 'an app'}")
        else:
            notes.append(f"a suite of {suite.app or 'an app'} is queued and has no runs")
    if not seen and not wanted and not found["pending"]:
        if grace <= timedelta(0) or (head_committed_at is not None and now - head_committed_at > grace):
            notes.append("there is no check at all")
        elif head_committed_at is None:
            found["unread"].add("no check, and the head's age is unknown")
        else:
            found["pending"].add("no check yet")
    return CheckVerdict(
        state=_state(found, missing=bool(missing)),
        failing=_sorted(found["failing"]),
        pending=_sorted(found["pending"]),
        missing=missing,
        cancelled=_sorted(found["cancelled"]),
        waiting=_sorted(found["waiting"]),
        unread=_sorted(found["unread"]),
        passed=_sorted(found["passed"]),
        required=wanted,
        notes=tuple(sorted(set(notes))),
    )


def _state(found: dict[str, set[str]], *, missing: bool) -> CheckState:
    if found["failing"]:
        return CheckState.FAILURE
    if found["unread"]:
        return CheckState.UNKNOWN
    if found["waiting"]:
        return CheckState.ACTION_REQUIRED
    if found["pending"] or found["cancelled"] or missing:
        return CheckState.PENDING
    return CheckState.SUCCESS


def _own(name: str) -> bool:
    """Whether a context is our own: the review's result judges it, or it would wait for itself (BAT-206)."""
    return name.startswith(OWN_CONTEXT_PREFIX)


def _class_of_run(run: Run) -> str:
    return _class_of(run.conclusion) if run.status == "completed" else _class_of(run.status, running=True)


def _class_of(word: str, *, running: bool = False) -> str:
    """Sort a conclusion, or the status of one that is not completed; a word that we do not know is not good enough."""
    if word in _PENDING:
        return "pending"
    if running:
        return "unread"
    if word in _FAILED:
        return "failing"
    if word in _PASSED:
        return "passed"
    return {"cancelled": "cancelled", "action_required": "waiting"}.get(word, "unread")


def _newest_runs(runs: Iterable[Run]) -> list[Run]:
    """Give the newest attempt per app, workflow and name (case M03); our own contexts are left out."""
    groups: dict[Hashable, list[Run]] = defaultdict(list)
    for run in runs:
        if not _own(run.name):
            groups[run.app, run.workflow, run.name].append(run)
    return [max(group, key=lambda run: _age(run, by_id=all(each.id for each in group))) for group in groups.values()]


def _age(run: Run, *, by_id: bool) -> tuple[object, ...]:
    """Give what orders attempts. An attempt that waits for its start has no time yet and is newer than any that has."""
    begun = run.started_at or run.completed_at
    waiting = begun is None and run.status != "completed"
    number = run.id if by_id else 0
    return (number, waiting, begun or _NEVER, _severity(_class_of_run(run)), run.status, run.conclusion, run.id)


def _newest_statuses(statuses: Iterable[Context]) -> list[Context]:
    groups: dict[str, list[Context]] = defaultdict(list)
    for status in statuses:
        if not _own(status.context):
            groups[status.context].append(status)
    return [
        max(group, key=lambda status: (status.at or _NEVER, _severity(_class_of(status.state)), status.state))
        for group in groups.values()
    ]


def _severity(kind: str) -> int:
    """Rank classes, so that of two attempts at one moment the worse one counts."""
    return ("passed", "pending", "cancelled", "waiting", "unread", "failing").index(kind)


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))
