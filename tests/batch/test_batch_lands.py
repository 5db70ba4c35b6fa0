"""From a plan to a merged PR on the embedded forge, with no command after the approval."""

from __future__ import annotations

from pathlib import Path

import pytest

from .world import REPO, git, world


@pytest.mark.req("BAT-002", "BAT-018", "BAT-110", "BAT-175", "BAT-180", "BAT-215", "BAT-222", "BAT-226", "REV-092")
async def test_a_batch_of_three_tiers_lands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(tmp_path, monkeypatch) as w:
        made = await w.create(
            {"title": "A"},
            {"title": "B"},
            {"title": "C", "depends_on": [0, 1]},
            {"title": "D", "depends_on": [2]},
        )
        report = await w.settle(made.milestone)
        assert report.landed, report
        assert w.runs[:2] == [made.issues[0], made.issues[1]]
        assert w.runs[2:] == [made.issues[2], made.issues[3]]
        assert w.branches() == ["main"]
        place = w.clone("main")
        assert sorted(p.name for p in (place / "out").iterdir()) == sorted(f"{n}.txt" for n in made.issues.values())
        assert not (place / ".herd/progress").exists()
        milestone = await w.fleet.forge.milestone(REPO, made.milestone)
        assert milestone
        assert milestone.state == "closed"
        issues = await w.fleet.forge.issues(REPO, milestone=made.milestone, state="all")
        assert {issue.state for issue in issues} == {"closed"}
        message = git(place, "log", "-1", "--format=%B")
        assert "Fixes #88" not in message
        assert (await w.cycle(made.milestone)).landed
