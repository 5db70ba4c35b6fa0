"""Any program: the prompt on standard input, the result on standard output."""

# ruff: noqa: ARG002 - the arguments are the interface's
from __future__ import annotations

import shlex
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from droveway.agents.model import AgentResult, AgentRun, Invocation
from droveway.agents.outcomes import Said, judge
from droveway.core.errors import InputError
from droveway.core.runner import Completed


class Command:
    """``binary`` is the command line; it is split as a shell would, and no shell runs it."""

    name = "command"
    env_names: tuple[str, ...] = ()
    login_files: tuple[str, ...] = ()

    def invocation(self, run: AgentRun) -> Invocation:
        """System prompt, an empty line, prompt. Raises InputError where no program is named."""
        try:
            argv = shlex.split(run.binary)
        except ValueError as error:
            raise InputError(f"agent.binary is no command line: {error}") from error
        if not argv:
            raise InputError("the provider command needs agent.binary, the program to start")
        prompt = f"{run.system}\n\n{run.prompt}" if run.system else run.prompt
        return Invocation(tuple(argv), prompt.encode())

    def read(self, run: AgentRun, completed: Completed, now: datetime | None = None) -> AgentResult:
        """Take all of standard output; the exit code is all that such a program says about itself."""
        return judge(completed, Said(completed.text().strip()), now)

    def login_check(self, env: Mapping[str, str], home: Path) -> str:
        """Nothing is known about it."""
        return ""
