"""``herd doctor``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from droveway.cli.common import Say, common, here, run


@click.command()
@common()
def doctor(say: Say) -> None:
    """Check this machine and repository; each line says how to mend what is wrong. Exit 1 if something must be."""
    from droveway.service.checkup import checkup

    home, runner = here()
    lines = run(checkup(home, runner, os.environ, Path.cwd()))
    for line in lines:
        mark = {"ok": "✓", "note": "•", "bad": "✗"}[line.state]
        say.line(
            f"{mark} {line.what}: {line.found}" + (f"\n    → {line.mend}" if line.mend and line.state != "ok" else "")
        )
    say.result(lines)
    if any(line.state == "bad" for line in lines):
        raise SystemExit(1)
