"""The relay: the boundary between an agent's gate and the forge (BAT-134, BAT-136, BAT-137)."""

from __future__ import annotations

import asyncio
import enum

import msgspec

from droveway.core.decisions import RefUpdate
from droveway.core.points import point
from droveway.git.gate import GateError
from droveway.git.mirror import Mirror
from droveway.git.model import PushResult, RefOutcome
from droveway.git.place import Place


class RelayOutcome(enum.StrEnum):
    """How a relayed push ended."""

    PUSHED = "pushed"
    UNCHANGED = "unchanged"
    LOST_LEASE = "lost-lease"  # somebody else moved the branch
    REJECTED = "rejected"  # the forge does not want it, or what lies in the gate is not sound


class RelayResult(msgspec.Struct, frozen=True):
    """How it ended, the commit that was meant (None: there was none), and why."""

    outcome: RelayOutcome
    sha: str | None = None
    reason: str = ""


class Relay:
    """Moves exactly one ref, the place's branch, from gate to forge, with a lease on what was last seen there."""

    def __init__(self, place: Place, mirror: Mirror, *, last_seen: str | None) -> None:
        """Start from ``last_seen``, the forge's tip of the branch; None: the branch does not exist there."""
        self.last_seen = last_seen
        self._place = place
        self._mirror = mirror
        self._ref = f"refs/heads/{place.branch}"
        self._turn = asyncio.Lock()
        self._unanswered: set[str] = set()  # pushed, and the answer was lost or the push cancelled: may be there

    async def push(self, tip: str | None = None) -> RelayResult:
        """Relay the gate's tip, or push ``tip`` (in the mirror): what the framework itself put on top of it.

        A gate that the agent has not moved is ``unchanged``. Raises GitError where the forge does not answer.
        """
        async with self._turn:
            try:
                sha = tip or await self._place.take()
            except GateError as error:
                return RelayResult(RelayOutcome.REJECTED, None, str(error))
            if sha is None or sha == self.last_seen or (tip is None and sha == self._place.start):
                return RelayResult(RelayOutcome.UNCHANGED, sha)
            await point("relay.taken")
            result = await self._push(sha)
            await point("relay.pushed")
            if result.outcome is RefOutcome.STALE:
                there = (await self._mirror.remote_refs(self._ref)).get(self._ref)
                if there in self._unanswered:  # an earlier push of ours got through without our seeing the answer
                    self.last_seen = there
                    if there == sha:
                        return RelayResult(RelayOutcome.PUSHED, sha)
                    result = await self._push(sha)
            if result.outcome is RefOutcome.STALE:
                return RelayResult(RelayOutcome.LOST_LEASE, sha, result.reason)
            if not result.ok:
                return RelayResult(RelayOutcome.REJECTED, sha, result.reason)
            self.last_seen = sha
            return RelayResult(RelayOutcome.PUSHED, sha)

    async def _push(self, sha: str) -> PushResult:
        self._unanswered.add(sha)
        result = await self._mirror.push([RefUpdate(self._ref, self.last_seen, sha)])
        if result.ok:
            self._unanswered.clear()
        elif result.outcome is not RefOutcome.STALE:
            self._unanswered.discard(sha)
        return result
