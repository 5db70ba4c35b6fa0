"""A place: where one attempt's agent works, and how the framework looks at it without running anything of the agent's.

``runs/<issue>-<attempt>/{gate.git, git/, tree/}``: the agent has ``tree`` (a clone) and ``gate.git`` (its origin), both
writable; ``git`` is the framework's own git directory, which uses ``tree`` as its work tree. Git of ours never reads
``tree/.git`` nor the gate's configuration: their fsmonitor, filters and hooks would run outside the sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import stat
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from droveway.core.clock import Clock
from droveway.core.errors import BusyError, HerdError, InputError
from droveway.git.files import read_below, write_below
from droveway.git.gate import GateError, create_gate, import_objects, printable, refused_refs
from droveway.git.locks import file_lock, release_dead_locks
from droveway.git.mirror import Mirror, init_bare
from droveway.git.model import Identity
from droveway.git.objects import Objects
from droveway.git.refs import list_refs, read_ref
from droveway.git.runner import GitError
from droveway.git.worktree import WorkTree

EXCLUDED = ("/.herd/tmp/", "/.herd/images/", "/.herd/review-fixes-*.md")
FRAMEWORK_PATHS = (".herd/tmp", ".herd/review-fixes-*.md")
_RECORD = "place.json"

# Runs inside the sandbox with the agent's own configuration. It never takes back what the agent pushed: the forced push
# is only for a branch that the agent itself rewrote after pushing it.
_HARVEST = """cd "$1" && git rev-parse -q --verify HEAD >/dev/null || exit 0
git push -q --no-verify "$2" "HEAD:refs/heads/$3" 2>/dev/null && exit 0
[ "$(git symbolic-ref -q HEAD)" = "refs/heads/$3" ] || exit 0
git fetch -q "$2" "refs/heads/$3" || exit 0
git merge-base --is-ancestor HEAD FETCH_HEAD && exit 0
git push -q --no-verify -f "$2" "HEAD:refs/heads/$3"
"""


class RemovalResult(msgspec.Struct, frozen=True):
    """What a removal did: ``removed``, ``absent`` or ``kept``, and for the last the reason (case W02)."""

    state: str
    reason: str = ""


class Removed(msgspec.Struct, frozen=True):
    """A commit that takes paths out, and which (BAT-138)."""

    commit: str
    paths: tuple[str, ...]


class _Record(msgspec.Struct, frozen=True):
    branch: str
    start: str
    readable: dict[str, str]
    device: int
    inode: int


class Place:
    """One attempt's gate, tree, and the framework's own git directory beside them."""

    def __init__(self, root: Path, mirror: Mirror, record: _Record) -> None:
        """Wrap an existing place; use ``create`` or ``open``."""
        self.root = root
        self.mirror = mirror
        self.branch = record.branch
        self.start = record.start
        self.gate = root / "gate.git"
        self.tree = root / "tree"
        self.git_dir = root / "git"
        self._record = record
        self._own = Objects(mirror.git, self.git_dir)
        self._work = WorkTree(self._own, self.tree)

    # --- its life ---

    @classmethod
    async def create(
        cls,
        root: Path,
        mirror: Mirror,
        *,
        branch: str,
        start: str,
        readable: Mapping[str, str] | None = None,
        author: Identity,
        exclude: Sequence[str] = EXCLUDED,
    ) -> Place:
        """Make a place at ``root`` with ``branch`` at the commit ``start`` (which the mirror has) checked out.

        ``readable`` offers further branches (name → SHA) in the gate for reading; ``exclude`` are ignore patterns.
        What a killed run left of the same place half made is cleared. Raises InputError if a whole one exists.
        """
        if (root / "git" / _RECORD).exists():
            raise InputError(f"{root} is a place already: open it, or remove it first")
        git = mirror.git
        start = await mirror.rev_parse(start) or start
        for left in (root / "gate.git", root / "git", root / "tree"):
            await _remove_tree(left, mirror.clock)
        root.mkdir(parents=True, exist_ok=True)
        await create_gate(git, root / "gate.git", mirror, branch=branch, start=start, readable=readable or {})
        tree = root / "tree"
        settings = {"user.name": author.name, "user.email": author.email, "push.default": "current", "gc.auto": "0"}
        flags = [part for key, value in settings.items() for part in ("--config", f"{key}={value}")]
        argv = ["clone", "--quiet", "--shared", "--no-tags", "--template=", *flags, "--branch", branch]
        await git.run(*argv, "--", str(root / "gate.git"), str(tree), cwd=root)
        ignored = "".join(f"{line}\n" for line in exclude)
        await init_bare(git, root / "git", "[uploadpack]\n\tallowAnySHA1InWant = true\n")
        (root / "git" / "objects" / "info").mkdir(exist_ok=True)
        (root / "git" / "objects" / "info" / "alternates").write_text(f"{mirror.path / 'objects'}\n")
        for folder in (tree / ".git", root / "git"):
            (folder / "info").mkdir(exist_ok=True)
            (folder / "info" / "exclude").write_text(ignored)
        found = tree.lstat()
        record = _Record(branch, start, dict(readable or {}), found.st_dev, found.st_ino)
        fresh = root / "git" / f"{_RECORD}.new"
        fresh.write_bytes(msgspec.json.encode(record))
        os.replace(fresh, root / "git" / _RECORD)  # last: a place with this file is whole
        return cls(root, mirror, record)

    @classmethod
    async def open(cls, root: Path, mirror: Mirror) -> Place | None:
        """Give the whole place at ``root``, for instance one that a killed run left; None if there is none."""
        try:
            record = msgspec.json.decode((root / "git" / _RECORD).read_bytes(), type=_Record)
        except (OSError, msgspec.DecodeError):
            return None
        return cls(root, mirror, record)

    @property
    def writable(self) -> tuple[Path, ...]:
        """Give the folders that the agent's sandbox must bind writable."""
        return (self.tree, self.gate)

    @property
    def readonly(self) -> tuple[Path, ...]:
        """Give the folders that the agent's git must be able to read: the shared objects, without the mirror's rest."""
        return (self.mirror.path / "objects",)

    async def remove(self, *, saved: str | None = None, force: bool = False) -> RemovalResult:
        """Remove the place unless it holds work that ``saved`` (default: what was taken) does not; ``force`` always."""
        if not self.root.exists():
            return RemovalResult("absent")
        if not force:
            try:
                reason = await self._unsaved(saved)
            except HerdError as error:
                reason = f"can't tell whether its work is saved: {error}"
            if reason:
                return RemovalResult("kept", reason)
        try:
            await _remove_tree(self.root, self.mirror.clock)
        except OSError as error:
            return RemovalResult("kept", f"{type(error).__name__}: {error}")
        with contextlib.suppress(GitError):
            await self.mirror.call("update-ref", "-d", self._kept_ref)
        return RemovalResult("removed")

    async def _unsaved(self, saved: str | None) -> str:
        tip = await self.gate_tip()
        if tip and await self.mirror.rev_parse(tip) is None:
            return f"the pushed commit {tip[:12]} was not taken"
        if not self.tree.exists():
            return ""
        left = await self.dirty(saved)
        return f"uncommitted files: {len(left)}" if left else ""

    # --- the gate ---

    def harvest_argv(self) -> list[str]:
        """Give the command that, run INSIDE the sandbox after the agent, pushes its local commits to the gate."""
        return ["sh", "-c", _HARVEST, "harvest", str(self.tree), str(self.gate), self.branch]

    async def gate_tip(self) -> str | None:
        """Read the branch's tip from the gate's files; anything but a plain SHA counts as absent."""
        return read_ref(self.gate, f"refs/heads/{self.branch}")

    async def attempted_refs(self) -> list[str]:
        """List the other refs that the agent pushed or tried to push, for the report (BAT-134); at most 50."""
        offered = {f"refs/heads/{name}": sha for name, sha in self._record.readable.items()}
        mine = f"refs/heads/{self.branch}"
        found = list_refs(self.gate).items()
        put = [printable(name) for name, sha in found if name != mine and (name, sha) not in offered.items()]
        return sorted({*put, *refused_refs(self.gate)})[:50]

    async def take(self) -> str | None:
        """Bring the gate tip's objects into the mirror, checked, and give its SHA; None if there is no tip.

        Raises GateError where the tip is not sound: objects missing, damaged or malformed (as receive.fsckObjects).
        """
        tip = await self.gate_tip()
        if tip is None:
            return None
        if await self.mirror.rev_parse(tip) == tip:
            return tip
        async with self._locked():
            try:
                await import_objects(self.mirror.git, self.gate, self._own, self.mirror.clock)
                await self._into_mirror(tip)
            except GitError as error:
                raise GateError(f"what the agent pushed is not sound: {error}") from error
            except OSError as error:
                raise GateError(f"the gate can't be read: {error}") from error
        return tip

    @property
    def _kept_ref(self) -> str:
        return f"refs/droveway/places/{self.root.name}"

    async def _into_mirror(self, sha: str) -> None:
        """Copy a commit from our own git directory into the mirror once all that it needs is there."""
        if await self._own.rev_parse(sha) != sha:
            raise GateError(f"{sha} is no commit in the gate")
        known = sorted(set((await self.mirror.refs("refs/")).values()))
        asked = "".join([f"{sha}\n", *(f"^{tip}\n" for tip in known)]).encode()
        await self._own.call("rev-list", "--objects", "--quiet", "--stdin", stdin=asked)
        argv = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance")
        await self.mirror.git.run(
            *argv,
            str(self.git_dir),
            f"+{sha}:{self._kept_ref}",
            git_dir=self.mirror.path,
            config={"fetch.fsckObjects": "true"},
        )

    # --- the tree ---

    def read(self, path: str, limit: int = 1 << 20) -> bytes | None:
        """Read a plain file of the tree, for instance the progress file; None for a symlink on the way, or none.

        ``limit`` is in bytes; a longer file counts as none.
        """
        return read_below(self.tree, path, limit)

    def write(self, path: str, data: bytes) -> None:
        """Put a file into the tree, never through a symlink of the agent's; raises OSError where one is in the way."""
        write_below(self.tree, path, data)

    async def dirty(self, against: str | None = None) -> list[str]:
        """List the paths of the tree that differ from ``against`` (default: the taken gate tip, or the start).

        Ignored files obey .gitignore; a file that differs only by what a fresh checkout would differ is none (G06).
        """
        async with self._locked():
            return (await self._work.changes(await self._base(against))).shown

    async def commit_leftovers(
        self, parent: str, message: str, author: Identity, committer: Identity, when: datetime
    ) -> str | None:
        """Commit all that is uncommitted in the tree onto ``parent``, in the mirror; None if there is nothing.

        Left out: what .gitignore names, ``.herd/tmp``, ``.herd/review-fixes-*.md``, repositories inside the tree.
        """
        async with self._locked():
            tree = await self._work.write(await self._base(parent))
            if tree is None:
                return None
            commit = await self._own.commit_tree(tree, [parent], message, author, committer, when)
            await self._into_mirror(commit)
            return commit

    async def rm_paths_commit(
        self,
        parent: str,
        message: str,
        author: Identity,
        committer: Identity,
        when: datetime,
        *,
        paths: Sequence[str] = FRAMEWORK_PATHS,
    ) -> Removed | None:
        """Commit onto ``parent`` (in the mirror) that exactly these paths go (BAT-138); None if there are none."""
        if not await self.mirror.holds_any(parent, paths):
            return None
        tree, gone = await self.mirror.without(parent, paths)
        return Removed(await self.mirror.commit_tree(tree, [parent], message, author, committer, when), gone)

    async def _base(self, rev: str | None) -> str:
        """Give a commit that our own git directory can read: the one asked for, the gate's tip if taken, the start."""
        for candidate in (rev, await self.gate_tip(), self.start):
            if candidate and await self._own.rev_parse(candidate):
                return candidate
            if rev:
                break
        raise GateError(f"{rev or self.start} is not in the mirror")

    @contextlib.asynccontextmanager
    async def _locked(self) -> AsyncIterator[None]:
        """Hold the place, free of lock files of dead gits, with the tree still the folder that we made."""
        async with file_lock(self.git_dir / "droveway.flock", self.mirror.clock):
            stale = self.git_dir / "index.lock"
            if stale.exists() and not await release_dead_locks(self.git_dir, self.mirror.clock):
                raise BusyError(f"a living git holds {stale}")
            with contextlib.suppress(FileNotFoundError):
                found = self.tree.lstat()
                if not stat.S_ISDIR(found.st_mode) or (found.st_dev, found.st_ino) != (
                    self._record.device,
                    self._record.inode,
                ):
                    raise GateError(f"{self.tree} is not the folder that was made for the agent any more")
            yield


async def _remove_tree(path: Path, clock: Clock) -> None:
    with clock.hold():
        await asyncio.to_thread(_delete, path)


def _delete(path: Path) -> None:
    """Delete a folder of the agent's: symlinks are not followed, unreadable folders are made readable first."""
    if path.is_symlink() or path.is_file():
        path.unlink()
        return
    if not path.exists():
        return
    with contextlib.suppress(OSError):
        shutil.rmtree(path)
        return
    for folder, names, _files in os.walk(path, followlinks=False):
        with contextlib.suppress(OSError):
            os.chmod(folder, 0o700, follow_symlinks=True)
        for name in names:
            inner = os.path.join(folder, name)
            with contextlib.suppress(OSError):
                if not os.path.islink(inner):
                    os.chmod(inner, 0o700)
    shutil.rmtree(path)
