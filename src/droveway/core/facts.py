"""Facts: what was observed, and whether the observation is complete (unknown is never empty)."""

from __future__ import annotations

from datetime import datetime
from typing import Generic, TypeAlias, TypeVar

import msgspec

T = TypeVar("T")


class Complete(msgspec.Struct, Generic[T], frozen=True, tag="complete"):
    """A fact that was read whole at ``at`` (UTC)."""

    value: T
    at: datetime


class Unknown(msgspec.Struct, frozen=True, tag="unknown"):
    """A fact that could not be read; a rule that needs it declines to act."""

    reason: str
    at: datetime


Fact: TypeAlias = Complete[T] | Unknown


class FactUnknownError(Exception):
    """A rule or a verb needed a fact that is unknown; the command line answers 3 (CLI-002)."""

    def __init__(self, what: str, reason: str) -> None:
        """Name the fact and why it could not be read."""
        super().__init__(f"{what} is unknown: {reason}")
        self.what = what
        self.reason = reason


def known(fact: Fact[T], what: str) -> T:
    """Give the value of a complete fact, or raise FactUnknownError that names ``what``."""
    if isinstance(fact, Unknown):
        raise FactUnknownError(what, fact.reason)
    return fact.value
