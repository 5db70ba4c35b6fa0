"""The benches run, and what they compare is whole: counts only, never times."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"bench_{name}", BENCH / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.req("QLT-003")
def test_a_small_batch_goes_from_its_plan_to_landed_in_processes_as_people_start_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bench = load("orchestration")
    assert bench.main(["--tasks", "3", "--tiers", "2", "--timeout", "200", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["landed"]
    assert row["parts"] == row["tasks"] == row["issues_closed"] == 3
    assert row["milestones_closed"] == row["pulls"] == row["pulls_merged"] == 1
    assert row["branches_left"] == row["failures"] == 0
    assert {"git_seconds", "seconds", "ratio", "cpu_ms_per_task", "forge_cpu_ms_per_task"} <= row.keys()


def test_a_plans_tiers_are_of_equal_size_and_each_needs_the_one_before() -> None:
    bench = load("orchestration")
    tasks = bench.plan(50, 5)["tasks"]
    tiers = [bench.tier_of(task, 50, 5) for task in range(50)]
    assert [tiers.count(tier) for tier in range(5)] == [10] * 5
    assert all(
        [tiers[needed] for needed in row.get("depends_on", [])] == [tier - 1]
        for row, tier in zip(tasks[10:], tiers[10:], strict=True)
    )
    assert not any("depends_on" in row for row in tasks[:10])
