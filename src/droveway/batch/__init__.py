"""The batch room: plan → graph → tiers → consolidation → batch PR → landing. One loop, ``integrate``.

Verbs of people: ``create_batch``, ``dispatch_issues``, ``pause_batch``, ``cancel_batch``, ``merge_batch``; views:
``batches``, ``show_batch``, ``explain``.
"""

from droveway.batch.create import CreatedBatch, create_batch
from droveway.batch.facts import BatchFacts, observe
from droveway.batch.hand import cancel_batch, dispatch_issues, pause_batch
from droveway.batch.landing import merge_batch
from droveway.batch.loop import integrate
from droveway.batch.metadata import CreatedBy, Metadata, is_batch, read_metadata
from droveway.batch.plan import (
    CycleError,
    Plan,
    PlanCheck,
    ReadPlan,
    Row,
    Task,
    check_plan,
    decode_plan,
    plan_as_json,
    plan_table,
    read_plan,
    tiers,
    validate,
)
from droveway.batch.report import CycleReport
from droveway.batch.start import start_batch
from droveway.batch.steps import batch_of, integrate_step, worker_job
from droveway.batch.views import BatchSummary, BatchView, PullView, TaskView, batches, show_batch
from droveway.batch.why import Explanation, explain

__all__ = [
    "BatchFacts",
    "BatchSummary",
    "BatchView",
    "CreatedBatch",
    "CreatedBy",
    "CycleError",
    "CycleReport",
    "Explanation",
    "Metadata",
    "Plan",
    "PlanCheck",
    "PullView",
    "ReadPlan",
    "Row",
    "Task",
    "TaskView",
    "batch_of",
    "batches",
    "cancel_batch",
    "check_plan",
    "create_batch",
    "decode_plan",
    "dispatch_issues",
    "explain",
    "integrate",
    "integrate_step",
    "is_batch",
    "merge_batch",
    "observe",
    "pause_batch",
    "plan_as_json",
    "plan_table",
    "read_metadata",
    "read_plan",
    "show_batch",
    "start_batch",
    "tiers",
    "validate",
    "worker_job",
]
