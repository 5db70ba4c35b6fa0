"""The agent without a model, as a provider (AGT-011)."""

# ruff: noqa: ARG002 - the arguments are the interface's
from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from droveway.agents.model import AgentResult, AgentRun, Invocation, Usage
from droveway.agents.outcomes import Said, judge
from droveway.core.errors import InputError
from droveway.core.runner import Completed


class Scripted:
    """``python -m droveway.agents.scripted``; the script's file must be readable where the run takes place."""

    name = "scripted"
    env_names: tuple[str, ...] = ()
    login_files: tuple[str, ...] = ()

    def invocation(self, run: AgentRun) -> Invocation:
        """Give role, title and attempt as options. Raises InputError without a script."""
        if run.script is None:
            raise InputError("the scripted agent needs a script: give --script FILE at the start")
        argv = (
            *(run.binary or sys.executable, "-m", "droveway.agents.scripted", f"--script={run.script}"),
            *(f"--role={run.role}", f"--issue-title={run.issue_title}", f"--attempt={run.attempt}"),
        )
        return Invocation(argv, run.prompt.encode())

    def read(self, run: AgentRun, completed: Completed, now: datetime | None = None) -> AgentResult:
        """Take what the script says; it costs nothing."""
        return judge(completed, Said(completed.text().strip(), Usage(cost_usd=0.0, turns=1)), now)

    def login_check(self, env: Mapping[str, str], home: Path) -> str:
        """It is always there."""
        return ""
