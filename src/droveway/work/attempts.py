"""Attempts: the forge-side record of every worker's run, one comment each (BAT-124, BAT-162)."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import msgspec

from droveway.core.jobs import ACTIVE, JobInfo
from droveway.core.keys import Key, find_marker, marker
from droveway.forge import Comment


class AttemptOutcome(enum.StrEnum):
    """How an attempt ended."""

    SUCCESS = "success"
    NOOP = "noop"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    LOST = "lost"
    REJECTED = "rejected"  # a success whose result went back to failed (BAT-183, BAT-213)


SUCCEEDED = frozenset({AttemptOutcome.SUCCESS, AttemptOutcome.NOOP})
COUNTED = frozenset({AttemptOutcome.FAILED, AttemptOutcome.TIMED_OUT, AttemptOutcome.LOST, AttemptOutcome.REJECTED})


class Attempt(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the marker holds; times are UTC. ``run`` is the job's id, ``validated_tree`` the tree that passed (BAT-154).

    ``by_hand`` says that a person asked for it, which restarts the count of failures (MON-007).
    """

    attempt: int
    run: str
    branch: str
    mode: str = "batch"
    started_at: datetime | None = None
    deadline: datetime | None = None
    ended_at: datetime | None = None
    outcome: AttemptOutcome | None = None
    validated_tree: str | None = None
    by_hand: bool = False
    version: int = 1


class AttemptComment(msgspec.Struct, frozen=True):
    """An attempt as it was found: its record and the comment that holds it."""

    record: Attempt
    comment: int
    body: str


def attempt_key(repo: str, issue: int, attempt: int) -> str:
    """Give the key of an attempt's comment."""
    return str(Key("BAT-124", repo, f"issue:{issue}", "-", str(attempt)))


def job_id(repo: str, issue: int, attempt: int) -> str:
    """Give the id of an attempt's job: one run per attempt, whoever asks for it (BAT-108)."""
    return f"{job_prefix(repo, issue)}{attempt}"


def job_prefix(repo: str, issue: int | None = None) -> str:
    """Give what the ids of an issue's jobs, or of all worker jobs of a repository, start with."""
    return f"worker/{repo}/" if issue is None else f"worker/{repo}/{issue}/"


def job_attempt(id_: str) -> tuple[int, int] | None:
    """Give ``(issue, attempt)`` of a worker job's id, or None."""
    parts = id_.rsplit("/", 2)
    if not id_.startswith("worker/") or len(parts) != 3 or not (parts[1].isdigit() and parts[2].isdigit()):
        return None
    return int(parts[1]), int(parts[2])


def attempt_marker(record: Attempt) -> str:
    """Render the marker (version and attempt always stand in it)."""
    plain = {"version": record.version, **msgspec.to_builtins(record)}
    return marker("attempt", plain)


def read_attempts(comments: Iterable[Comment]) -> tuple[AttemptComment, ...]:
    """Give the attempts of an issue in their order; only comments of our own identity count (BAT-004)."""
    found: dict[int, AttemptComment] = {}
    for comment in comments:
        payload = find_marker(comment.body, "attempt") if comment.ours else None
        if payload is None:
            continue
        try:
            record = msgspec.convert(payload, Attempt)
        except msgspec.ValidationError:
            continue
        found.setdefault(record.attempt, AttemptComment(record, comment.id, comment.body))
    return tuple(found[number] for number in sorted(found))


def highest_attempt(
    issue: int, jobs: Iterable[JobInfo], attempts: Sequence[AttemptComment] = (), known: int = 0
) -> int:
    """Give the highest attempt number of an issue that the engine or the forge knows; 0 for none."""
    by_job = [pair[1] for job in jobs if (pair := job_attempt(job.id)) and pair[0] == issue]
    return max([known, *by_job, *(found.record.attempt for found in attempts)])


def settled(record: Attempt, jobs: Iterable[JobInfo]) -> Attempt:
    """Give the record with its outcome: one without outcome and without an active run is lost (BAT-124)."""
    if record.outcome is not None or any(job.id == record.run and job.state in ACTIVE for job in jobs):
        return record
    return msgspec.structs.replace(record, outcome=AttemptOutcome.LOST)


def failures(attempts: Sequence[AttemptComment], jobs: Sequence[JobInfo] = ()) -> int:
    """Count the failures since the last success or the last start by a person (MON-007)."""
    count = 0
    for found in attempts:
        record = settled(found.record, jobs)
        if record.by_hand or record.outcome in SUCCEEDED:
            count = 0
        if record.outcome in COUNTED:
            count += 1
    return count


def utc(moment: datetime) -> datetime:
    """Give a moment in UTC with whole seconds, as markers hold it."""
    return moment.astimezone(UTC).replace(microsecond=0)
