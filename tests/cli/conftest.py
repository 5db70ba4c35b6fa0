"""Running the real command in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


Herd = Callable[..., Said]


@pytest.fixture
def herd(tmp_path: Path) -> Herd:
    """Run ``herd`` with arguments in ``cwd`` (default: an empty folder); standard input is empty."""
    empty = tmp_path / "empty"
    empty.mkdir()

    def run(*args: str, cwd: Path | None = None, env: dict[str, str] | None = None, timeout: float = 60) -> Said:
        done = subprocess.run(
            [sys.executable, "-m", "droveway", *args],
            cwd=cwd or empty,
            env={**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path), **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A git repository with one commit on main."""
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "README.md").write_text("# Shop\n")
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.invalid"]
    for command in (["init", "-q", "-b", "main"], ["add", "-A"], [*identity, "commit", "-qm", "first"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    for key, value in (("user.name", "Ada"), ("user.email", "ada@example.invalid")):
        subprocess.run(["git", "config", key, value], cwd=folder, check=True)
    return folder
