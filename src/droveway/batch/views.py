"""What verbs and pages show of batches: summaries, one batch with its tasks (CMD-033, CMD-034)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from droveway.batch.facts import BatchFacts, is_ours, observe
from droveway.batch.graph import Graph, build_graph
from droveway.batch.metadata import is_batch, read_metadata
from droveway.batch.pull import state_of
from droveway.core.errors import DeclinedError, InputError
from droveway.core.facts import FactUnknownError
from droveway.core.repo import RepoId
from droveway.core.vocabulary import PAUSED, Status, batch_branch
from droveway.forge.model import Issue, Milestone, PullRequest
from droveway.work import Task, highest_attempt, read_task

if TYPE_CHECKING:
    from droveway.sessions import Fleet


class BatchSummary(msgspec.Struct, frozen=True):
    """One batch in numbers; ``total`` and ``done`` count tasks, ``active`` also fix-type issues."""

    number: int
    title: str
    state: str
    total: int
    done: int
    failed: int
    active: int
    blocked: int
    ready: int
    manual: int


class TaskView(msgspec.Struct, frozen=True):
    """One issue of a batch. ``tier`` None: it is a fix-type issue, or its place is unknown."""

    number: int
    title: str
    tier: int | None
    state: str
    attempts: int
    manual: bool = False
    kind: str = "task"
    branch: str = ""
    open: bool = True


class PullView(msgspec.Struct, frozen=True):
    """The batch PR."""

    number: int
    state: str
    head: str
    merge_sha: str = ""


class BatchView(msgspec.Struct, frozen=True):
    """One batch with its tasks by tier and number, then fix-type issues."""

    number: int
    title: str
    state: str
    branch: str
    tasks: tuple[TaskView, ...]
    pull: PullView | None = None


def lifecycle(milestone: Milestone, graph: Graph, pull: PullRequest | None, *, paused: bool = False) -> str:
    """Derive a batch's state from facts, never stored (BAT-219 … BAT-223)."""
    if pull is not None and pull.state == "merged":
        return "landed"
    if pull is not None and pull.state == "closed":
        return "cancelled"
    everything = (*graph.tasks.values(), *graph.fixes.values())
    if milestone.state != "open":
        cancelled = any(task.status is Status.CANCELLED for task in everything)
        return "cancelled" if cancelled or not graph.tasks else "landed"
    if paused:
        return "paused"
    if pull is not None:
        return "in review"
    if any(task.open and task.status is Status.FAILED for task in everything) or graph.cycle or graph.unreadable:
        return "stalled"
    moved = {Status.IN_PROGRESS, Status.DONE}
    return "in progress" if any(moved.intersection(t.statuses) or not t.open for t in everything) else "created"


def summarise(milestone: Milestone, graph: Graph, state: str) -> BatchSummary:
    """Count a batch's tasks."""
    tasks = tuple(graph.tasks.values())

    def count(status: Status) -> int:
        return sum(1 for task in tasks if task.open and task.status is status)

    return BatchSummary(
        number=milestone.number,
        title=milestone.title,
        state=state,
        total=len(tasks),
        done=sum(1 for task in tasks if task.complete),
        failed=count(Status.FAILED),
        active=count(Status.IN_PROGRESS)
        + sum(1 for task in graph.fixes.values() if task.open and task.status is Status.IN_PROGRESS),
        blocked=count(Status.BLOCKED),
        ready=count(Status.READY),
        manual=sum(1 for task in tasks if task.manual and not task.complete),
    )


async def batches(fleet: Fleet, repo: RepoId, *, every: bool = False) -> list[BatchSummary]:
    """Give the open batches by number, with ``every`` also those that have ended."""
    found = []
    for milestone in await fleet.forge.milestones(repo, state="all" if every else "open"):
        if not is_batch(milestone.description):
            continue
        issues = await fleet.forge.issues(repo, milestone=milestone.number, state="all")
        graph = build_graph(read_task(issue) for issue in issues if is_ours(issue))
        branch = read_metadata(milestone.description).batch_branch or batch_branch(milestone.number, milestone.title)
        pull = await fleet.forge.pull_for(repo, branch)
        state = lifecycle(milestone, graph, pull, paused=_paused(issues, pull))
        found.append(summarise(milestone, graph, state))
    return sorted(found, key=lambda summary: summary.number)


def _paused(issues: tuple[Issue, ...], pull: PullRequest | None) -> bool:
    return any(PAUSED in issue.labels for issue in issues) or bool(pull and PAUSED in pull.labels)


async def show_batch(fleet: Fleet, repo: RepoId, number: int) -> BatchView:
    """Give one batch. Raises InputError where there is none, DeclinedError where a fact is unknown."""
    if await fleet.forge.milestone(repo, number) is None:
        raise InputError(f"{repo} has no batch #{number}")
    try:
        return view(await observe(fleet, repo, number))
    except FactUnknownError as error:
        raise DeclinedError(str(error)) from error


def view(facts: BatchFacts) -> BatchView:
    """Give what people see of a batch."""
    graph = facts.graph
    ordered = sorted(graph.tasks.values(), key=lambda task: (graph.tier_of(task.number) or 0, task.number))
    pull = facts.pull
    return BatchView(
        number=facts.number,
        title=facts.milestone.title,
        state=lifecycle(facts.milestone, graph, pull, paused=facts.paused),
        branch=facts.branch,
        tasks=tuple(_task(facts, task) for task in (*ordered, *graph.fixes.values())),
        pull=PullView(pull.number, pull.state, pull.head_sha, pull.merge_sha or "") if pull else None,
    )


def _task(facts: BatchFacts, task: Task) -> TaskView:
    kind = "resolver" if task.front.is_resolver else "fix" if task.number in facts.graph.fixes else "task"
    return TaskView(
        number=task.number,
        title=task.title,
        tier=facts.graph.tier_of(task.number),
        state=state_of(task),
        attempts=highest_attempt(task.number, facts.jobs, known=facts.attempts.get(task.number, 0)),
        manual=task.manual,
        kind=kind,
        branch=task.branch,
        open=task.open,
    )
