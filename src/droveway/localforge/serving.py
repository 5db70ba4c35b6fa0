"""The forge over a socket: inside a running loop, in a thread with a loop of its own, or as a process (FRG-020)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import uvicorn

from droveway.core.clock import SystemClock
from droveway.core.errors import HerdError
from droveway.core.ids import RandomIds
from droveway.core.tasks import background
from droveway.localforge.forge import LocalForge
from droveway.localforge.ops.accounts import BOT


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the process that embeds the forge has its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(512)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def _url(host: str, listener: socket.socket) -> str:
    shown = "127.0.0.1" if host in ("0.0.0.0", "") else f"[{host}]" if ":" in host else host  # noqa: S104 - only compared
    return f"http://{shown}:{listener.getsockname()[1]}"


@contextlib.asynccontextmanager
async def serve(forge: LocalForge, *, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Serve in the running loop and send webhooks; gives the base URL, which ``forge`` takes on too.

    Raises OSError where the port is taken. Not for a loop on virtual time: use ``serve_in_thread`` there.
    """
    listener = _bound(host, port)
    with contextlib.closing(listener):
        config = uvicorn.Config(
            forge.app,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=5,
            server_header=False,
        )
        server = _Server(config)
        forge.base_url = url = _url(host, listener)
        async with forge.sender.running(), background(server.serve(sockets=[listener])) as task:
            try:
                while not server.started and not task.done():  # noqa: ASYNC110 - uvicorn has no event for it
                    await asyncio.sleep(0.005)
                yield url
            finally:
                server.should_exit = True
                await asyncio.wait([task])


@contextlib.contextmanager
def serve_in_thread(forge: LocalForge, *, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Serve in a thread with a loop of its own, in real time, whatever the caller's loop does; gives the base URL."""
    ready = threading.Event()
    found: list[str] = []
    failed: list[BaseException] = []
    stop: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def main() -> None:
        over = asyncio.Event()
        stop.append((asyncio.get_running_loop(), over))
        async with serve(forge, host=host, port=port) as url:
            found.append(url)
            ready.set()
            await over.wait()

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                runner.run(main())
        except BaseException as error:  # handed to the caller's thread
            failed.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=run, name="localforge-server", daemon=True)
    thread.start()
    ready.wait()
    if failed:
        thread.join()
        raise failed[0]
    try:
        yield found[0]
    finally:
        loop, over = stop[0]
        loop.call_soon_threadsafe(over.set)
        thread.join()
        if failed:
            raise failed[0]


class ServeOptions(msgspec.Struct, frozen=True):
    """How to run as a process. ``imports`` are repositories or bundles; named by ``repos`` or their own name."""

    data: Path
    host: str = "127.0.0.1"
    port: int = 0
    owner: str = "owner"
    ready_file: Path | None = None
    token_file: Path | None = None
    repos: tuple[str, ...] = ()
    imports: tuple[Path, ...] = ()


def main_serve(options: ServeOptions) -> int:
    """Serve until SIGTERM or SIGINT; gives the exit code. Raises HerdError with one line for what can't be done."""
    forge = LocalForge.open(options.data, clock=SystemClock(), ids=RandomIds(), owner=options.owner)
    try:
        _tokens(forge, options)
        owner = forge.owner()
        for index, source in enumerate(options.imports):
            stem = source.resolve().name.removesuffix(".git").removesuffix(".bundle")
            forge.import_repo(owner, options.repos[index] if index < len(options.repos) else stem, source)
        for name in options.repos[len(options.imports) :]:
            if not forge.has_repo(owner, name):
                forge.create_repo(owner, name)
        return asyncio.run(_serve_until_signal(forge, options))
    except OSError as error:
        raise HerdError(
            f"the forge can't listen on {options.host}:{options.port}: {error.strerror or error}"
        ) from error
    finally:
        forge.close()


async def _serve_until_signal(forge: LocalForge, options: ServeOptions) -> int:
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    async with serve(forge, host=options.host, port=options.port) as url:
        if options.ready_file:
            _write(options.ready_file, url + "\n")
        else:
            print(url, flush=True)  # noqa: T201 - the process's one word to who started it
        await over.wait()
    return 0


def _tokens(forge: LocalForge, options: ServeOptions) -> None:
    """Hand over the tokens of the first start: into a file of mode 600 as JSON by login, or printed once."""
    tokens = forge.first_tokens
    if options.token_file is not None:
        if tokens is None and not options.token_file.exists():
            tokens = {login: forge.issue_token(login) for login in (forge.owner(), BOT)}
        if tokens is not None:
            _write(options.token_file, msgspec.json.encode(tokens).decode() + "\n")
    elif tokens is not None:
        for login, token in tokens.items():
            print(f"token of {login}: {token}", flush=True)  # noqa: T201 - it can't be read again


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as handle:
        handle.write(text)
    fresh.replace(path)
