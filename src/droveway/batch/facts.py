"""Observing a batch: one snapshot of the forge, the engine's jobs, the settings (BAT-111)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from droveway.batch.graph import Graph, build_graph
from droveway.batch.metadata import Metadata, read_metadata
from droveway.core.errors import HerdError
from droveway.core.facts import Complete, Fact, Unknown, known
from droveway.core.jobs import JobInfo
from droveway.core.keys import find_plan
from droveway.core.repo import RepoId
from droveway.core.settings import Settings
from droveway.core.vocabulary import CASCADE_FAILED, PAUSED, Status, batch_branch, is_herd
from droveway.forge.model import Issue, Milestone, PullRequest, Repository
from droveway.work import (
    Author,
    Task,
    active_workers,
    highest_attempt,
    job_attempt,
    job_prefix,
    parse_body,
    read_attempts,
    read_task,
)

if TYPE_CHECKING:
    from droveway.sessions import Fleet

_HEADS = "refs/heads/"


class BatchFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What one cycle decides from. A property raises FactUnknownError where its fact is unknown: the rule declines.

    ``refs_fact`` maps branch names under ``herd/`` to tips; ``issues_fact`` are all issues of the milestone, any state;
    ``attempts`` the highest attempt per issue that was read from comments; ``jobs_fact`` all worker jobs of the
    repository.
    """

    repo: str
    number: int
    at: datetime
    host: str
    login: str
    settings: Settings
    repository_fact: Fact[Repository]
    milestone_fact: Fact[Milestone]
    issues_fact: Fact[tuple[Issue, ...]]
    refs_fact: Fact[Mapping[str, str]]
    pull_fact: Fact[PullRequest | None]
    jobs_fact: Fact[tuple[JobInfo, ...]]
    graph_fact: Fact[Graph]
    attempts: Mapping[int, int] = {}
    requests: int = 0

    @property
    def subject(self) -> str:
        """Give the batch as a decision's subject."""
        return f"batch:{self.number}"

    @property
    def repository(self) -> Repository:
        """Give the repository."""
        return known(self.repository_fact, "the repository")

    @property
    def milestone(self) -> Milestone:
        """Give the milestone."""
        return known(self.milestone_fact, f"milestone #{self.number}")

    @property
    def metadata(self) -> Metadata:
        """Give what the milestone's description says."""
        return read_metadata(self.milestone.description)

    @property
    def branch(self) -> str:
        """Give the batch branch: the stored name, so that a renamed milestone keeps its branch (BAT-020)."""
        return self.metadata.batch_branch or batch_branch(self.number, self.milestone.title)

    @property
    def issues(self) -> tuple[Issue, ...]:
        """Give the milestone's issues."""
        return known(self.issues_fact, f"the issues of milestone #{self.number}")

    @property
    def graph(self) -> Graph:
        """Give the graph of the herd issues."""
        return known(self.graph_fact, f"the issues of milestone #{self.number}")

    @property
    def refs(self) -> Mapping[str, str]:
        """Give the branches under ``herd/`` with their tips."""
        return known(self.refs_fact, "the branches")

    @property
    def pull(self) -> PullRequest | None:
        """Give the batch PR, of any state."""
        return known(self.pull_fact, "the batch PR")

    @property
    def jobs(self) -> tuple[JobInfo, ...]:
        """Give the repository's worker jobs."""
        return known(self.jobs_fact, "the worker runs")

    @property
    def tip(self) -> str | None:
        """Give the batch branch's tip; None where it definitely does not exist: the batch is not started (BAT-240)."""
        return self.refs.get(self.branch)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Give every herd issue, by number."""
        graph = self.graph
        return tuple(sorted((*graph.tasks.values(), *graph.fixes.values()), key=lambda task: task.number))

    @property
    def paused(self) -> bool:
        """Whether the PR or any issue of the batch, open or closed, carries ``herd/paused`` (BAT-055)."""
        return any(PAUSED in issue.labels for issue in self.issues) or PAUSED in self._pull_labels

    @property
    def cascade_failed(self) -> bool:
        """Whether resolvers are paused: the label on the PR or, before one exists, on an open issue (BAT-203)."""
        return any(CASCADE_FAILED in i.labels for i in self.issues if i.open) or CASCADE_FAILED in self._pull_labels

    @property
    def _pull_labels(self) -> tuple[str, ...]:
        return self.pull.labels if self.pull else ()

    @property
    def author(self) -> Author:
        """Give the author of the workers' commits (BAT-128)."""
        return self.metadata.created_by.author(self.host)

    @property
    def active_jobs(self) -> Mapping[int, JobInfo]:
        """Give the active run per issue of this batch."""
        mine = {task.number for task in self.tasks}
        return {number: job for number, job in active_workers(self.repo, self.jobs).items() if number in mine}


def is_ours(issue: Issue) -> bool:
    """Whether an issue of the milestone is a task: labels, plan marker or front matter say so, not the milestone alone.

    An issue that a person attached is none of ours; one that lost all its labels still is.
    """
    if is_herd(issue.labels) or find_plan(issue.body):
        return True
    body = parse_body(issue.body)
    return bool(getattr(body, "block", "")) or bool(getattr(body, "error", ""))


async def observe(fleet: Fleet, repo: RepoId, number: int) -> BatchFacts:
    """Read the batch once. A part that could not be read is Unknown; nothing is ever taken for empty."""
    now = fleet.clock.now()
    settings = await fleet.settings(repo)
    snapshot = await fleet.forge.batch_snapshot(repo, number)
    graph: Fact[Graph]
    if isinstance(snapshot.issues, Complete):
        graph = Complete(build_graph(read_task(i) for i in snapshot.issues.value if is_ours(i)), snapshot.issues.at)
    else:
        graph = snapshot.issues
    refs: Fact[Mapping[str, str]] = snapshot.refs
    if isinstance(refs, Complete):
        refs = Complete({name.removeprefix(_HEADS): sha for name, sha in refs.value.items()}, refs.at)
    jobs = await read_jobs(fleet, repo)
    return BatchFacts(
        repo=str(repo),
        number=number,
        at=now,
        host=fleet.forge.host,
        login=fleet.forge.login,
        settings=settings,
        repository_fact=snapshot.repository,
        milestone_fact=snapshot.milestone,
        issues_fact=snapshot.issues,
        refs_fact=refs,
        pull_fact=snapshot.pull,
        jobs_fact=jobs,
        graph_fact=graph,
        attempts=await _read_attempts(fleet, repo, snapshot.issues, graph, jobs),
        requests=snapshot.requests,
    )


async def read_jobs(fleet: Fleet, repo: RepoId) -> Fact[tuple[JobInfo, ...]]:
    """Give the repository's worker jobs, of any state."""
    try:
        jobs = await fleet.engine.jobs(kind="worker", id_prefix=job_prefix(str(repo)))
    except (HerdError, OSError, TimeoutError) as error:
        return Unknown(f"the engine did not answer: {error}", fleet.clock.now())
    return Complete(tuple(jobs), fleet.clock.now())


async def _read_attempts(
    fleet: Fleet,
    repo: RepoId,
    issues: Fact[tuple[Issue, ...]],
    graph: Fact[Graph],
    jobs: Fact[tuple[JobInfo, ...]],
) -> dict[int, int]:
    """Read the attempt comments of issues that may start and whose runs this engine does not know (BAT-003)."""
    if not (isinstance(issues, Complete) and isinstance(graph, Complete) and isinstance(jobs, Complete)):
        return {}
    known_to_engine = {pair[0] for job in jobs.value if (pair := job_attempt(job.id))}
    found: dict[int, int] = {}
    for issue in issues.value:
        task = graph.value.tasks.get(issue.number) or graph.value.fixes.get(issue.number)
        # An issue that nobody has commented on has had no attempt: its record is a comment.
        if task is None or task.complete or not issue.comments or issue.number in known_to_engine:
            continue
        if task.status not in (Status.READY, Status.IN_PROGRESS):
            continue
        attempts = read_attempts(await fleet.forge.comments(repo, issue.number))
        found[issue.number] = highest_attempt(issue.number, (), attempts)
    return found
