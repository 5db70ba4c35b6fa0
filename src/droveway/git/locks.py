"""Locks: one process at a time in a repository, and git's lock files that a killed process left (case W01)."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import AsyncIterator
from pathlib import Path

from droveway.core.clock import Clock
from droveway.core.errors import BusyError

_POLL = 0.05
_PATIENCE = 600.0


@contextlib.asynccontextmanager
async def file_lock(path: Path, clock: Clock, patience: float = _PATIENCE) -> AsyncIterator[None]:
    """Hold ``path`` by flock; the kernel frees it when the holder dies. Raises BusyError after ``patience`` seconds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with clock.hold():
            end = clock.monotonic() + patience
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if clock.monotonic() >= end:
                        raise BusyError(f"{path} is held by another process for more than {patience:.0f} s") from None
                await clock.sleep(_POLL)
        yield
    finally:
        os.close(handle)


def _git_at_work(pid: str, git_dir: Path) -> bool:
    """Whether the process is a git started for this repository: it may have closed its lock and not yet renamed it."""
    with contextlib.suppress(OSError):
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return argv[0].rpartition(b"/")[2].startswith(b"git") and any(os.fsencode(git_dir) in part for part in argv)
    return False


def held_open(path: Path, git_dir: Path) -> bool:
    """Whether a process has ``path`` open, or is a git at work in ``git_dir``.

    Of a process that we may not look into we assume it if it is git.
    """
    try:
        wanted = path.stat()
    except OSError:
        return False
    for pid in (name for name in os.listdir("/proc") if name.isdigit()):
        if _git_at_work(pid, git_dir):
            return True
        try:
            handles = os.listdir(f"/proc/{pid}/fd")
        except PermissionError:
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text().startswith("git"):
                    return True
            continue
        except OSError:
            continue
        for handle in handles:
            with contextlib.suppress(OSError):
                found = os.stat(f"/proc/{pid}/fd/{handle}")
                if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                    return True
    return False


def _lock_files(git_dir: Path) -> list[Path]:
    """Give git's lock files: beside HEAD, and below refs."""
    found = [path for path in git_dir.glob("*.lock") if path.is_file()]
    return found + [path for path in (git_dir / "refs").rglob("*.lock") if path.is_file()]


async def release_dead_locks(git_dir: Path, clock: Clock, patience: float = 20.0) -> bool:
    """Remove git's lock files of dead owners and wait for living ones; tell whether a retry makes sense.

    The caller holds our own lock on the repository, so the owner can only be a git that outlived its parent. A lock
    that somebody holds is never removed: after ``patience`` seconds the answer is False.
    """
    stale = _lock_files(git_dir)
    if not stale:
        return False
    with clock.hold():
        end = clock.monotonic() + patience
        for lock in stale:
            while held_open(lock, git_dir):
                if clock.monotonic() >= end:
                    return False
                await clock.sleep(_POLL)
            lock.unlink(missing_ok=True)
    return True
