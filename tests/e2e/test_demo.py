"""The main job, in a process of its own, undisturbed and killed at random moments."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from .harness import Landed, assert_sound, canaries, environment, herd, last_json, look, served

SEEDS = range(10)
pytestmark = pytest.mark.xdist_group("demo")  # all look at one undisturbed run


@dataclass(frozen=True)
class Undisturbed:
    folder: Path
    result: dict[str, object]
    landed: Landed
    seconds: float


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    folder = tmp_path_factory.mktemp("undisturbed")
    began = time.monotonic()
    process = herd("demo", "--json", "--data", str(folder / "data"), out=folder / "out")
    code = process.wait(300)
    assert code == 0, process.text()[-4000:]
    seconds = time.monotonic() - began
    with served(folder / "data" / "home" / "forge") as (url, token):
        return Undisturbed(folder, last_json(process.text()), look(url, token), seconds)


@pytest.mark.smoke
@pytest.mark.req("CLI-003", "BAT-001", "BAT-002", "BAT-222", "BAT-226", "REV-086", "REV-087", "REV-091", "REV-099")
def test_the_demo_lands_a_batch_with_a_conflict_a_failed_validation_and_a_finding(undisturbed: Undisturbed) -> None:
    result, landed = undisturbed.result, undisturbed.landed
    assert result["ok"] is True
    assert set(result) == {"ok", "batch", "tasks", "pr", "forge_requests", "seconds"}
    tasks = result["tasks"]
    assert isinstance(tasks, list)
    planned = [task for task in tasks if not task["title"].startswith(("Review fixes", "Resolve conflict"))]
    assert len(planned) >= 6
    assert {task["tier"] for task in planned} == {0, 1, 2}
    assert all(set(task) == {"number", "title", "tier", "state", "attempts"} for task in tasks)
    assert {task["state"] for task in tasks} == {"done"}
    titles = list(landed.issues.values())
    assert sum(title.startswith("Resolve conflict: #") for title in titles) == 1
    assert "Review fixes (cycle 1)" in titles
    assert any("validation" in text.lower() and "Worker Report" in text for text in landed.texts)
    assert any("✅ **Droveway Agent Review**" in text for text in landed.texts)
    assert_sound(landed, landed.tree, titles)


@pytest.mark.req("QLT-040", "QLT-032")
def test_no_secret_stands_in_any_file_transcript_comment_or_log(undisturbed: Undisturbed) -> None:
    data = undisturbed.folder / "data"
    state = data / "home" / "state"
    tokens = [(state / f"{name}.token").read_text().strip() for name in ("owner", "bot")]
    assert canaries(undisturbed.folder, undisturbed.landed.texts, environment()["GITHUB_TOKEN"], *tokens) == []


@pytest.mark.slow
@pytest.mark.req("BAT-003", "BAT-182", "ENG-004", "QLT-030", "REV-055", "FRG-033")
@pytest.mark.parametrize("seed", SEEDS)
def test_killed_at_a_random_moment_the_demo_goes_on_and_lands_the_same(
    undisturbed: Undisturbed, tmp_path: Path, seed: int
) -> None:
    moment = random.Random(seed).uniform(1.0, undisturbed.seconds * 0.95)
    print(f"seed {seed}: killed after {moment:.2f} s of {undisturbed.seconds:.2f} s")
    first = herd("demo", "--json", "--data", str(tmp_path / "data"), out=tmp_path / "first")
    time.sleep(moment)  # the moment itself is the test's input
    first.kill()
    again = herd("demo", "--json", "--data", str(tmp_path / "data"), out=tmp_path / "again")
    assert again.wait(300) == 0, again.text()[-4000:]
    with served(tmp_path / "data" / "home" / "forge") as (url, token):
        assert_sound(look(url, token), undisturbed.landed.tree, list(undisturbed.landed.issues.values()))
