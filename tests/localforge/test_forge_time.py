"""The forge in process on virtual time: hours pass in no time, and never while it works (QLT-031's ground)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from droveway.core.clock import VirtualClock
from droveway.core.ids import SeededIds
from droveway.localforge import LocalForge

from .world import source


def test_virtual_deadlines_do_not_fire_while_the_forge_answers(
    tmp_path: Path, virtually: Callable[[Callable[[VirtualClock], Any]], Any]
) -> None:
    source(tmp_path / "source")

    async def run(clock: VirtualClock) -> list[str]:
        forge = LocalForge.open(tmp_path / "forge", clock=clock, ids=SeededIds(1))
        try:
            forge.import_repo("owner", "road", tmp_path / "source")
            token = (forge.first_tokens or {})["herd-bot"]
            transport = httpx.ASGITransport(app=forge.app)  # type: ignore[arg-type]
            times = []
            async with httpx.AsyncClient(transport=transport, base_url="http://f") as client:
                client.headers["Authorization"] = f"token {token}"
                for hours in range(3):
                    async with asyncio.timeout(60):
                        made = await client.post("/repos/owner/road/issues", json={"title": f"{hours}"})
                        await client.get("/repos/owner/road/compare/main...clean")
                    times.append(made.json()["created_at"])
                    await clock.sleep(3600)
            return times
        finally:
            forge.close()

    times = virtually(run)
    assert [time[:13] for time in times] == ["2026-01-01T00", "2026-01-01T01", "2026-01-01T02"]
