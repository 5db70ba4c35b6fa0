"""``herd doctor``'s checks (CLI-007): each says what was found and how to mend it."""

from __future__ import annotations

import asyncio
import re
import shutil
import sqlite3
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from droveway.app import Home
from droveway.core.errors import HerdError
from droveway.core.runner import Limits, Runner, scrubbed_environment
from droveway.service.found import read_up
from droveway.service.target import git_top, local_settings, remote_url


class Line(msgspec.Struct, frozen=True):
    """One check: ``state`` is ok, note or bad."""

    what: str
    state: str
    found: str
    mend: str = ""


async def checkup(home: Home, runner: Runner, environ: Mapping[str, str], folder: Path) -> list[Line]:
    """Run every check; at most the home's database file is made, to see that it can be."""
    lines = [_python(), await _git(runner, environ), await _sandbox(runner)]
    lines += [_disk(home), await _database(home, environ), _service(home)]
    lines += await _repository(runner, environ, folder)
    lines += _agents(environ)
    return lines


def _python() -> Line:
    version = ".".join(map(str, sys.version_info[:3]))
    good = sys.version_info >= (3, 11)
    return Line("python", "ok" if good else "bad", version, "install Python 3.11 or newer")


async def _git(runner: Runner, environ: Mapping[str, str]) -> Line:
    if not shutil.which("git"):
        return Line("git", "bad", "not found", "install git 2.39 or newer")
    done = await runner.run(["git", "--version"], cwd="/", env=scrubbed_environment(environ), limits=Limits(timeout=10))
    match = re.search(r"(\d+)\.(\d+)", done.text())
    good = bool(match) and (int(match.group(1)), int(match.group(2))) >= (2, 39) if match else False
    return Line("git", "ok" if good else "bad", done.text().strip(), "install git 2.39 or newer")


async def _sandbox(runner: Runner) -> Line:
    from droveway.sandbox import Sandbox

    sandbox = await Sandbox.probe(runner)
    walled = str(sandbox.level) != "none"
    mend = "install bubblewrap; without it agents run with your rights" if not walled else ""
    return Line("sandbox", "ok" if walled else "note", f"{sandbox.level}: {sandbox.reason}", mend)


def _disk(home: Home) -> Line:
    place = next(path for path in (home.root, *home.root.parents) if path.exists())
    free = shutil.disk_usage(place).free // 2**20
    return Line(
        "disk",
        "ok" if free > 1024 else "bad",
        f"{free} MiB free for {home.root}",
        "free some space, or set DROVEWAY_HOME",
    )


async def _database(home: Home, environ: Mapping[str, str]) -> Line:
    from droveway.engine import check_runtime

    url = home.database_url(environ)
    mend = "install pysqlite3-binary where SQLite is older than 3.42, or set DROVEWAY_DATABASE_URL to PostgreSQL"
    try:
        await asyncio.to_thread(check_runtime, url)
    except HerdError as error:
        return Line("database", "bad", str(error), mend)
    kind = "PostgreSQL" if url.startswith("postgres") else f"SQLite {sqlite3.sqlite_version}"
    return Line("database", "ok", kind)


def _service(home: Home) -> Line:
    info = read_up(home)
    if info is None:
        return Line("herd up", "note", "not running here", "start it with 'herd up'")
    return Line("herd up", "ok", f"running (pid {info.pid}), forge {info.forge_url}")


async def _repository(runner: Runner, environ: Mapping[str, str], folder: Path) -> list[Line]:
    top = await git_top(runner, environ, folder)
    if top is None:
        return [Line("repository", "note", "this folder is no clone", "change into one to have it checked")]
    remote = await remote_url(runner, environ, top, "herd")
    lines = [Line("remote 'herd'", "ok" if remote else "note", remote or "missing", "run 'herd init' here")]
    try:
        settings = local_settings(top, environ)
    except HerdError as error:
        return [*lines, Line("configuration", "bad", str(error), "mend the file: herd config edit")]
    lines.append(
        Line("configuration", "ok", f"agent {settings.agent.provider}, strategy {settings.integrator.strategy}")
    )
    lines.append(_validation(top, settings))
    return lines


def _validation(top: Path, settings: object) -> Line:
    from droveway.core.settings import Settings
    from droveway.work import detect_commands

    assert isinstance(settings, Settings)
    names = [command.name or str(command.run) for command in settings.validation.commands]
    if not names and settings.validation.auto_detect:
        names = detect_commands(top)
    state, found = ("ok", "; ".join(names)) if names else ("note", "no command declared or detected")
    return Line("validation", state, found, "declare validation.commands, else no change is tried before it is pushed")


def _agents(environ: Mapping[str, str]) -> list[Line]:
    found = [
        name
        for name in ("claude", "codex", "opencode", "qwen", "gemini", "copilot")
        if shutil.which(name, path=environ.get("PATH"))
    ]
    return [
        Line(
            "agents",
            "ok" if found else "note",
            ", ".join(found) or "none on PATH",
            "install one, or use the scripted agent",
        )
    ]
