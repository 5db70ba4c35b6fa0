"""One cycle of the integrator over one batch: observe, consolidate, advance, open the PR, land (BAT-102, CMD-027)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from droveway.batch import advance, texts
from droveway.batch.consolidate.step import PushRefusedError, consolidate
from droveway.batch.ending import act_ending
from droveway.batch.facts import BatchFacts, observe
from droveway.batch.finish import cancel_decisions, landing_decisions
from droveway.batch.landing import land
from droveway.batch.opening import open_pull
from droveway.batch.pull import ready_for_pull
from droveway.batch.report import CycleReport
from droveway.batch.start import Step, advance_batch
from droveway.core.decisions import Blocker
from droveway.core.facts import FactUnknownError, Unknown
from droveway.core.lease import Lease
from droveway.core.repo import RepoId

if TYPE_CHECKING:
    from droveway.sessions import Fleet

_CAME = re.compile(r"\b(\d+) issues came")
ROUNDS = 12  # more rounds than stages: each but the last has changed something


async def integrate(fleet: Fleet, repo: RepoId, milestone: int, lease: Lease) -> CycleReport:
    """Move a batch on as far as it goes now. One snapshot per round; rounds while what was done may make more possible.

    Raises what the ports raise where nothing could be read; an unknown fact ends the cycle with a blocker.
    """
    report = CycleReport()
    for _ in range(ROUNDS):
        facts = await observe(fleet, repo, milestone)
        try:
            found, step = await _round(fleet, repo, facts, lease)
        except FactUnknownError as error:
            found = CycleReport()
            because = _short_list(facts) or str(error)
            step = Step(waiting=(Blocker("unknown", because, "a whole answer of the forge", "the next cycle"),))
        except PushRefusedError as error:
            found, step = CycleReport(), Step(waiting=(Blocker("push-refused", str(error), "the right", "a person"),))
        report = msgspec.structs.replace(
            found,
            lines=report.lines + step.lines,
            acted=report.acted or step.acted,
            waiting=step.waiting,
        )
        if report.ended or not step.again:
            break
    return report


async def _round(fleet: Fleet, repo: RepoId, facts: BatchFacts, lease: Lease) -> tuple[CycleReport, Step]:
    pull = facts.pull
    if pull is not None and pull.state == "merged":
        step = await act_ending(fleet, landing_decisions(facts), lease)
        return CycleReport(landed=await _closed(fleet, repo, facts)), step
    if pull is not None and pull.state == "closed":
        step = await act_ending(fleet, cancel_decisions(facts, rule="BAT-225"), lease)
        return CycleReport(cancelled=await _closed(fleet, repo, facts)), step
    if facts.milestone.state != "open":
        return CycleReport(closed=True), Step(waiting=advance.gates(facts))
    if advance.gates(facts):
        return CycleReport(), await advance_batch(fleet, repo, facts, lease)
    step = (await consolidate(fleet, repo, facts, lease)).then_again()
    if step.again:
        return CycleReport(), step
    step += await advance_batch(fleet, repo, facts, lease)
    blockers = (*advance.waiting(facts), *ready_for_pull(facts))
    if step.acted or blockers:
        return CycleReport(), step + Step(waiting=blockers)
    if pull is None:
        ended, opened = await open_pull(fleet, repo, facts, lease)
        return CycleReport(landed=ended), step + opened
    return CycleReport(), step + await land(fleet, repo, facts, pull.number, lease)


def _short_list(facts: BatchFacts) -> str:
    """Put it plainly where the forge gave fewer issues than the milestone counts (BAT-111, BAT-216)."""
    came = _CAME.search(facts.issues_fact.reason) if isinstance(facts.issues_fact, Unknown) else None
    if came is None or isinstance(facts.milestone_fact, Unknown):
        return ""
    milestone = facts.milestone_fact.value
    opened, closed = milestone.open_issues, milestone.closed_issues
    return texts.short_list(facts.number, opened + closed, opened, closed, int(came.group(1)))


async def _closed(fleet: Fleet, repo: RepoId, facts: BatchFacts) -> bool:
    """Whether the end is whole: the milestone, which goes last, is closed."""
    if facts.milestone.state != "open":
        return True
    milestone = await fleet.forge.milestone(repo, facts.number)
    return milestone is not None and milestone.state != "open"
