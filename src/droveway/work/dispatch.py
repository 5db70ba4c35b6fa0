"""Which issues start a worker now, and which do not and why: pure rules (BAT-104 … BAT-112, BAT-240)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from droveway.core.decisions import AnyAction, Blocker, Comment, Decision, SetStatus, StartJob
from droveway.core.jobs import ACTIVE, Job, JobInfo, JobState
from droveway.core.keys import Key
from droveway.core.settings import Settings
from droveway.core.vocabulary import Message, Status
from droveway.work import texts
from droveway.work.attempts import SUCCEEDED, highest_attempt, job_attempt, job_id, job_prefix
from droveway.work.task import Author, Task

GRACE = timedelta(minutes=2)


class BatchView(msgspec.Struct, frozen=True):
    """What dispatch knows of a batch. ``started``: its branch exists (BAT-240), None where that is unknown."""

    number: int
    branch: str
    author: Author
    open: bool = True
    paused: bool = False
    started: bool | None = True


class DispatchFacts(msgspec.Struct, frozen=True):
    """What the rules decide from.

    ``tasks`` are those that the caller would like to start: their tier is due, or somebody asks. ``retries`` names the
    failed ones among them that may start again. ``jobs`` are the worker jobs of the repository that the engine knows,
    of any state; ``attempts`` the highest attempt number per issue that was read from comments. ``by_hand``: a person
    asks, which restarts the count of failures.
    """

    repo: str
    settings: Settings
    batches: tuple[BatchView, ...]
    tasks: tuple[Task, ...]
    jobs: tuple[JobInfo, ...]
    retries: frozenset[int] = frozenset()
    attempts: Mapping[int, int] = {}
    blocked_by: Mapping[int, tuple[int, ...]] = {}
    ignore_limit: bool = False
    by_hand: bool = False


def active_workers(repo: str, jobs: Iterable[JobInfo]) -> dict[int, JobInfo]:
    """Give the queued or running worker job per issue."""
    prefix = job_prefix(repo)
    return {
        pair[0]: job
        for job in jobs
        if job.id.startswith(prefix) and job.state in ACTIVE and (pair := job_attempt(job.id))
    }


def free_slots(settings: Settings, active: int) -> int:
    """Give how many workers may start (BAT-106); ``active`` are those queued or running, of all batches."""
    return max(settings.workers.max_concurrent - active, 0)


def order(tasks: Sequence[Task], busy: Mapping[int, int] | None = None) -> tuple[Task, ...]:
    """Give the order of start: priority, then round-robin over batches, then number (BAT-107).

    ``busy`` counts the workers that a batch has already: one with fewer comes first.
    """
    turns: dict[int, int] = defaultdict(int)
    ranked = []
    for task in sorted(tasks, key=lambda t: (-t.front.priority, t.number)):
        batch = task.milestone or 0
        ranked.append((-task.front.priority, turns[batch] + (busy or {}).get(batch, 0), task.number, task))
        turns[batch] += 1
    return tuple(row[-1] for row in sorted(ranked, key=lambda row: row[:-1]))


def blockers(task: Task, facts: DispatchFacts) -> tuple[Blocker, ...]:
    """Give all reasons, in words, why this task does not start, slots aside."""
    batch = next((b for b in facts.batches if b.number == task.milestone), None)
    active = active_workers(facts.repo, facts.jobs).get(task.number)
    waits = facts.blocked_by.get(task.number, ())
    retry = task.status is Status.FAILED and task.number in facts.retries
    found = [
        (task.manual, Blocker("manual", "it is a person's task", "close it, or give it the done label", "a person")),
        (not task.open, Blocker("closed", "the issue is closed", "reopen it", "a person")),
        (
            task.open and task.status is not Status.READY and not retry,
            Blocker("status", texts.status_because(task), *texts.status_clears(task.status)),
        ),
        (
            bool(task.unreadable),
            Blocker("unreadable", task.unreadable, "mend the block at the top of the body", "a person"),
        ),
        (
            bool(waits),
            Blocker("blocked", texts.waits_for(waits), "their end; herd why tells it of each", "whoever they wait for"),
        ),
        (active is not None, Blocker("active", texts.has_run(active), "its end", "the worker")),
        (batch is None, Blocker("no-batch", "it belongs to no batch that is open", "give it a milestone", "a person")),
    ]
    if batch is not None:
        found += [
            (not batch.open, Blocker("batch-closed", "the milestone is closed", "reopen it", "a person")),
            (batch.paused, Blocker("paused", "the batch is paused", "herd batch resume", "a person")),
            (
                batch.started is None,
                Blocker(
                    "unknown", "whether the batch branch exists is unknown", "an answer of the forge", "the next tick"
                ),
            ),
            (
                batch.started is False,
                Blocker("not-started", "the batch is not started", f"herd dispatch --batch {batch.number}", "a person"),
            ),
        ]
    return tuple(blocker for holds, blocker in found if holds)


def dispatch_decisions(facts: DispatchFacts, rule: str = "BAT-110") -> tuple[Decision, ...]:
    """Give one decision per task, in the order of start: its actions, or all its blockers.

    The actions are the status, then the job: where the label can't be written no run is started (BAT-109).
    """
    active = active_workers(facts.repo, facts.jobs)
    busy: dict[int, int] = defaultdict(int)
    for job in active.values():
        batch = job.args.get("batch")
        if isinstance(batch, int):
            busy[batch] += 1
    free = free_slots(facts.settings, len(active))
    decisions = []
    for task in order(facts.tasks, busy):
        found = blockers(task, facts)
        if not found and free <= 0 and not facts.ignore_limit:
            limit = facts.settings.workers.max_concurrent
            found = (
                Blocker("no-slot", f"all {limit} worker slots are taken", "the end of a worker", "the Integrator"),
            )
        if found:
            decisions.append(_decision(rule, facts.repo, task, found))
            continue
        free -= 1
        attempt = highest_attempt(task.number, facts.jobs, known=facts.attempts.get(task.number, 0)) + 1
        decisions.append(_decision(rule, facts.repo, task, (), start_actions(facts, task, attempt)))
    return tuple(decisions)


def start_actions(facts: DispatchFacts, task: Task, attempt: int) -> tuple[AnyAction, ...]:
    """Give the actions that start an attempt: the status, then the job."""
    batch = next(b for b in facts.batches if b.number == task.milestone)
    key = Key("BAT-105", facts.repo, f"issue:{task.number}", "-", str(attempt))
    minutes = task.front.timeout_minutes or facts.settings.workers.timeout_minutes
    expected = (Status.FAILED,) if task.number in facts.retries and task.status is Status.FAILED else (Status.READY,)
    job = Job(
        id=job_id(facts.repo, task.number, attempt),
        kind="worker",
        subject=f"issue:{task.number}",
        args={
            "repo": facts.repo,
            "issue": task.number,
            "batch": batch.number,
            "branch": task.branch,
            "batch_branch": batch.branch,
            "mode": "batch",
            "attempt": attempt,
            "timeout_minutes": minutes,
            "author": {"name": batch.author.name, "email": batch.author.email},
            "by_hand": facts.by_hand,
        },
        priority=max(100 - task.front.priority, 1),
        deadline_seconds=minutes * 60.0,
    )
    return (
        SetStatus(repo=facts.repo, key=f"{key}.status", issue=task.number, to=Status.IN_PROGRESS, expected=expected),
        StartJob(repo=facts.repo, key=str(key), job=job),
    )


def start_refused(repo: str, task: Task, attempt: int, reason: str) -> Decision:
    """Give what follows a start that was refused: in-progress → failed, with a comment (BAT-109)."""
    key = Key("BAT-109", repo, f"issue:{task.number}", "-", str(attempt))
    return _decision(
        "BAT-109",
        repo,
        task,
        (),
        (
            SetStatus(
                repo=repo, key=f"{key}.status", issue=task.number, to=Status.FAILED, expected=(Status.IN_PROGRESS,)
            ),
            Comment(
                repo=repo,
                key=str(key),
                number=task.number,
                message=Message.WORKER_FAILED,
                body=texts.worker_failed(f"its run could not be started: {reason}", "nothing was done", retry=None),
            ),
        ),
    )


class RepairFacts(msgspec.Struct, frozen=True):
    """What the repair of orphaned issues decides from; ``changed_at`` is when an issue last changed (or absent)."""

    dispatch: DispatchFacts
    now: datetime
    changed_at: Mapping[int, datetime] = {}


def repair_decisions(facts: RepairFacts) -> tuple[Decision, ...]:
    """Give what is to be done with issues in progress that have no active run (MON-004, MON-005, BAT-108).

    A run that never existed is started, with the same attempt: the label was written and the start was not. A run that
    has ended without settling its issue is settled by its result. A run that ended within the grace is left alone.
    """
    dispatch = facts.dispatch
    active = active_workers(dispatch.repo, dispatch.jobs)
    decisions = []
    for task in dispatch.tasks:
        if task.status is not Status.IN_PROGRESS or not task.open or task.number in active or task.manual:
            continue
        jobs = [job for job in dispatch.jobs if (pair := job_attempt(job.id)) and pair[0] == task.number]
        last = max(jobs, key=lambda job: (job_attempt(job.id) or (0, 0))[1], default=None)
        known = dispatch.attempts.get(task.number, 0)
        if last is None and known == 0:
            decisions.append(_restart(facts, task))
        elif last is None or (job_attempt(last.id) or (0, 0))[1] < known:
            if _aged(facts, task.number, None):  # another machine's engine may know the run: wait for its end
                decisions.append(_lost(dispatch.repo, task, known, "its run is not known to the engine any more"))
        elif _aged(facts, task.number, last.ended_at):
            decisions.append(_settle(dispatch.repo, task, last))
    return tuple(decisions)


def _aged(facts: RepairFacts, issue: int, ended: datetime | None) -> bool:
    since = max((moment for moment in (ended, facts.changed_at.get(issue)) if moment), default=None)
    return since is None or facts.now - since >= GRACE


def _restart(facts: RepairFacts, task: Task) -> Decision:
    rule, dispatch = "BAT-108", facts.dispatch
    found = tuple(b for b in blockers(task, dispatch) if b.code != "status")
    if found:
        return _decision(rule, dispatch.repo, task, found)
    actions = tuple(action for action in start_actions(dispatch, task, 1) if isinstance(action, StartJob))
    return _decision(rule, dispatch.repo, task, (), actions, "it is in progress and its run never existed")


def _settle(repo: str, task: Task, job: JobInfo) -> Decision:
    outcome = job.result.get("outcome") if isinstance(job.result, dict) else None
    attempt = (job_attempt(job.id) or (0, 0))[1]
    if job.state is JobState.DONE and outcome in {str(done) for done in SUCCEEDED}:
        key = Key("MON-004", repo, f"issue:{task.number}", "-", str(attempt))
        done = SetStatus(repo=repo, key=str(key), issue=task.number, to=Status.DONE, expected=(Status.IN_PROGRESS,))
        return _decision("MON-004", repo, task, (), (done,), f"its run {job.id} ended with {outcome}")
    return _lost(repo, task, attempt, f"its run {job.state.value}: {job.error or outcome or 'no result'}")


def _lost(repo: str, task: Task, attempt: int, reason: str) -> Decision:
    key = Key("MON-004", repo, f"issue:{task.number}", "-", str(attempt))
    comment = Comment(
        repo=repo,
        key=str(key),
        number=task.number,
        message=Message.WORKER_FAILED,
        body=texts.worker_failed(reason, "pushed work stays on the branch", retry=None),
    )
    failed = SetStatus(
        repo=repo, key=f"{key}.status", issue=task.number, to=Status.FAILED, expected=(Status.IN_PROGRESS,)
    )
    return _decision("MON-004", repo, task, (), (failed, comment), reason)


def _decision(
    rule: str, repo: str, task: Task, found: tuple[Blocker, ...], actions: tuple[AnyAction, ...] = (), fact: str = ""
) -> Decision:
    status = task.status.value if task.status else "without one status"
    facts = (f"#{task.number} is {status}", *((fact,) if fact else ()))
    return Decision(rule, repo, f"issue:{task.number}", facts, found, actions)
