"""Builds the Fleet in one place: settings, clock, runner, forge, git, agents, store, engine, effect handlers, jobs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from droveway.core.actuator import Actuator
from droveway.core.clock import Clock, SystemClock
from droveway.core.decisions import MoveRefs
from droveway.core.errors import InputError
from droveway.core.ids import Ids, RandomIds
from droveway.core.jobs import JobInfo
from droveway.core.repo import RepoId
from droveway.core.runner import Runner, scrubbed_environment
from droveway.core.settings import Settings, parse_settings
from droveway.core.text import Redactor

if TYPE_CHECKING:
    from droveway.engine import Engine, EngineClient
    from droveway.forge.port import Forge
    from droveway.git import Git, Mirror
    from droveway.sessions import Fleet

CONFIG_PATHS = (".herd/config.yml", ".herdos.yml")
QUEUE_SLOTS: Mapping[str, int] = {"workers": 16, "reviews": 4, "turns": 4}
QUEUE_SECONDS: Mapping[str, float] = {"workers": 0.25, "reviews": 0.5, "turns": 0.25}
_SETTINGS_SECONDS = 10.0


@dataclass(frozen=True)
class Home:
    """``$DROVEWAY_HOME``: where this machine keeps what is not on the forge (architecture, "Where state lives")."""

    root: Path

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Home:
        """Take ``DROVEWAY_HOME``, or the user's data folder."""
        given = environ.get("DROVEWAY_HOME")
        if given:
            return cls(Path(given).expanduser().absolute())
        data = environ.get("XDG_DATA_HOME") or str(Path(environ.get("HOME", "~")).expanduser() / ".local" / "share")
        return cls(Path(data) / "droveway")

    @property
    def state(self) -> Path:
        """The folder of ``up.json``, tokens and locks."""
        return self.root / "state"

    @property
    def cache(self) -> Path:
        """Mirrors and places: may be deleted at any time without loss of pushed work."""
        return self.root / "cache"

    @property
    def forge(self) -> Path:
        """The embedded forge's data."""
        return self.root / "forge"

    def database_url(self, environ: Mapping[str, str]) -> str:
        """Take ``DROVEWAY_DATABASE_URL``, or SQLite under this home (ENG-001)."""
        return environ.get("DROVEWAY_DATABASE_URL") or f"sqlite:///{self.root / 'droveway.db'}"

    def make(self) -> Home:
        """Create the folders, private to the user."""
        for folder in (self.root, self.state, self.cache):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return self


@dataclass(frozen=True)
class FleetSpec:
    """What a Fleet is built from. ``engine``: ``dbos``, ``inline``, or ``client`` (beside a ``herd up``)."""

    home: Home
    api_url: str
    token: str
    git_url: str | None = None
    engine: str = "dbos"
    script: Path | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    dry_run: bool = False
    sandbox_required: bool = False
    slot: int = 0
    clock: Clock = field(default_factory=SystemClock)
    ids: Ids = field(default_factory=RandomIds)
    transport: Any = None


def read_settings(files: Mapping[str, bytes | None], environ: Mapping[str, str]) -> Settings:
    """Decode the configuration found at the two accepted paths (BAT-060); both present is an error."""
    import yaml

    present = [path for path in CONFIG_PATHS if files.get(path) is not None]
    if len(present) > 1:
        raise InputError(f"both {present[0]} and {present[1]} exist: keep one of them")
    if not present:
        return parse_settings({}, environ)
    source = present[0]
    content = files[source]
    assert content is not None
    try:
        raw = yaml.safe_load(content.decode("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{source} is no valid YAML: {' '.join(str(error).split())}") from None
    return parse_settings(raw, environ, source)


class _SettingsReader:
    """Reads a repository's configuration from its base branch, at most every few seconds."""

    def __init__(self, forge: Forge, clock: Clock, environ: Mapping[str, str]) -> None:
        self._forge = forge
        self._clock = clock
        self._environ = environ
        self._kept: dict[RepoId, tuple[float, Settings]] = {}
        self._reading = asyncio.Lock()

    async def __call__(self, repo: RepoId) -> Settings:
        if settings := self._fresh(repo):
            return settings
        async with self._reading:  # of all that ask when it is too old, one reads
            if settings := self._fresh(repo):
                return settings
            files = {path: await self._forge.file(repo, path) for path in CONFIG_PATHS}
            settings = read_settings(files, self._environ)
            self._kept[repo] = (self._clock.monotonic(), settings)
            return settings

    def _fresh(self, repo: RepoId) -> Settings | None:
        kept = self._kept.get(repo)
        return kept[1] if kept and self._clock.monotonic() - kept[0] < _SETTINGS_SECONDS else None


class _Mirrors:
    """Opens each repository's mirror once."""

    def __init__(self, home: Home, forge: Forge, git: Git, clock: Clock) -> None:
        self._home = home
        self._forge = forge
        self._git = git
        self._clock = clock
        self._open: dict[RepoId, Mirror] = {}
        self._lock = asyncio.Lock()

    def folder(self, repo: RepoId) -> Path:
        return self._home.cache / self._forge.host / repo.owner / repo.name

    def runs(self, repo: RepoId) -> Path:
        return self.folder(repo) / "runs"

    async def __call__(self, repo: RepoId) -> Mirror:
        from droveway.git import Mirror, Remote

        async with self._lock:
            if repo not in self._open:
                remote = Remote(url=f"{self._forge.git_url}/{repo}.git", token=self._forge.token)
                path = self.folder(repo) / "mirror.git"
                path.parent.mkdir(parents=True, exist_ok=True)
                self._open[repo] = await Mirror.open(path, remote, git=self._git, clock=self._clock)
            return self._open[repo]


def executor_id(slot: int = 0) -> str:
    """Give this process's stable executor id: host and slot (ENG-009)."""
    return f"{socket.gethostname()}-{slot}"


def _make_engine(spec: FleetSpec, url: str) -> Engine | EngineClient:
    from droveway import engine

    match spec.engine:
        case "inline":
            return engine.InlineEngine(clock=spec.clock, ids=spec.ids, slots=QUEUE_SLOTS)
        case "dbos":
            engine.check_runtime(url)
            return engine.DbosEngine(
                url,
                executor_id=executor_id(spec.slot),
                clock=spec.clock,
                ids=spec.ids,
                slots=QUEUE_SLOTS,
                queue_seconds=QUEUE_SECONDS,
            )
        case "client":
            engine.check_runtime(url)
            return engine.EngineClient(url)
        case other:
            raise InputError(f"unknown engine {other!r}")


@contextlib.asynccontextmanager
async def open_fleet(spec: FleetSpec) -> AsyncIterator[Fleet]:
    """Build a Fleet, start its engine, and take all down again at the end."""
    from droveway.engine import effects as engine_effects
    from droveway.forge import GitHubForge
    from droveway.forge import handlers as forge_handlers
    from droveway.git import Git, MoveRefsHandler
    from droveway.sandbox import Sandbox
    from droveway.sessions import Fleet
    from droveway.store import Store

    spec.home.make()
    redactor = Redactor([spec.token])
    runner = Runner(spec.clock, spec.ids)
    url = spec.home.database_url(spec.environ)
    store = await Store.open(url, clock=spec.clock, ids=spec.ids)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        forge = GitHubForge(
            spec.api_url,
            spec.token,
            clock=spec.clock,
            store_etags=store,
            redactor=redactor,
            transport=spec.transport,
            git_url=spec.git_url,
        )
        stack.push_async_callback(forge.close)
        await forge.connect()
        git = Git(runner, scrubbed_environment(spec.environ))
        mirrors = _Mirrors(spec.home, forge, git, spec.clock)
        engine = _make_engine(spec, url)
        handlers: dict[type[Any], Any] = {
            **forge_handlers(forge),
            **engine_effects.handlers(engine),
            MoveRefs: MoveRefsHandler(lambda name: mirrors(RepoId.parse(name))),
        }
        fleet = Fleet(
            clock=spec.clock,
            ids=spec.ids,
            runner=runner,
            redactor=redactor,
            git=git,
            forge=forge,
            sandbox=await Sandbox.probe(runner, required=spec.sandbox_required),
            store=store,
            engine=engine,  # type: ignore[arg-type]  # a client can enqueue and list, which is all that verbs use
            actuator=Actuator(
                handlers,
                audit=store,
                clock=spec.clock,
                ids=spec.ids,
                redactor=redactor,
                dry_run=spec.dry_run,
            ),
            settings=_SettingsReader(forge, spec.clock, spec.environ),
            mirror=mirrors,
            runs=mirrors.runs,
            script=spec.script,
        )
        _register_jobs(fleet)
        if spec.engine != "client":
            await fleet.engine.start()
            stack.push_async_callback(fleet.engine.stop)
        else:
            stack.callback(engine.close)  # type: ignore[union-attr]
        yield fleet


def _register_jobs(fleet: Fleet) -> None:
    """Wire every room's jobs to the engine: rooms export ``JOBS``, only this module registers them."""
    from droveway import review, work

    for jobs in (work.JOBS, review.JOBS):
        for kind, (queue, handler) in jobs.items():

            async def bound(context: Any, handler: Callable[..., Awaitable[Any]] = handler) -> Any:
                return await handler(fleet, context)

            fleet.engine.register(kind, queue, bound)


def host_of(url: str) -> str:
    """Give the host of an address, without port."""
    return urlsplit(url).hostname or "localhost"


class Loops:
    """The loops of ``herd up``: one stream per batch, serial inside, parallel across; woken by jobs' ends and by time.

    Correctness needs the polling alone; a wake only makes it sooner (FRG-008).
    """

    def __init__(
        self,
        fleet: Fleet,
        repositories: Callable[[], Awaitable[list[RepoId]]],
        *,
        poll_seconds: float = 15.0,
        on_cycle: Callable[[RepoId, int, Any], None] | None = None,
    ) -> None:
        """Watch the given repositories."""
        self._fleet = fleet
        self._repositories = repositories
        self._poll = poll_seconds
        self._on_cycle = on_cycle
        self._wakes: dict[tuple[RepoId, int], asyncio.Event] = {}
        self._any = asyncio.Event()
        fleet.engine.on_end = self._job_ended

    def _job_ended(self, info: JobInfo) -> None:
        repo, batch = info.args.get("repo"), info.args.get("batch")
        if isinstance(repo, str) and isinstance(batch, int):
            self.wake(RepoId.parse(repo), batch)

    def wake(self, repo: RepoId, batch: int) -> None:
        """Ask for a cycle of this batch as soon as may be."""
        event = self._wakes.get((repo, batch))
        if event:
            event.set()
        else:  # a batch that is new here: the repositories are looked through at once
            self._any.set()

    async def run(self) -> None:
        """Find batches and keep a stream for each, until cancelled."""
        import structlog

        from droveway.core.facts import FactUnknownError
        from droveway.forge import ForgeError

        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    for repo in await self._repositories():
                        for number in await _open_batches(self._fleet, repo):
                            if (repo, number) not in self._wakes:
                                self._wakes[repo, number] = asyncio.Event()
                                group.create_task(self._stream(repo, number))
                except (ForgeError, FactUnknownError, InputError, OSError) as error:
                    structlog.get_logger().warning("batches could not be read", error=str(error))
                self._any.clear()
                await _wait(self._any, self._poll)

    async def _stream(self, repo: RepoId, number: int) -> None:
        """Run one batch's cycles until it has ended."""
        import structlog

        from droveway.batch import integrate
        from droveway.core.errors import HerdError
        from droveway.core.facts import FactUnknownError
        from droveway.forge import ForgeError

        wake = self._wakes[repo, number]
        log = structlog.get_logger().bind(loop="integrate", repo=str(repo), batch=number)
        try:
            while True:
                wake.clear()
                lease = await self._fleet.engine.lease(f"integrate/{repo}/{number}")
                if lease is not None:
                    try:
                        report = await integrate(self._fleet, repo, number, lease)
                    except (ForgeError, FactUnknownError, HerdError, OSError, TimeoutError) as error:
                        log.warning("cycle failed", error=self._fleet.redactor(f"{type(error).__name__}: {error}"))
                    else:
                        if self._on_cycle:
                            self._on_cycle(repo, number, report)
                        if report.ended:
                            return
                    finally:
                        await self._fleet.engine.release(lease)
                await _wait(wake, self._poll)
        finally:
            self._wakes.pop((repo, number), None)


async def _open_batches(fleet: Fleet, repo: RepoId) -> list[int]:
    """Give the numbers of the open milestones that are batches of ours."""
    from droveway.core.keys import find_marker

    return [
        milestone.number
        for milestone in await fleet.forge.milestones(repo, state="open")
        if find_marker(milestone.description, "batch-metadata")
    ]


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
