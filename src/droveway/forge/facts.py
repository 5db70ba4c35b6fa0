"""From the forge's model to the inputs of the core's pure rules (FRG-009, FRG-010)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from droveway.core.checks import CheckVerdict, Context, Run, Suite, roll_up, unreadable
from droveway.core.decisions import Blocker
from droveway.core.facts import Complete, Fact, Unknown
from droveway.core.readiness import Conflict, PullFacts, Vote, blockers, conflict_state
from droveway.forge.model import TRUSTED_ASSOCIATIONS, HeadChecks, Protection, PullRequest, Review


def check_state(
    checks: HeadChecks | Fact[HeadChecks] | None, required: Sequence[str], now: datetime, grace: timedelta
) -> CheckVerdict:
    """Roll up the checks of a head (BAT-206 … BAT-208); unknown checks give an unknown verdict with the reason.

    ``required`` from ``Protection.required_checks``; ``grace`` from ``integrator.ci_start_grace_seconds``.
    """
    if checks is None:
        return unreadable("the checks were not read")
    if isinstance(checks, Unknown):
        return unreadable(checks.reason)
    if isinstance(checks, Complete):
        checks = checks.value
    runs = None if "check runs" in checks.absent else [_run(checks, at) for at in range(len(checks.runs))]
    statuses = [Context(each.context, each.state, each.created_at) for each in checks.statuses]
    return roll_up(
        runs,
        None if "statuses" in checks.absent else statuses,
        [Suite(app, created) for app, created in checks.queued_suites],
        required,
        now,
        grace,
        checks.committed_at,
    )


def _run(checks: HeadChecks, at: int) -> Run:
    run = checks.runs[at]
    return Run(
        name=run.name,
        app=run.app,
        workflow=run.workflow,
        status=run.status,
        conclusion=run.conclusion,
        id=run.id,
        started_at=run.started_at,
        completed_at=run.completed_at,
    )


def conflict_of(pull: PullRequest) -> Conflict:
    """Say whether a PR, read live, conflicts with its base (BAT-195, BAT-196)."""
    return conflict_state(pull.mergeable, pull.merge_state.value)


def pull_facts(
    pull: PullRequest,
    protection: Protection | None,
    *,
    now: datetime,
    grace: timedelta,
    method: str | None = None,
    methods: Sequence[str] = ("squash", "rebase", "merge"),
    holds: Sequence[str] = (),
    judged_sha: str | None = None,
    fresh: bool | None = True,
) -> PullFacts:
    """Make the facts of readiness. ``protection`` None: it could not be read, so the checks count as unknown."""
    demands = protection or Protection()
    verdict = check_state(pull.checks, demands.required_checks, now, grace)
    threads = pull.unresolved_threads
    return PullFacts(
        state=pull.state,
        draft=pull.draft,
        author=pull.author,
        head_sha=pull.head_sha,
        judged_sha=judged_sha,
        mergeable=pull.mergeable,
        merge_state=pull.merge_state.value,
        rebaseable=pull.rebaseable,
        method=method,
        methods=tuple(methods),
        strict=demands.strict,
        checks=unreadable("the base's protection could not be read") if protection is None else verdict,
        votes=tuple(_vote(each) for each in pull.reviews.value) if isinstance(pull.reviews, Complete) else None,
        required_approvals=demands.required_approvals,
        review_decision=pull.review_decision,
        requested_reviewers=pull.requested_reviewers,
        unresolved_threads=threads.value if isinstance(threads, Complete) else None,
        holds=tuple(holds),
        fresh=fresh,
    )


def readiness_of(
    pull: PullRequest,
    protection: Protection | None,
    *,
    now: datetime,
    grace: timedelta,
    method: str | None = None,
    methods: Sequence[str] = ("squash", "rebase", "merge"),
    holds: Sequence[str] = (),
    judged_sha: str | None = None,
    fresh: bool | None = True,
) -> tuple[Blocker, ...]:
    """List all blockers of a PR that was read live (``Forge.pull``)."""
    facts = pull_facts(
        pull,
        protection,
        now=now,
        grace=grace,
        method=method,
        methods=methods,
        holds=holds,
        judged_sha=judged_sha,
        fresh=fresh,
    )
    return blockers(facts)


def _vote(review: Review) -> Vote:
    return Vote(
        author=review.author,
        state=review.state.value,
        commit=review.commit,
        at=review.submitted_at,
        counts=review.association in TRUSTED_ASSOCIATIONS,
        id=review.id,
    )
