"""The one place where decisions become effects: dry run, lease, re-read, idempotency, redaction, the audit record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeAlias, TypeVar, cast

import msgspec
import structlog

from droveway.core.clock import Clock
from droveway.core.decisions import AnyAction, Blocker, Decision, Receipt
from droveway.core.errors import HerdError
from droveway.core.ids import Ids
from droveway.core.lease import Lease, LeaseLostError
from droveway.core.points import point
from droveway.core.text import Redactor

A = TypeVar("A", bound=AnyAction, contravariant=True)  # noqa: PLC0105 - the contravariance is plain from the use


class Done(msgspec.Struct, frozen=True, tag="done"):
    """The effect exists already; nothing is to be done."""

    receipt: Receipt


class Stale(msgspec.Struct, frozen=True, tag="stale"):
    """The world has moved on since the decision: it must not be done any more."""

    reason: str


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The effect is still wanted and possible.

    ``seen`` is what the look read, for a handler whose ``apply_seen`` builds on it: nothing lies between the two, so
    that a second read of the same subject would only cost.
    """

    seen: Any = None


Look: TypeAlias = Done | Stale | Ready


class EffectError(HerdError):
    """An effect that the world refused. ``kind`` is a short word that rules match on (``lost-race``, ``rejected``)."""

    def __init__(self, kind: str, message: str) -> None:
        """Hold the kind and one line for people."""
        super().__init__(message)
        self.kind = kind


class Handler(Protocol[A]):
    """Knows one kind of action. ``look`` reads its subject anew just before ``apply`` changes it."""

    async def look(self, action: A) -> Look:
        """Read the subject and say whether the effect exists, is stale, or is ready to be made."""
        ...

    async def apply(self, action: A) -> Receipt:
        """Make the effect. Raise EffectError where the world refuses."""
        ...


class SeeingHandler(Handler[A], Protocol[A]):
    """A handler whose ``look`` hands what it read on, inside its ``Ready``."""

    async def apply_seen(self, action: A, seen: Any) -> Receipt:
        """Make the effect from what ``look`` has just read. Raise EffectError where the world refuses."""
        ...


class ActionResult(msgspec.Struct, frozen=True):
    """What became of one action: ``outcome`` is applied, existed, stale, failed, skipped or dry."""

    action: AnyAction
    outcome: str
    receipt: Receipt = Receipt()
    detail: str = ""
    kind: str = ""

    @property
    def holds(self) -> bool:
        """Whether the effect is in the world now."""
        return self.outcome in ("applied", "existed")


class AuditRecord(msgspec.Struct, frozen=True):
    """One decision as it is kept (ENG-007). ``actions`` and ``outcomes`` are plain JSON."""

    id: str
    at: datetime
    loop: str
    rule: str
    repo: str
    subject: str
    head: str
    facts: tuple[str, ...]
    blockers: tuple[Blocker, ...]
    actions: list[dict[str, Any]]
    outcomes: list[dict[str, Any]]
    requests: int = 0


class Audit(Protocol):
    """Where decisions are recorded."""

    async def record(self, record: AuditRecord) -> None:
        """Keep one record; a repetition of the same blockers is not kept again."""
        ...


class Outcome(msgspec.Struct, frozen=True):
    """A decision with what became of each of its actions."""

    decision: Decision
    results: tuple[ActionResult, ...] = ()

    @property
    def acted(self) -> bool:
        """Whether anything in the world was changed."""
        return any(result.outcome == "applied" for result in self.results)

    @property
    def ok(self) -> bool:
        """Whether every action's effect is in the world."""
        return all(result.holds for result in self.results)

    def receipt(self, kind: type[Any]) -> Receipt | None:
        """Give the receipt of the first action of this type that holds."""
        for result in self.results:
            if isinstance(result.action, kind) and result.holds:
                return result.receipt
        return None


class Actuator:
    """Applies decisions. Rooms never call a port's writing method; they return actions, and these end here."""

    def __init__(
        self,
        handlers: Mapping[type[Any], Handler[Any]],
        *,
        audit: Audit,
        clock: Clock,
        ids: Ids,
        redactor: Redactor,
        dry_run: bool = False,
    ) -> None:
        """Take a handler per action type; with ``dry_run`` no handler's ``apply`` is ever called."""
        self._handlers = handlers
        self._audit = audit
        self._clock = clock
        self._ids = ids
        self._redactor = redactor
        self.dry_run = dry_run

    async def act(self, decision: Decision, lease: Lease, *, loop: str) -> Outcome:
        """Apply a decision's actions in order, under ``lease``; the first that is stale or fails ends the decision.

        What was not reached is ``skipped``: the next tick observes and decides again. Raises LeaseLostError only.
        """
        results: list[ActionResult] = []
        for action in decision.actions:
            if results and not (results[-1].holds or results[-1].outcome == "dry"):
                results.append(ActionResult(action, "skipped"))
                continue
            results.append(await self._one(action, lease))
        outcome = Outcome(decision, tuple(results))
        if not self.dry_run:
            await self._audit.record(self._record(outcome, loop))
        return outcome

    async def act_all(self, decisions: Sequence[Decision], lease: Lease, *, loop: str) -> list[Outcome]:
        """Apply decisions one after the other; one that fails does not stop the others."""
        return [await self.act(decision, lease, loop=loop) for decision in decisions]

    async def _one(self, action: AnyAction, lease: Lease) -> ActionResult:
        handler = self._handlers.get(type(action))
        if handler is None:
            return ActionResult(action, "failed", detail=f"no handler for {type(action).__name__}", kind="defect")
        action = self._redacted(action)
        name = str(type(action).__struct_config__.tag)
        try:
            await lease.check()
            match await handler.look(action):
                case Done(receipt=receipt):
                    return ActionResult(action, "existed", receipt)
                case Stale(reason=reason):
                    return ActionResult(action, "stale", detail=reason)
                case Ready(seen=seen):
                    pass
            if self.dry_run:
                return ActionResult(action, "dry")
            await point(f"act.{name}.before")
            if seen is None:
                receipt = await handler.apply(action)
            else:
                receipt = await cast("SeeingHandler[Any]", handler).apply_seen(action, seen)
            await point(f"act.{name}.after")
            return ActionResult(action, "applied", receipt)
        except LeaseLostError:
            raise
        except EffectError as error:
            detail, kind = str(error), error.kind
        except HerdError as error:
            detail, kind = str(error), "error"
        detail = self._redactor(detail)
        structlog.get_logger().warning("effect failed", action=name, key=action.key, kind=kind, detail=detail)
        return ActionResult(action, "failed", detail=detail, kind=kind)

    def _redacted(self, action: AnyAction) -> AnyAction:
        """Pass every text of the action through the redactor: no secret leaves by a comment (QLT-040)."""
        changed = {
            name: clean
            for name in action.__struct_fields__
            if isinstance(value := getattr(action, name), str) and (clean := self._redactor(value)) != value
        }
        return msgspec.structs.replace(action, **changed) if changed else action

    def _record(self, outcome: Outcome, loop: str) -> AuditRecord:
        decision = outcome.decision
        return AuditRecord(
            id=self._ids.new(),
            at=self._clock.now(),
            loop=loop,
            rule=decision.rule,
            repo=decision.repo,
            subject=decision.subject,
            head=decision.head,
            facts=decision.facts,
            blockers=decision.blockers,
            actions=[_brief(result.action) for result in outcome.results],
            outcomes=[
                {"outcome": result.outcome, "detail": result.detail, "receipt": msgspec.to_builtins(result.receipt)}
                for result in outcome.results
            ],
        )


def _brief(action: AnyAction) -> dict[str, Any]:
    """Give an action as JSON with long texts cut: the record explains, it does not archive bodies."""
    plain: dict[str, Any] = msgspec.to_builtins(action)
    return {
        name: value[:200] + "…" if isinstance(value, str) and len(value) > 200 else value
        for name, value in plain.items()
    }
