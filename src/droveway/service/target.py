"""Which repository and which forge a verb means: options, the ``herd`` remote, the configuration, ``up.json``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from droveway.app import CONFIG_PATHS, Home, read_settings
from droveway.core.errors import HerdError, InputError
from droveway.core.repo import RepoId
from droveway.core.runner import Limits, Runner, scrubbed_environment
from droveway.core.settings import Settings
from droveway.service.found import read_secret, read_up


@dataclass(frozen=True)
class Target:
    """A repository on a forge, with our identity's token. ``root`` is the clone's top folder, where there is one."""

    repo: RepoId
    api_url: str
    token: str
    git_url: str | None
    provider: str
    root: Path | None
    settings: Settings


async def git_top(runner: Runner, environ: Mapping[str, str], folder: Path) -> Path | None:
    """Give the top folder of the clone that ``folder`` lies in, or None."""
    done = await runner.run(
        ["git", "rev-parse", "--show-toplevel"],
        cwd=folder,
        env=scrubbed_environment(environ),
        limits=Limits(timeout=10),
    )
    return Path(done.text().strip()) if done.ok else None


async def remote_url(runner: Runner, environ: Mapping[str, str], top: Path, name: str) -> str:
    """Give a remote's address, or nothing."""
    done = await runner.run(
        ["git", "config", "--get", f"remote.{name}.url"],
        cwd=top,
        env=scrubbed_environment(environ),
        limits=Limits(timeout=10),
    )
    return done.text().strip() if done.ok else ""


def repo_of_url(url: str) -> RepoId | None:
    """Read ``owner/name`` from a clone address (http, https, ssh, or scp-like)."""
    match = re.search(r"[/:]([A-Za-z0-9_.-]+)/([A-Za-z0-9_.-]+?)(?:\.git)?/?$", url)
    return RepoId(match.group(1), match.group(2)) if match else None


def local_settings(top: Path | None, environ: Mapping[str, str]) -> Settings:
    """Read the clone's own copy of the configuration: it only says where the forge is; rules read the base branch."""
    files: dict[str, bytes | None] = {}
    for path in CONFIG_PATHS:
        file = top / path if top else None
        files[path] = file.read_bytes() if file and file.is_file() else None
    return read_settings(files, environ)


async def resolve_target(
    runner: Runner, home: Home, environ: Mapping[str, str], *, repo: str | None = None, folder: Path | None = None
) -> Target:
    """Find out what a verb works on. Raises HerdError or InputError with one line that says what to do."""
    top = await git_top(runner, environ, folder or Path.cwd())
    settings = local_settings(top, environ)
    herd_remote = await remote_url(runner, environ, top, "herd") if top else ""
    up = read_up(home)
    provider = settings.platform.provider
    if herd_remote or (up and up.provider == "local" and top is None):
        provider = "local"
    if provider == "local":
        if up is None:
            raise HerdError("no 'herd up' is running here: start it in another terminal, then try again")
        found = RepoId.parse(repo) if repo else repo_of_url(herd_remote)
        if found is None:
            raise InputError(
                "this folder has no remote 'herd': run 'herd init' in your clone, or name --repo owner/name"
            )
        token = read_secret(home.state / "bot.token")
        return Target(found, up.forge_url, token, up.forge_url, provider, top, settings)
    named = RepoId(settings.platform.owner, settings.platform.repo) if settings.platform.owner else None
    found = (
        RepoId.parse(repo)
        if repo
        else named or (repo_of_url(await remote_url(runner, environ, top, "origin")) if top else None)
    )
    if found is None:
        raise InputError("no repository: run this in a clone, or name --repo owner/name")
    from droveway.forge import find_token

    found_token = await find_token(environ, runner)
    if not found_token:
        raise HerdError(
            "no credential for the forge: set HERD_GITHUB_TOKEN, or log in with 'gh auth login'; "
            "for the embedded forge run 'herd up' and 'herd init'"
        )
    return Target(found, settings.platform.url, found_token, _git_url(settings.platform.url), provider, top, settings)


def _git_url(api_url: str) -> str:
    parts = urlsplit(api_url)
    host = "github.com" if parts.hostname == "api.github.com" else parts.netloc
    return f"{parts.scheme}://{host}"
