"""Agent review of a PR: diff set, chunks, findings, fix issue, result. Review never imports batch."""

from droveway.review.facts import our_results
from droveway.review.job import run_review
from droveway.review.model import Finding, ReviewResult, ReviewStatus, Severity

JOBS = {"review": ("reviews", run_review)}

__all__ = ["JOBS", "Finding", "ReviewResult", "ReviewStatus", "Severity", "our_results", "run_review"]
