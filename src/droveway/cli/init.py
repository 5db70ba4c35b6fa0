"""``herd init``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from droveway.cli.common import Say, common, here, run


@click.command()
@click.option("--name", help="The repository's name on the forge; default: the folder's.")
@click.option("--agent", default="claude", help="The agent that the new configuration names.")
@click.option("--skip-labels", is_flag=True, help="Create no labels.")
@common(dry_run=True)
def init(say: Say, name: str | None, agent: str, skip_labels: bool, dry_run: bool) -> None:
    """Prepare this repository for a running 'herd up': remote 'herd', labels, configuration ('origin' stays)."""
    from droveway.service import prepare

    home, runner = here()
    done = run(
        prepare(
            runner,
            home,
            os.environ,
            folder=Path.cwd(),
            name=name,
            agent=agent,
            skip_labels=skip_labels,
            dry_run=dry_run,
        )
    )
    for line in [*done.drift, *done.lines]:
        say.line(line)
    say.result({"repo": str(done.repo), "url": done.url, "lines": done.lines, "drift": done.drift})
