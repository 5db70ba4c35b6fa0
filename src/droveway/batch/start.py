"""Acting on the rules of ``advance``: the one function by which tasks of a batch start, whoever asks (BAT-104)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from droveway.batch import advance
from droveway.batch.facts import BatchFacts, observe, read_jobs
from droveway.core.decisions import Blocker, Decision, SetStatus, StartJob
from droveway.core.errors import DeclinedError, HerdError
from droveway.core.facts import FactUnknownError
from droveway.core.lease import Lease
from droveway.core.points import point
from droveway.core.repo import RepoId
from droveway.core.vocabulary import Status
from droveway.core.words import in_words
from droveway.forge import ExistsError
from droveway.work import job_attempt, start_refused

if TYPE_CHECKING:
    from droveway.core.actuator import Outcome
    from droveway.sessions import Fleet

LOOP = "integrate"
_TRIES = 20


class Step(msgspec.Struct, frozen=True):
    """What one step of a cycle did: a line for people per change, and why others wait.

    ``again``: what was done may make more possible at once, so the batch is observed anew.
    """

    lines: tuple[str, ...] = ()
    waiting: tuple[Blocker, ...] = ()
    acted: bool = False
    again: bool = False

    def __add__(self, other: Step) -> Step:
        """Put two steps together."""
        return Step(
            self.lines + other.lines,
            self.waiting + other.waiting,
            self.acted or other.acted,
            self.again or other.again,
        )

    def then_again(self) -> Step:
        """Ask for another round where anything was done."""
        return msgspec.structs.replace(self, again=self.acted)


async def start_batch(fleet: Fleet, repo: RepoId, milestone: int, lease: Lease) -> tuple[str, ...]:
    """Create the batch branch from the base's tip if it is missing, and start tier 0 (BAT-008, BAT-105, BAT-240).

    Raises HerdError where the batch can't be started, DeclinedError where a fact is unknown.
    """
    try:
        facts = await observe(fleet, repo, milestone)
        blockers = [b for b in advance.gates(facts) if b.code != "not-started"]
        if blockers:
            raise HerdError(f"batch #{milestone}: {blockers[0].because}")
        lines: list[str] = []
        if facts.tip is None:
            await _create_branch(fleet, repo, facts, lease)
            lines.append(f"created {facts.branch}")
            await point("plan.branch")
            facts = await observe(fleet, repo, milestone)
        step = await advance_batch(fleet, repo, facts, lease)
        await point("plan.dispatched")
        return (*lines, *step.lines)
    except FactUnknownError as error:
        raise DeclinedError(str(error)) from error


async def _create_branch(fleet: Fleet, repo: RepoId, facts: BatchFacts, lease: Lease) -> None:
    """Create the batch branch at the tip of the base, whose name the forge says anew (case X04)."""
    base = facts.repository.default_branch
    sha = await fleet.forge.ref(repo, f"heads/{base}")
    if sha is None:
        raise HerdError(f"the base branch {base} of {repo} does not exist")
    if fleet.actuator.dry_run:
        return
    await lease.check()
    try:
        await fleet.forge.create_ref(repo, f"refs/heads/{facts.branch}", sha)
    except ExistsError:
        if await fleet.forge.ref(repo, f"heads/{facts.branch}") is None:  # another name is in the way (case B01)
            raise


async def advance_batch(fleet: Fleet, repo: RepoId, facts: BatchFacts, lease: Lease) -> Step:
    """Report what is wrong, unblock what is due, and start it within the slots."""
    blockers = advance.gates(facts)
    if blockers:
        lost = advance.lost_branch_decision(facts)
        step = await apply(fleet, [lost], lease) if lost else Step()
        return step + Step(waiting=blockers)
    step = await apply(fleet, advance.report_decisions(facts), lease)
    step += await apply(fleet, advance.naming_decisions(facts), lease)
    ready: dict[int, Status] = {}
    for decision in advance.unblock_decisions(facts):
        outcome = await fleet.actuator.act(decision, lease, loop=LOOP)
        step += told(outcome)
        if outcome.ok:
            ready |= {a.issue: a.to for a in decision.actions if isinstance(a, SetStatus)}
    await point("advance.unblocked")
    facts = advance.with_statuses(facts, ready)
    return step + await _dispatch(fleet, repo, facts, lease)


async def _dispatch(fleet: Fleet, repo: RepoId, facts: BatchFacts, lease: Lease) -> Step:
    """Start workers under the repository's own lease: two batches must not both take the last slot (BAT-106)."""
    orphans = advance.orphan_decisions(facts)
    if not advance.candidates(facts) and not any(decision.actions for decision in orphans):
        return Step()

    async def start(slots: Lease, facts: BatchFacts) -> Step:
        step = (await apply(fleet, advance.orphan_decisions(facts), lease)).then_again()
        if step.acted:
            facts = await with_jobs(fleet, repo, facts)
        return step + await act_starts(fleet, facts, advance.start_decisions(facts), slots, lease)

    return await with_slots(fleet, repo, facts, start)


async def with_jobs(fleet: Fleet, repo: RepoId, facts: BatchFacts) -> BatchFacts:
    """Give the facts with the worker jobs of this moment."""
    return msgspec.structs.replace(facts, jobs_fact=await read_jobs(fleet, repo))


async def with_slots(
    fleet: Fleet, repo: RepoId, facts: BatchFacts, start: Callable[[Lease, BatchFacts], Awaitable[Step]]
) -> Step:
    """Do ``start`` while nobody else may start workers of the repository; it gets the jobs of that moment."""
    slots = await _slots(fleet, repo)
    if slots is None:
        because = "another loop is starting workers of this repository"
        return Step(waiting=(Blocker("dispatching", because, "the next cycle", "the Integrator"),))
    try:
        return await start(slots, await with_jobs(fleet, repo, facts))
    finally:
        await fleet.engine.release(slots)


async def act_starts(
    fleet: Fleet, facts: BatchFacts, decisions: Sequence[Decision], slots: Lease, lease: Lease
) -> Step:
    """Act on decisions of dispatch; a start that is refused fails its issue with a comment (BAT-109)."""
    step = Step()
    for decision in decisions:
        await slots.check()
        outcome = await fleet.actuator.act(decision, lease, loop=LOOP)
        step += told(outcome) + await _refused(fleet, facts, outcome, lease)
    return step


async def _slots(fleet: Fleet, repo: RepoId) -> Lease | None:
    """Take the repository's right to start workers, which others hold for moments only.

    Verbs beside a running engine take it too.
    """
    for _ in range(_TRIES):
        lease = await fleet.engine.lease(f"dispatch/{repo}")
        if lease is not None:
            return lease
        await fleet.clock.sleep(0.1)
    return None


async def _refused(fleet: Fleet, facts: BatchFacts, outcome: Outcome, lease: Lease) -> Step:
    """Where the status was written and the start refused, the issue fails with a comment (BAT-109)."""
    for result in outcome.results:
        if isinstance(result.action, StartJob) and result.outcome == "failed":
            issue, attempt = job_attempt(result.action.job.id) or (0, 0)
            task = next((task for task in facts.tasks if task.number == issue), None)
            if task is not None:
                return await apply(fleet, [start_refused(facts.repo, task, attempt, result.detail)], lease)
    return Step()


async def apply(fleet: Fleet, decisions: Sequence[Decision], lease: Lease, *, loop: str = LOOP) -> Step:
    """Act on decisions one after the other; one that fails does not stop the others."""
    step = Step()
    for decision in decisions:
        step += told(await fleet.actuator.act(decision, lease, loop=loop))
    return step


def told(outcome: Outcome) -> Step:
    """Put an outcome into words."""
    decision = outcome.decision
    what = decision.facts[0] if decision.facts else decision.rule
    lines = []
    for result in outcome.results:
        words = in_words(result.action, result.receipt)
        if result.outcome == "failed":
            tag = str(type(result.action).__struct_config__.tag)
            lines.append(f"{decision.subject}: {tag} failed: {result.detail} [{decision.rule}]")
        elif words and result.outcome in ("applied", "dry"):
            lines.append(f"{'would do: ' if result.outcome == 'dry' else ''}{words} ({what}) [{decision.rule}]")
    return Step(tuple(lines), decision.blockers, outcome.acted)
