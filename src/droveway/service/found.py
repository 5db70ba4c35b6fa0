"""``state/up.json``: how a running ``herd up`` is found (CLI-009). The held lock decides, never a pid (case T04)."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from droveway.app import Home
from droveway.core.errors import BusyError


class UpInfo(msgspec.Struct, frozen=True):
    """What a running ``herd up`` says of itself. Tokens stand in 0600 files beside it.

    ``script`` is the scripted agent's file, where one was given.
    """

    forge_url: str
    provider: str
    pid: int
    boot_id: str
    started_at: str
    owner: str = ""
    bot: str = ""
    script: str = ""


def boot_id() -> str:
    """Give this boot's id, or nothing where the system has none."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def save_secret(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as handle:
        handle.write(text)
    os.replace(temporary, path)


def write_up(home: Home, info: UpInfo) -> None:
    """Publish the running service."""
    save_secret(home.state / "up.json", msgspec.json.encode(info).decode())


@contextlib.contextmanager
def only_one(home: Home) -> Iterator[None]:
    """Hold the home's lock, or raise BusyError: a second ``herd up`` on the same state says so and stops."""
    home.make()
    with open(home.state / "up.lock", "a+") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            info = read_up(home, check=False)
            who = f" (pid {info.pid}, since {info.started_at})" if info else ""
            raise BusyError(f"another 'herd up' runs on {home.root}{who}: stop it, or set DROVEWAY_HOME") from None
        try:
            yield
        finally:
            with contextlib.suppress(FileNotFoundError):
                (home.state / "up.json").unlink()


def _is_held(home: Home) -> bool:
    try:
        with open(home.state / "up.lock", "a+") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


def read_up(home: Home, *, check: bool = True) -> UpInfo | None:
    """Give the running service of this home, or None; a file left by a dead one counts for nothing."""
    path = home.state / "up.json"
    if not path.exists() or (check and not _is_held(home)):
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=UpInfo)
    except (OSError, msgspec.DecodeError):
        return None


def read_secret(path: Path) -> str:
    """Read a token file; nothing where there is none."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
