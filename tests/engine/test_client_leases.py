"""A verb beside a running engine shares its leases."""

from __future__ import annotations

from pathlib import Path

import pytest

from droveway.core.clock import SystemClock
from droveway.core.ids import RandomIds
from droveway.core.lease import LeaseLostError
from droveway.engine import DbosEngine, EngineClient


@pytest.mark.req("ENG-004", "CMD-029")
async def test_a_verb_and_the_engine_never_hold_one_key_together(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'herd.db'}"
    alone = EngineClient(url)
    assert await alone.lease("integrate/o/r/1") is not None  # nobody else can want it before an engine has started
    engine = DbosEngine(url, executor_id="test-0", clock=SystemClock(), ids=RandomIds(), slots={"workers": 1})
    await engine.start()
    first, second = EngineClient(url), EngineClient(url)
    try:
        held = await first.lease("integrate/o/r/1")
        assert held is not None
        await held.check()
        assert await engine.lease("integrate/o/r/1") is None
        assert await second.lease("integrate/o/r/1") is None
        await first.release(held)
        with pytest.raises(LeaseLostError):
            await held.check()
        taken = await engine.lease("integrate/o/r/1")
        assert taken is not None
        assert await second.lease("integrate/o/r/1") is None
        await engine.release(taken)
    finally:
        for client in (alone, first, second):
            client.close()
        await engine.stop()
