"""``herd init``: the repository on the forge, the remote, the labels, the configuration file (CMD-039, BAT-059)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from droveway.app import FleetSpec, Home, open_fleet
from droveway.core.errors import HerdError, InputError
from droveway.core.repo import RepoId
from droveway.core.runner import Completed, Limits, Runner, scrubbed_environment
from droveway.core.text import slug
from droveway.core.vocabulary import LABELS
from droveway.service.found import read_secret, read_up
from droveway.service.target import git_top, local_settings, remote_url, repo_of_url

IGNORED = (".herd/plans/", ".herd/state/", ".herd/tmp/")
CONFIG = """\
# Droveway's configuration; every key and its default: docs/reference/settings.md
version: 1
platform:
  provider: {provider}
agent:
  provider: {agent}
"""


@dataclass
class Prepared:
    """What ``herd init`` did, a line each; ``drift`` is what ``--check`` found missing."""

    repo: RepoId
    url: str
    lines: list[str] = field(default_factory=list)
    drift: list[str] = field(default_factory=list)


class _Clone:
    """The user's clone: git with the user's own settings, but for a prompt."""

    def __init__(self, runner: Runner, environ: Mapping[str, str], top: Path) -> None:
        self._runner = runner
        self._env = scrubbed_environment(environ, {"GIT_TERMINAL_PROMPT": "0"})
        self.top = top

    async def git(self, *args: str, env: Mapping[str, str] | None = None) -> Completed:
        return await self._runner.run(
            ["git", *args], cwd=self.top, env={**self._env, **(env or {})}, limits=Limits(timeout=300)
        )

    async def must(self, *args: str, env: Mapping[str, str] | None = None) -> str:
        done = await self.git(*args, env=env)
        if not done.ok:
            raise HerdError(f"git {args[0]} failed: {(done.error_text() or done.text()).strip().splitlines()[-1:]}")
        return done.text().strip()


async def prepare(
    runner: Runner,
    home: Home,
    environ: Mapping[str, str],
    *,
    folder: Path,
    name: str | None = None,
    agent: str = "claude",
    skip_labels: bool = False,
    dry_run: bool = False,
) -> Prepared:
    """Prepare the clone at ``folder`` for the running embedded forge. ``origin`` is never touched.

    Creates the repository there if it is missing, adds the remote ``herd`` with its credential helper, writes and
    commits the configuration and ``.gitignore`` entries, pushes the base branch, and creates the labels.
    """
    up = read_up(home)
    if up is None:
        raise HerdError("no 'herd up' is running here: start it in another terminal, then run 'herd init' again")
    top = await git_top(runner, environ, folder)
    if top is None:
        raise InputError(f"{folder} is no git repository: run 'herd init' in a clone, or 'git init' first")
    clone = _Clone(runner, environ, top)
    branch = (await clone.git("symbolic-ref", "--short", "HEAD")).text().strip()
    if not branch:
        raise InputError("HEAD is detached: switch to your base branch first")
    existing = repo_of_url(await remote_url(runner, environ, top, "herd"))
    repo = existing or RepoId(up.owner, name or slug(top.name, "project"))
    url = f"{up.forge_url}/{repo}.git"
    done = Prepared(repo, url)
    plan = _files(top, up.provider, agent)
    if dry_run:
        done.drift = [f"would write {path}" for path in plan]
        if not existing:
            done.drift.append(f"would create {repo} and add the remote 'herd' ({url})")
        return done
    await _commit(clone, plan, done)
    await _connect(clone, home, up.forge_url, url, done)
    owner_token = read_secret(home.state / "owner.token")
    async with open_fleet(
        FleetSpec(
            home=home, api_url=up.forge_url, token=owner_token, git_url=up.forge_url, engine="client", environ=environ
        )
    ) as fleet:
        if await fleet.forge.create_repository(repo.name, default_branch=branch):
            done.lines.append(f"created {repo} on {up.forge_url}")
        await clone.must("push", "--quiet", "herd", f"HEAD:refs/heads/{branch}")
        done.lines.append(f"pushed {branch} to the remote 'herd'")
        if not skip_labels:
            made = [
                spec.name
                for spec in LABELS
                if await fleet.forge.ensure_label(repo, spec.name, spec.color, spec.description)
            ]
            done.lines.append(f"labels: {len(made)} created or mended, {len(LABELS) - len(made)} as they should be")
    return done


def _files(top: Path, provider: str, agent: str) -> dict[str, str]:
    """Give the files that have to be written, with their new content."""
    files: dict[str, str] = {}
    if not any((top / path).exists() for path in (".herd/config.yml", ".herdos.yml")):
        files[".herd/config.yml"] = CONFIG.format(provider=provider, agent=agent)
    ignore = top / ".gitignore"
    present = ignore.read_text().splitlines() if ignore.exists() else []
    missing = [line for line in IGNORED if line not in present]
    if missing:
        files[".gitignore"] = "\n".join([*present, *missing]) + "\n"
    return files


async def _commit(clone: _Clone, files: Mapping[str, str], done: Prepared) -> None:
    for path, content in files.items():
        file = clone.top / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    if not files:
        return
    local_settings(clone.top, {})  # what we wrote must read back
    await clone.must("add", "--", *files)
    await clone.must("commit", "--quiet", "-m", "Configure Droveway", "--", *files)
    done.lines.append("committed " + ", ".join(files))


async def _connect(clone: _Clone, home: Home, forge_url: str, url: str, done: Prepared) -> None:
    if (await clone.git("config", "--get", "remote.herd.url")).ok:
        await clone.must("remote", "set-url", "herd", url)
    else:
        await clone.must("remote", "add", "herd", url)
        done.lines.append(f"added the remote 'herd' ({url}); 'origin' is as it was")
    section = f"credential.{forge_url}"
    await clone.git("config", "--unset-all", f"{section}.helper")
    await clone.must("config", "--add", f"{section}.helper", "")
    await clone.must("config", "--add", f"{section}.helper", _helper(home))


def _helper(home: Home) -> str:
    import shlex
    import sys

    return f"!DROVEWAY_HOME={shlex.quote(str(home.root))} {shlex.quote(sys.executable)} -m droveway git-credential"
