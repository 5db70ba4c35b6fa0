"""What a cycle of the integrator gives back."""

from __future__ import annotations

import msgspec

from droveway.core.decisions import Blocker


class CycleReport(msgspec.Struct, frozen=True):
    """``lines`` say what was done, for people; ``waiting`` why the batch has not landed, as of the last round.

    ``landed`` and ``cancelled`` batches have ended, and so has one whose milestone a person closed (``closed``).
    """

    lines: tuple[str, ...] = ()
    acted: bool = False
    landed: bool = False
    cancelled: bool = False
    closed: bool = False
    waiting: tuple[Blocker, ...] = ()

    @property
    def ended(self) -> bool:
        """Whether nothing will ever happen in this batch any more."""
        return self.landed or self.cancelled or self.closed
