"""Counting requests per loop and in total, and the priority of what is asked (FRG-006)."""

from __future__ import annotations

import contextlib
import contextvars
import enum
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field


class Priority(enum.IntEnum):
    """Who goes first when the budget is short; smaller is more urgent."""

    MERGE = 0  # merge and stop
    COMMAND = 1
    REPAIR = 2
    OBSERVE = 3
    DASHBOARD = 4


@dataclass
class Count:
    """The requests of one loop. ``free`` are answers of 304, which the forge does not charge."""

    name: str
    requests: int = 0
    free: int = 0
    reads: int = 0
    writes: int = 0
    graphql: int = 0


@dataclass
class Counters:
    """All counts of one forge client."""

    total: Count = field(default_factory=lambda: Count("total"))
    by_loop: dict[str, Count] = field(default_factory=dict)
    by_route: Counter[str] = field(default_factory=Counter)


_counts: contextvars.ContextVar[tuple[Count, ...]] = contextvars.ContextVar("forge_counts", default=())
_priority: contextvars.ContextVar[Priority] = contextvars.ContextVar("forge_priority", default=Priority.OBSERVE)


@contextlib.contextmanager
def counting(counters: Counters, name: str) -> Iterator[Count]:
    """Count what is asked inside, by this task and those that it starts, for the loop ``name``."""
    inside = Count(name)
    whole = counters.by_loop.setdefault(name, Count(name))
    token = _counts.set((*_counts.get(), inside, whole))
    try:
        yield inside
    finally:
        _counts.reset(token)


@contextlib.contextmanager
def prioritised(priority: Priority) -> Iterator[None]:
    """Ask at this priority inside; an outer, more urgent one stays in force."""
    token = _priority.set(min(priority, _priority.get()))
    try:
        yield
    finally:
        _priority.reset(token)


def current_priority() -> Priority:
    """Give the priority in force."""
    return _priority.get()


def count(counters: Counters, route: str, *, write: bool, graphql: bool, free: bool) -> None:
    """Book one request that was sent."""
    counters.by_route[route] += 1
    for each in {id(one): one for one in (counters.total, *_counts.get())}.values():
        each.requests += 1
        each.free += free
        each.graphql += graphql
        if write:
            each.writes += 1
        else:
            each.reads += 1
