"""The table of a plan that a person sees before anything is created (BAT-012)."""

from __future__ import annotations

import msgspec

from droveway.batch.plan.model import Plan
from droveway.batch.plan.validate import plan_tiers


class Row(msgspec.Struct, frozen=True):
    """One task; ``number`` and ``depends_on`` are 0-based indices; ``manual``: a person does it."""

    number: int
    title: str
    tier: int
    complexity: str
    depends_on: tuple[int, ...]
    manual: bool


def plan_table(plan: Plan) -> list[Row]:
    """Give the rows in plan order."""
    tier = plan_tiers(plan)
    return [
        Row(index, task.title, tier[index], task.complexity, task.depends_on, task.manual)
        for index, task in enumerate(plan.tasks)
    ]
