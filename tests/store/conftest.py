"""Stores on both databases."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from droveway.core.clock import SystemClock
from droveway.core.ids import RandomIds
from droveway.store import Store
from private_postgres import Cluster, cluster


@pytest.fixture(scope="session")
def store_postgres() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        running: Cluster = request.getfixturevalue("store_postgres")
        return running.database()
    return f"sqlite:///{tmp_path / 'state' / 'droveway.db'}"


class SetClock(SystemClock):
    """A clock whose present moment is set by hand."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 12, 1, 12, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment

    def later(self, **time: float) -> datetime:
        self.moment += timedelta(**time)
        return self.moment


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest_asyncio.fixture
async def store(empty_url: str, clock: SetClock) -> AsyncIterator[Store]:
    made = await Store.open(empty_url, clock=clock, ids=RandomIds())
    yield made
    await made.close()
