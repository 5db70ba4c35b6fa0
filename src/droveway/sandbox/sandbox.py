"""Wraps a command line in bubblewrap, or in the reaper where there is no sandbox (AGT-008, QLT-040)."""

from __future__ import annotations

import enum
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from droveway.core.errors import HerdError
from droveway.core.runner import Limits, Runner, scrubbed_environment
from droveway.sandbox.toolchain import ETC, SYSTEM, Link, inside, program_paths, python_paths, search_path

Network: TypeAlias = Literal["full", "none"]
_GRACE_SECONDS = 8.0  # shorter than the runner's ten, so that the reaper can finish its sweep before it is killed


class Level(enum.StrEnum):
    """What is in force."""

    BUBBLEWRAP = "bubblewrap"
    NONE = "none"


class Mounts(msgspec.Struct, frozen=True):
    """What a run may see besides the system's programs, at the same paths as outside.

    ``hidden`` is taken out of what the others show. ``network`` is ``full`` or ``none``; a list of allowed hosts
    (``model-only``) does not exist yet.
    """

    writable: tuple[Path, ...]
    readable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    network: Network = "full"


class Sandbox:
    """The level that this machine can do, found by trying; ``reason`` says in words why it is that level."""

    def __init__(self, level: Level, reason: str, *, program: str = "", isolates_network: bool = False) -> None:
        """Hold what the probe found; call ``probe`` or ``none`` instead."""
        self.level = level
        self.reason = reason
        self.isolates_network = isolates_network
        self._program = program

    @classmethod
    def none(cls, reason: str = "no sandbox, by explicit choice") -> Sandbox:
        """Give the sandbox that is none: trees are still killed whole."""
        return cls(Level.NONE, reason)

    @classmethod
    async def probe(cls, runner: Runner, *, required: bool = False) -> Sandbox:
        """Start a real sandbox and say what works. Raises HerdError where one is ``required`` and can't be had."""
        program = shutil.which("bwrap")
        if program is None:
            return cls._without("bwrap is not installed (package bubblewrap)", required)
        full = cls(Level.BUBBLEWRAP, "bubblewrap works", program=program, isolates_network=True)
        problem = await full._try(runner, "full")
        if problem:
            return cls._without(f"bubblewrap can't start here: {problem}", required)
        offline = await full._try(runner, "none")
        if offline:
            reason = f"bubblewrap works, but can't take the network away: {offline}"
            return cls(Level.BUBBLEWRAP, reason, program=program)
        return full

    @classmethod
    def _without(cls, reason: str, required: bool) -> Sandbox:
        if required:
            raise HerdError(f"a sandbox is required (agent.sandbox) and can't be had: {reason}")
        return cls(Level.NONE, reason)

    async def _try(self, runner: Runner, network: Network) -> str:
        """Run a trifle inside; give what went wrong, in one line, or nothing."""
        env = scrubbed_environment(os.environ)
        with tempfile.TemporaryDirectory(prefix="herd-probe-") as folder:
            place = Path(folder)
            mounts = Mounts(writable=(place,), network=network)
            argv, env = self.wrap(["/bin/sh", "-c", "echo inside > made"], cwd=place, env=env, mounts=mounts)
            try:
                completed = await runner.run(argv, cwd="/", env=env, limits=Limits(timeout=10, grace=1))
            except OSError as error:
                return str(error)
            if completed.ok and (place / "made").is_file():
                return ""
        lines = completed.error_text().strip().splitlines()
        return lines[0] if lines else f"it ended with {completed.code} ({completed.end})"

    def wrap(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], mounts: Mounts
    ) -> tuple[list[str], dict[str, str]]:
        """Give the command line and the environment that run ``argv`` inside the walls.

        ``env`` is the agent's whole environment and passes as the process's own, never in the command line, which
        everybody on the machine can read. A HOME outside of the writable places is an empty one in memory.
        Raises HerdError where a writable place is missing, or ``network`` is none and can't be had.
        """
        for place in mounts.writable:
            if not place.is_dir():
                raise HerdError(f"the sandbox's writable place {place} does not exist")
        if mounts.network == "none" and not self.isolates_network:
            raise HerdError(f"network none was asked for and can't be had: {self.reason}")
        if self.level is Level.NONE:
            reaper = str(Path(__file__).with_name("reaper.py"))
            return [sys.executable, "-I", "-S", reaper, str(_GRACE_SECONDS), str(cwd), "--", *argv], dict(env)
        env = {**env, "PATH": search_path(env.get("PATH", os.defpath))}
        # All capabilities go: as root, one of them would allow mounting /usr writable again.
        command = [self._program, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
        if mounts.network == "full":
            command.append("--share-net")
        command += _system()
        command += ["--tmpfs", "/tmp", "--tmpfs", "/var/tmp", "--dev", "/dev", "--proc", "/proc"]  # noqa: S108
        command += _places(argv[0], env, mounts)
        command += ["--remount-ro", "/", "--chdir", str(cwd), "--", *argv]
        return command, dict(env)


def _system() -> list[str]:
    """Give the options that show the system's programs and the harmless part of /etc."""
    options: list[str] = []
    for path in SYSTEM:
        if path.is_symlink():
            options += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            options += ["--ro-bind", str(path), str(path)]
    for name in ETC:
        path = Path("/etc") / name
        if path.exists():
            options += ["--ro-bind", str(path.resolve()), str(path)]
    return options


def _places(program: str, env: Mapping[str, str], mounts: Mounts) -> list[str]:
    """Give the options for the run's own places, outer folders first: an inner rule overlays an outer one."""
    wanted: dict[Path, list[str]] = {}

    def bind(option: str, path: Path) -> None:
        target = path.resolve()
        for place in dict.fromkeys((path, target)):
            wanted[place] = [option, str(target), str(place)]

    search = env.get("PATH", os.defpath)
    for needed in (*python_paths(), *program_paths("node", search), *program_paths(program, search)):
        if isinstance(needed, Link):
            wanted.setdefault(needed.path, ["--symlink", needed.target, str(needed.path)])
        else:
            bind("--ro-bind-try", needed)
    for path in mounts.readable:
        bind("--ro-bind", Path(os.path.abspath(path)))
    for path in mounts.writable:
        bind("--bind", Path(os.path.abspath(path)))
    home = Path(env.get("HOME", "/nonexistent"))
    if not inside(home, [Path(os.path.abspath(path)) for path in mounts.writable]):
        wanted[home] = ["--tmpfs", str(home)]
    for path in mounts.hidden:
        wanted[path] = ["--tmpfs", str(path)] if path.is_dir() else ["--ro-bind", "/dev/null", str(path)]
    ordered = sorted(wanted.items(), key=lambda item: len(item[0].parts))
    return [part for _, options in ordered for part in options]
