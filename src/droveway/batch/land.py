"""Rules about the open batch PR: which review is due, and whether it may be merged (REV-002 … 004, REV-086 … 100).

Pure but for ``observe_land``. What "ready to merge" means is decided in ``core.readiness`` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from droveway.batch import texts
from droveway.batch.facts import BatchFacts
from droveway.core.decisions import Blocker, Decision, MergePull, StartJob
from droveway.core.facts import Complete, Fact, known
from droveway.core.jobs import ACTIVE, Job, JobInfo, JobState
from droveway.core.keys import Key
from droveway.core.repo import RepoId
from droveway.core.vocabulary import STABLE_DISAGREEMENT
from droveway.forge.model import Comment, PullRequest
from droveway.review import ReviewResult, ReviewStatus, our_results
from droveway.work import Task

if TYPE_CHECKING:
    from droveway.sessions import Fleet

REVIEW_TRIES = 3  # failed review runs of one head, after which a person is asked
_REVIEW_DEADLINE = 3600.0


class LandFacts(msgspec.Struct, frozen=True):
    """The open PR as read just now, our results on it, and its review runs for this head."""

    pull: PullRequest
    results: Fact[tuple[ReviewResult, ...]]
    reviews: Fact[tuple[JobInfo, ...]]

    @property
    def head(self) -> str:
        """Give the PR's head."""
        return self.pull.head_sha

    @property
    def result(self) -> ReviewResult | None:
        """Give the newest result for this head; one for another head counts for nothing (REV-117)."""
        mine = self.results_for_head
        return mine[-1] if mine else None

    @property
    def results_for_head(self) -> tuple[ReviewResult, ...]:
        """Give all results for this head, oldest first."""
        results = known(self.results, f"the comments of #{self.pull.number}")
        return tuple(one for one in results if one.head_sha == self.head and one.pr_number == self.pull.number)


def review_prefix(repo: str, pull: int, head: str) -> str:
    """Give what the ids of a head's review jobs start with."""
    return f"review/{repo}/pr:{pull}/{head}/"


async def observe_land(fleet: Fleet, repo: RepoId, facts: BatchFacts, number: int) -> LandFacts | None:
    """Read the live PR, our results and its review runs; None where the PR is gone."""
    pull = await fleet.forge.pull(repo, number)
    if pull is None:
        return None
    now = fleet.clock.now()
    comments: tuple[Comment, ...] = await fleet.forge.comments(repo, number)
    jobs = await fleet.engine.jobs(kind="review", id_prefix=review_prefix(facts.repo, number, pull.head_sha))
    return LandFacts(pull, Complete(our_results(comments), now), Complete(tuple(jobs), now))


def review_decision(facts: BatchFacts, land: LandFacts) -> Decision | None:
    """Start the agent review that is due, or say which gate holds it back; None where none is due (REV-003)."""
    if not facts.settings.integrator.review or not land.pull.open:
        return None
    subject = f"pr:{land.pull.number}"
    blockers = review_gates(facts, land)
    if blockers:
        return Decision("REV-003", facts.repo, subject, ("a review is due",), blockers, head=land.head)
    if not review_due(facts, land):
        return None
    jobs = known(land.reviews, "the review runs")
    turn = max(len(jobs), len(land.results_for_head))
    job = Job(
        id=f"{review_prefix(facts.repo, land.pull.number, land.head)}{turn}",
        kind="review",
        subject=subject,
        args={"repo": facts.repo, "pull": land.pull.number, "batch": facts.number, "head": land.head},
        deadline_seconds=_REVIEW_DEADLINE,
    )
    key = Key("REV-001", facts.repo, subject, land.head, str(turn))
    start = StartJob(facts.repo, str(key), job)
    return Decision("REV-001", facts.repo, subject, ("no result for this head yet",), actions=(start,), head=land.head)


def review_due(facts: BatchFacts, land: LandFacts) -> bool:
    """Whether this head lacks a result: it has none, or a fix of its findings has ended without changing the head."""
    results = land.results_for_head
    if not results:
        return True
    if results[-1].status not in (ReviewStatus.CHANGES_REQUESTED, ReviewStatus.WAITING):
        return False
    return len(results) <= len(_ended_fixes(facts, land.head))


def _ended_fixes(facts: BatchFacts, head: str) -> tuple[Task, ...]:
    return tuple(
        task
        for task in facts.graph.fixes.values()
        if task.front.is_review_fix and task.front.pr_head_sha == head and task.complete
    )


def review_gates(facts: BatchFacts, land: LandFacts) -> tuple[Blocker, ...]:
    """Give the gates that hold back a review that is due, each with its own reason (REV-003, REV-004)."""
    if not review_due(facts, land):
        return ()
    found = []
    jobs = known(land.reviews, "the review runs")
    running = [job for job in jobs if job.state in ACTIVE]
    failed = [job for job in jobs if job.state in (JobState.FAILED, JobState.CANCELLED)]
    active = ", ".join(f"#{task.number}" for task in facts.graph.active_fixes)
    number = land.pull.number
    if active:
        because = f"fixes are ready or in progress: {active}"
        found.append(Blocker("active-fix", because, "their end", "the worker"))
    if running:
        found.append(Blocker("reviewing", f"the review of {land.head[:12]} runs", "its end", "the reviewer"))
    elif len(failed) >= REVIEW_TRIES:
        because = f"{len(failed)} review runs of {land.head[:12]} failed: {failed[-1].error}"
        found.append(Blocker("review-failed", because, f"a review or merge of #{number} by hand", "a person"))
    if STABLE_DISAGREEMENT in land.pull.labels:
        because = "reviewer and workers disagree (herd/stable-disagreement)"
        found.append(Blocker("disagreement", because, "remove the label, or decide on the PR", "a person"))
    if facts.paused:
        found.append(Blocker("paused", "the batch is paused", f"herd batch resume {facts.number}", "a person"))
    return tuple(found)


def merge_action(facts: BatchFacts, land: LandFacts) -> MergePull:
    """Give the merge at exactly the head that was judged, by the strategy's method (REV-086 … REV-089, REV-095)."""
    method = facts.settings.integrator.strategy
    tasks = tuple(facts.graph.tasks.values())
    title, message = "", ""
    if method != "rebase":
        title = texts.squash_title(land.pull.title, land.pull.number)
        message = texts.squash_message(facts.metadata.pr_summary, tasks, facts.settings.pull_requests.co_author_email)
    key = Key("REV-091", facts.repo, f"pr:{land.pull.number}", land.head)
    return MergePull(facts.repo, str(key), land.pull.number, land.head, method, title, message)
