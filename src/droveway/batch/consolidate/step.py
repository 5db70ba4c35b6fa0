"""Acting on a consolidation: the push, redone on a fresh fetch where a race was lost, then what did not merge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from droveway.batch.consolidate import rules
from droveway.batch.consolidate.facts import SweepFacts, observe_sweep
from droveway.batch.facts import BatchFacts
from droveway.batch.start import LOOP, Step, apply, told
from droveway.core.actuator import ActionResult
from droveway.core.decisions import Blocker
from droveway.core.errors import HerdError
from droveway.core.lease import Lease
from droveway.core.points import point
from droveway.core.repo import RepoId

if TYPE_CHECKING:
    from droveway.sessions import Fleet

_TRIES = 3


class PushRefusedError(HerdError):
    """The forge refuses the push for good (protection, a missing right, authentication): all stops (BAT-184)."""


async def consolidate(fleet: Fleet, repo: RepoId, facts: BatchFacts, lease: Lease) -> Step:
    """Merge what is done, and decide what follows for each branch that does not merge (BAT-180 … BAT-187).

    Raises PushRefusedError for a rejection that a retry can't help; GitError where git or the forge did not answer.
    """
    step = Step()
    found: SweepFacts | None = None
    reason = ""
    for _ in range(_TRIES):
        found = await observe_sweep(fleet, repo, facts)
        if found is None:
            return step
        if found.tip is None:
            because = f"{facts.branch} is not there any more"
            return step + Step(waiting=(Blocker("branch-gone", because, "the next cycle", "the Integrator"),))
        await point("consolidate.swept")
        pushed, reason = await _push(fleet, facts, found, lease)
        step += pushed
        if not reason:
            return step + await _rest(fleet, facts, found, lease)
    return step + (await apply(fleet, rules.rejected_decisions(facts, found, reason), lease) if found else Step())


async def _push(fleet: Fleet, facts: BatchFacts, found: SweepFacts, lease: Lease) -> tuple[Step, str]:
    """Push what merged; give what was done and, where the race was lost, the reason."""
    decision = rules.push_decision(facts, found)
    if decision is None:
        return Step(), ""
    outcome = await fleet.actuator.act(decision, lease, loop=LOOP)
    result = outcome.results[0]
    if result.outcome == "failed" and result.kind == "rejected":
        # A forge may refuse deletions in a push: the batch branch alone then; the rest is contained, and goes later.
        alone = rules.push_decision(facts, found, deletions=False)
        if alone is not None:
            outcome = await fleet.actuator.act(alone, lease, loop=LOOP)
            result = outcome.results[0]
        else:
            return told(outcome), ""
    step = told(outcome)
    if result.outcome == "stale" or (result.outcome == "failed" and result.kind == "lost-race"):
        return step, result.detail or "the branch moved meanwhile"
    if result.outcome == "failed":
        raise PushRefusedError(_refusal(facts, result))
    await point("consolidate.pushed")
    return step, ""


def _refusal(facts: BatchFacts, result: ActionResult) -> str:
    return f"{facts.branch} can't be pushed ({result.kind}): {result.detail}"


async def _rest(fleet: Fleet, facts: BatchFacts, found: SweepFacts, lease: Lease) -> Step:
    """Handle conflicts, failures, origins and warnings; none of them stops the others."""
    warning = rules.warning_decision(facts, found)
    decisions = [
        *rules.settle_decisions(facts, found),
        *rules.failure_decisions(facts, found),
        *rules.conflict_decisions(facts, found),
        *([warning] if warning else ()),
    ]
    return await apply(fleet, decisions, lease)
