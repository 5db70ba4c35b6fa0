"""What a person does to a batch by hand: dispatch issues, pause, cancel (BAT-105, BAT-224, BAT-228)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from droveway.batch import advance
from droveway.batch.ending import act_ending
from droveway.batch.facts import BatchFacts, is_ours, observe
from droveway.batch.finish import cancel_decisions
from droveway.batch.start import Step, act_starts, start_batch, told, with_slots
from droveway.core.decisions import Decision, SetLabels
from droveway.core.errors import DeclinedError, HerdError, InputError
from droveway.core.facts import FactUnknownError
from droveway.core.keys import Key
from droveway.core.lease import Lease
from droveway.core.repo import RepoId
from droveway.core.vocabulary import PAUSED, Status
from droveway.work import Task, dispatch_decisions

if TYPE_CHECKING:
    from droveway.sessions import Fleet


async def dispatch_issues(
    fleet: Fleet,
    repo: RepoId,
    *,
    lease: Lease,
    issues: Sequence[int] = (),
    batch: int | None = None,
    all_ready: bool = False,
    ignore_limit: bool = False,
) -> list[str]:
    """Start a batch, or ready and failed issues, because a person asks; give a line for each, also for what waits.

    Raises InputError for a number that is no issue of a batch, DeclinedError where a fact is unknown.
    """
    lines: list[str] = []
    wanted: dict[int, set[int]] = defaultdict(set)
    for number in issues:
        wanted[await _batch_of(fleet, repo, number)].add(number)
    if batch is not None and not issues:
        lines += await start_batch(fleet, repo, batch, lease)
        if not all_ready:
            return lines or [f"batch #{batch} is started; nothing is ready"]
    if batch is not None and all_ready:
        wanted[batch] |= set()
    try:
        for milestone, numbers in sorted(wanted.items()):
            facts = await observe(fleet, repo, milestone)
            tasks = _chosen(facts, numbers, all_ready=all_ready and milestone == batch)
            step = await _dispatch(fleet, repo, facts, tasks, lease, ignore_limit=ignore_limit)
            lines += step.lines
            lines += [f"waits: {blocker.because} ({blocker.clears})" for blocker in step.waiting]
    except FactUnknownError as error:
        raise DeclinedError(str(error)) from error
    return lines or ["nothing to dispatch"]


async def _batch_of(fleet: Fleet, repo: RepoId, number: int) -> int:
    issue = await fleet.forge.issue(repo, number)
    if issue is None or not is_ours(issue):
        raise InputError(f"#{number} is no task of ours in {repo}")
    if issue.milestone is None:
        raise InputError(f"#{number} belongs to no batch: give it the milestone of one")
    return issue.milestone


def _chosen(facts: BatchFacts, numbers: set[int], *, all_ready: bool) -> tuple[Task, ...]:
    return tuple(
        task
        for task in facts.tasks
        if task.number in numbers or (all_ready and task.open and task.status in (Status.READY, Status.FAILED))
    )


async def _dispatch(
    fleet: Fleet, repo: RepoId, facts: BatchFacts, tasks: tuple[Task, ...], lease: Lease, *, ignore_limit: bool
) -> Step:
    failed = frozenset(task.number for task in tasks if task.status is Status.FAILED)

    async def start(slots: Lease, facts: BatchFacts) -> Step:
        wanted = msgspec.structs.replace(
            advance.dispatch_facts(facts, tasks), retries=failed, ignore_limit=ignore_limit, by_hand=True
        )
        step = Step()
        for decision in dispatch_decisions(wanted, "BAT-104"):
            number = decision.subject.removeprefix("issue:")
            blockers = tuple(
                msgspec.structs.replace(blocker, because=f"#{number}: {blocker.because}")
                for blocker in decision.blockers
            )
            named = msgspec.structs.replace(decision, blockers=blockers)
            step += await act_starts(fleet, facts, [named], slots, lease)
        return step

    return await with_slots(fleet, repo, facts, start)


async def pause_batch(fleet: Fleet, repo: RepoId, number: int, *, paused: bool, lease: Lease) -> list[str]:
    """Set or clear ``herd/paused``: on the PR, or before one is open on the batch's first open issue (BAT-228)."""
    try:
        facts = await observe(fleet, repo, number)
        decision = pause_decision(facts, paused=paused)
    except FactUnknownError as error:
        raise DeclinedError(str(error)) from error
    if decision is None:
        return [f"batch #{number} is {'paused' if paused else 'not paused'} already"]
    outcome = await fleet.actuator.act(decision, lease, loop="hand")
    if not outcome.ok and not fleet.actuator.dry_run:
        raise HerdError("; ".join(told(outcome).lines) or f"batch #{number} could not be changed")
    would = "would be " if fleet.actuator.dry_run else ""
    return [f"batch #{number} {would}{'paused' if paused else 'resumed'}"]


def pause_decision(facts: BatchFacts, *, paused: bool) -> Decision | None:
    """Give the label's change; None where it is as wanted."""
    if facts.paused == paused:
        return None
    pull = facts.pull
    carriers = [pull.number] if pull and pull.open and (paused or PAUSED in pull.labels) else []
    if paused and not carriers:
        carriers = [task.number for task in facts.tasks if task.open][:1]
    if not paused:
        carriers += [issue.number for issue in facts.issues if PAUSED in issue.labels]
    if not carriers:
        return None
    actions = tuple(
        SetLabels(
            facts.repo,
            str(Key("BAT-228", facts.repo, facts.subject, "-", f"{'pause' if paused else 'resume'}-{number}")),
            number,
            add=(PAUSED,) if paused else (),
            remove=() if paused else (PAUSED,),
        )
        for number in carriers
    )
    word = "pauses" if paused else "resumes"
    return Decision("BAT-228", facts.repo, facts.subject, (f"a person {word} the batch",), actions=actions)


async def cancel_batch(fleet: Fleet, repo: RepoId, number: int, lease: Lease) -> list[str]:
    """Cancel a batch for good (BAT-224)."""
    try:
        facts = await observe(fleet, repo, number)
        if facts.milestone.state != "open":
            raise InputError(f"batch #{number} has ended already")
        step = await act_ending(fleet, cancel_decisions(facts), lease)
    except FactUnknownError as error:
        raise DeclinedError(str(error)) from error
    return list(step.lines) or [f"batch #{number} is cancelled"]
