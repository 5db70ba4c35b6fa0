"""The mirror of one repository: a bare repository of ours, with all that is done over the network and by merging."""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from pathlib import Path

from droveway.core.clock import Clock
from droveway.core.decisions import RefUpdate
from droveway.core.runner import Completed
from droveway.git.attributes import install_attributes
from droveway.git.locks import file_lock, release_dead_locks
from droveway.git.merging import folding_warnings, merge_trees, replay
from droveway.git.model import (
    AlreadyContained,
    Conflict,
    Identity,
    Merged,
    MergeOutcome,
    PushResult,
    RefOutcome,
    RefResult,
    Remote,
    Replayed,
    SweepResult,
)
from droveway.git.objects import Objects
from droveway.git.refs import check_ref_name
from droveway.git.runner import NETWORK_TIMEOUT, Git, GitError
from droveway.git.sweep import CLEANUP_MESSAGE, PROGRESS_PATHS, run_sweep

MIRRORED = ("refs/heads/", "refs/herd/")
_REFSPECS = tuple(f"+{prefix}*:{prefix}*" for prefix in MIRRORED)


class Mirror(Objects):
    """A bare repository whose ``refs/heads`` and ``refs/herd`` follow the forge's. Never collected: places share it."""

    def __init__(self, git: Git, path: Path, remote: Remote, clock: Clock) -> None:
        """Wrap an existing mirror; use ``open``."""
        super().__init__(git, path)
        self.remote = remote
        self.clock = clock
        self._turn = asyncio.Lock()
        self._begun = 0  # of the full fetches: the number of the last that began, and of the last that came whole
        self._fetched = 0

    @classmethod
    async def open(cls, path: Path, remote: Remote, *, git: Git, clock: Clock) -> Mirror:
        """Give the mirror at ``path``, made if it is not there. A credential inside the URL is taken out of it."""
        remote = remote if remote.token else Remote.of(remote.url)
        mirror = cls(git, path, remote, clock)
        async with mirror.lock():
            if not (path / "HEAD").exists():
                await init_bare(git, path)
        return mirror

    @contextlib.asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        """Hold the repository's lock: one process at a time writes refs and attributes; tasks of ours queue here."""
        async with self._turn, file_lock(self.path.with_name(f"{self.path.name}.lock"), self.clock):
            yield

    # --- the network ---

    async def _remote(self, *args: str, ok: Sequence[int] = (0,)) -> Completed:
        secrets = (self.remote.token, self.remote.basic) if self.remote.token else ()
        return await self.git.run(
            *args,
            git_dir=self.path,
            config=self.remote.config(),
            secrets=secrets,
            ok=ok,
            timeout=NETWORK_TIMEOUT,
        )

    async def fetch(self, refspecs: Sequence[str] = _REFSPECS, *, prune: bool = True) -> None:
        """Bring the forge's refs here. Lock files of killed gits are cleared once (case W01).

        Of several that wait for their turn the first fetches for all: it begins after each of them asked.
        """
        full = prune and refspecs == _REFSPECS
        asked = self._begun
        argv = ["fetch", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--quiet"]
        argv += ["--prune"] if prune else []
        async with self.lock():
            if full and self._fetched > asked:
                return
            self._begun += full
            try:
                await self._remote(*argv, "--end-of-options", self.remote.url, *refspecs)
            except GitError:
                if not await release_dead_locks(self.path, self.clock):
                    raise
                await self._remote(*argv, "--end-of-options", self.remote.url, *refspecs)
            if full:
                self._fetched = self._begun

    async def refs(self, prefix: str = "refs/heads/") -> dict[str, str]:
        """List the mirror's own refs below ``prefix``, full names."""
        raw = await self.call("for-each-ref", "--format=%(objectname) %(refname)", prefix)
        rows = (line.split(" ", 1) for line in raw.decode("utf-8", "replace").splitlines())
        return {name: sha for sha, name in rows}

    async def remote_refs(self, *patterns: str) -> dict[str, str]:
        """List the forge's refs that match (``refs/heads/x``, ``refs/heads/herd/*``); none given lists all.

        The answer is definite: a ref that is not in it does not exist (BAT-165). Anything else raises GitError.
        """
        done = await self._remote("ls-remote", "--refs", "--quiet", "--end-of-options", self.remote.url, *patterns)
        rows = (line.split("\t", 1) for line in done.text().splitlines())
        found = {name: sha for sha, name in rows}
        # ls-remote matches tails: refs/heads/x also gives refs/heads/refs/heads/x.
        return {
            name: sha
            for name, sha in found.items()
            if not patterns or any(fnmatch.fnmatchcase(name, p) for p in patterns)
        }

    async def push(self, updates: Sequence[RefUpdate], *, atomic: bool = True) -> PushResult:
        """Move refs on the forge, each by compare-and-set; with ``atomic`` all or none.

        A result per ref, in order. Raises GitError where the forge did not answer or refused the credential.
        """
        if not updates:
            return PushResult(())
        argv = ["push", "--porcelain", "--no-verify", "--no-signed", *(["--atomic"] if atomic else [])]
        for update in updates:
            check_ref_name(update.ref)
            argv.append(f"--force-with-lease={update.ref}:{update.old or ''}")
        specs = [f"{update.new or ''}:{update.ref}" for update in updates]
        done = await self._remote(*argv, "--end-of-options", self.remote.url, *specs, ok=(0, 1))
        said = _porcelain(done.stdout)
        if done.code != 0 and not any(flag == "!" for flag, _ in said.values()):
            raise GitError(done.argv, done.code, done.error_text())
        moved = await self.remote_refs(*(u.ref for u in updates)) if done.code != 0 else {}
        results = _explained([_judged(update, said, moved, failed=done.code != 0) for update in updates])
        await self._follow([u for u, r in zip(updates, results, strict=True) if r.outcome is RefOutcome.OK])
        return PushResult(results)

    async def _follow(self, updates: Sequence[RefUpdate]) -> None:
        """Let our own refs follow a push; the next fetch would do the same, so a failure here is none."""
        lines = "".join(
            f"update {u.ref} {u.new}\n" if u.new else f"delete {u.ref}\n" for u in updates if u.ref.startswith(MIRRORED)
        )
        if lines:
            async with self.lock():
                with contextlib.suppress(GitError):
                    await self.call("update-ref", "--stdin", stdin=lines.encode())

    # --- merging ---

    async def merge(
        self, ours: str, theirs: str, *, message: str, author: Identity, committer: Identity, when: datetime
    ) -> MergeOutcome:
        """Merge ``theirs`` into ``ours`` as a work tree at ``ours`` would, and write the merge commit. No ref moves."""
        if await self.is_ancestor(theirs, ours):
            return AlreadyContained()
        async with self.lock():
            await install_attributes(self, ours)
            found = await merge_trees(self, ours, theirs)
        if isinstance(found, Conflict):
            return found
        commit = await self.commit_tree(found.tree, [ours, theirs], message, author, committer, when)
        return Merged(commit, found.tree, await folding_warnings(self, ours, commit))

    async def sweep(
        self,
        tip: str,
        branches: Sequence[tuple[int, str, str]],
        *,
        message: Callable[[int, str], str],
        author: Identity,
        committer: Identity,
        when: datetime,
        remove: Sequence[str] = PROGRESS_PATHS,
        cleanup_message: str = CLEANUP_MESSAGE,
    ) -> SweepResult:
        """Merge all (issue number, branch, SHA) onto ``tip`` in the order of their numbers (BAT-180, 181, 238).

        ``message`` gives the text of a branch's merge commit. Afterwards the paths of ``remove`` are taken out in one
        commit (BAT-163). Objects only: nothing is pushed and no ref moves. The same arguments give the same commits.
        """
        async with self.lock():
            return await run_sweep(
                self,
                tip,
                branches,
                message=message,
                author=author,
                committer=committer,
                when=when,
                remove=remove,
                cleanup_message=cleanup_message,
            )

    async def replay(
        self, onto: str, commits: Sequence[str], *, committer: Identity, when: datetime
    ) -> Replayed | Conflict:
        """Put commits (oldest first) onto another base, for the strategy ``rebase``. No ref moves."""
        async with self.lock():
            await install_attributes(self, onto)
            return await replay(self, onto, commits, committer=committer, when=when)


_SETTINGS = "[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n[core]\n\tlogAllRefUpdates = false\n"


async def init_bare(git: Git, path: Path, settings: str = "") -> None:
    """Make an empty bare repository, whole or not at all; without templates, so without any hook.

    ``settings`` are further lines of its configuration.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        await git.run("init", "--quiet", "--bare", "--template=", str(fresh), cwd=path.parent)
        with (fresh / "config").open("a", encoding="utf-8") as config:  # a file that git has just written for us
            config.write(_SETTINGS + settings)
        (fresh / "info").mkdir(exist_ok=True)
        os.replace(fresh, path)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _porcelain(raw: bytes) -> dict[str, tuple[str, str]]:
    """Read ``git push --porcelain``: for each remote ref its flag and the words after it."""
    found = {}
    for line in raw.decode("utf-8", "replace").splitlines():
        parts = line.split("\t")
        if len(parts) >= 3 and len(parts[0]) == 1:
            found[parts[1].partition(":")[2]] = (parts[0], parts[2])
    return found


_COLLATERAL = ("atomic push fail", "atomic transaction failed", "transaction aborted")


def _judged(update: RefUpdate, said: dict[str, tuple[str, str]], now: dict[str, str], *, failed: bool) -> RefResult:
    """Say what became of one ref. Whether a race was lost is read from the forge, not from anybody's wording."""
    flag, words = said.get(update.ref, ("!" if failed else " ", "not tried"))
    if flag != "!":
        return RefResult(update.ref, RefOutcome.OK)
    reason = words.partition("(")[2].rpartition(")")[0] or words
    at = now.get(update.ref)
    if at != update.old:
        where = at or "gone"
        return RefResult(update.ref, RefOutcome.STALE, f"expected {update.old or 'no ref'}, the forge has {where}")
    if words == "not tried" or any(mark in reason for mark in _COLLATERAL):
        return RefResult(update.ref, RefOutcome.ABORTED, reason)
    return RefResult(update.ref, RefOutcome.REJECTED, reason)


def _explained(results: list[RefResult]) -> tuple[RefResult, ...]:
    """Some forges name no culprit of an atomic push that fails. If none lost a race, then it was refused."""
    outcomes = {result.outcome for result in results}
    if RefOutcome.ABORTED in outcomes and not outcomes & {RefOutcome.STALE, RefOutcome.REJECTED}:
        return tuple(RefResult(result.ref, RefOutcome.REJECTED, result.reason) for result in results)
    return tuple(results)
