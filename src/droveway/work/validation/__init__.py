"""Validation: what is run on a worker's change before it is pushed, and what the results mean (BAT-139 … BAT-154)."""

from droveway.work.validation.detect import DiskTree, Project, Tree, detect, detect_commands, plan
from droveway.work.validation.model import Check, CheckStatus, Report, Result, ValidationOutcome
from droveway.work.validation.running import Run, errors_text, run_checks

__all__ = [
    "Check",
    "CheckStatus",
    "DiskTree",
    "Project",
    "Report",
    "Result",
    "Run",
    "Tree",
    "ValidationOutcome",
    "detect",
    "detect_commands",
    "errors_text",
    "plan",
    "run_checks",
]
