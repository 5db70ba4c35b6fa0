"""The mirror over the network: fetches, definite answers, pushes by compare-and-set."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from droveway.core.clock import SystemClock
from droveway.core.decisions import RefUpdate
from droveway.core.errors import BusyError, InputError
from droveway.git import Git, GitError, Mirror, RefOutcome, Remote, file_lock
from droveway.git.locks import release_dead_locks

from .conftest import BOT, WHEN, Forge, sh

HOOK = "#!/bin/sh\nwhile read -r old new ref; do [ $ref != refs/heads/protected ] || exit 1; done\n"
UPDATE_HOOK = "#!/bin/sh\n[ $1 = refs/heads/protected ] && { echo 'protected' >&2; exit 1; }\nexit 0\n"


def python(code: str, path: Path) -> subprocess.Popen[bytes]:
    """Start another process that holds something until its input ends."""
    return subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


async def commit_on(mirror: Mirror, parent: str, message: str) -> str:
    return await mirror.commit_tree(await mirror.tree_of(parent), [parent], message, BOT, BOT, WHEN)


async def test_the_refs_follow_the_forge_and_what_is_gone_there_goes(forge: Forge, mirror: Mirror) -> None:
    sha = forge.branch("a/b", {"x": "1"})
    sh(forge.path, "update-ref", "refs/herd/attic/1/1", sha)
    sh(forge.path, "update-ref", "refs/pull/1/head", sha)
    await mirror.fetch()
    assert (await mirror.refs())["refs/heads/a/b"] == sha
    assert await mirror.refs("refs/herd/") == {"refs/herd/attic/1/1": sha}
    sh(forge.path, "update-ref", "-d", "refs/heads/a/b")
    sh(forge.path, "update-ref", "refs/heads/a", sha)  # a file where a folder was
    await mirror.fetch()
    assert await mirror.refs() == {k: v for k, v in forge.refs().items() if k.startswith("refs/heads/")}


@pytest.mark.req("BAT-165")
async def test_the_forge_s_refs_are_answered_exactly_or_not_at_all(
    forge: Forge, mirror: Mirror, tmp_path: Path
) -> None:
    sha = forge.branch("herd/worker/1-x", {"x": "1"})
    sh(forge.path, "update-ref", "refs/other/refs/heads/main", sha)
    assert await mirror.remote_refs("refs/heads/main") == {"refs/heads/main": forge.tip("main")}
    assert await mirror.remote_refs("refs/heads/herd/worker/*") == {"refs/heads/herd/worker/1-x": sha}
    assert await mirror.remote_refs("refs/heads/absent") == {}
    forge.path.rename(tmp_path / "away")
    with pytest.raises(GitError):
        await mirror.remote_refs("refs/heads/main")
    with pytest.raises(GitError):
        await mirror.fetch()


@pytest.mark.req("BAT-136", "BAT-180")
async def test_a_push_moves_a_ref_only_from_the_value_that_was_seen(forge: Forge, mirror: Mirror) -> None:
    main = forge.tip("main") or ""
    new = await commit_on(mirror, main, "new")
    other = await commit_on(mirror, main, "other")
    assert (await mirror.push([RefUpdate("refs/heads/b", None, new)])).ok
    assert forge.tip("b") == new
    lost = await mirror.push([RefUpdate("refs/heads/b", None, other)])
    assert lost.outcome is RefOutcome.STALE
    assert new in lost.reason
    assert (await mirror.push([RefUpdate("refs/heads/b", new, other)])).ok  # not an ancestor: the lease decides
    assert (await mirror.push([RefUpdate("refs/heads/b", new, None)])).outcome is RefOutcome.STALE
    assert (await mirror.push([RefUpdate("refs/heads/b", other, None)])).ok
    assert forge.tip("b") is None
    assert (await mirror.push([RefUpdate("refs/heads/b", other, new)])).outcome is RefOutcome.STALE
    assert (await mirror.push([])).ok


@pytest.mark.req("BAT-180", "BAT-183")
async def test_an_atomic_push_moves_all_or_none_and_tells_a_lost_race_from_a_refusal(
    forge: Forge, mirror: Mirror
) -> None:
    main = forge.tip("main") or ""
    forge.branch("w", {"x": "1"})
    forge.branch("protected", {"x": "1"})
    new = await commit_on(mirror, main, "new")
    before = forge.refs()
    lost = await mirror.push([RefUpdate("refs/heads/new", None, new), RefUpdate("refs/heads/w", main, None)])
    assert [r.outcome for r in lost.refs] == [RefOutcome.ABORTED, RefOutcome.STALE]
    assert lost.outcome is RefOutcome.STALE
    for hook, body in (("pre-receive", HOOK), ("update", UPDATE_HOOK)):
        path = forge.path / "hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(body)
        path.chmod(0o755)
        moves = [
            RefUpdate("refs/heads/new", None, new),
            RefUpdate("refs/heads/protected", before["refs/heads/protected"], new),
        ]
        refused = await mirror.push(moves)
        assert refused.outcome is RefOutcome.REJECTED, hook
        assert refused.refs[1].outcome is RefOutcome.REJECTED
        path.unlink()
    assert forge.refs() == before


@pytest.mark.req("BAT-180")
async def test_a_forge_that_refuses_deletions_is_told_apart_per_ref(forge: Forge, mirror: Mirror) -> None:
    main = forge.tip("main") or ""
    sha = forge.branch("w", {"x": "1"})
    sh(forge.path, "config", "receive.denyDeletes", "true")
    new = await commit_on(mirror, main, "new")
    result = await mirror.push([RefUpdate("refs/heads/batch", None, new), RefUpdate("refs/heads/w", sha, None)])
    assert [r.outcome for r in result.refs] == [RefOutcome.ABORTED, RefOutcome.REJECTED]
    assert (await mirror.push([RefUpdate("refs/heads/batch", None, new)])).ok


@pytest.mark.req("QLT-043")
async def test_a_name_with_a_prefix_on_the_forge_is_rejected_and_not_called_a_lost_race(
    forge: Forge, mirror: Mirror
) -> None:
    """Case B01: the forge has ``task/login``, the mirror does not know it."""
    sha = forge.branch("task/login", {"x": "1"})
    result = await mirror.push([RefUpdate("refs/heads/task", None, forge.tip("main"))])
    assert result.outcome is RefOutcome.REJECTED
    assert forge.tip("task/login") == sha
    with pytest.raises(InputError):
        await mirror.push([RefUpdate("refs/heads/-x..y", None, sha)])
    with pytest.raises(InputError):
        await mirror.push([RefUpdate("refs/heads/x:refs/heads/main", None, sha)])


async def test_a_forge_that_is_away_is_an_error_and_no_rejection(forge: Forge, mirror: Mirror, tmp_path: Path) -> None:
    sha = forge.tip("main")
    forge.path.rename(tmp_path / "away")
    with pytest.raises(GitError):
        await mirror.push([RefUpdate("refs/heads/b", None, sha)])


async def test_ten_fetches_and_sweeps_at_a_time_do_not_get_into_each_other_s_way(
    forge: Forge, mirror: Mirror, git: Git, clock: SystemClock
) -> None:
    for n in range(10):
        forge.branch(f"w/{n}", {f"{n}": "x"})
    others = [await Mirror.open(mirror.path, mirror.remote, git=git, clock=clock) for _ in range(10)]
    async with asyncio.TaskGroup() as group:
        for other in others:
            group.create_task(other.fetch())
    assert len(await mirror.refs()) == 11


async def test_mirrors_opened_at_once_are_one(tmp_path: Path, forge: Forge, git: Git, clock: SystemClock) -> None:
    path = tmp_path / "deep" / "mirror.git"
    made = await asyncio.gather(*(Mirror.open(path, Remote(str(forge.path)), git=git, clock=clock) for _ in range(5)))
    await made[0].fetch()
    assert sorted(p.name for p in path.parent.iterdir()) == ["mirror.git", "mirror.git.lock"]


# --- case W01 ---


@pytest.mark.parametrize("name", ["packed-refs.lock", "refs/heads/main.lock"])
async def test_a_lock_file_of_a_killed_git_is_removed_and_the_fetch_goes_on(
    forge: Forge, mirror: Mirror, name: str
) -> None:
    sha = forge.branch("main", {"more": "x"})
    sh(forge.path, "update-ref", "-d", "refs/heads/gone") if forge.tip("gone") else None
    (mirror.path / name).parent.mkdir(parents=True, exist_ok=True)
    (mirror.path / name).touch()
    await mirror.fetch()
    if name.startswith("refs"):
        assert not (mirror.path / name).exists()
    assert (await mirror.refs())["refs/heads/main"] == sha


async def test_a_lock_file_that_a_living_process_holds_is_waited_for_and_never_removed(
    mirror: Mirror, clock: SystemClock
) -> None:
    lock = mirror.path / "packed-refs.lock"
    lock.touch()
    inode = lock.stat().st_ino
    holder = python("import sys; f = open(sys.argv[1]); print('held', flush=True); sys.stdin.read()", lock)
    with holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        assert not await release_dead_locks(mirror.path, clock, patience=0.3)
        assert lock.stat().st_ino == inode
        holder.communicate(b"")
    assert await release_dead_locks(mirror.path, clock, patience=0.3)
    assert not lock.exists()
    assert not await release_dead_locks(mirror.path, clock)


async def test_our_own_lock_is_freed_by_the_holder_s_death(tmp_path: Path, clock: SystemClock) -> None:
    path = tmp_path / "lock"
    taking = "f = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT); fcntl.flock(f, 2)"
    holder = python(f"import fcntl, os, sys; {taking}; print(1, flush=True); sys.stdin.read()", path)
    with holder:
        assert holder.stdout
        holder.stdout.readline()
        with pytest.raises(BusyError):
            async with file_lock(path, clock, patience=0.2):
                pass
        os.kill(holder.pid, 9)
        async with file_lock(path, clock, patience=10):
            pass
