"""The integrator's steps one by one, and a worker's job made by hand (CMD-037, CMD-038)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from droveway.batch import advance
from droveway.batch.consolidate.step import PushRefusedError, consolidate
from droveway.batch.facts import observe
from droveway.batch.land import observe_land, review_decision
from droveway.batch.landing import merge_batch
from droveway.batch.opening import open_pull
from droveway.batch.pull import ready_for_pull
from droveway.batch.report import CycleReport
from droveway.batch.start import Step, advance_batch, apply
from droveway.core.decisions import Decision, SetStatus, StartJob
from droveway.core.errors import DeclinedError, HerdError, InputError
from droveway.core.facts import FactUnknownError
from droveway.core.jobs import Job
from droveway.core.lease import Lease
from droveway.core.repo import RepoId
from droveway.core.vocabulary import Status, branch_batch
from droveway.work import dispatch_decisions, job_attempt

if TYPE_CHECKING:
    from droveway.sessions import Fleet

STEPS = ("consolidate", "advance", "review", "merge")


async def batch_of(
    fleet: Fleet, repo: RepoId, *, batch: int | None = None, run_id: str | None = None, pull: int | None = None
) -> int:
    """Give the batch that is meant: by number, by its PR's head branch, or by a worker's run (BAT-176)."""
    if batch is not None:
        return batch
    if pull is not None:
        found = await fleet.forge.pull(repo, pull)
        number = branch_batch(found.head) if found and found.head_repo == str(repo) else None
        if number is None:
            raise InputError(f"#{pull} is no batch PR of {repo}")
        return number
    pair = job_attempt(run_id or "")
    issue = await fleet.forge.issue(repo, pair[0]) if pair else None
    if issue is None or issue.milestone is None:
        raise InputError(f"{run_id!r} is no worker run of a batch: write worker/{repo}/ISSUE/ATTEMPT")
    return issue.milestone


async def integrate_step(fleet: Fleet, repo: RepoId, number: int, step: str, lease: Lease) -> CycleReport:
    """Do one step of the cycle and say what it did and what is waited for.

    Raises InputError for an unknown step, DeclinedError where a fact is unknown, HerdError where the forge refuses.
    """
    try:
        match step:
            case "consolidate":
                done = await consolidate(fleet, repo, await observe(fleet, repo, number), lease)
            case "advance":
                done = await _advance(fleet, repo, number, lease)
            case "review":
                done = await _review(fleet, repo, number, lease)
            case "merge":
                pull = (await observe(fleet, repo, number)).pull
                if pull is None:
                    raise InputError(f"batch #{number} has no PR")
                done = Step(tuple(await merge_batch(fleet, repo, pull.number, lease)), acted=True)
            case _:
                raise InputError(f"unknown step {step!r}: one of {', '.join(STEPS)}")
    except FactUnknownError as error:
        raise DeclinedError(str(error)) from error
    except PushRefusedError as error:
        raise HerdError(str(error)) from error
    return CycleReport(lines=done.lines, acted=done.acted, waiting=done.waiting)


async def _advance(fleet: Fleet, repo: RepoId, number: int, lease: Lease) -> Step:
    facts = await observe(fleet, repo, number)
    step = await advance_batch(fleet, repo, facts, lease)
    if advance.gates(facts) or step.acted:
        return step
    blockers = (*advance.waiting(facts), *ready_for_pull(facts))
    if blockers or facts.pull is not None:
        return step + Step(waiting=blockers)
    return step + (await open_pull(fleet, repo, facts, lease))[1]


async def _review(fleet: Fleet, repo: RepoId, number: int, lease: Lease) -> Step:
    facts = await observe(fleet, repo, number)
    pull = facts.pull
    seen = await observe_land(fleet, repo, facts, pull.number) if pull and pull.open else None
    if seen is None:
        raise InputError(f"batch #{number} has no open PR")
    decision = review_decision(facts, seen)
    return await apply(fleet, [decision], lease) if decision else Step()


async def worker_job(fleet: Fleet, repo: RepoId, number: int) -> Job:
    """Make the job of one issue's next attempt and mark the issue in progress; whoever asks runs it (BAT-122).

    Raises InputError for what is no task of a batch, HerdError with every reason why it may not start.
    """
    issue = await fleet.forge.issue(repo, number)
    if issue is None or issue.milestone is None:
        raise InputError(f"#{number} is no task of a batch in {repo}")
    try:
        facts = await observe(fleet, repo, issue.milestone)
        task = next((task for task in facts.tasks if task.number == number), None)
        if task is None:
            raise InputError(f"#{number} is no task of ours")
        retries = frozenset([number] if task.status is Status.FAILED else [])
        wanted = msgspec.structs.replace(
            advance.dispatch_facts(facts, (task,)), retries=retries, ignore_limit=True, by_hand=True
        )
        (decision,) = dispatch_decisions(wanted, "BAT-122")
    except FactUnknownError as error:
        raise DeclinedError(str(error)) from error
    if decision.blockers:
        raise HerdError("\n".join(f"#{number}: {b.because} ({b.clears})" for b in decision.blockers))
    status = tuple(action for action in decision.actions if isinstance(action, SetStatus))
    job = next(action.job for action in decision.actions if isinstance(action, StartJob))
    marking = Decision("BAT-122", str(repo), f"issue:{number}", ("a person runs it here",), actions=status)
    outcome = await fleet.actuator.act(marking, Lease.unshared(f"exec/{repo}/{number}"), loop="hand")
    if not outcome.ok:
        raise HerdError(f"#{number} could not be marked: {outcome.results[0].detail}")
    return job
