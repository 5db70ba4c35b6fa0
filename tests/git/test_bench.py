"""The bench of QLT-001, small: both ways make the same trees and the same conflicts."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench" / "consolidation.py"


@pytest.mark.req("QLT-001", "BAT-238")
def test_the_bench_compares_equal_work(capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location("bench_consolidation", BENCH)
    assert spec
    assert spec.loader
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    assert bench.main(["--scale", "0.14", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [run["attributes"] for run in told["runs"]] == [False, True]
    assert all(run["same_tree"] and run["same_conflicts"] and run["conflicts"] >= 2 for run in told["runs"])
    assert told["ratio"] > 2
