"""The actuator: lease, fresh look, idempotency, dry run, redaction, the record."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from droveway.core.actuator import Actuator, AuditRecord, Done, EffectError, Look, Ready, Stale
from droveway.core.clock import SystemClock
from droveway.core.decisions import Comment, Decision, Receipt, SetCommitStatus
from droveway.core.facts import Complete, FactUnknownError, Unknown, known
from droveway.core.ids import SeededIds
from droveway.core.lease import Lease, LeaseLostError
from droveway.core.text import Redactor
from droveway.core.vocabulary import Message

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Records:
    def __init__(self) -> None:
        self.kept: list[AuditRecord] = []

    async def record(self, record: AuditRecord) -> None:
        self.kept.append(record)


class World:
    """A handler whose world is a list; ``answers`` scripts its looks."""

    def __init__(self, *answers: Look | EffectError) -> None:
        self.answers = list(answers)
        self.applied: list[Any] = []

    async def look(self, action: Any) -> Look:
        answer = self.answers.pop(0) if self.answers else Ready()
        if isinstance(answer, EffectError):
            raise answer
        return answer

    async def apply(self, action: Any) -> Receipt:
        self.applied.append(action)
        return Receipt(number=len(self.applied))


def actuator(world: World, records: Records, **options: Any) -> Actuator:
    return Actuator(
        {Comment: world},
        audit=records,
        clock=SystemClock(),
        ids=SeededIds(1),
        redactor=Redactor(["canary-secret"]),
        **options,
    )


def decision(count: int = 1, body: str = "hello") -> Decision:
    actions = tuple(Comment("o/r", f"k{n}", 1, Message.BATCH, body) for n in range(count))
    return Decision("BAT-000", "o/r", "issue:1", facts=("a fact",), actions=actions)


@pytest.mark.req("ENG-007")
async def test_what_is_ready_is_done_in_order_and_recorded() -> None:
    world, records = World(), Records()
    outcome = await actuator(world, records).act(decision(3), Lease.unshared("k"), loop="test")
    assert [result.outcome for result in outcome.results] == ["applied"] * 3
    assert [action.key for action in world.applied] == ["k0", "k1", "k2"]
    assert outcome.receipt(Comment) == Receipt(number=1)
    assert [(record.rule, record.subject, record.facts) for record in records.kept] == [
        ("BAT-000", "issue:1", ("a fact",))
    ]


@pytest.mark.req("QLT-032")
async def test_an_effect_that_exists_is_not_made_again() -> None:
    world = World(Done(Receipt(number=9)))
    outcome = await actuator(world, Records()).act(decision(), Lease.unshared("k"), loop="test")
    assert (outcome.results[0].outcome, outcome.receipt(Comment), world.applied) == ("existed", Receipt(number=9), [])
    assert outcome.ok
    assert not outcome.acted


@pytest.mark.parametrize("answer", [Stale("moved on"), EffectError("rejected", "no right")])
async def test_the_first_that_is_stale_or_refused_ends_the_decision(answer: Look | EffectError) -> None:
    world = World(Ready(), answer)
    outcome = await actuator(world, Records()).act(decision(3), Lease.unshared("k"), loop="test")
    assert [result.outcome for result in outcome.results][0::2] == ["applied", "skipped"]
    assert len(world.applied) == 1
    assert not outcome.ok


@pytest.mark.req("QLT-032")
async def test_a_dry_run_makes_no_write_and_no_record() -> None:
    world, records = World(), Records()
    outcome = await actuator(world, records, dry_run=True).act(decision(2), Lease.unshared("k"), loop="test")
    assert [result.outcome for result in outcome.results] == ["dry", "dry"]
    assert (world.applied, records.kept) == ([], [])


@pytest.mark.req("ENG-004")
async def test_a_lost_lease_stops_before_the_effect() -> None:
    answers = [True, False]

    async def held() -> bool:
        return answers.pop(0)

    world = World()
    with pytest.raises(LeaseLostError, match="integrate/o/r/1"):
        await actuator(world, Records()).act(decision(2), Lease("integrate/o/r/1", 4, held), loop="test")
    assert len(world.applied) == 1


@pytest.mark.req("QLT-040")
async def test_no_secret_leaves_by_an_action_or_stays_in_a_record() -> None:
    world, records = World(EffectError("rejected", "canary-secret")), Records()
    await actuator(world, records).act(decision(body="say canary-secret"), Lease.unshared("k"), loop="test")
    assert "canary-secret" not in repr(records.kept)
    world = World()
    await actuator(world, records).act(decision(body="say canary-secret"), Lease.unshared("k"), loop="test")
    assert world.applied[0].body == "say ***"


async def test_an_action_that_nobody_handles_is_a_defect_that_is_told() -> None:
    action = SetCommitStatus("o/r", "k", "a" * 40, "herd/review", "success")
    outcome = await actuator(World(), Records()).act(
        Decision("REV-058", "o/r", "pr:1", actions=(action,)), Lease.unshared("k"), loop="test"
    )
    assert (outcome.results[0].outcome, outcome.results[0].kind) == ("failed", "defect")


@pytest.mark.req("FRG-004", "BAT-165")
def test_an_unknown_fact_is_never_a_value() -> None:
    assert known(Complete(3, NOW), "three") == 3
    with pytest.raises(FactUnknownError, match="the issues is unknown: page 3 failed"):
        known(Unknown("page 3 failed", NOW), "the issues")
