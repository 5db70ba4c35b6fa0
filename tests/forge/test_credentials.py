"""Where the token comes from (FRG-002)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from droveway.core.clock import SystemClock
from droveway.core.ids import RandomIds
from droveway.core.runner import Runner
from droveway.forge import TOKEN_VARIABLES, find_token


@pytest.fixture
def runner() -> Runner:
    return Runner(SystemClock(), RandomIds())


def gh(folder: Path, script: str) -> str:
    """Put a program named gh first in the path."""
    program = folder / "gh"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@pytest.mark.req("FRG-002")
async def test_the_variables_come_before_gh_in_their_order(runner: Runner, tmp_path: Path) -> None:
    environ = {"PATH": gh(tmp_path, "echo from-gh")} | {name: f"from {name}" for name in TOKEN_VARIABLES}
    for name in TOKEN_VARIABLES:
        assert await find_token(environ, runner) == f"from {name}"
        environ[name] = "  "
    assert await find_token(environ, runner) == "from-gh"


@pytest.mark.req("FRG-002")
@pytest.mark.parametrize("script", ["exit 1", "echo", "echo token; exit 4"])
async def test_a_gh_that_has_none_gives_none(runner: Runner, tmp_path: Path, script: str) -> None:
    assert await find_token({"PATH": gh(tmp_path, script)}, runner) is None


@pytest.mark.req("FRG-002")
async def test_no_gh_gives_none(runner: Runner, tmp_path: Path) -> None:
    assert await find_token({"PATH": str(tmp_path)}, runner) is None


@pytest.mark.req("FRG-002")
async def test_gh_sees_its_own_settings_and_no_other_secret(runner: Runner, tmp_path: Path) -> None:
    path = gh(tmp_path, 'echo "$GH_CONFIG_DIR/$GH_PROMPT_DISABLED/$OTHER_SECRET"')
    environ = {"PATH": path, "GH_CONFIG_DIR": "conf", "OTHER_SECRET": "s3cret"}
    assert await find_token(environ, runner) == "conf/1/"
