"""What every test shares: a clean environment, the judges' folder, a loop on virtual time."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from droveway.core.clock import VirtualClock, VirtualTimeLoop

T = TypeVar("T")
pytest_plugins = ["strict_skips"]  # with CI set, a skip fails the run (QLT-051)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """No setting of the machine's reaches a test: each has its own home, and no credential."""
    for name in list(os.environ):
        if name.startswith(("DROVEWAY_", "GIT_", "GH_", "GITHUB_")) or (
            name.startswith("HERD_") and name not in ("HERD_JUDGES", "HERD_GH", "HERD_VENV")
        ):
            monkeypatch.delenv(name)
    monkeypatch.setenv("DROVEWAY_HOME", str(tmp_path / "droveway-home"))


@pytest.fixture
def virtually() -> Iterator[Callable[[Callable[[VirtualClock], Coroutine[Any, Any, T]]], T]]:
    """Run a coroutine function on a loop with virtual time: ``virtually(lambda clock: …)``."""
    loops: list[VirtualTimeLoop] = []

    def run(function: Callable[[VirtualClock], Coroutine[Any, Any, T]]) -> T:
        loop = VirtualTimeLoop()
        loops.append(loop)
        return loop.run_until_complete(function(VirtualClock(loop)))

    yield run
    for loop in loops:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
