"""The place of a run behind its walls: one environment and one set of mounts, for the agent and what checks it."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from droveway.agents import agent_environment
from droveway.core.runner import Completed, Limits
from droveway.sandbox import Mounts
from droveway.sessions.fleet import Fleet

# Names that may never pass, whatever the settings say: the agent has no forge credential (QLT-040).
FORBIDDEN = ("HERD_GITHUB_TOKEN", "GITHUB_TOKEN", "GH_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")


class Walls(msgspec.Struct, frozen=True):
    """What a run sees: its private ``home`` and the folders. ``env`` are names that pass from our own environment."""

    home: Path
    writable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    env: tuple[str, ...] = ()
    identity: tuple[str, str] = ("Droveway agent", "agent@droveway.invalid")

    def mounts(self) -> Mounts:
        """Give the mounts."""
        return Mounts(writable=(self.home, *self.writable), readable=tuple(p for p in self.readable if p.exists()))


def passed(fleet: Fleet, names: Sequence[str], source: Mapping[str, str] | None = None) -> dict[str, str]:
    """Give the named values of our own environment, without anything that is a credential of the forge."""
    source = os.environ if source is None else source
    return {
        name: source[name]
        for name in names
        if name in source and name not in FORBIDDEN and not (fleet.forge.token and fleet.forge.token in source[name])
    }


def copy_logins(home: Path, files: Sequence[str], person: Path | None = None) -> None:
    """Copy the login files of an agent from the person's home into the private one, readable for us alone."""
    person = Path.home() if person is None else person
    for name in files:
        found = person / name
        if found.is_file():
            target = home / name
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            shutil.copyfile(found, target)
            target.chmod(0o600)


async def run_walled(
    fleet: Fleet,
    walls: Walls,
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    timeout: float,
    cancelled: asyncio.Event | None = None,
    max_output: int = 4 * 1024 * 1024,
) -> Completed:
    """Run a command of the project behind the same walls as its agent, with the same scrubbed environment (BAT-151)."""
    walls.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    whole = agent_environment(os.environ, walls.home, identity=walls.identity)
    whole |= passed(fleet, walls.env) | dict(env or {})
    wrapped, outer = fleet.sandbox.wrap(argv, cwd=cwd, env=whole, mounts=walls.mounts())
    limits = Limits(timeout=max(timeout, 1.0), max_output=max_output)
    return await fleet.runner.run(wrapped, cwd="/", env=outer, limits=limits, stop=cancelled)
