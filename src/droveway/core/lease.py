"""The right to act on a key, as an argument of every effect, so that it can't be forgotten (ENG-004)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from droveway.core.errors import HerdError


class LeaseLostError(HerdError):
    """Another process has taken the key over; nothing more may be done under this lease."""


class Lease:
    """A leased key with its epoch; ``check`` asks the engine whether it still holds."""

    def __init__(self, key: str, epoch: int, held: Callable[[], Awaitable[bool]]) -> None:
        """Wrap the engine's answer for ``key`` at ``epoch``."""
        self.key = key
        self.epoch = epoch
        self._held = held

    async def check(self) -> None:
        """Raise LeaseLostError unless the lease still holds."""
        if not await self._held():
            raise LeaseLostError(f"the lease on {self.key} (epoch {self.epoch}) was lost")

    @classmethod
    def unshared(cls, key: str) -> Lease:
        """Give a lease for a key that nobody else can want (a temporary forge, a one-shot verb of a person)."""

        async def yes() -> bool:
            return True

        return cls(key, 0, yes)
