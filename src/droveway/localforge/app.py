"""The whole server as one ASGI application: REST, GraphQL, git."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final
from urllib.parse import urlsplit

from droveway.localforge.exchange import GIT_PATH, Exchange, Request
from droveway.localforge.kernel import Kernel
from droveway.localforge.rates import Rates
from droveway.localforge.smart_http import Receive, Scope, Send, SmartHttp

MAX_BODY: Final = 40 * 1024 * 1024  # bytes of a JSON body
WORKERS: Final = 16


class App:
    """ASGI. REST at ``/`` and ``/api/v3``, GraphQL at ``/graphql``, git at ``/<owner>/<repo>.git/…``.

    Request targets in absolute form, as a proxy gets them, are taken by their path.
    """

    def __init__(self, kernel: Kernel, rates: Rates) -> None:
        """Serve the kernel's forge."""
        self._kernel = kernel
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="localforge")
        self._exchange = Exchange(kernel, rates)
        self._git = SmartHttp(kernel, self.in_thread)

    async def in_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a function on a worker thread; virtual time stands still meanwhile, as for a child process."""
        loop = asyncio.get_running_loop()
        with self._held(loop):
            return await loop.run_in_executor(self._pool, functools.partial(function, *args))

    def _held(self, loop: asyncio.AbstractEventLoop) -> contextlib.AbstractContextManager[None]:
        # A loop of its own in another thread runs in real time and must not touch the virtual loop's holds.
        return self._kernel.clock.hold() if hasattr(loop, "holds") else contextlib.nullcontext()

    def close(self) -> None:
        """Let the worker threads end."""
        self._pool.shutdown()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        assert scope["type"] == "http", scope["type"]
        raw = scope.get("raw_path")
        path = raw.decode("latin-1").partition("?")[0] if raw else scope["path"]
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get("host", "127.0.0.1")
        if path.startswith(("http://", "https://")):
            target = urlsplit(path)
            host, path = target.netloc, target.path or "/"
        git = GIT_PATH.fullmatch(path)
        if git:
            with self._held(asyncio.get_running_loop()):
                await self._git(scope, receive, send, headers, *git.group("owner", "repo", "tail"))
            return
        body = await _body(receive)
        if body is None:
            await _send(send, 413, {"Content-Type": "text/plain"}, b"too large", head=False)
            return
        prefix = "/api/v3" if path == "/api/v3" or path.startswith("/api/v3/") else ""
        request = Request(
            scope["method"],
            path.removeprefix(prefix) or "/",
            scope["query_string"].decode("latin-1"),
            headers,
            body,
            f"{scope.get('scheme', 'http')}://{host}{prefix}",
            path in ("/graphql", "/api/graphql"),
        )
        response = await self.in_thread(self._exchange.answer, request)
        await _send(send, response.status, response.headers, response.body, head=scope["method"] == "HEAD")


async def _body(receive: Receive) -> bytes | None:
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b""
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY:
            return None
        if not message.get("more_body"):
            return b"".join(parts)


async def _send(send: Send, status: int, headers: dict[str, str], body: bytes, *, head: bool) -> None:
    pairs = [(name.lower().encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]
    if status not in (204, 304):
        pairs.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": b"" if head else body})


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
