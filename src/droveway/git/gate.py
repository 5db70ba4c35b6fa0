"""The gate: the bare repository that an agent pushes to, and how its objects are read as data (BAT-134).

The agent can write anything into its gate. So no git of ours ever runs in it after the agent has started: refs are read
from files (``refs.read_ref``), and objects are copied, each checked against its name, into a git directory of our own.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import stat
import zlib
from collections.abc import Mapping
from pathlib import Path

from droveway.core.clock import Clock
from droveway.core.errors import HerdError, InputError
from droveway.git.files import open_folder, read_plain
from droveway.git.mirror import init_bare
from droveway.git.objects import Objects
from droveway.git.refs import SHA, check_ref_name, clashing_ref
from droveway.git.runner import Git

MAX_OBJECT = 256 * 1024 * 1024
MAX_IMPORT = 2 * 1024 * 1024 * 1024
_MAX_ENTRIES = 1_000_000
_REFUSED = "refused-refs"
_ALLOWED = "allowed-ref"
_FAN = re.compile(r"[0-9a-f]{2}")
_LOOSE = re.compile(r"[0-9a-f]{38}(?:[0-9a-f]{24})?")
_PACK = re.compile(r"pack-[0-9a-f]{40,64}\.pack")
_HEADER = re.compile(rb"(?:commit|tree|blob|tag) (\d{1,19})\0")

# A message for the agent, not a fence: a push can name its own receive-pack and so pass it by.
_HOOK = """#!/bin/sh
IFS= read -r allowed <allowed-ref
refused=0
while read -r old new ref; do
  if [ "$ref" != "$allowed" ]; then
    printf '%s\\n' "$ref" >>refused-refs
    echo "Only $allowed may be pushed here, not $ref. Push with: git push origin HEAD:$allowed" >&2
    refused=1
  fi
done
exit $refused
"""


class GateError(HerdError):
    """What lies in the gate is not sound: damaged, too large, or not what its names say."""


async def create_gate(
    git: Git, gate: Path, source: Objects, *, branch: str, start: str, readable: Mapping[str, str]
) -> None:
    """Make the gate: its objects are those of ``source`` (the mirror), its refs ``branch`` and the readable ones."""
    names = {**readable, branch: start}
    for name, sha in names.items():
        check_ref_name(name)
        if not SHA.fullmatch(sha):
            raise InputError(f"{name}: {sha!r} is no commit")
        other = clashing_ref(name, names)
        if other:
            raise InputError(
                f"the branches {name!r} and {other!r} can't exist side by side: one is a folder of the other"
            )
    await init_bare(git, gate)
    (gate / "objects" / "info").mkdir(exist_ok=True)
    (gate / "objects" / "info" / "alternates").write_text(f"{source.path / 'objects'}\n")
    # Nobody else knows the gate yet, so its refs are written as git would: names and SHAs were checked above.
    lines = "".join(f"{names[name]} refs/heads/{name}\n" for name in sorted(names, key=str.encode))
    (gate / "packed-refs").write_text(f"# pack-refs with: peeled fully-peeled sorted \n{lines}", encoding="utf-8")
    (gate / "HEAD").write_text(f"ref: refs/heads/{branch}\n", encoding="utf-8")
    (gate / _ALLOWED).write_text(f"refs/heads/{branch}\n")
    hook = gate / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(_HOOK)
    hook.chmod(0o755)


def refused_refs(gate: Path) -> list[str]:
    """Read what the hook refused: the agent's own data, cut and made printable."""
    try:
        root = open_folder(gate)
    except OSError:
        return []
    try:
        raw = read_plain(_REFUSED, root, 1 << 20) or b""
    finally:
        os.close(root)
    return [printable(line) for line in raw.decode("utf-8", "replace").splitlines()[:200] if line.strip()]


def printable(name: str) -> str:
    """Make a name that the agent chose fit for a report."""
    return "".join(char if char.isprintable() else "?" for char in name[:200])


async def import_objects(git: Git, gate: Path, target: Objects, clock: Clock) -> None:
    """Copy the objects that lie in the gate itself into ``target``. Raises GateError where they are too many.

    The gate's alternates are not followed. A loose object whose content does not have its name is passed over; packs
    get a fresh index from git. What is missing afterwards shows when the tip's connectivity is checked.
    """
    with clock.hold():
        packs = await asyncio.to_thread(_copy_objects, gate, target.path / "objects")
    for pack in packs:
        try:
            await git.run("index-pack", str(pack), git_dir=target.path)
        except HerdError:
            pack.unlink(missing_ok=True)
            pack.with_suffix(".idx").unlink(missing_ok=True)
            raise


class _Budget:
    def __init__(self) -> None:
        self.bytes = MAX_IMPORT
        self.entries = _MAX_ENTRIES

    def take(self, size: int) -> None:
        self.bytes -= size
        self.entries -= 1
        if self.bytes < 0 or self.entries < 0:
            raise GateError(f"the agent pushed more than {MAX_IMPORT >> 20} MiB or {_MAX_ENTRIES} objects")


def _copy_objects(gate: Path, target: Path) -> list[Path]:
    """Copy loose objects and packs that ``target`` lacks; give the packs, which still need an index."""
    budget = _Budget()
    packs: list[Path] = []
    with contextlib.ExitStack() as stack:
        root = open_folder(gate)
        stack.callback(os.close, root)
        try:
            objects = open_folder("objects", root)
        except OSError:
            return []
        stack.callback(os.close, objects)
        for fan in sorted(os.listdir(objects)):
            if not (_FAN.fullmatch(fan) or fan == "pack"):
                continue
            try:
                folder = open_folder(fan, objects)
            except OSError:
                continue
            try:
                if fan == "pack":
                    packs += _copy_packs(folder, target / "pack", budget)
                else:
                    _copy_loose(fan, folder, target / fan, budget)
            finally:
                os.close(folder)
    return packs


def _copy_loose(fan: str, folder: int, target: Path, budget: _Budget) -> None:
    for name in os.listdir(folder):
        if not _LOOSE.fullmatch(name) or (target / name).exists():
            continue
        data = read_plain(name, folder, MAX_OBJECT)
        budget.take(len(data or b""))
        if data is None or not _is_object(data, fan + name):
            continue
        target.mkdir(parents=True, exist_ok=True)
        _write(target / name, data)


def _is_object(data: bytes, sha: str) -> bool:
    """Whether the compressed bytes are an object of this name."""
    digest = hashlib.sha1(usedforsecurity=False) if len(sha) == 40 else hashlib.sha256()
    unpacker = zlib.decompressobj()
    size, head, rest = 0, b"", data
    try:
        while rest and not unpacker.eof:
            piece = unpacker.decompress(rest, 1 << 20)
            rest = unpacker.unconsumed_tail
            digest.update(piece)
            head = head or piece[:64]
            size += len(piece)
            if size > MAX_OBJECT:
                return False
    except zlib.error:
        return False
    header = _HEADER.match(head)
    return bool(unpacker.eof and header and int(header.group(1)) + header.end() == size and digest.hexdigest() == sha)


def _copy_packs(folder: int, target: Path, budget: _Budget) -> list[Path]:
    target.mkdir(parents=True, exist_ok=True)
    found = []
    for name in os.listdir(folder):
        copy = target / name
        if not _PACK.fullmatch(name) or copy.with_suffix(".idx").exists():
            continue
        try:
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        except OSError:
            continue
        with os.fdopen(handle, "rb") as source:
            size = os.fstat(source.fileno())
            if not stat.S_ISREG(size.st_mode):
                continue
            budget.take(size.st_size)
            copy.unlink(missing_ok=True)
            with copy.open("wb") as out:
                left = size.st_size
                while left > 0 and (piece := source.read(min(left, 1 << 20))):
                    out.write(piece)
                    left -= len(piece)
        found.append(copy)
    return found


def _write(path: Path, data: bytes) -> None:
    fresh = path.with_name(f"tmp_obj_{path.name}")
    fresh.write_bytes(data)
    fresh.chmod(0o444)
    os.replace(fresh, path)
