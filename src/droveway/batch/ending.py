"""Acting on a batch's end: each decision on its own, the milestone only when all the others hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from droveway.batch.start import LOOP, Step, told
from droveway.core.decisions import CloseMilestone, Decision, EditIssue, MoveRefs
from droveway.core.lease import Lease
from droveway.core.points import point

if TYPE_CHECKING:
    from droveway.sessions import Fleet


async def act_ending(fleet: Fleet, decisions: Sequence[Decision], lease: Lease) -> Step:
    """Act in order. A failure leaves the milestone open, so that the next cycle completes the end."""
    step, whole = Step(), True
    for decision in decisions:
        kinds = {type(action) for action in decision.actions}
        if CloseMilestone in kinds and not whole:
            break
        outcome = await fleet.actuator.act(decision, lease, loop=LOOP)
        step += told(outcome)
        whole = whole and (outcome.ok or fleet.actuator.dry_run)
        if EditIssue in kinds:
            await point("land.closed")
        if MoveRefs in kinds:
            await point("land.cleaned")
    return step
