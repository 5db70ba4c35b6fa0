"""``herd forge``: serve, fill and use the embedded forge."""

from __future__ import annotations

import asyncio
import os
import shlex
from pathlib import Path
from urllib.parse import urlsplit

import click

from droveway.cli.common import Say, common, here, run


@click.group()
def forge() -> None:
    """Serve, fill and use the embedded forge."""


@forge.command()
@click.option(
    "--data", type=click.Path(file_okay=False, path_type=Path), help="Its folder; default: $DROVEWAY_HOME/forge."
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="0: any.")
@click.option("--host", default="127.0.0.1")
@click.option("--owner", default="owner", help="The person's account, at the first start.")
@click.option(
    "--token-file", type=click.Path(dir_okay=False, path_type=Path), help="Write the bot's token here (0600)."
)
@click.option(
    "--owner-token-file", type=click.Path(dir_okay=False, path_type=Path), help="Write the person's token here."
)
@click.option("--repo", "repos", multiple=True, metavar="NAME", help="Create this empty repository (repeatable).")
@click.option("--import", "imports", multiple=True, metavar="NAME=PATH", help="Import a git repository (repeatable).")
@click.option(
    "--ready-file", type=click.Path(dir_okay=False, path_type=Path), help="Write the address here when it answers."
)
@common()
def serve(
    say: Say,
    data: Path | None,
    port: int,
    host: str,
    owner: str,
    token_file: Path | None,
    owner_token_file: Path | None,
    repos: tuple[str, ...],
    imports: tuple[str, ...],
    ready_file: Path | None,
) -> None:
    """Run the embedded forge alone, in a process of its own. Ctrl-C ends it."""
    run(_serve(say, data, port, host, owner, token_file, owner_token_file, repos, imports, ready_file))


async def _serve(
    say: Say,
    data: Path | None,
    port: int,
    host: str,
    owner: str,
    token_file: Path | None,
    owner_token_file: Path | None,
    repos: tuple[str, ...],
    imports: tuple[str, ...],
    ready_file: Path | None,
) -> None:
    from droveway.core.clock import SystemClock
    from droveway.core.errors import InputError
    from droveway.core.ids import RandomIds
    from droveway.localforge import LocalForge
    from droveway.localforge import serve as served
    from droveway.service import save_secret
    from droveway.service.up import BOT

    home, _ = here()
    local = LocalForge.open(data or home.forge, clock=SystemClock(), ids=RandomIds(), owner=owner)
    try:
        tokens = local.first_tokens or {}
        if token_file and not token_file.exists():
            save_secret(token_file.absolute(), tokens.get(BOT) or local.issue_token(BOT))
        if owner_token_file and not owner_token_file.exists():
            save_secret(owner_token_file.absolute(), tokens.get(owner) or local.issue_token(owner))
        for name in repos:
            if not local.has_repo(owner, name):
                local.create_repo(owner, name)
        for entry in imports:
            name, _, path = entry.partition("=")
            if not path or not Path(path).exists():
                raise InputError(f"--import {entry}: write NAME=PATH of an existing git repository")
            if not local.has_repo(owner, name):
                local.create_repo(owner, name)
                local.import_repo(owner, name, Path(path).absolute())
        async with served(local, host=host, port=port) as url:
            if ready_file:
                save_secret(ready_file.absolute(), url)
            say.line(f"forge    {url}   (a person: {owner}, the fleet: {BOT})")
            if tokens and not (token_file and owner_token_file):
                for login, token in tokens.items():
                    say.line(f"token    {login}: {token}   (shown this once)")
            host_port = urlsplit(url).netloc
            say.line("Try:")
            say.line(f"  git clone http://{owner}:TOKEN@{host_port}/{owner}/NAME.git")
            say.line(f"  HTTP_PROXY={url} GH_HOST=github.localhost GH_TOKEN=TOKEN gh repo view {owner}/NAME")
            say.line(f"  curl -H 'Authorization: Bearer TOKEN' {url}/user")
            say.result({"url": url, "owner": owner, "bot": BOT})
            await asyncio.Event().wait()
    finally:
        local.close()


@forge.command("env")
@common()
def env_(say: Say) -> None:
    """Print what gh needs to use the running embedded forge: eval "$(herd forge env)"."""
    from droveway.core.errors import HerdError
    from droveway.service import read_up
    from droveway.service.found import read_secret

    home, _ = here()
    info = read_up(home)
    if info is None or info.provider != "local":
        raise HerdError("no embedded forge is running here: start 'herd up'")
    token = read_secret(home.state / "owner.token")
    values = {
        "GH_HOST": "github.localhost",
        "GH_TOKEN": token,
        "GH_PROMPT_DISABLED": "1",
        "GH_NO_UPDATE_NOTIFIER": "1",
        "GH_TELEMETRY": "false",
        "HTTP_PROXY": info.forge_url,
        "NO_PROXY": "127.0.0.1,::1",  # not localhost: for gh that would name api.github.localhost as well
    }
    if say.as_json:
        say.result({name: value for name, value in values.items() if name != "GH_TOKEN"})
        return
    for name, value in values.items():
        click.echo(f"export {name}={shlex.quote(value)}")


@forge.command("import")
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@click.option("--name", help="The repository's name; default: the folder's.")
@common()
def import_(say: Say, source: Path, name: str | None) -> None:
    """Bring an existing git repository (folder or bundle) into the running embedded forge, all branches and tags."""
    run(_import(say, source.absolute(), name))


async def _import(say: Say, source: Path, name: str | None) -> None:
    from droveway.app import FleetSpec, open_fleet
    from droveway.core.errors import HerdError
    from droveway.core.runner import Limits, scrubbed_environment
    from droveway.core.text import slug
    from droveway.service import read_up
    from droveway.service.found import read_secret

    home, runner = here()
    info = read_up(home)
    if info is None or info.provider != "local":
        raise HerdError("no embedded forge is running here: start 'herd up'")
    repo = name or slug(source.stem, "project")
    token = read_secret(home.state / "owner.token")
    spec = FleetSpec(home=home, api_url=info.forge_url, token=token, git_url=info.forge_url, engine="client")
    async with open_fleet(spec) as fleet:
        await fleet.forge.create_repository(repo)
    header = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "credential.helper",
        "GIT_CONFIG_VALUE_0": '!f() { printf "username=owner\npassword=%s\n" "$HERD_IMPORT_TOKEN"; }; f',
        "HERD_IMPORT_TOKEN": token,
        "GIT_TERMINAL_PROMPT": "0",
    }
    url = f"{info.forge_url}/{info.owner}/{repo}.git"
    done = await runner.run(
        ["git", "push", "--quiet", url, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"],
        cwd=source if source.is_dir() else source.parent,
        env=scrubbed_environment(os.environ, header),
        limits=Limits(timeout=600),
    )
    if not done.ok:
        raise HerdError(f"the import of {source.name} failed: {(done.error_text().strip().splitlines() or ['?'])[-1]}")
    say.line(f"imported {source.name} as {info.owner}/{repo}")
    say.result({"repo": f"{info.owner}/{repo}", "url": url})
