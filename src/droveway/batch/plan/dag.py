"""Dependencies as a graph: tiers by Kahn's rule, iteratively (BAT-097, BAT-098, case D01)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence


class CycleError(Exception):
    """The dependencies go round. ``members`` is one cycle in the direction "depends on", its smallest number first."""

    def __init__(self, members: Sequence[int]) -> None:
        """Hold the members; the text is ``#a → #b → #c → #a``."""
        self.members = tuple(members)
        super().__init__(" → ".join(f"#{member}" for member in (*self.members, self.members[0])))


def tiers(dependencies: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Give each task's tier: 0 without dependencies, else one more than the highest tier among its dependencies.

    Raises CycleError, and ValueError for a dependency that is no key: edges are never dropped. O(tasks + edges).
    """
    waits: dict[int, int] = {}
    followers: dict[int, list[int]] = {number: [] for number in dependencies}
    for number, needed in dependencies.items():
        distinct = set(needed)
        waits[number] = len(distinct)
        for other in distinct:
            if other not in followers:
                raise ValueError(f"#{number} depends on #{other}, which is not in the graph")
            followers[other].append(number)
    tier = {number: 0 for number, count in waits.items() if count == 0}
    free = deque(sorted(tier))
    while free:
        done = free.popleft()
        for number in followers[done]:
            waits[number] -= 1
            # Kahn's queue is in order of tiers, so the last dependency to be done has the highest one.
            if waits[number] == 0:
                tier[number] = tier[done] + 1
                free.append(number)
    if len(tier) < len(waits):
        raise CycleError(_cycle(dependencies, {number for number in waits if number not in tier}))
    return tier


def _cycle(dependencies: Mapping[int, Sequence[int]], left: set[int]) -> list[int]:
    """Walk along dependencies among those that never got free until one repeats: each of them has such a dependency."""
    at = min(left)
    place: dict[int, int] = {}
    path: list[int] = []
    while at not in place:
        place[at] = len(path)
        path.append(at)
        at = min(other for other in dependencies[at] if other in left)
    cycle = path[place[at] :]
    first = cycle.index(min(cycle))
    return cycle[first:] + cycle[:first]
