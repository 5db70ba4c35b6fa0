"""Runs checks one after the other, each with its own deadline and output cap (BAT-149)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from droveway.core.clock import Clock
from droveway.core.runner import Completed, End
from droveway.core.text import cut_bytes
from droveway.work.validation.model import Check, CheckStatus, Report, Result

OUTPUT_BYTES = 64 * 1024
ERRORS_BYTES = 16 * 1024

Run: TypeAlias = Callable[[Sequence[str], Path, Mapping[str, str], float], Awaitable[Completed]]
"""``run(argv, cwd, extra env, timeout in seconds)``: runs in the sandbox of the agent."""


async def run_checks(
    checks: Sequence[Check], root: Path, run: Run, *, clock: Clock, budget: float, path: str, setup: bool = False
) -> Report:
    """Run all checks, also after one has failed. ``budget`` is in seconds for all; ``path`` is where tools are found.

    What no time is left for is ``timed_out``: it was not proved.
    """
    end = clock.monotonic() + budget
    results = []
    for check in checks:
        left = end - clock.monotonic()
        if left <= 0:
            results.append(_result(check, CheckStatus.TIMED_OUT, "no time was left for it"))
            continue
        results.append(await _one(check, root, run, min(left, check.timeout_seconds), path))
    return Report(tuple(results), setup=setup)


async def _one(check: Check, root: Path, run: Run, timeout: float, path: str) -> Result:
    cwd = root / check.dir
    if check.skip:
        return _result(check, CheckStatus.SKIPPED, check.skip)
    if not cwd.is_dir() or not cwd.resolve().is_relative_to(root.resolve()):
        return _result(check, CheckStatus.FAILED, f"there is no folder {check.dir!r}")
    if not _present(check.argv[0], cwd, path):
        if check.if_present:
            return Result(check.name, CheckStatus.SKIPPED, required=False, detail=f"{check.argv[0]} is not installed")
        status = CheckStatus.SKIPPED if check.optional else CheckStatus.FAILED
        return _result(check, status, f"{check.argv[0]} is not installed")
    for module in check.needs:
        probe = await run([check.argv[0], "-c", f"import {module}"], cwd, check.env, 60.0)
        if probe.code != 0 and check.otherwise:
            other = msgspec.structs.replace(check, name=check.otherwise_name, argv=check.otherwise, needs=())
            return await _one(other, root, run, timeout, path)
        if probe.code != 0:
            return _result(check, CheckStatus.SKIPPED, f"{module} can't be imported by {check.argv[0]}")
    done = await run(check.argv, cwd, check.env, timeout)
    output = cut_bytes((done.stdout + done.stderr).decode("utf-8", "replace"), OUTPUT_BYTES, "…[cut]\n", tail=True)
    if done.end is End.TIMEOUT:
        return _result(check, CheckStatus.TIMED_OUT, f"it did not end within {timeout:.0f} s", done, output)
    if done.end is not End.EXITED:
        return _result(check, CheckStatus.FAILED, f"it was stopped ({done.end.value})", done, output)
    if done.code == 0 and check.skip_text and check.skip_text in output:
        return _result(check, CheckStatus.SKIPPED, "it found nothing to run", done, output)
    if done.code == 0:
        return _result(check, CheckStatus.PASSED, "", done, output)
    if done.code in check.skip_codes:
        return _result(check, CheckStatus.SKIPPED, "it found nothing to run", done, output)
    return _result(check, CheckStatus.FAILED, f"exit code {done.code}", done, output)


def _present(program: str, cwd: Path, path: str) -> bool:
    if "/" in program:
        return os.path.lexists(program if program.startswith("/") else cwd / program)
    return shutil.which(program, path=path) is not None


def _result(check: Check, status: CheckStatus, detail: str, done: Completed | None = None, output: str = "") -> Result:
    return Result(
        name=check.name,
        status=status,
        required=not check.optional,
        detail=detail,
        code=done.code if done else None,
        seconds=done.seconds if done else 0.0,
        output=output,
    )


def errors_text(report: Report, limit: int = ERRORS_BYTES) -> str:
    """Give the output of the failing commands together, the tail kept (BAT-152)."""
    parts = [f"$ {r.name}: {r.status.value} ({r.detail})\n{r.output.rstrip()}" for r in report.results if r.bad]
    return cut_bytes("\n\n".join(parts), limit, "…[cut]\n", tail=True)
