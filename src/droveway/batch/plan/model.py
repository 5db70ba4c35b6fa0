"""The plan file as typed data (BAT-014)."""

from __future__ import annotations

import msgspec

COMPLEXITIES = ("", "low", "medium", "high")
TYPES = ("", "feature", "bugfix")


class Task(msgspec.Struct, frozen=True):
    """One task of a plan. ``depends_on`` are 0-based indices into the plan's tasks, without doubles."""

    title: str
    description: str = ""
    implementation_details: str = ""
    acceptance_criteria: tuple[str, ...] = ()
    scope: tuple[str, ...] = ()
    conventions: tuple[str, ...] = ()
    context_from_dependencies: tuple[str, ...] = ()
    complexity: str = ""
    type: str = ""
    runner_label: str = ""
    depends_on: tuple[int, ...] = ()
    manual: bool = False
    timeout_minutes: int | None = None
    model: str = ""
    priority: int = 0


class Plan(msgspec.Struct, frozen=True):
    """A whole plan that has passed the validator."""

    batch_name: str
    tasks: tuple[Task, ...]
    pr_summary: str = ""


class PlanCheck(msgspec.Struct, frozen=True):
    """What the validator found: every error and warning at once, and the plan where there is no error."""

    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    plan: Plan | None = None
