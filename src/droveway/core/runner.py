"""The one place that starts child processes: deadlines, silence, output limits, and whole trees killed (AGT-004)."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import os
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from droveway.core.clock import Clock
from droveway.core.ids import Ids

RUN_TAG = "HERD_RUN_TAG"
_DRAIN_SECONDS = 1.0


class End(enum.StrEnum):
    """How a run ended."""

    EXITED = "exited"
    TIMEOUT = "timeout"
    IDLE = "idle"
    OUTPUT = "output"  # more output than the limit
    STOPPED = "stopped"  # the caller set its stop event


class Limits(msgspec.Struct, frozen=True):
    """Bounds of one run, in seconds and bytes. ``idle`` is the longest silence; None means no such bound."""

    timeout: float = 60.0
    idle: float | None = None
    grace: float = 10.0
    max_output: int = 64 * 1024 * 1024


class Completed(msgspec.Struct, frozen=True):
    """A run that is over: no process of it is left. ``code`` is negative for a signal, as in ``subprocess``."""

    argv: tuple[str, ...]
    code: int
    stdout: bytes
    stderr: bytes
    seconds: float
    end: End = End.EXITED

    @property
    def ok(self) -> bool:
        """Whether the child ended by itself with 0."""
        return self.end is End.EXITED and self.code == 0

    def text(self) -> str:
        """Give the output as text; bad bytes are replaced (case X08)."""
        return self.stdout.decode("utf-8", "replace")

    def error_text(self) -> str:
        """Give the error output as text."""
        return self.stderr.decode("utf-8", "replace")


def tagged_processes(tag: str) -> list[int]:
    """Give the pids whose environment carries this run's tag: also those that left its group and session."""
    needle = f"{RUN_TAG}={tag}".encode()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            with open(f"/proc/{name}/environ", "rb") as handle:
                if needle in handle.read().split(b"\0"):
                    found.append(int(name))
    return found


def _stat(pid: int) -> tuple[str, int, int] | None:
    """Give a process's state, its parent, and when it was started (in ticks since boot); None if it is gone."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open(f"/proc/{pid}/stat", "rb") as handle:
            fields = handle.read().rpartition(b")")[2].split()
        return fields[0].decode(), int(fields[1]), int(fields[19])
    return None


def _descendants(root: int) -> set[int]:
    """Give the pids below ``root`` by the parents' links: also those that cleared their environment."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (stat := _stat(int(name))) is not None:
            children.setdefault(stat[1], []).append(int(name))
    found: set[int] = set()
    todo = [root]
    while todo:
        fresh = [pid for pid in children.get(todo.pop(), ()) if pid not in found]
        found.update(fresh)
        todo.extend(fresh)
    return found


def _group_empty(group: int) -> bool:
    """Whether no process is left in a group whose leader was reaped; a reused number only costs a search."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


class _Tree:
    """The processes of one run: the direct child's group, its descendants, and all that carry the run's tag."""

    def __init__(self, process: asyncio.subprocess.Process, tag: str) -> None:
        self._process = process
        self._tag = tag
        self._seen: dict[int, int] = {}  # pid → start, which tells a process from a later one with its number

    @property
    def child_alive(self) -> bool:
        return self._process.returncode is None

    def members(self) -> set[int]:
        """Give who lives besides the direct child."""
        found = set(tagged_processes(self._tag))
        if self.child_alive:
            found |= _descendants(self._process.pid)
        found.discard(self._process.pid)
        for pid in found - self._seen.keys():
            if (stat := _stat(pid)) is not None:
                self._seen[pid] = stat[2]
        # Who was seen once stays ours: an orphan without the tag can't be found a second time.
        return {
            pid for pid, start in self._seen.items() if (stat := _stat(pid)) and stat[0] != "Z" and stat[2] == start
        }

    def signal(self, number: signal.Signals) -> None:
        members = self.members()
        if self.child_alive:  # once it is reaped, its number may belong to somebody else
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
        for pid in members:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def reap_orphans(self) -> None:
        """Take the zombies that became our children, which happens where we are PID 1 of a container (case P01)."""
        for pid in self._seen:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


class _Collector:
    """Drains one pipe, within a limit; tells a sink of each piece."""

    def __init__(self, limit: int, sink: Callable[[bytes], None] | None, beat: Callable[[], None]) -> None:
        self.parts: list[bytes] = []
        self.size = 0
        self.full = asyncio.Event()
        self.ended = False
        self._limit = limit
        self._sink = sink
        self._beat = beat

    async def drain(self, stream: asyncio.StreamReader) -> None:
        while piece := await stream.read(65536):
            self._beat()
            room = self._limit - self.size
            if room > 0:
                self.parts.append(piece[:room])
                if self._sink:
                    self._sink(piece[:room])
            self.size += len(piece)
            if self.size > self._limit:
                self.full.set()
        self.ended = True

    def data(self) -> bytes:
        return b"".join(self.parts)


class Runner:
    """Starts children. Every subprocess of the product, but for the command line's own ``exec``, starts here."""

    def __init__(self, clock: Clock, ids: Ids) -> None:
        """Use the given clock (held while a child lives) and ids (for the tags of runs)."""
        self._clock = clock
        self._ids = ids

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | str,
        env: Mapping[str, str],
        stdin: bytes | None = None,
        limits: Limits | None = None,
        sink: Callable[[bytes], None] | None = None,
        stop: asyncio.Event | None = None,
        leaves_nothing: bool = False,
    ) -> Completed:
        """Run ``argv`` to its end and give what it said.

        ``env`` is the whole environment. ``stdin`` None means an empty one. ``sink`` sees standard output as it comes.
        The direct child's end ends the run: descendants that hold the pipe open are stopped (case P01).
        ``stop``, once set, ends the run as STOPPED, with the output so far. A cancelled caller leaves no process
        behind. ``leaves_nothing`` is for programs that start no daemon (git as we configure it): one that has ended by
        itself, with its pipes closed and its group empty, is not searched for in ``/proc``, which takes longer than
        git does. Raises FileNotFoundError or PermissionError if it can't start.
        """
        limits = limits or Limits()
        # Ours alone even where ids are seeded: another process with the same seed must not stop our children.
        tag = f"{os.getpid()}.{self._ids.new()}"
        with self._clock.hold():
            started = self._clock.monotonic()
            process = await asyncio.create_subprocess_exec(
                *argv,
                cwd=cwd,
                env={**env, RUN_TAG: tag},
                stdin=asyncio.subprocess.PIPE if stdin is not None else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                limit=1 << 20,
            )
            whole = False
            try:
                end, out, err = await self._supervise(process, stdin, limits, sink, stop)
                whole = leaves_nothing and end is End.EXITED and out.ended and err.ended and _group_empty(process.pid)
            finally:
                await _to_the_end(self._reap(process, tag, limits.grace, whole=whole))
            assert process.returncode is not None
            return Completed(
                tuple(argv), process.returncode, out.data(), err.data(), self._clock.monotonic() - started, end
            )

    async def _supervise(
        self,
        process: asyncio.subprocess.Process,
        stdin: bytes | None,
        limits: Limits,
        sink: Callable[[bytes], None] | None,
        stop: asyncio.Event | None,
    ) -> tuple[End, _Collector, _Collector]:
        assert process.stdout
        assert process.stderr
        last = self._clock.monotonic()

        def beat() -> None:
            nonlocal last
            last = self._clock.monotonic()

        out = _Collector(limits.max_output, sink, beat)
        err = _Collector(limits.max_output, None, beat)

        async def feed() -> None:
            if stdin is None or process.stdin is None:
                return
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                process.stdin.write(stdin)
                await process.stdin.drain()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                process.stdin.close()

        async def silence() -> None:
            assert limits.idle is not None
            while (left := last + limits.idle - self._clock.monotonic()) > 0:
                await self._clock.sleep(left)

        drains = [asyncio.ensure_future(out.drain(process.stdout)), asyncio.ensure_future(err.drain(process.stderr))]
        watchers = {
            asyncio.ensure_future(self._exit(process)): End.EXITED,
            asyncio.ensure_future(out.full.wait()): End.OUTPUT,
            asyncio.ensure_future(err.full.wait()): End.OUTPUT,
            asyncio.ensure_future(self._clock.sleep(limits.timeout)): End.TIMEOUT,
        }
        if limits.idle is not None:
            watchers[asyncio.ensure_future(silence())] = End.IDLE
        if stop is not None:
            watchers[asyncio.ensure_future(stop.wait())] = End.STOPPED
        feeder = asyncio.ensure_future(feed())
        try:
            done, _ = await asyncio.wait(watchers, return_when=asyncio.FIRST_COMPLETED)
            ends = {watchers[task] for task in done}
            end = End.EXITED if End.EXITED in ends else ends.pop()
            if end is End.EXITED:
                await asyncio.wait(drains, timeout=_DRAIN_SECONDS)
            return end, out, err
        finally:
            for task in [*watchers, *drains, feeder]:
                task.cancel()
            await asyncio.gather(*watchers, *drains, feeder, return_exceptions=True)

    async def _reap(self, process: asyncio.subprocess.Process, tag: str, grace: float, *, whole: bool) -> None:
        """Stop whatever is left of the run: TERM, the grace, KILL; then the direct child is waited for.

        ``whole``: it is known that nothing is left.
        """
        tree = _Tree(process, tag)
        if not whole and (tree.child_alive or tree.members()):
            tree.signal(signal.SIGTERM)
            await self._gone(tree, grace)
            for _ in range(20):  # again and again: a process may have forked between the look and the signal
                if not tree.child_alive and not tree.members():
                    break
                tree.signal(signal.SIGKILL)
                await self._gone(tree, 0.25)
        await self._exit(process)
        tree.reap_orphans()
        transport = getattr(process, "_transport", None)
        if transport is not None:
            transport.close()

    async def _exit(self, process: asyncio.subprocess.Process) -> None:
        """Wait for the direct child's end: ``process.wait()`` also waits until nobody holds its pipes (case P01)."""
        ended = asyncio.Event()
        try:
            descriptor = os.pidfd_open(process.pid)
        except ProcessLookupError:  # reaped already
            ended.set()
        else:
            loop = asyncio.get_running_loop()
            loop.add_reader(descriptor, ended.set)
            try:
                await ended.wait()
            finally:
                loop.remove_reader(descriptor)
                os.close(descriptor)
        while process.returncode is None:  # the loop's watcher has the code in a moment
            await self._clock.sleep(0.001)

    async def _gone(self, tree: _Tree, seconds: float) -> None:
        """Wait until nothing of the tree lives, at most ``seconds``."""
        for _ in range(max(int(seconds / 0.05), 1)):
            if not tree.child_alive and not tree.members():
                return
            await self._clock.sleep(0.05)


async def _to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Do ``work`` whole, whatever cancels us meanwhile; a cancellation is passed on afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled


def scrubbed_environment(source: Mapping[str, str], extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Give the allow-listed environment for children: no credential, a fixed locale for what we parse (CMD-041).

    ``source`` is the process's environment; only PATH, HOME, TMPDIR, USER and certificate settings pass.
    """
    allowed = ("PATH", "HOME", "TMPDIR", "USER", "LOGNAME", "SSL_CERT_FILE", "SSL_CERT_DIR", "TZ", "PYTHONPATH")
    kept = {name: source[name] for name in allowed if name in source}
    kept.setdefault("PATH", os.defpath)
    return {**kept, "LC_ALL": "C.UTF-8", **(extra or {})}
