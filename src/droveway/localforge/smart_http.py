"""Git over HTTP: `git http-backend` behind a raw ASGI endpoint; pushes pass through the journal (FRG-024, FRG-033).

A push: receive-pack unpacks into quarantine and calls the pre-receive hook, a few lines of shell that hand the updates
to this process through a pipe and wait for its word. Here they are checked and written as an intent, committed, and the
hook hears ``ok``; refs move; when the backend has ended, one transaction applies what really moved; only then the
client gets its answer. Should this process die, the hook reads the end of its pipe and says no.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import structlog

from droveway.core.points import sync_point
from droveway.localforge.access import Actor, Refused, can, find_repo
from droveway.localforge.db import Row
from droveway.localforge.exchange import authenticate
from droveway.localforge.gitrepo import GitFailed, GitRepo, environment
from droveway.localforge.kernel import Kernel
from droveway.localforge.ops import moves

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

DEADLINE: Final = 900.0  # seconds for one whole exchange
_PIECE: Final = 1 << 16
_HOOK: Final = """#!/bin/sh
# Written by the embedded forge. Hands the updates to the server and waits for its word; its end means no.
{
  printf '%s\\n' "${GIT_OBJECT_DIRECTORY:-}" "${GIT_ALTERNATE_OBJECT_DIRECTORIES:-}"
  cat
  echo end
} >"/dev/fd/$HERD_PUSH_ASK" || exit 1
IFS= read -r answer <"/dev/fd/$HERD_PUSH_ANSWER" || { echo "the forge has gone away" >&2; exit 1; }
[ "$answer" = ok ] && exit 0
echo "$answer" >&2
exit 1
"""


def install_hook(data: Path) -> None:
    """Write the hook that every push runs."""
    folder = data / "hooks"
    folder.mkdir(exist_ok=True)
    hook = folder / "pre-receive"
    if not hook.exists() or hook.read_text() != _HOOK:
        fresh = folder / f".new-{os.getpid()}"
        fresh.write_text(_HOOK)
        fresh.chmod(0o755)
        fresh.replace(hook)


def wait_for_orphans(data: Path) -> None:
    """Wait until no receive-pack of an earlier server lives: each holds a shared lock, and its pipes are broken."""
    with open(data / "pushes.lock", "ab") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)


class Gone(Exception):  # noqa: N818 - what happened
    """The client went away before its request was whole."""


class SmartHttp:
    """The git endpoint of one forge."""

    def __init__(self, kernel: Kernel, in_thread: Callable[..., Awaitable[Any]]) -> None:
        """``in_thread`` runs a function on a worker thread."""
        self._kernel = kernel
        self._in_thread = in_thread

    async def __call__(
        self, scope: Scope, receive: Receive, send: Send, headers: dict[str, str], owner: str, name: str, tail: str
    ) -> None:
        """Answer one git request."""
        query = scope["query_string"].decode("latin-1")
        service = tail if tail != "info/refs" else query.partition("service=")[2].partition("&")[0]
        try:
            actor, repo = await self._in_thread(self._admit, headers, owner, name, service == "git-receive-pack")
        except Refused as refused:
            more = [(b"www-authenticate", b'Basic realm="GitHub"')] if refused.status == 401 else []
            await _plain(send, refused.status, refused.message, more)
            return
        env = self._environment(scope, headers, repo, actor, tail, query)
        try:
            async with asyncio.timeout(DEADLINE):
                if tail == "git-receive-pack":
                    await _Push(self._kernel, self._in_thread, actor, repo).run(env, receive, send)
                else:
                    await _fetch(env, receive, send)
        except TimeoutError:
            structlog.get_logger().warning("git request passed its deadline", repo=repo["id"], service=service)
        except Gone:
            pass

    def _admit(self, headers: dict[str, str], owner: str, name: str, push: bool) -> tuple[Actor, Row]:
        with self._kernel.read() as tx:
            actor = authenticate(tx, headers)
            repo = find_repo(tx, owner, name)
            if repo is None or not can(tx, actor, repo, "read"):
                raise Refused(404 if actor.id else 401, "Repository not found.")
            if push and not actor.id:
                raise Refused(401, "Authentication is needed to push.")
            if push and not can(tx, actor, repo, "write"):
                raise Refused(403, f"Permission to {owner}/{name} denied to {actor.login}.")
            if push and repo["archived"]:
                raise Refused(403, "This repository was archived so it is read-only.")
            return actor, repo

    def _environment(
        self, scope: Scope, headers: dict[str, str], repo: Row, actor: Actor, tail: str, query: str
    ) -> dict[str, str]:
        git = self._kernel.git(repo["id"])
        env = environment(self._kernel.home)
        count = int(env["GIT_CONFIG_COUNT"])
        env[f"GIT_CONFIG_KEY_{count}"], env[f"GIT_CONFIG_VALUE_{count}"] = (
            "core.hooksPath",
            str(self._kernel.data / "hooks"),
        )
        env["GIT_CONFIG_COUNT"] = str(count + 1)
        env |= {
            "GIT_PROJECT_ROOT": str(git.path.parent),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": f"/{git.path.name}/{tail}",
            "QUERY_STRING": query,
            "REQUEST_METHOD": scope["method"],
            "REMOTE_USER": actor.login or "anonymous",
            "REMOTE_ADDR": "127.0.0.1",
            "CONTENT_TYPE": headers.get("content-type", ""),
        }
        if "content-length" in headers:
            env["CONTENT_LENGTH"] = headers["content-length"]
        for header, variable in (("content-encoding", "HTTP_CONTENT_ENCODING"), ("git-protocol", "GIT_PROTOCOL")):
            if header in headers:
                env[variable] = headers[header]
        return env


# --- the backend process ---


async def _start(env: dict[str, str], *pass_fds: int) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        "git", "http-backend",
        env=env, stdin=pipe, stdout=pipe, stderr=pipe, pass_fds=pass_fds, start_new_session=True, limit=1 << 20,
    )  # fmt: skip


async def _feed(process: asyncio.subprocess.Process, receive: Receive) -> None:
    """Give the request's body to the backend. Raises Gone where the client leaves before its end."""
    assert process.stdin
    try:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Gone
            piece = message.get("body", b"")
            if piece:
                process.stdin.write(piece)
                await process.stdin.drain()
            if not message.get("more_body"):
                break
    except (BrokenPipeError, ConnectionResetError):
        pass  # the backend has said what it had to say
    finally:
        process.stdin.close()


async def _head(process: asyncio.subprocess.Process) -> tuple[int, list[tuple[bytes, bytes]]]:
    """Read the backend's CGI head."""
    assert process.stdout
    status, headers = 200, []
    while True:
        line = (await process.stdout.readline()).rstrip(b"\r\n")
        if not line:
            break
        name, _, value = line.partition(b":")
        if name.lower() == b"status":
            status = int(value.split()[0])
        else:
            headers.append((name.strip().lower(), value.strip()))
    return (status, headers) if headers or status != 200 else (500, [])


async def _end(process: asyncio.subprocess.Process) -> None:
    """End what is left of the backend's group, and reap it."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


async def _drain(stream: asyncio.StreamReader | None, keep: int = 65_536) -> bytes:
    kept = b""
    while stream and (piece := await stream.read(_PIECE)):
        kept = (kept + piece)[-keep:]
    return kept


async def _fetch(env: dict[str, str], receive: Receive, send: Send) -> None:
    process = await _start(env)
    assert process.stdout
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_feed(process, receive))
            errors = group.create_task(_drain(process.stderr))
            status, headers = await _head(process)
            await send({"type": "http.response.start", "status": status, "headers": headers})
            while piece := await process.stdout.read(_PIECE):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await process.wait()
        if process.returncode and errors.result():
            structlog.get_logger().info("http-backend", said=errors.result().decode("utf-8", "replace")[-500:])
        await send({"type": "http.response.body", "body": b""})
    except BaseExceptionGroup as group_error:
        if group_error.subgroup(Gone):
            raise Gone from group_error
        raise
    finally:
        await asyncio.shield(_end(process))


class _Push:
    """One push, from its first byte to the answer."""

    def __init__(self, kernel: Kernel, in_thread: Callable[..., Awaitable[Any]], actor: Actor, repo: Row) -> None:
        self._kernel = kernel
        self._in_thread = in_thread
        self._actor = actor
        self._repo = repo
        self._intent: int | None = None

    async def run(self, env: dict[str, str], receive: Receive, send: Send) -> None:
        ask_read, ask_write = os.pipe()
        answer_read, answer_write = os.pipe()
        lock = os.open(self._kernel.data / "pushes.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_SH)  # held by the backend's processes too, as long as one of them lives
            env |= {"HERD_PUSH_ASK": str(ask_write), "HERD_PUSH_ANSWER": str(answer_read)}
            process = await _start(env, ask_write, answer_read, lock)
        except BaseException:
            for each in (ask_read, answer_write):
                os.close(each)
            raise
        finally:
            for each in (ask_write, answer_read, lock):
                os.close(each)
        try:
            status, headers, body = await self._exchange(process, receive, ask_read, answer_write)
        finally:
            # Whatever happened: what moved is applied, before anybody hears of it.
            await asyncio.shield(self._settle(process))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        sync_point("localforge.push.sent")

    async def _exchange(
        self, process: asyncio.subprocess.Process, receive: Receive, ask: int, answer: int
    ) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        assert process.stdout
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_feed(process, receive))
                errors = group.create_task(_drain(process.stderr))
                hook = group.create_task(self._hook(ask, answer))
                status, headers = await _head(process)
                body = await process.stdout.read()
                await process.wait()
                hook.cancel()  # nobody asks any more
        except BaseExceptionGroup as group_error:
            if group_error.subgroup(Gone):
                raise Gone from group_error
            raise
        if process.returncode and errors.result():
            structlog.get_logger().info("http-backend", said=errors.result().decode("utf-8", "replace")[-500:])
        return status, headers, body

    async def _hook(self, ask: int, answer: int) -> None:
        """Hear the hook out, journal, and give it the word."""
        try:
            reader = asyncio.StreamReader()
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ask, "rb", buffering=0)
            )
            try:
                lines = []
                while (line := (await reader.readline()).decode("utf-8", "replace")) != "end\n":
                    if not line:
                        return
                    lines.append(line.rstrip("\n"))
            finally:
                transport.close()
            word = await asyncio.shield(asyncio.ensure_future(self._in_thread(self._journal, lines)))
            os.write(answer, f"{word}\n".encode())
        finally:
            os.close(answer)

    def _journal(self, lines: list[str]) -> str:
        quarantine = {"GIT_OBJECT_DIRECTORY": lines[0], "GIT_ALTERNATE_OBJECT_DIRECTORIES": lines[1]}
        env = {name: value for name, value in quarantine.items() if value}
        updates = []
        for line in lines[2:]:
            old, new, ref = line.split(" ", 2)
            updates.append((ref, old, new))
        git = self._kernel.git(self._repo["id"])
        try:
            with self._kernel.write() as tx:
                repo = tx.get("repos", self._repo["id"])
                moves.check(tx, self._actor, repo, updates, forced=lambda update: _forced(git, env, update))
                self._intent = moves.journal(tx, self._actor, repo, updates)
        except Refused as refused:
            return f"{getattr(refused, 'ref', '')}: {refused.message}".replace("\n", " ")
        sync_point("localforge.push.journaled")
        return "ok"

    async def _settle(self, process: asyncio.subprocess.Process) -> None:
        await _end(process)
        if self._intent is not None:
            await self._in_thread(self._apply, self._intent)

    def _apply(self, intent: int) -> None:
        sync_point("localforge.push.refs")
        with self._kernel.write() as tx:
            moves.apply(tx, intent)
        sync_point("localforge.push.applied")


def _forced(git: GitRepo, env: dict[str, str], update: moves.Update) -> bool:
    try:
        return git.both("merge-base", "--is-ancestor", update[1], update[2], env=env, ok=(0, 1))[0] == 1
    except GitFailed:
        return True


async def _plain(send: Send, status: int, text: str, headers: list[tuple[bytes, bytes]]) -> None:
    body = (text + "\n").encode()
    fixed = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*fixed, *headers]})
    await send({"type": "http.response.body", "body": body})
