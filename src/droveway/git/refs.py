"""Names of refs by git's own rules (QLT-043), and refs read from files without running git."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from droveway.core.errors import InputError
from droveway.git.files import open_folder, read_plain

SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
MAX_COMPONENT = 250  # bytes: a file name holds 255, and git appends ".lock"
MAX_NAME = 1000
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]")
_LOOSE_LIMIT = 1024
_PACKED_LIMIT = 64 * 1024 * 1024
_WALK_LIMIT = 10_000


def check_ref_name(name: str) -> None:
    """Raise InputError unless ``name`` (a branch, or a full ``refs/…``) is one that git, and a file system, accepts."""
    problem = _problem(name)
    if problem:
        raise InputError(f"{name[:80]!r} is no name for a branch: {problem}")


def _problem(name: str) -> str:
    full = name if name.startswith("refs/") else f"refs/heads/{name}"
    try:
        raw = full.encode()
    except UnicodeEncodeError:
        return "it is not valid text"
    parts = full.split("/")
    rules = (
        (not name, "it is empty"),
        (len(raw) > MAX_NAME, f"it is longer than {MAX_NAME} bytes"),
        (any(len(part.encode()) > MAX_COMPONENT for part in parts), f"a part is longer than {MAX_COMPONENT} bytes"),
        (name.startswith("-"), "it starts with '-'"),
        (name in ("HEAD", "@"), "it is a name that git keeps for itself"),
        (bool(_FORBIDDEN.search(full)), "it holds a space, a control character or one of ~ ^ : ? * [ \\"),
        (".." in full, "it holds '..'"),
        ("@{" in full, "it holds '@{'"),
        (full.endswith("."), "it ends with '.'"),
        (any(not part for part in parts), "it has an empty part"),
        (any(part.startswith(".") for part in parts), "a part starts with '.'"),
        (any(part.endswith(".lock") for part in parts), "a part ends with '.lock'"),
    )
    return next((text for broken, text in rules if broken), "")


def clashing_ref(name: str, existing: Iterable[str]) -> str | None:
    """Give a ref of ``existing`` beside which ``name`` can't exist, because one is a folder of the other (case B01)."""
    for other in existing:
        if other != name and (other.startswith(f"{name}/") or name.startswith(f"{other}/")):
            return other
    return None


# --- a repository that somebody else can write -----------------------------------------------------------------------


def _sha_of(data: bytes | None) -> str | None:
    text = (data or b"").decode("ascii", "replace").removesuffix("\n")
    return text if SHA.fullmatch(text) else None


def _loose(root: int, ref: str) -> str | None:
    *folders, name = ref.split("/")
    with contextlib.ExitStack() as stack:
        here = root
        try:
            for folder in folders:
                here = open_folder(folder, here)
                stack.callback(os.close, here)
        except OSError:
            return None
        return _sha_of(read_plain(name, here, _LOOSE_LIMIT))


def _packed(root: int) -> dict[str, str]:
    found = {}
    for line in (read_plain("packed-refs", root, _PACKED_LIMIT) or b"").decode("utf-8", "replace").splitlines():
        sha, _, ref = line.partition(" ")
        if SHA.fullmatch(sha):
            found[ref] = sha
    return found


def read_ref(repository: Path, ref: str) -> str | None:
    """Read one ref of a bare repository from its files; a symbolic ref, a symlink or nonsense counts as absent."""
    try:
        root = open_folder(repository)
    except OSError:
        return None
    try:
        return _loose(root, ref) or _packed(root).get(ref)
    finally:
        os.close(root)


def _walk(folder: int, prefix: str, budget: list[int]) -> Iterator[tuple[str, str | None]]:
    with os.scandir(folder) as entries:
        listed = list(entries)
    for entry in sorted(listed, key=lambda e: e.name):
        budget[0] -= 1
        if budget[0] < 0:
            return
        name = f"{prefix}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            with contextlib.suppress(OSError):
                inner = open_folder(entry.name, folder)
                try:
                    if name.count("/") < 40:
                        yield from _walk(inner, name, budget)
                finally:
                    os.close(inner)
        elif not entry.name.endswith(".lock"):
            yield name, _sha_of(read_plain(entry.name, folder, _LOOSE_LIMIT))


def list_refs(repository: Path) -> dict[str, str | None]:
    """List the refs of a bare repository from its files; None for one that holds no plain SHA. At most 10,000."""
    found: dict[str, str | None] = {}
    with contextlib.suppress(OSError):
        root = open_folder(repository)
        try:
            found.update(_packed(root))
            refs = open_folder("refs", root)
            try:
                found.update(_walk(refs, "refs", [_WALK_LIMIT]))
            finally:
                os.close(refs)
        finally:
            os.close(root)
    return found
