"""A hostile work tree seen through a git directory of our own: what changed in it, and its content as a tree object."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from pathlib import Path

import msgspec

from droveway.git.files import read_below
from droveway.git.objects import Objects, records, text_of
from droveway.git.runner import GitError

_OURS = re.compile(rb"\.herd/(?:tmp(?:/|$)|review-fixes-[^/]*\.md$)")
_MAX_FILE = 256 * 1024 * 1024


class Changes(msgspec.Struct, frozen=True):
    """The paths that differ from a commit, as bytes."""

    paths: tuple[bytes, ...]

    @property
    def shown(self) -> list[str]:
        """Give the paths for people."""
        return sorted(text_of(path) for path in self.paths)


class WorkTree:
    """The agent's tree, with our index. Every call names git directory and work tree, so that nothing is discovered."""

    def __init__(self, own: Objects, tree: Path) -> None:
        """Use our git directory ``own`` on ``tree``."""
        self._own = own
        self._tree = tree

    async def _git(self, *args: str, stdin: bytes | None = None, ok: tuple[int, ...] = (0,)) -> bytes:
        done = await self._own.git.run(
            *args, git_dir=self._own.path, work_tree=self._tree, cwd=self._tree, stdin=stdin, ok=ok, timeout=600.0
        )
        return done.stdout

    async def changes(self, parent: str) -> Changes:
        """List what differs between the tree and ``parent``; the index is left at ``parent``."""
        await self._index(parent)
        # Submodules are never looked into: git would start a status inside them, with their configuration.
        await self._git("update-index", "-q", "--refresh", "--ignore-submodules", ok=(0, 1))
        raw = await self._git("diff-files", "-z", "--raw", "--no-renames", "--ignore-submodules=all")
        rows = records(raw)
        tracked = [(rows[at].lstrip(b":").split(b" "), rows[at + 1]) for at in range(0, len(rows) - 1, 2)]
        phantoms = await self._phantoms([path for meta, path in tracked if _content_only(meta)])
        changed = [path for _, path in tracked if path not in phantoms]
        others = records(await self._git("ls-files", "-z", "--others", "--exclude-standard"))
        # A name that ends with a slash is a repository inside the tree: it is nobody's work until it is a submodule.
        changed += [path for path in others if not path.endswith(b"/")]
        return Changes(tuple(path for path in changed if not _OURS.match(path)))

    async def write(self, parent: str) -> str | None:
        """Write the tree object of the work tree's content on top of ``parent``; None where nothing differs."""
        found = await self.changes(parent)
        if not found.paths:
            return None
        argv = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
        try:
            await self._git(*argv, stdin=b"".join(path + b"\0" for path in found.paths))
        except GitError:
            # One file that can't be read or named must not cost the others.
            await self._index(parent)
            for path in found.paths:
                with contextlib.suppress(GitError):
                    await self._git(*argv, stdin=path + b"\0")
        tree = (await self._git("write-tree")).decode().strip()
        return None if tree == await self._own.tree_of(parent) else tree

    async def _index(self, parent: str) -> None:
        index = self._own.path / "index"
        if index.exists():
            try:
                await self._git("read-tree", "-m", parent)  # keeps what is known of unchanged files
                return
            except GitError:
                index.unlink()
        await self._git("read-tree", parent)

    async def _phantoms(self, suspects: list[bytes]) -> set[bytes]:
        """Give the paths whose content is exactly what a fresh checkout writes: only git's conversions see a change."""
        found: set[bytes] = set()
        if not suspects:
            return found
        with tempfile.TemporaryDirectory(prefix="checkout-", dir=self._own.path) as folder:
            with contextlib.suppress(GitError):
                asked = b"".join(path + b"\0" for path in suspects)
                await self._git("checkout-index", "--quiet", f"--prefix={folder}/", "-z", "--stdin", stdin=asked)
            for path in suspects:
                fresh = read_below(Path(folder), os.fsdecode(path), _MAX_FILE)
                if fresh is not None and fresh == read_below(self._tree, os.fsdecode(path), _MAX_FILE):
                    found.add(path)
        return found


def _content_only(row: list[bytes]) -> bool:
    """Whether a raw diff row is a plain file whose mode stayed."""
    return row[0] == row[1] and row[0].startswith(b"100") and row[4] == b"M"
