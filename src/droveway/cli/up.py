"""``herd up``."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import click

from droveway.cli.common import Say, common, here, run


@click.command()
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="The embedded forge's port; 0: last time's, or any."
)
@click.option("--host", default="127.0.0.1", help="The address to listen on.")
@click.option("--owner", default="owner", help="The person's account, at the first start.")
@click.option(
    "--script", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="The scripted agent's file."
)
@click.option("--forge", "forge_url", default="", help="Use the forge at this address instead of starting one.")
@click.option("--token-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Our token there.")
@click.option(
    "--owner-token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A person's token there, for herd init and git in clones.",
)
@click.option("--repo", "repos", multiple=True, metavar="OWNER/NAME", help="Only these repositories (repeatable).")
@click.option("--slot", type=click.IntRange(0), default=0, help="This process's number on this machine.")
@click.option("--poll", type=click.FloatRange(0.1), default=3.0, help="Seconds between looks at the forge.")
@click.option("--sandbox-required", is_flag=True, help="Refuse to start without a sandbox for agents.")
@common()
def up(
    say: Say,
    port: int,
    host: str,
    owner: str,
    script: Path | None,
    forge_url: str,
    token_file: Path | None,
    owner_token_file: Path | None,
    repos: tuple[str, ...],
    slot: int,
    poll: float,
    sandbox_required: bool,
) -> None:
    """Run everything for one machine: the embedded forge, the engine, the loops. Ctrl-C ends it.

    With --forge (and --token-file, or HERD_GITHUB_TOKEN) it works on a forge that runs elsewhere.
    """
    run(
        _up(
            say, port, host, owner, script, forge_url, token_file, owner_token_file, repos, slot, poll, sandbox_required
        )
    )


async def _up(
    say: Say,
    port: int,
    host: str,
    owner: str,
    script: Path | None,
    forge_url: str,
    token_file: Path | None,
    owner_token_file: Path | None,
    repos: tuple[str, ...],
    slot: int,
    poll: float,
    sandbox_required: bool,
) -> None:
    from droveway.core.errors import InputError
    from droveway.core.repo import RepoId
    from droveway.service import UpOptions, running

    home, runner = here()
    token = ""
    if forge_url:
        from droveway.forge import find_token

        token = token_file.read_text().strip() if token_file else (await find_token(os.environ, runner) or "")
        if not token:
            raise InputError("--forge needs a token: give --token-file, or set HERD_GITHUB_TOKEN")

    def told(repo: RepoId, number: int, report: Any) -> None:
        for line in report.lines:
            say.line(f"{repo} batch {number}: {line}")

    options = UpOptions(
        home=home,
        api_url=forge_url.rstrip("/"),
        token=token,
        owner_token=owner_token_file.read_text().strip() if owner_token_file else "",
        repositories=tuple(RepoId.parse(repo) for repo in repos),
        host=host,
        port=port,
        owner=owner,
        poll_seconds=poll,
        script=script.absolute() if script else None,
        slot=slot,
        sandbox_required=sandbox_required,
        on_cycle=told,
    )
    async with running(options) as service:
        say.result(service.info)
        say.line(f"forge    {service.info.forge_url}   (a person: {service.info.owner}, the fleet: {service.info.bot})")
        say.line(f"sandbox  {service.fleet.sandbox.level}: {service.fleet.sandbox.reason}")
        say.line(f"state    {home.root}")
        say.line("")
        say.line("In your clone, in another terminal:")
        say.line("  herd init                                 once: remote, labels, configuration")
        say.line("  herd plan --from-file plan.json           a batch starts")
        say.line("  herd watch                                follow it;  herd pull brings it home")
        say.line('  eval "$(herd forge env)"; gh issue list   look at it with gh, git and curl')
        await asyncio.Event().wait()
