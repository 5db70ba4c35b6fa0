"""``herd demo``."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from droveway.cli.common import Say, common, run

if TYPE_CHECKING:
    from droveway.core.repo import RepoId
    from droveway.service import Running


@click.command()
@click.option(
    "--project", metavar="SDIST|PATH", help="The project to work on; default: a dependency's installed source."
)
@click.option("--agent", default="scripted", show_default=True, help="Which agent does the work.")
@click.option("--model", default="", help="The agent's model; default: the agent's own.")
@click.option("--keep", is_flag=True, help="Keep the data.")
@click.option(
    "--data", type=click.Path(file_okay=False, path_type=Path), help="Where; an interrupted demo goes on there."
)
@click.option("--serve", is_flag=True, help="Leave the forge running at the end, to be looked at.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The forge's port.")
@click.option(
    "--timeout", type=click.FloatRange(1), default=600.0, show_default=True, help="Seconds until it gives up."
)
@common()
def demo(
    say: Say,
    project: str | None,
    agent: str,
    model: str,
    keep: bool,
    data: Path | None,
    serve: bool,
    port: int,
    timeout: float,
) -> None:
    """Land a batch of a real project on a temporary embedded forge: plan, workers, conflict, review, fix, merge."""
    from droveway.demo import DemoOptions, run_demo

    async def served(service: Running, repo: RepoId, root: Path) -> None:
        token = root / "home" / "state" / "owner.token"
        say.line("")
        say.line(f"The forge stays on {service.info.forge_url} until Ctrl-C. Try:")
        say.line(f'  eval "$(DROVEWAY_HOME={root / "home"} herd forge env)"')
        say.line(f"  gh issue list --repo $GH_HOST/{repo} --state all;  gh pr view 1 --repo $GH_HOST/{repo}")
        say.line(
            f"  git clone {service.info.forge_url}/{repo}.git     (any user name, password: the content of {token})"
        )
        await asyncio.Event().wait()

    options = DemoOptions(
        source=project,
        agent=agent,
        model=model,
        data=data.absolute() if data else None,
        keep=keep or serve,
        timeout=timeout,
        port=port,
        say=say.line,
        served=served if serve else None,
    )
    result = run(run_demo(options))
    say.result(result)
    if not result.ok:
        raise SystemExit(1)
