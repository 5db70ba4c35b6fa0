"""Acting on the rules of ``pull``: the base in, then the PR."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from droveway.batch.ending import act_ending
from droveway.batch.facts import BatchFacts
from droveway.batch.finish import nothing_decisions
from droveway.batch.pull import base_decision, notice_decision, observe_base, open_decision
from droveway.batch.start import LOOP, Step, apply, told
from droveway.core.decisions import Blocker, OpenPull
from droveway.core.facts import Complete
from droveway.core.lease import Lease
from droveway.core.points import point
from droveway.core.repo import RepoId
from droveway.git import Conflict

if TYPE_CHECKING:
    from droveway.sessions import Fleet


async def open_pull(fleet: Fleet, repo: RepoId, facts: BatchFacts, lease: Lease) -> tuple[bool, Step]:
    """Open the batch PR, one step per round: the base first. Gives whether the batch has ended with nothing to land."""
    found = await observe_base(fleet, repo, facts)
    if found is None:
        because = f"{facts.branch} or the base {facts.repository.default_branch} is not there"
        return False, Step(waiting=(Blocker("branch-gone", because, "the next cycle", "the Integrator"),))
    if not found.changed:
        step = await act_ending(fleet, nothing_decisions(facts, found.base), lease)
        milestone = await fleet.forge.milestone(repo, facts.number)
        return milestone is not None and milestone.state != "open", step
    merging = base_decision(facts, found)
    conflict = isinstance(found.merge, Conflict)
    if merging is not None and (not conflict or merging.rule == "BAT-191"):
        step = (await apply(fleet, [merging], lease)).then_again()
        because = f"{found.base} is brought into {facts.branch} first"
        return False, step + Step(waiting=(Blocker("base", because, "its end", "the Integrator"),))
    outcome = await fleet.actuator.act(open_decision(facts, found), lease, loop=LOOP)
    step = told(outcome).then_again()
    await point("pull.opened")
    receipt = outcome.receipt(OpenPull)
    if conflict and receipt and receipt.number:
        # With people or the cap in charge the PR opens in conflict, and says where to act (BAT-194).
        notice = notice_decision(facts, receipt.number, found)
        pull = await fleet.forge.pull(repo, receipt.number)
        labelled = msgspec.structs.replace(facts, pull_fact=Complete(pull, facts.at)) if pull else facts
        more = base_decision(labelled, found)
        step += await apply(fleet, [d for d in (notice, more) if d is not None and d.rule != "BAT-191"], lease)
    return False, step
