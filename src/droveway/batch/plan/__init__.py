"""Plans: their shape, the validator, tiers, and the table that people see."""

from droveway.batch.plan.dag import CycleError, tiers
from droveway.batch.plan.model import Plan, PlanCheck, Task
from droveway.batch.plan.table import Row, plan_table
from droveway.batch.plan.validate import (
    ReadPlan,
    check_plan,
    decode_plan,
    plan_as_json,
    plan_tiers,
    read_plan,
    validate,
)

__all__ = [
    "CycleError",
    "Plan",
    "PlanCheck",
    "ReadPlan",
    "Row",
    "Task",
    "check_plan",
    "decode_plan",
    "plan_as_json",
    "plan_table",
    "plan_tiers",
    "read_plan",
    "tiers",
    "validate",
]
