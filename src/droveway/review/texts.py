"""What people read of a review: the result comment, the fix issue, the status line (REV-024 … REV-027, REV-050)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from droveway.core.text import cut_bytes, cut_chars, neutralise
from droveway.review.findings import fingerprint
from droveway.review.model import Finding, ReviewStatus, Severity

if TYPE_CHECKING:
    from droveway.review.rules import ReviewFacts

_UNPARSEABLE = (
    "⚠️ **Droveway Integrator** — Agent review failed to produce valid output after 2 attempts. "
    "Run `/herd review` manually to retry."
)
_NEXT = {
    ReviewStatus.APPROVED: "Nothing that would hold the change back was found.",
    ReviewStatus.CHANGES_REQUESTED: "The merge waits until this is mended.",
    ReviewStatus.MAX_CYCLES: "The limit of fix cycles is reached: a person decides what happens to what remains.",
    ReviewStatus.SAFETY_VALVE: "More than 10 HIGH findings in one pass: no fix worker starts; a person is asked.",
    ReviewStatus.WAITING: "All of this is being mended already; the next head is reviewed again.",
    ReviewStatus.INVALID: "This is no approval: a person is asked to look.",
    ReviewStatus.DISAGREEMENT: "Reviewer and fix worker disagree: a person decides.",
}


def result(facts: ReviewFacts, status: ReviewStatus, fix_issue: int | None) -> str:
    """Give the result comment without its markers; foreign text in it is inert."""
    found = facts.aggregate
    lines = [_heading(facts, status), ""]
    if facts.plan.chunks and len(found.failed_chunks) == len(facts.plan.chunks):
        return "\n".join([_UNPARSEABLE, *_sections(found.findings), "", *_coverage(facts)]).rstrip()
    if not facts.files:
        lines += ["The change is empty: there was nothing to review.", ""]
    lines += [neutralise(cut_bytes(text, 4000)) for text in found.summaries]
    lines += ["", _NEXT[status], *_sections(found.findings)]
    if fix_issue is not None:
        lines += ["", f"Fix issue: #{fix_issue} (cycle {facts.cycle})."]
    elif status is ReviewStatus.WAITING:
        active = ", ".join(f"#{fix.number}" for fix in facts.fixes if fix.active)
        lines += ["", f"In work: {active}."]
    if found.failed_chunks:
        lines += ["", _UNPARSEABLE]
    if status is ReviewStatus.APPROVED:
        lines += [
            "",
            f"{facts.files} files reviewed, {len(found.findings)} findings, {facts.cycle - 1} fix cycles used.",
        ]
    if found.raw != len(found.findings):
        lines += ["", f"{found.raw} findings before deduplication, {len(found.findings)} after."]
    return "\n".join([*lines, *_coverage(facts)]).strip()


def stale(head: str, now_at: str) -> str:
    """Give the note of a discarded result."""
    return (
        f"⚠️ **Droveway Agent Review** — the head moved from {head[:12]} to {now_at[:12]} during the review. "
        "Its result was discarded; the new head is reviewed next."
    )


def _sections(findings: Sequence[Finding]) -> list[str]:
    lines: list[str] = []
    for severity in Severity:
        items = [finding for finding in findings if finding.severity is severity]
        if items:
            title = "CRITERIA (requires human review)" if severity is Severity.CRITERIA else severity.value
            lines += ["", f"### {title}", "", *(_item(finding) for finding in items)]
    return lines


def _heading(facts: ReviewFacts, status: ReviewStatus) -> str:
    if status is ReviewStatus.APPROVED:
        return "✅ **Droveway Agent Review**"
    most = facts.settings.review_max_fix_cycles
    return f"🔍 **Droveway Agent Review** (cycle {facts.cycle}" + (f" of {most})" if most else ")")


def _item(finding: Finding) -> str:
    title = f"**{neutralise(cut_chars(' '.join(finding.title.split()), 120))}**" if finding.title else ""
    claim = neutralise(cut_bytes(" ".join(finding.description.split()), 4000))
    return "- " + " ".join(part for part in (title, _place(finding), claim) if part)


def _coverage(facts: ReviewFacts) -> list[str]:
    if not facts.plan.limited and not facts.gaps and not facts.warnings and not facts.aggregate.failed_chunks:
        return []
    total = max(facts.plan.needed, len(facts.plan.chunks))
    done = len(facts.plan.chunks) - len(facts.aggregate.failed_chunks)
    lines = [
        "",
        "## Diff Coverage",
        "",
        f"Source: {facts.source}. Chunks reviewed: {done}/{total}. Files: {facts.files}.",
    ]
    lines += [f"Coverage is {'complete' if facts.covered else 'incomplete'}."]
    lines += [f"- omitted: `{path}` ({reason})" for path, reason in facts.plan.omitted[:100]]
    lines += [f"- truncated: `{path}` ({reason})" for path, reason in facts.plan.truncated[:100]]
    lines += [f"- warning: {warning}" for warning in facts.warnings]
    if not facts.covered:
        lines += [
            "",
            (
                "Source files were not reviewed whole: this is no approval. Raise `integrator.review_diff.max_chunks`, "
                "split the PR, mark paths as generated, or let a person approve."
            ),
        ]
    return lines


def review_body(status: ReviewStatus, findings: int) -> str:
    """Give the review event's own text; the details stand in the result comment."""
    return f"Droveway agent review: {status_line(status, findings)}"


def status_line(status: ReviewStatus, findings: int) -> str:
    """Give the commit status' one line."""
    words = {
        ReviewStatus.APPROVED: "approved",
        ReviewStatus.CHANGES_REQUESTED: "changes requested",
        ReviewStatus.MAX_CYCLES: "fix cycles used up, a person decides",
        ReviewStatus.SAFETY_VALVE: "too many serious findings, a person decides",
        ReviewStatus.WAITING: "waits for fixes in work",
        ReviewStatus.INVALID: "no valid review",
        ReviewStatus.DISAGREEMENT: "disagreement, a person decides",
    }
    return f"{words[status]} ({findings} findings)"


def fix_task(pull: int, head: str, cycle: int) -> str:
    """Give the fix issue's task section."""
    return (
        f"Mend the findings of the agent review of #{pull} at {head[:12]} (cycle {cycle}). They outrank the original "
        "criteria. If you are convinced that the reviewer is wrong, explain it finding by finding."
    )


def fix_findings(findings: Sequence[Finding]) -> str:
    """Give the fix issue's numbered findings, each with its fingerprint so that a verdict can name it."""
    items = []
    for number, finding in enumerate(findings, 1):
        title = neutralise(" ".join(finding.title.split()))
        head = " ".join(part for part in (f"{number}. **{finding.severity}**", title, _place(finding)) if part)
        items.append(f"{head} [{fingerprint(finding)}]\n\n   {neutralise(' '.join(finding.description.split()))}")
    return "\n\n".join(items)


def _place(finding: Finding) -> str:
    line = f":{finding.line}" if finding.line else ""
    return f"`{finding.path}{line}`" if finding.path else ""
