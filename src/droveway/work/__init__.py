"""What several rooms do with an issue: its body, dispatch, attempts, validation, and the worker's run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from droveway.work.attempts import (
    Attempt,
    AttemptComment,
    AttemptOutcome,
    attempt_key,
    attempt_marker,
    failures,
    highest_attempt,
    job_attempt,
    job_id,
    job_prefix,
    read_attempts,
    settled,
)
from droveway.work.body import (
    IssueBody,
    Unreadable,
    make_body,
    parse_body,
    render_body,
    without_markers,
)
from droveway.work.dispatch import (
    BatchView,
    DispatchFacts,
    RepairFacts,
    active_workers,
    blockers,
    dispatch_decisions,
    free_slots,
    order,
    repair_decisions,
    start_refused,
)
from droveway.work.frontmatter import FrontMatter
from droveway.work.sections import Criterion, Section
from droveway.work.task import Author, Task, read_task
from droveway.work.validation import detect_commands
from droveway.work.why import Why, last_failure, why_issue

if TYPE_CHECKING:
    from droveway.engine import JobContext
    from droveway.sessions import Fleet


async def run_worker(fleet: Fleet, context: JobContext) -> dict[str, Any]:
    """Do one attempt at one issue (BAT-122); see ``work.worker.life``."""
    from droveway.work.worker import run_worker as run

    return await run(fleet, context)


JOBS = {"worker": ("workers", run_worker)}

__all__ = [
    "JOBS",
    "Attempt",
    "AttemptComment",
    "AttemptOutcome",
    "Author",
    "BatchView",
    "Criterion",
    "DispatchFacts",
    "FrontMatter",
    "IssueBody",
    "RepairFacts",
    "Section",
    "Task",
    "Unreadable",
    "Why",
    "active_workers",
    "attempt_key",
    "attempt_marker",
    "blockers",
    "detect_commands",
    "dispatch_decisions",
    "failures",
    "free_slots",
    "highest_attempt",
    "job_attempt",
    "job_id",
    "job_prefix",
    "last_failure",
    "make_body",
    "order",
    "parse_body",
    "read_attempts",
    "read_task",
    "render_body",
    "repair_decisions",
    "run_worker",
    "settled",
    "start_refused",
    "why_issue",
    "without_markers",
]
