"""Why something waits, since when, and who can change it (CLI-005, REV-100): the rules' own blockers, put together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from droveway.batch import advance
from droveway.batch.consolidate.facts import candidates
from droveway.batch.facts import BatchFacts, observe
from droveway.batch.land import LandFacts, observe_land
from droveway.batch.landing import land_blockers, observe_merge
from droveway.batch.pull import ready_for_pull, state_of
from droveway.batch.views import lifecycle
from droveway.core.decisions import Blocker
from droveway.core.errors import DeclinedError, InputError
from droveway.core.facts import FactUnknownError
from droveway.core.repo import RepoId
from droveway.core.vocabulary import Status, branch_batch
from droveway.forge.model import Issue, PullRequest
from droveway.work import last_failure, read_attempts, read_task, why_issue

if TYPE_CHECKING:
    from droveway.sessions import Fleet

_SUBJECT = re.compile(r"(?:(issue|pr|batch):|#)?(\d+)")


class Explanation(msgspec.Struct, frozen=True):
    """The state in a line, the facts behind it, and every blocker with what would clear it and who can do that."""

    subject: str
    state: str
    facts: tuple[str, ...] = ()
    blockers: tuple[Blocker, ...] = ()


async def explain(fleet: Fleet, repo: RepoId, subject: str) -> Explanation:
    """Explain ``12`` (issue or PR), ``issue:12``, ``pr:7`` or ``batch:3``.

    Raises InputError for what does not exist, DeclinedError where a fact is unknown.
    """
    match = _SUBJECT.fullmatch(subject.strip())
    if not match:
        raise InputError(f"{subject!r} is no subject: write 12, issue:12, pr:7 or batch:3")
    kind, number = match.group(1), int(match.group(2))
    try:
        if kind == "batch":
            return await _batch(fleet, repo, number)
        pull = await fleet.forge.pull(repo, number)  # first: a forge gives the issue side of a PR as well
        if pull is not None:
            return await _pull(fleet, repo, pull)
        issue = await fleet.forge.issue(repo, number) if kind != "pr" else None
        if issue is not None:
            return await _issue(fleet, repo, issue)
    except FactUnknownError as error:
        raise DeclinedError(str(error)) from error
    raise InputError(f"{repo} has no {kind or 'issue or PR'} {number}")


async def _batch(fleet: Fleet, repo: RepoId, number: int) -> Explanation:
    if await fleet.forge.milestone(repo, number) is None:
        raise InputError(f"{repo} has no batch #{number}")
    facts = await observe(fleet, repo, number)
    return await _explain_batch(fleet, repo, facts, f"batch:{number}")


async def _explain_batch(fleet: Fleet, repo: RepoId, facts: BatchFacts, subject: str) -> Explanation:
    pull, graph = facts.pull, facts.graph
    state = lifecycle(facts.milestone, graph, pull, paused=facts.paused)
    done = sum(1 for task in graph.tasks.values() if task.complete)
    lines = [f"{facts.milestone.title}: {done} of {len(graph.tasks)} tasks complete on {facts.branch}"]
    if graph.current is not None:
        lines.append(f"tier {graph.current} is the first that is not complete")
    if pull is not None:
        lines.append(f"PR #{pull.number} is {pull.state} at {pull.head_sha[:12]}")
    if state in ("landed", "cancelled"):
        return Explanation(subject, state, tuple(lines))
    found = advance.gates(facts) or (*advance.waiting(facts), *ready_for_pull(facts))
    if not found and pull is not None and pull.open:
        seen = await observe_land(fleet, repo, facts, pull.number)
        if seen is not None:
            found = land_blockers(facts, seen, await observe_merge(fleet, repo, facts, seen))
            lines += _review_lines(seen)
    return Explanation(subject, state, tuple(lines), tuple(found))


def _review_lines(seen: LandFacts) -> list[str]:
    result = seen.result
    if result is None:
        return ["no review result for this head"]
    return [f"review of this head: {result.status.value}, {result.findings_count} findings, cycle {result.cycle}"]


async def _issue(fleet: Fleet, repo: RepoId, issue: Issue) -> Explanation:
    subject = f"issue:{issue.number}"
    if issue.milestone is None:
        return Explanation(subject, "it belongs to no batch", (f"#{issue.number} {issue.title}",))
    facts = await observe(fleet, repo, issue.milestone)
    task = next((task for task in facts.tasks if task.number == issue.number), None) or read_task(issue)
    comments = await fleet.forge.comments(repo, issue.number)
    wanted = advance.dispatch_facts(facts, (task,))
    why = why_issue(task, wanted, read_attempts(comments), now=facts.at)
    lines = [*why.facts]
    if task.status is Status.FAILED and (failure := last_failure(comments)):
        lines.append(f"why it failed: {failure}")
    needs = [facts.graph.tasks[n] for n in wanted.blocked_by.get(task.number, ()) if n in facts.graph.tasks]
    lines += [f"it waits for #{other.number} {other.title}, which is {state_of(other)}" for other in needs]
    tier = facts.graph.tier_of(task.number)
    if tier is not None:
        lines.append(f"tier {tier} of batch #{facts.number}; the batch is at tier {facts.graph.current}")
    if task.number in {found.number for found, _ in candidates(facts, facts.refs)}:
        lines.append(f"its branch {task.branch} is merged by the next consolidation")
    blockers = why.blockers
    if task.number in facts.graph.unreadable and not any(b.code == "unreadable" for b in blockers):
        reason = facts.graph.unreadable[task.number]
        blockers = (*blockers, Blocker("unreadable", reason, "mend the block of its body", "a person"))
    return Explanation(subject, why.state, tuple(lines), blockers)


async def _pull(fleet: Fleet, repo: RepoId, pull: PullRequest) -> Explanation:
    subject = f"pr:{pull.number}"
    batch = branch_batch(pull.head) if pull.head_repo == str(repo) else None
    if batch is None:
        return Explanation(subject, f"{pull.state}; it is no batch PR", (f"#{pull.number} {pull.title}",))
    return await _explain_batch(fleet, repo, await observe(fleet, repo, batch), subject)
