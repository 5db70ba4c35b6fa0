"""Why an issue is where it is, in words: what ``herd why`` prints for one (CLI-005)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from droveway.core.decisions import Blocker
from droveway.core.jobs import ACTIVE, JobInfo, JobState
from droveway.core.keys import message_kind
from droveway.core.vocabulary import PREFIXES, Message, Status
from droveway.forge.model import Comment
from droveway.work.attempts import SUCCEEDED, AttemptComment, failures, job_attempt, settled
from droveway.work.dispatch import DispatchFacts, active_workers, blockers, free_slots
from droveway.work.task import Task


class Why(msgspec.Struct, frozen=True):
    """One line of the state, the facts behind it, and every blocker with what would clear it and who can."""

    state: str
    facts: tuple[str, ...] = ()
    blockers: tuple[Blocker, ...] = ()


def why_issue(
    task: Task,
    facts: DispatchFacts,
    attempts: Sequence[AttemptComment] = (),
    *,
    now: datetime,
    next_retry: datetime | None = None,
) -> Why:
    """Explain one issue. ``next_retry`` is when the Monitor's backoff ends, where it is known."""
    jobs = [job for job in facts.jobs if (pair := job_attempt(job.id)) and pair[0] == task.number]
    active = active_workers(facts.repo, facts.jobs).get(task.number)
    lines = [f"#{task.number} {task.title}", *(_attempt(found, jobs) for found in attempts)]
    if not task.open:
        return Why("closed: it counts as complete, whatever its labels (BAT-101)", tuple(lines))
    if active is not None:
        return Why(_running(active, now), tuple(lines), blockers(task, facts))
    found = list(blockers(task, facts))
    match task.status:
        case Status.DONE:
            return Why("done: its branch is merged by the next consolidation", tuple(lines))
        case Status.CANCELLED:
            return Why("cancelled: final", tuple(lines))
        case Status.IN_PROGRESS:
            state = "in progress without a run: the next patrol starts it or marks it failed"
        case Status.FAILED:
            count = failures(attempts, facts.jobs)
            state = f"failed, {count} {'failure' if count == 1 else 'failures'} in a row"
            if next_retry is not None:
                state += f"; retried {'now' if next_retry <= now else f'at {next_retry:%H:%M} UTC'}"
        case Status.BLOCKED:
            state = "blocked: a dependency is open"
        case Status.READY:
            state = "ready: it starts as soon as nothing below stands against it"
            if not found and not facts.ignore_limit and free_slots(facts.settings, _busy(facts)) == 0:
                limit = facts.settings.workers.max_concurrent
                found.append(Blocker("no-slot", f"all {limit} worker slots are taken", "the end of a worker", "time"))
        case _:
            state = "without exactly one status: repaired from the facts by the next patrol (BAT-058)"
    return Why(state, tuple(lines), tuple(found))


def last_failure(comments: Iterable[Comment]) -> str:
    """Give the reason in the newest "worker failed" comment of ours, on one line; nothing where there is none."""
    reason = ""
    for comment in comments:
        if comment.ours and message_kind(comment.body) == Message.WORKER_FAILED:
            reason = comment.body.partition("\n\n")[0].removeprefix(PREFIXES[Message.WORKER_FAILED])
    return " ".join(reason.split())


def _busy(facts: DispatchFacts) -> int:
    return len(active_workers(facts.repo, facts.jobs))


def _running(job: JobInfo, now: datetime) -> str:
    if job.state is JobState.QUEUED or job.started_at is None:
        return f"queued: its run {job.id} waits for a worker"
    minutes = max(int((now - job.started_at).total_seconds() // 60), 0)
    return f"running for {minutes} min: {job.id} on {job.executor or 'a worker'}"


def _attempt(found: AttemptComment, jobs: Sequence[JobInfo]) -> str:
    record = settled(found.record, jobs)
    if record.outcome is None:
        running = any(job.id == record.run and job.state in ACTIVE for job in jobs)
        return f"attempt {record.attempt}: {'running' if running else 'no outcome yet'}"
    ended = f" at {record.ended_at:%Y-%m-%d %H:%M} UTC" if record.ended_at else ""
    good = "" if record.outcome in SUCCEEDED else " (counts as a failure unless a person cancelled it)"
    return f"attempt {record.attempt}: {record.outcome.value.replace('_', ' ')}{ended}{good}"
