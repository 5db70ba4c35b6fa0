"""The engine's own tables: who lives, who holds, who runs."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psutil
import pytest
import sqlalchemy as sa

from droveway.core.errors import BusyError
from droveway.engine.ledger import EXECUTORS, LEASES, Claim, Executor, Ledger
from droveway.store import make_engine

pytestmark = pytest.mark.req("ENG-004", "ENG-009")


class Desk:
    """A ledger on a database of its own, with means to change it behind its back."""

    def __init__(self, url: str) -> None:
        self.database = make_engine(url)
        self.ledger = Ledger(self.database)
        self.ledger.create()
        self.ledger.create()

    def change(self, statement: sa.Executable) -> None:
        with self.database.begin() as db:
            db.execute(statement)

    def executor(self, name: str) -> Executor:
        return next(row for row in self.ledger.executors() if row.id == name)


@pytest.fixture
def desk(database_url: str) -> Iterator[Desk]:
    made = Desk(database_url)
    yield made
    made.database.dispose()


def test_a_lease_that_expired_goes_to_the_next_with_a_new_epoch(desk: Desk) -> None:
    assert desk.ledger.take("k", "one", 30) == 1
    assert desk.ledger.take("k", "two", 30) is None
    desk.change(sa.update(LEASES).values(expires_at=LEASES.c.expires_at - 31))
    assert not desk.ledger.holds("k", 1, "one")
    assert desk.ledger.take("k", "two", 30) == 2
    assert desk.ledger.holds("k", 2, "two")
    desk.ledger.give("k", 1, "one")
    assert desk.ledger.holds("k", 2, "two")


@pytest.mark.req("QLT-033")
def test_a_lease_from_before_the_clock_went_back_a_day_does_not_last_a_day(desk: Desk) -> None:
    assert desk.ledger.take("k", "one", 30) == 1
    desk.change(sa.update(LEASES).values(expires_at=LEASES.c.expires_at + 86400))
    assert desk.ledger.take("k", "two", 30) == 2
    assert not desk.ledger.holds("k", 1, "one")


def test_only_a_living_incarnation_may_claim_and_a_later_claim_ends_the_earlier(desk: Desk) -> None:
    assert desk.ledger.claim("job", "nobody") is None
    desk.ledger.register("a", "a1")
    desk.ledger.register("b", "b1")
    first = desk.ledger.claim("job", "a1")
    assert first == Claim("job", 1, "a1", 1)
    assert desk.ledger.lost([first]) == {}
    second = desk.ledger.claim("job", "b1")
    assert second == Claim("job", 2, "b1", 2)
    assert desk.ledger.lost([first]) == {"job": False}
    assert not desk.ledger.settle(first)
    assert not desk.ledger.hand_back(first)
    assert desk.ledger.settle(second)
    assert desk.ledger.lost([second]) == {"job": False}


def test_handing_back_does_not_count_as_an_attempt(desk: Desk) -> None:
    desk.ledger.register("a", "a1")
    for _ in range(5):
        claim = desk.ledger.claim("job", "a1")
        assert claim is not None
        assert claim.attempts == 1
        assert desk.ledger.hand_back(claim)


def test_a_cancelled_job_can_be_neither_claimed_nor_settled(desk: Desk) -> None:
    desk.ledger.register("a", "a1")
    claim = desk.ledger.claim("job", "a1")
    assert claim is not None
    desk.ledger.cancel("job")
    assert desk.ledger.lost([claim]) == {"job": True}
    assert not desk.ledger.settle(claim)
    assert desk.ledger.claim("job", "a1") is None
    assert desk.ledger.cancelled("job")


def test_burial_takes_all_rights_away_unless_there_was_a_sign_of_life(desk: Desk) -> None:
    desk.ledger.register("a", "a1")
    desk.ledger.register("b", "b1")
    claim = desk.ledger.claim("job", "a1")
    assert claim is not None
    epoch = desk.ledger.take("k", "a1", 30)
    assert epoch == 1
    seen = desk.executor("a")
    assert desk.ledger.beat("a1", [("k", 1)])
    assert not desk.ledger.bury(seen)
    assert desk.ledger.bury(desk.executor("a"))
    assert not desk.ledger.bury(desk.executor("b").__class__("a", "a1", 1))
    assert desk.ledger.lost([claim]) == {"job": False}
    assert not desk.ledger.holds("k", 1, "a1")
    assert not desk.ledger.beat("a1", [("k", 1)])
    assert desk.ledger.take("k", "b1", 30) == 2


def test_an_executor_that_starts_anew_frees_what_its_dead_self_held(desk: Desk) -> None:
    desk.ledger.register("a", "a1")
    claim = desk.ledger.claim("job", "a1")
    assert claim is not None
    assert desk.ledger.take("k", "a1", 3000) == 1
    desk.change(sa.update(EXECUTORS).values(pid=2**22 + 1))
    desk.ledger.register("a", "a2")
    assert desk.ledger.lost([claim]) == {"job": False}
    assert desk.ledger.take("k", "a2", 30) == 2


def test_two_living_processes_cannot_be_one_executor(desk: Desk) -> None:
    desk.ledger.register("a", "a1")
    parent = psutil.Process(os.getppid())
    desk.change(sa.update(EXECUTORS).values(pid=parent.pid, pid_started=parent.create_time()))
    with pytest.raises(BusyError, match=f"process {parent.pid} already runs as"):
        desk.ledger.register("a", "a2")
    desk.change(sa.update(EXECUTORS).values(pid_started=parent.create_time() - 3600))
    desk.ledger.register("a", "a2")  # the number belongs to another process now
