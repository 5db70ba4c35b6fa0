"""Files below a folder that somebody hostile can write: no part of a path is ever a symlink (QLT-043)."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from droveway.core.errors import InputError


def open_folder(path: Path | str, dir_fd: int | None = None) -> int:
    """Open a real folder, never through a symlink in its last part."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)


def read_plain(name: str, dir_fd: int, limit: int) -> bytes | None:
    """Read a plain file of at most ``limit`` bytes; None for anything else: symlink, FIFO, device, too long, absent."""
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=dir_fd)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > limit:
            return None
        data = file.read(limit + 1)
    return data if len(data) <= limit else None


def _parts(path: str) -> list[str]:
    parts = path.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise InputError(f"{path[:80]!r} is no path below a folder")
    return parts


@contextlib.contextmanager
def _folder_of(root: Path, folders: list[str], *, make: bool) -> Iterator[int]:
    with contextlib.ExitStack() as stack:
        here = open_folder(root)
        stack.callback(os.close, here)
        for folder in folders:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(folder, dir_fd=here)
            here = open_folder(folder, here)
            stack.callback(os.close, here)
        yield here


def read_below(root: Path, path: str, limit: int) -> bytes | None:
    """Read a plain file below ``root``; None where it, or a folder on the way, is anything else."""
    *folders, name = _parts(path)
    try:
        with _folder_of(root, folders, make=False) as folder:
            return read_plain(name, folder, limit)
    except OSError:
        return None


def write_below(root: Path, path: str, data: bytes) -> None:
    """Write a file below ``root``, whole or not at all; what stood at its name is replaced, never written through.

    Raises OSError where a folder on the way is a symlink or no folder.
    """
    *folders, name = _parts(path)
    with _folder_of(root, folders, make=True) as folder:
        fresh = f".{name[:100]}.{secrets.token_hex(4)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(fresh, flags, 0o644, dir_fd=folder), "wb") as file:
            file.write(data)
        try:
            os.replace(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            os.unlink(fresh, dir_fd=folder)
            raise
