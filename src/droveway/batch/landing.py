"""Landing the open batch PR: the review that is due, then the merge, if the settings leave it to the fleet (REV-090 …).

``land_blockers`` is the whole ladder, for the loop and for ``herd why`` alike.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from droveway.batch import advance
from droveway.batch.facts import BatchFacts, observe
from droveway.batch.land import (
    LandFacts,
    merge_action,
    observe_land,
    review_decision,
    review_gates,
    review_prefix,
)
from droveway.batch.pull import ready_for_pull
from droveway.batch.start import LOOP, Step, told
from droveway.core.decisions import Blocker, Decision, StartJob
from droveway.core.errors import DeclinedError, HerdError, InputError
from droveway.core.facts import Complete, Fact, FactUnknownError, Unknown
from droveway.core.lease import Lease
from droveway.core.points import point
from droveway.core.repo import RepoId
from droveway.core.vocabulary import CASCADE_FAILED, PAUSED, STABLE_DISAGREEMENT, Status, branch_batch
from droveway.forge import ForgeError, Protection, readiness_of
from droveway.forge.model import TRUSTED_ASSOCIATIONS, ReviewState
from droveway.review import ReviewStatus

if TYPE_CHECKING:
    from droveway.sessions import Fleet

_HOLDS = (STABLE_DISAGREEMENT, CASCADE_FAILED, PAUSED)
# REV-094 names what landing needs; these are other rooms' questions, or the forge's, which says BLOCKED then.
_NOT_ASKED = frozenset({"threads-unresolved", "threads-unknown", "review-requested"})
_CI_CODES = ("check-", "checks-", "optional-check-")


class MergeFacts(msgspec.Struct, frozen=True):
    """What the base branch demands, read just now."""

    protection: Fact[Protection]


async def observe_merge(fleet: Fleet, repo: RepoId, facts: BatchFacts, seen: LandFacts) -> MergeFacts:
    """Read the protection of the PR's base; a failed read is unknown, which is a no."""
    del facts
    now = fleet.clock.now()
    try:
        return MergeFacts(Complete(await fleet.forge.protection(repo, seen.pull.base), now))
    except ForgeError as error:
        return MergeFacts(Unknown(str(error), now))


def land_blockers(
    facts: BatchFacts, seen: LandFacts, merge: MergeFacts | None, *, by_hand: bool = False
) -> tuple[Blocker, ...]:
    """Give every reason why the open PR is not merged now (REV-094, REV-100). ``by_hand``: a person asks (REV-096)."""
    found = [*review_blockers(facts, seen), *_holds(facts, seen)]
    if not facts.settings.pull_requests.auto_merge and not by_hand:
        number = seen.pull.number
        because = "pull_requests.auto_merge is off: a person decides"
        found.append(
            Blocker("auto-merge-off", because, f"merge #{number} on the forge, or herd integrator merge", "a person")
        )
    if not by_hand:  # a person who merges answers by it
        found += _criteria(facts, seen)
    if merge is not None:
        found += _readiness(facts, seen, merge)
    return tuple(found)


def review_blockers(facts: BatchFacts, seen: LandFacts) -> tuple[Blocker, ...]:
    """Say what the agent review still asks for, where it is on (REV-091, REV-056)."""
    if not facts.settings.integrator.review:
        return ()
    gates = review_gates(facts, seen)
    if gates:
        return gates
    result = seen.result
    if result is None:
        because = f"the head {seen.head[:12]} has not been reviewed"
        return (Blocker("review-due", because, "the agent review", "the reviewer"),)
    if result.status is ReviewStatus.APPROVED:
        return ()
    because = f"the review of {seen.head[:12]} ended with {result.status.value}"
    if facts.graph.active_fixes:
        return (Blocker("review", because, "a new head with the fixes, and its review", "the fleet"),)
    failed = [
        task.number
        for task in facts.graph.fixes.values()
        if task.front.is_review_fix and task.open and task.status is Status.FAILED
    ]
    if failed:
        because += "; its fix " + ", ".join(f"#{number}" for number in failed) + " failed"
        return (Blocker("review", because, f"herd dispatch {' '.join(map(str, failed))}", "a person"),)
    clears = f"a new head, or a merge of #{seen.pull.number} by hand; the review's comment says what it asks for"
    return (Blocker("review", because, clears, "a person"),)


def _criteria(facts: BatchFacts, seen: LandFacts) -> list[Blocker]:
    """Hold back where the review doubts the criteria, until a trusted person approves this head after it (REV-044)."""
    result = seen.result
    if not facts.settings.integrator.review or result is None or not result.criteria:
        return []
    reviews = seen.pull.reviews.value if isinstance(seen.pull.reviews, Complete) else ()
    for review in reviews:
        at = review.submitted_at.isoformat(timespec="seconds") if review.submitted_at else ""
        ours = review.author.lower() == facts.login.lower()
        if (
            not ours
            and review.state is ReviewState.APPROVED
            and review.commit == seen.head
            and review.association in TRUSTED_ASSOCIATIONS
            and at >= result.created_at
        ):
            return []
    because = f"the review asks a person about {result.criteria} criteria"
    return [Blocker("criteria", because, f"an approving review of #{seen.pull.number}, or a merge by hand", "a person")]


def _holds(facts: BatchFacts, seen: LandFacts) -> list[Blocker]:
    labels = set(seen.pull.labels)
    if facts.paused:
        labels.add(PAUSED)
    if facts.cascade_failed:
        labels.add(CASCADE_FAILED)
    return [Blocker("hold", f"held: {name}", f"take {name} off", "a person") for name in _HOLDS if name in labels]


def _readiness(facts: BatchFacts, seen: LandFacts, merge: MergeFacts) -> list[Blocker]:
    integrator = facts.settings.integrator
    result = seen.result
    found = readiness_of(
        seen.pull,
        merge.protection.value if isinstance(merge.protection, Complete) else None,
        now=facts.at,
        grace=timedelta(seconds=integrator.ci_start_grace_seconds),
        method=integrator.strategy,
        methods=facts.repository.merge_methods,
        judged_sha=result.head_sha if result and integrator.review else None,
    )
    blocked = seen.pull.merge_state.value == "BLOCKED"
    strict = not isinstance(merge.protection, Complete) or merge.protection.value.strict
    return [
        blocker
        for blocker in found
        if (blocked or blocker.code not in _NOT_ASKED)
        and (strict or blocker.code != "behind")
        and (integrator.require_ci or not blocker.code.startswith(_CI_CODES))
    ]


def merge_decision(facts: BatchFacts, seen: LandFacts, blockers: tuple[Blocker, ...], rule: str) -> Decision:
    """Merge at exactly the judged head, or say all that stands against it (REV-095)."""
    subject = f"pr:{seen.pull.number}"
    said = [f"head {seen.head}", f"strategy {facts.settings.integrator.strategy}"]
    if seen.result is not None:
        said.append(f"review {seen.result.status.value}")
    actions = () if blockers else (merge_action(facts, seen),)
    return Decision(rule, facts.repo, subject, tuple(said), blockers, actions, head=seen.head)


async def land(fleet: Fleet, repo: RepoId, facts: BatchFacts, number: int, lease: Lease) -> Step:
    """Start the review that is due, or merge what is ready; each way the reasons are recorded."""
    head = facts.pull.head_sha if facts.pull else ""
    prefix = review_prefix(facts.repo, number, head)
    if await fleet.engine.jobs(kind="review", id_prefix=prefix, active_only=True):  # nothing else matters until it ends
        return Step(waiting=(_reviewing(head),))
    seen = await observe_land(fleet, repo, facts, number)
    if seen is None or not seen.pull.open:
        return Step(waiting=(Blocker("moved", f"#{number} is not open any more", "the next cycle", "the Integrator"),))
    review = review_decision(facts, seen)
    if review is not None and review.actions:
        outcome = await fleet.actuator.act(review, lease, loop=LOOP)
        started = outcome.receipt(StartJob) is not None
        return told(outcome) + Step(waiting=(_reviewing(seen.head),) if started else ())
    merge = await observe_merge(fleet, repo, facts, seen) if facts.settings.pull_requests.auto_merge else None
    blockers = land_blockers(facts, seen, merge)
    outcome = await fleet.actuator.act(merge_decision(facts, seen, blockers, "REV-091"), lease, loop=LOOP)
    if outcome.acted:
        await point("land.merged")
    return told(outcome).then_again()


def _reviewing(head: str) -> Blocker:
    return Blocker("reviewing", f"the review of {head[:12]} runs", "its end", "the reviewer")


async def merge_batch(fleet: Fleet, repo: RepoId, number: int, lease: Lease) -> list[str]:
    """Merge a batch PR because a person says so (REV-096): readiness is asked all the same, auto-merge is not.

    Raises InputError where it is no open batch PR, HerdError with every blocker, DeclinedError for unknown facts.
    """
    pull = await fleet.forge.pull(repo, number)
    batch = branch_batch(pull.head) if pull and pull.head_repo == str(repo) else None
    if pull is None or not pull.open or batch is None:
        raise InputError(f"#{number} is no open batch PR of {repo}")
    try:
        facts = await observe(fleet, repo, batch)
        seen = await observe_land(fleet, repo, facts, number)
        if seen is None:
            raise InputError(f"#{number} is gone")
        merge = await observe_merge(fleet, repo, facts, seen)
        blockers = (
            *advance.gates(facts),
            *advance.waiting(facts),
            *ready_for_pull(facts),
            *land_blockers(facts, seen, merge, by_hand=True),
        )
    except FactUnknownError as error:
        raise DeclinedError(str(error)) from error
    if blockers:
        raise HerdError("\n".join(f"{blocker.because} ({blocker.clears})" for blocker in blockers))
    outcome = await fleet.actuator.act(merge_decision(facts, seen, (), "REV-096"), lease, loop="hand")
    if not outcome.ok and not fleet.actuator.dry_run:
        raise HerdError(f"#{number} was not merged: {outcome.results[0].detail}")
    return list(told(outcome).lines)
