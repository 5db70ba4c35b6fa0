"""The graph of a batch's issues: tiers, what is complete, what cannot be read (BAT-027, BAT-097 … BAT-102). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from droveway.batch.plan import CycleError, tiers
from droveway.core.vocabulary import Status
from droveway.work import Task


class Graph(msgspec.Struct, frozen=True):
    """Tiers of the tasks proper. ``fixes`` are fix-type issues, no part of it; ``cycle`` not empty: no tiers exist.

    ``unreadable`` tells why an incomplete task's place is unknown; it counts as an incomplete task of tier 0.
    """

    tasks: Mapping[int, Task] = {}
    fixes: Mapping[int, Task] = {}
    tier: Mapping[int, int] = {}
    needs: Mapping[int, tuple[int, ...]] = {}
    unreadable: Mapping[int, str] = {}
    cycle: tuple[int, ...] = ()

    @property
    def current(self) -> int | None:
        """Give the first tier that is not complete; None where all are, or where there are no tiers (BAT-100)."""
        if self.cycle:
            return None
        return min((self.tier[number] for number, task in self.tasks.items() if not task.complete), default=None)

    @property
    def complete(self) -> bool:
        """Whether every tier is complete; never true where there is no task, a cycle, or something unreadable."""
        return bool(self.tasks) and not self.cycle and not self.unreadable and self.current is None

    @property
    def active_fixes(self) -> tuple[Task, ...]:
        """Give the fix-type issues that hold back the PR and the review: open, and ready or in progress (BAT-102)."""
        return tuple(task for task in self.fixes.values() if is_active(task))

    def waits_for(self, number: int) -> tuple[int, ...]:
        """Give the dependencies of a task that are not complete."""
        return tuple(other for other in self.needs.get(number, ()) if not self.tasks[other].complete)

    def tier_of(self, number: int) -> int | None:
        """Give a task's tier; None for a fix-type issue, or where there are no tiers."""
        return self.tier.get(number)


def is_active(task: Task) -> bool:
    """Whether a fix-type issue is ready or in progress."""
    return task.open and bool({Status.READY, Status.IN_PROGRESS, Status.BLOCKED}.intersection(task.statuses))


def is_fix(task: Task) -> bool:
    """Whether an issue is no part of the tier graph (BAT-102); one that can't be read is taken for a task."""
    return not task.unreadable and (task.front.is_fix_type or task.front.is_standalone)


def build_graph(issues: Iterable[Task]) -> Graph:
    """Build the graph of a milestone's herd issues, open and closed. O(issues + edges)."""
    tasks: dict[int, Task] = {}
    fixes: dict[int, Task] = {}
    for task in sorted(issues, key=lambda t: t.number):
        (fixes if is_fix(task) else tasks)[task.number] = task
    unreadable: dict[int, str] = {}
    needs: dict[int, tuple[int, ...]] = {}
    for number, task in tasks.items():
        strange = [other for other in task.front.depends_on if other not in tasks]
        reason = task.unreadable or (_strange(strange) if strange else "")
        if reason and not task.complete:
            unreadable[number] = reason
            needs[number] = ()
        else:  # of a complete task no edge matters any more
            needs[number] = tuple(dict.fromkeys(other for other in task.front.depends_on if other in tasks))
    try:
        tier = tiers(needs)
    except CycleError as cycle:
        return Graph(tasks, fixes, {}, needs, unreadable, cycle.members)
    return Graph(tasks, fixes, tier, needs, unreadable)


def _strange(numbers: list[int]) -> str:
    named = ", ".join(f"#{number}" for number in numbers[:10])
    return f"depends_on names {named}, which is no task of this batch"
