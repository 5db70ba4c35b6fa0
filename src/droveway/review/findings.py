"""Reading the reviewer's output, and making one list of findings of many (REV-031, REV-032, REV-045 … REV-047)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from droveway.review.model import RANK, Aggregate, ChunkResult, Finding, ReviewerOutput, Severity

_VOLATILE = re.compile(
    r"\b(?:chunk|cycle|pass|line|lines|hunk|part)s?\s*#?\d+(?:\s*(?:of|/|-|to)\s*\d+)?\b|:\d+(?::\d+)?\b|\b\d+/\d+\b",
    re.IGNORECASE,
)
_NEGATED = re.compile(
    r"\b(?:does not|doesn't|do not|don't|fails to|fail to|misses|is missing|lacks|without)\b", re.IGNORECASE
)
_STOP = frozenset(
    re.findall(
        r"\w+",
        """a an the is are was were be been it its this that these those of in on at to for from by with and or but
        so as if then there here still again also should must can could may might will would now not when where
        which who""",
    )
)
_PATH = re.compile(r"(?<![\w./-])((?:[\w.-]+/)*(?:[\w-]+\.[A-Za-z]\w{0,5}|Makefile|Dockerfile))(?![\w/])")


def fingerprint(finding: Finding) -> str:
    """Give 12 hex digits of path, symbol and claim: equal for the same fault told in a slightly different way."""
    path = finding.path or _path_in(finding.description)
    text = _VOLATILE.sub(" ", finding.description.lower())
    text = _NEGATED.sub(" missing ", text)
    tokens = sorted(set(re.findall(r"[^\W_]+", text)) - _STOP)
    claim = f"{path}\0{finding.symbol.lower()}\0{' '.join(tokens)}"
    return hashlib.sha256(claim.encode()).hexdigest()[:12]


def _path_in(text: str) -> str:
    match = _PATH.search(text)
    return match.group(1) if match else ""


def safe_path(path: str) -> str:
    """Give a repository-relative path, or nothing where it would lead outside (case D03 j)."""
    if not path or path.startswith("/") or "\\" in path or ".." in path.split("/"):
        return ""
    return path


def aggregate(results: Sequence[ChunkResult], paths: frozenset[str]) -> Aggregate:
    """Deduplicate across chunks; keep the fuller text and the higher severity; order by severity, path, line.

    A path outside the diff keeps its finding but loses its line: it is never followed.
    """
    raw = 0
    merged: dict[str, Finding] = {}
    for result in sorted(results, key=lambda item: item.number):
        for found in _found(result):
            raw += 1
            path = safe_path(found.path)
            finding = Finding(
                found.severity,
                found.description,
                path,
                found.line if path in paths else None,
                found.symbol,
                found.title,
            )
            key = fingerprint(finding)
            merged[key] = _merged(merged[key], finding) if key in merged else finding
    order = sorted(merged.values(), key=lambda item: (RANK[item.severity], item.path, item.line or 0, item.description))
    outputs = [result.output for result in results if result.output]
    return Aggregate(
        findings=tuple(order),
        raw=raw,
        summaries=tuple(output.summary for output in outputs if output.summary.strip()),
        refused_without_finding=any(not output.approved and not output.findings for output in outputs),
        failed_chunks=tuple(sorted(result.number for result in results if result.output is None)),
        worst_high=max((_high(output) for output in outputs), default=0),
    )


def _found(result: ChunkResult) -> tuple[Finding, ...]:
    """Give a chunk's findings; a breach of the contract is one of its own, for a person (REV-030)."""
    if result.breach:
        text = f"{result.breach}, which the contract forbids; its answer was not used."
        return (Finding(Severity.CRITERIA, text, title="The reviewer broke its contract"),)
    return result.output.findings if result.output else ()


def _high(output: ReviewerOutput) -> int:
    return sum(finding.severity is Severity.HIGH for finding in output.findings)


def _merged(first: Finding, second: Finding) -> Finding:
    fuller = second if len(second.description) > len(first.description) else first
    severity = min(first.severity, second.severity, key=lambda item: RANK[item])
    return Finding(
        severity, fuller.description, fuller.path, fuller.line or first.line, fuller.symbol, fuller.title or first.title
    )


def actionable(findings: Sequence[Finding], threshold: str) -> tuple[Finding, ...]:
    """Give the findings that a fix worker is to mend: at or above the threshold, never CRITERIA (REV-040 … REV-044)."""
    accepted = {"low": ("HIGH", "MEDIUM", "LOW"), "medium": ("HIGH", "MEDIUM"), "high": ("HIGH",)}[threshold]
    return tuple(finding for finding in findings if finding.severity in accepted)
