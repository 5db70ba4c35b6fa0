"""The effect of the git room: refs of the forge moved by compare-and-set (BAT-180)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from droveway.core.actuator import Done, EffectError, Look, Ready, Stale
from droveway.core.decisions import MoveRefs, Receipt
from droveway.git.mirror import Mirror
from droveway.git.model import RefOutcome
from droveway.git.runner import GitError


class MoveRefsHandler:
    """Makes ``MoveRefs``: all refs or none."""

    def __init__(self, mirror_for: Callable[[str], Awaitable[Mirror]]) -> None:
        """``mirror_for`` gives the mirror of ``owner/name``, which has the objects to be pushed."""
        self._mirror_for = mirror_for

    async def look(self, action: MoveRefs) -> Look:
        """Read the refs on the forge: all moved already, one elsewhere, or as the action expects.

        One that stands at its new value while others do not counts as expected: a forge may have no atomic push.
        """
        mirror = await self._mirror_for(action.repo)
        try:
            now = await mirror.remote_refs(*(update.ref for update in action.updates)) if action.updates else {}
        except GitError as error:
            raise _refused(error) from error
        if all(now.get(update.ref) == update.new for update in action.updates):
            return Done(_receipt(action))
        for update in action.updates:
            at = now.get(update.ref)
            if at not in (update.old, update.new):
                return Stale(f"{update.ref} is at {at or 'nothing'}, expected {update.old or 'nothing'}")
        return Ready(now)

    async def apply(self, action: MoveRefs) -> Receipt:
        """Push. Raises EffectError: ``lost-race``, ``rejected``, ``auth``, or ``transport``."""
        return await self.apply_seen(action, None)

    async def apply_seen(self, action: MoveRefs, seen: Mapping[str, str] | None) -> Receipt:
        """As ``apply``, from the refs that the look has just read."""
        mirror = await self._mirror_for(action.repo)
        try:
            now = await mirror.remote_refs(*(update.ref for update in action.updates)) if seen is None else seen
            left = [update for update in action.updates if now.get(update.ref) != update.new]
            result = await mirror.push(left)
        except GitError as error:
            raise _refused(error) from error
        if result.outcome is RefOutcome.STALE:
            raise EffectError("lost-race", result.reason)
        if not result.ok:
            raise EffectError("rejected", result.reason)
        return _receipt(action)


def _receipt(action: MoveRefs) -> Receipt:
    """Name the first ref that has a new value: of a consolidation that is the batch branch."""
    moved = next((update.new for update in action.updates if update.new), None)
    return Receipt(sha=moved, note=f"{len(action.updates)} refs")


def _refused(error: GitError) -> EffectError:
    return EffectError("auth" if error.auth else "transport", str(error))
