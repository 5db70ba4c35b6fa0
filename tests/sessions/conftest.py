"""Fixtures of the sessions room."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], dict[str, Any]]:
    """Make a program that plays the agent (inside the place, so that the sandbox shows it); give its settings."""

    def make(script: str) -> dict[str, Any]:
        path = tmp_path / "place" / "tree" / "agent.sh"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return {"agent": {"provider": "command", "binary": f"sh {path}"}}

    return make
