"""What a review's result means: one ladder, first match (REV-003, REV-004, REV-059 … REV-067). Pure."""

from __future__ import annotations

import re
from datetime import datetime

import msgspec

from droveway.core.decisions import AnyAction, Comment, CreateIssue, Decision, SetCommitStatus, SubmitReview
from droveway.core.keys import Key, marker
from droveway.core.settings import Integrator
from droveway.core.vocabulary import REVIEW_CONTEXT, TYPE_FIX, Message, Status
from droveway.review import texts
from droveway.review.findings import actionable, fingerprint
from droveway.review.model import Aggregate, ChunkPlan, Finding, ReviewResult, ReviewStatus, Severity

CEILING_CYCLES = 30  # CMD-046: a hard cap where the configured one is 0
SAFETY_VALVE = 10


class FixIssue(msgspec.Struct, frozen=True):
    """A review fix of this PR: its number, title, body, status and cycle."""

    number: int
    title: str
    body: str
    status: Status | None
    cycle: int
    open: bool = True

    @property
    def active(self) -> bool:
        """Whether a worker has it or may take it (REV-066)."""
        return self.open and self.status in (Status.READY, Status.IN_PROGRESS)


class ReviewFacts(msgspec.Struct, frozen=True):
    """All that the ladder stands on. ``gaps`` are source files that nobody saw whole."""

    repo: str
    pull: int
    batch: int | None
    head: str
    base: str
    round: int
    now: datetime
    settings: Integrator
    aggregate: Aggregate
    plan: ChunkPlan
    gaps: tuple[str, ...] = ()
    fixes: tuple[FixIssue, ...] = ()
    files: int = 0
    source: str = "local-git"
    warnings: tuple[str, ...] = ()

    @property
    def cycle(self) -> int:
        """Give the cycle that a new fix issue would have (REV-065)."""
        return max((fix.cycle for fix in self.fixes), default=0) + 1

    @property
    def max_cycles(self) -> int:
        """Give the cap, which is never none (CMD-046)."""
        return self.settings.review_max_fix_cycles or CEILING_CYCLES

    @property
    def covered(self) -> bool:
        """Whether every material file was reviewed whole."""
        return not self.gaps and not self.aggregate.failed_chunks and bool(self.plan.chunks or not self.files)


def verdict(facts: ReviewFacts) -> ReviewStatus:
    """Give the status of one aggregate: the first of REV-059's rows that matches."""
    wanted = wanted_fixes(facts)
    found = facts.aggregate
    if not facts.plan.chunks and not facts.files:  # an empty diff is no review (REV-022)
        return ReviewStatus.INVALID
    if len(found.failed_chunks) == len(facts.plan.chunks) and facts.plan.chunks:
        return ReviewStatus.INVALID
    if found.refused_without_finding and not found.findings:
        return ReviewStatus.INVALID
    if not actionable(found.findings, facts.settings.review_fix_severity):
        return ReviewStatus.APPROVED if facts.covered else ReviewStatus.CHANGES_REQUESTED
    if facts.cycle > facts.max_cycles:
        return ReviewStatus.MAX_CYCLES
    if found.worst_high > SAFETY_VALVE:
        return ReviewStatus.SAFETY_VALVE
    if not wanted:
        return ReviewStatus.WAITING
    return ReviewStatus.CHANGES_REQUESTED


def wanted_fixes(facts: ReviewFacts) -> tuple[Finding, ...]:
    """Give the actionable findings that no active fix issue has already (REV-066)."""
    active = [fix for fix in facts.fixes if fix.active]
    return tuple(
        finding
        for finding in actionable(facts.aggregate.findings, facts.settings.review_fix_severity)
        if not any(matches(finding, fix) for fix in active)
    )


def matches(finding: Finding, fix: FixIssue) -> bool:
    """Whether a fix issue is about this finding: by fingerprint, else by the first 100 characters (REV-067)."""
    if fingerprint(finding) in fix.body:
        return True
    claim = " ".join(finding.description.split())[:100].lower()
    if not claim:
        return False
    lines = [re.sub(r"^\s*(?:\d+[.)]|[-*])(?:\s+|$)", "", line).strip().lower() for line in fix.body.splitlines()]
    candidates = [line for line in (*lines, fix.title.strip().lower()) if line]
    if len(claim) < 20:
        return claim in candidates
    return any(claim in line for line in candidates)


def fix_decision(facts: ReviewFacts, body: str) -> Decision | None:
    """Give the one fix issue of this review, or nothing (REV-064). ``body`` is its rendered body."""
    wanted = wanted_fixes(facts)
    if verdict(facts) is not ReviewStatus.CHANGES_REQUESTED or not wanted:
        return None
    subject = f"pr:{facts.pull}"
    key = pass_key("REV-064", facts.repo, facts.pull, facts.head, facts.round)
    create = CreateIssue(
        facts.repo,
        key,
        title=f"Review fixes (cycle {facts.cycle})",
        body=body,
        labels=(TYPE_FIX, Status.READY.label),
        milestone=facts.batch,
    )
    said = (f"{len(wanted)} findings at or above {facts.settings.review_fix_severity}", f"cycle {facts.cycle}")
    return Decision("REV-064", facts.repo, subject, facts=said, actions=(create,), head=facts.head)


def stale_decision(facts: ReviewFacts, now_at: str) -> Decision:
    """Say once that a result was discarded because the head moved (REV-054)."""
    subject = f"pr:{facts.pull}"
    key = Key("REV-054", facts.repo, subject, facts.head)
    comment = Comment(facts.repo, str(key), facts.pull, Message.REVIEW, texts.stale(facts.head, now_at))
    return Decision("REV-054", facts.repo, subject, facts=("the head moved during the review",), actions=(comment,))


def result_decision(facts: ReviewFacts, fix_issue: int | None) -> Decision:
    """Give the posting of a result: one comment with its marker, the review event, the status (REV-049, 057, 058)."""
    status = verdict(facts)
    used = facts.cycle if fix_issue is not None else facts.cycle - 1
    result = ReviewResult(
        pr_number=facts.pull,
        head_sha=facts.head,
        base_sha=facts.base,
        status=status,
        cycle=used,
        findings_count=len(facts.aggregate.findings),
        findings=tuple(fingerprint(finding) for finding in facts.aggregate.findings),
        batch_number=facts.batch,
        created_at=facts.now.isoformat(timespec="seconds"),
        criteria=sum(finding.severity is Severity.CRITERIA for finding in facts.aggregate.findings),
    )
    comment = Comment(
        facts.repo,
        pass_key("REV-049", facts.repo, facts.pull, facts.head, facts.round),
        facts.pull,
        Message.REVIEW,
        texts.result(facts, status, fix_issue),
        markers=(marker("review-result", msgspec.to_builtins(result)),),
    )
    high = sum(finding.severity is Severity.HIGH for finding in facts.aggregate.findings)
    said = (f"review {status}", f"{len(facts.aggregate.findings)} findings, {high} HIGH", f"{len(facts.gaps)} gaps")
    actions = (comment, *_event(facts.repo, facts.round, result))
    return Decision("REV-059", facts.repo, f"pr:{facts.pull}", facts=said, actions=actions, head=facts.head)


def finish_decision(repo: str, round_: int, result: ReviewResult) -> Decision:
    """Add what a killed pass did not get to after its result comment; what stands there is what counts (REV-055)."""
    return Decision(
        "REV-055",
        repo,
        f"pr:{result.pr_number}",
        facts=(f"the result comment of this pass stands: {result.status}",),
        actions=_event(repo, round_, result),
        head=result.head_sha,
    )


def pass_key(rule: str, repo: str, pull: int, head: str, round_: int) -> str:
    """Give the key of an effect of one pass: PR, head and the pass's number."""
    return str(Key(rule, repo, f"pr:{pull}", head, str(round_)))


def _event(repo: str, round_: int, result: ReviewResult) -> tuple[AnyAction, ...]:
    """Give the review event and the commit status that say the same as the result comment (REV-057, REV-058)."""
    status, number, head = result.status, result.pr_number, result.head_sha
    approved = status is ReviewStatus.APPROVED
    return (
        SubmitReview(
            repo,
            pass_key("REV-057", repo, number, head, round_),
            number,
            head,
            _EVENTS[status],
            texts.review_body(status, result.findings_count),
        ),
        SetCommitStatus(
            repo,
            pass_key("REV-058", repo, number, head, round_),
            head,
            REVIEW_CONTEXT,
            "success" if approved else "pending" if status is ReviewStatus.WAITING else "failure",
            texts.status_line(status, result.findings_count),
        ),
    )


_EVENTS = {
    ReviewStatus.APPROVED: "APPROVE",
    ReviewStatus.CHANGES_REQUESTED: "REQUEST_CHANGES",
    ReviewStatus.MAX_CYCLES: "REQUEST_CHANGES",
    ReviewStatus.SAFETY_VALVE: "REQUEST_CHANGES",
    ReviewStatus.DISAGREEMENT: "COMMENT",
    ReviewStatus.WAITING: "COMMENT",
    ReviewStatus.INVALID: "COMMENT",
}
