"""``herd up`` as a context: the forge if it is local, the engine and the loops, in one process (ENG-005)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from droveway.app import FleetSpec, Home, Loops, open_fleet
from droveway.core.clock import Clock, SystemClock
from droveway.core.ids import Ids, RandomIds
from droveway.core.repo import RepoId
from droveway.core.tasks import background
from droveway.service.ci import CiRunner
from droveway.service.found import UpInfo, boot_id, only_one, read_secret, save_secret, write_up

if TYPE_CHECKING:
    from droveway.localforge import LocalForge
    from droveway.sessions import Fleet

BOT = "herd-bot"


@dataclass(frozen=True)
class UpOptions:
    """How to run. ``api_url`` empty: the embedded forge is started; else that forge is used as ``token``.

    ``owner_token`` is a person's token there, so that ``herd init``, ``pull`` and git work with that forge as well.
    ``repositories`` empty means: every repository that the identity may write to. ``port`` 0 means: the port of last
    time, or any.
    """

    home: Home
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    api_url: str = ""
    token: str = ""
    owner_token: str = ""
    git_url: str | None = None
    repositories: tuple[RepoId, ...] = ()
    host: str = "127.0.0.1"
    port: int = 0
    owner: str = "owner"
    poll_seconds: float = 3.0
    script: Path | None = None
    engine: str = "dbos"
    slot: int = 0
    sandbox_required: bool = False
    clock: Clock = field(default_factory=SystemClock)
    ids: Ids = field(default_factory=RandomIds)
    on_cycle: Callable[[RepoId, int, Any], None] | None = None


@dataclass(frozen=True)
class Running:
    """A service that runs."""

    info: UpInfo
    fleet: Fleet
    loops: Loops
    forge: LocalForge | None
    bot_token: str
    owner_token: str


@contextlib.asynccontextmanager
async def running(options: UpOptions) -> AsyncIterator[Running]:
    """Run until the context ends. Raises BusyError where another one holds the home."""
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(only_one(options.home))
        forge: LocalForge | None = None
        api_url, bot_token, owner_token = options.api_url, options.token, options.owner_token
        local = not api_url or is_embedded(api_url)
        if not api_url:
            forge, api_url = await _serve_forge(options, stack)
            owner_token = _token(options.home, forge, options.owner, "owner")
            bot_token = _token(options.home, forge, BOT, "bot")
        elif local:
            _keep_tokens(options)
        fleet = await stack.enter_async_context(
            open_fleet(
                FleetSpec(
                    home=options.home,
                    api_url=api_url,
                    token=bot_token,
                    git_url=options.git_url or (api_url if forge else None),
                    engine=options.engine,
                    script=options.script,
                    environ=options.environ,
                    sandbox_required=options.sandbox_required,
                    slot=options.slot,
                    clock=options.clock,
                    ids=options.ids,
                )
            )
        )
        fleet.redactor.add(owner_token)
        info = UpInfo(
            forge_url=api_url,
            provider="local" if local else "github",
            pid=os.getpid(),
            boot_id=boot_id(),
            started_at=options.clock.now().isoformat(timespec="seconds"),
            owner=options.owner,
            bot=fleet.forge.login,
            script=str(options.script or ""),
        )
        write_up(options.home, info)
        loops = Loops(
            fleet,
            _repositories(options, fleet),
            poll_seconds=options.poll_seconds,
            on_cycle=options.on_cycle,
        )
        await stack.enter_async_context(background(loops.run()))
        if forge is not None:
            ci = CiRunner(fleet, forge, only=options.repositories)
            await stack.enter_async_context(background(ci.run()))
        yield Running(info, fleet, loops, forge, bot_token, owner_token)


async def _serve_forge(options: UpOptions, stack: contextlib.AsyncExitStack) -> tuple[LocalForge, str]:
    from droveway.localforge import LocalForge, serve

    forge = LocalForge.open(options.home.forge, clock=options.clock, ids=options.ids, owner=options.owner)
    stack.callback(forge.close)
    remembered = options.home.state / "port"
    port = options.port or int(read_secret(remembered) or 0)
    try:
        url = await stack.enter_async_context(serve(forge, host=options.host, port=port))
    except OSError:
        if options.port:
            raise
        url = await stack.enter_async_context(serve(forge, host=options.host, port=0))
    save_secret(remembered, url.rpartition(":")[2])
    return forge, url


def _token(home: Home, forge: LocalForge, login: str, name: str) -> str:
    """Give an account's token: from its file, or a fresh one that is then kept there."""
    path = home.state / f"{name}.token"
    token = (forge.first_tokens or {}).get(login) or read_secret(path)
    if not forge.knows_token(token, login):  # none, or one of a forge that was used before from this home
        token = forge.issue_token(login)
    save_secret(path, token)
    return token


def is_embedded(api_url: str) -> bool:
    """Whether an API address has the embedded forge's shape: no path of its own, and not GitHub's host."""
    parts = urlsplit(api_url)
    return parts.hostname != "api.github.com" and parts.path in ("", "/")


def _keep_tokens(options: UpOptions) -> None:
    """Put the tokens of an embedded forge that runs elsewhere where the verbs look for them; no older one stays."""
    for name, token in (("bot", options.token), ("owner", options.owner_token)):
        path = options.home.state / f"{name}.token"
        if token:
            save_secret(path, token)
        else:
            path.unlink(missing_ok=True)


def _repositories(options: UpOptions, fleet: Fleet) -> Callable[[], Awaitable[list[RepoId]]]:
    async def listed() -> list[RepoId]:
        if options.repositories:
            return list(options.repositories)
        return [RepoId.parse(repository.name) for repository in await fleet.forge.repositories()]

    return listed
