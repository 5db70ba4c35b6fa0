"""Engines of all three kinds for the conformance suite, and executors in processes of their own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from droveway.core.clock import SystemClock
from droveway.core.ids import RandomIds
from droveway.engine import DbosEngine, EngineClient, InlineEngine
from private_postgres import Cluster, cluster

QUEUES = ("workers", "reviews", "turns")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


async def _prepare(url: str) -> str:
    """Let an engine make its tables and queues once; tests start on copies, and so at once."""
    engine = DbosEngine(url, executor_id="template", clock=SystemClock(), ids=RandomIds(), slots={}, poll_seconds=0.05)

    async def never(_context: Any) -> None:
        raise AssertionError

    for queue in QUEUES:
        engine.register(f"template-{queue}", queue, never)
    await engine.start()
    await engine.stop()
    return url


def _apart(work: Coroutine[Any, Any, str]) -> str:
    """Run a coroutine in a thread: fixtures may be asked for while a loop runs."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "droveway.db"
    _apart(_prepare(f"sqlite:///{path}"))
    return path


@pytest.fixture(scope="session")
def postgres_template(postgres: Cluster) -> str:
    return _apart(_prepare(postgres.database()))


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database on which an engine has run once."""
    if request.param == "postgresql":
        cluster: Cluster = request.getfixturevalue("postgres")
        return cluster.database(request.getfixturevalue("postgres_template"))
    shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path / "droveway.db")
    return f"sqlite:///{tmp_path / 'droveway.db'}"


class Bench:
    """Makes engines of one kind and stops them at the end."""

    def __init__(self, url: str | None) -> None:
        self.url = url
        self.clock = SystemClock()
        self._made: list[Any] = []

    def engine(self, slots: dict[str, int] | None = None, **settings: Any) -> Any:
        slots = slots or {"workers": 2, "reviews": 1}
        if self.url is None:
            made: Any = InlineEngine(clock=self.clock, ids=RandomIds(), slots=slots)
        else:
            settings = {"executor_id": "here-0", "poll_seconds": 0.05, **settings}
            made = DbosEngine(self.url, clock=self.clock, ids=RandomIds(), slots=slots, **settings)
        self._made.append(made)
        return made

    async def close(self) -> None:
        for made in self._made:
            await made.stop(grace=1)


@pytest_asyncio.fixture(params=["inline", "sqlite", "postgresql"])
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    url: str | None = None
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path / "droveway.db")
        url = f"sqlite:///{tmp_path / 'droveway.db'}"
    elif request.param == "postgresql":
        running: Cluster = request.getfixturevalue("postgres")
        url = running.database(request.getfixturevalue("postgres_template"))
    made = Bench(url)
    yield made
    await made.close()


class Executors:
    """Executors in processes of their own, on one database; ``log`` is what they have written, a line per event."""

    SILENCE = 1.5

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.client = EngineClient(url)
        self.client.register("work", "workers")
        self._processes: list[subprocess.Popen[bytes]] = []
        (folder / "log").touch()

    async def start(self, name: str, *, slots: int = 2, global_slots: int = 0) -> subprocess.Popen[bytes]:
        """Start an executor and wait until it takes jobs."""
        program = Path(__file__).with_name("executor.py")
        argv = [sys.executable, str(program), self.url, name, str(self.folder)]
        argv += [str(self.SILENCE), str(slots), str(global_slots)]
        before = self.log.count(("ready", name))
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL)  # noqa: ASYNC220 - it starts at once
        self._processes.append(process)
        await self.until(lambda: self.log.count(("ready", name)) > before or process.poll() is not None)
        assert process.poll() is None
        return process

    @property
    def log(self) -> list[tuple[str, ...]]:
        return [tuple(line.split()) for line in (self.folder / "log").read_text().splitlines()]

    def say(self, *words: str) -> None:
        with (self.folder / "log").open("a") as log:
            log.write(" ".join(words) + "\n")

    def events(self, *start: str) -> list[tuple[str, ...]]:
        return [line for line in self.log if line[: len(start)] == start]

    def open_gate(self, name: str) -> None:
        """Let the handlers in the executor of this name (or in all) go on."""
        (self.folder / f"gate-{name}").touch()

    async def until(self, condition: Callable[[], object], seconds: float = 40) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not condition():  # noqa: ASYNC110 - another process's doing
                    await asyncio.sleep(0.02)
        except TimeoutError:
            pytest.fail("it did not come about:\n" + (self.folder / "log").read_text())

    async def suspend(self, process: subprocess.Popen[bytes]) -> None:
        """Stop a process. On SQLite not in the middle of a write: its lock on the file would stop all others too."""
        while True:
            os.kill(process.pid, signal.SIGSTOP)
            if not self.url.startswith("sqlite"):
                return
            with contextlib.closing(sqlite3.connect(self.url.partition(":///")[2], timeout=1)) as connection:
                try:
                    connection.execute("BEGIN IMMEDIATE")
                    return
                except sqlite3.OperationalError:
                    os.kill(process.pid, signal.SIGCONT)
            await asyncio.sleep(0.05)

    def close(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGCONT)
                process.kill()
            process.wait()
        self.client.close()


@pytest.fixture
def executors(database_url: str, tmp_path: Path) -> Iterator[Executors]:
    made = Executors(database_url, tmp_path)
    yield made
    made.close()
