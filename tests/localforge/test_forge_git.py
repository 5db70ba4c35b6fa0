"""Git over HTTP: real git, a real socket (FRG-024, FRG-033)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from droveway.localforge import serve, serve_in_thread

from .world import World, commit, git

pytestmark = pytest.mark.req("FRG-024")


class Remote:
    """A served forge."""

    def __init__(self, world: World, url: str) -> None:
        self.world = world
        self.base = url

    def url(self, token: str = "") -> str:
        return self.base.replace("http://", f"http://x:{token or self.world.bot_token}@") + "/owner/road.git"

    async def git(self, *argv: str, cwd: Path, ok: bool = True):
        return await asyncio.to_thread(git, *argv, cwd=cwd, ok=ok)

    async def clone(self, name: str, *flags: str, token: str = "") -> Path:
        await self.git("clone", "-q", *flags, self.url(token), name, cwd=self.world.tmp)
        return self.world.tmp / name


@pytest.fixture
async def remote(world: World) -> AsyncIterator[Remote]:
    async with serve(world.forge) as url:
        yield Remote(world, url)


async def test_a_clone_holds_what_the_forge_has(remote: Remote) -> None:
    tree = await remote.clone("work")
    assert (tree / "README.md").read_text() == "two\n"
    listed = (await remote.git("ls-remote", remote.url(), cwd=tree)).stdout
    assert f"{remote.world.sha('clean')}\trefs/heads/clean" in listed
    shallow = await remote.clone("shallow", "--depth=1")
    assert (await remote.git("rev-list", "--count", "HEAD", cwd=shallow)).stdout.strip() == "1"


async def test_the_head_of_a_pull_request_follows_a_push_and_can_be_fetched(remote: Remote) -> None:
    world = remote.world
    await world.pull()
    tree = await remote.clone("work", "-b", "clean")
    sha = commit(tree, "more", more="x\n")
    await remote.git("push", "-q", "origin", "clean", cwd=tree)
    pull = await world.bot.repo("GET", "/pulls/1")  # the very next request sees it
    assert pull["head"]["sha"] == sha
    await remote.git("fetch", "-q", "origin", "refs/pull/1/head", cwd=tree)
    await world.settled(1)
    await remote.git("fetch", "-q", "origin", "refs/pull/1/merge", cwd=tree)
    parents = (await remote.git("rev-list", "--parents", "-n1", "FETCH_HEAD", cwd=tree)).stdout.split()
    assert parents[1:] == [world.sha("main"), sha]
    assert (await world.bot.repo("GET", ""))["pushed_at"] is not None


async def test_a_push_that_contains_the_head_merges_and_closes_by_keyword(remote: Remote) -> None:
    world = remote.world
    await world.pull()
    await world.bot.repo("POST", "/issues", {"title": "bug"}, want=201)
    tree = await remote.clone("work")
    await remote.git("merge", "-q", "--no-edit", "-m", "bring it in, fixes #2", "origin/clean", cwd=tree)
    await remote.git("push", "-q", "origin", "main", cwd=tree)
    pull = await world.bot.repo("GET", "/pulls/1")
    assert (pull["merged"], pull["state"]) == (True, "closed")
    assert (await world.bot.repo("GET", "/issues/2"))["state"] == "closed"
    assert pull["changed_files"] == 1


async def test_reading_and_pushing_obey_roles(remote: Remote) -> None:
    world = remote.world
    tree = await remote.clone("work")
    commit(tree, "x", x="x\n")
    anonymous = remote.base + "/owner/road.git"
    await remote.git("ls-remote", anonymous, cwd=tree)
    refused = await remote.git("push", anonymous, "main", cwd=tree, ok=False)
    assert refused.returncode != 0
    stranger = await remote.git("push", remote.url(world.stranger.token or ""), "main", cwd=tree, ok=False)
    assert "403" in stranger.stderr
    await world.owner.repo("PATCH", "", {"private": True})
    for url in (remote.url(world.stranger.token or ""), anonymous, remote.url("wrong")):
        assert (await remote.git("ls-remote", url, cwd=tree, ok=False)).returncode != 0
    await remote.git("push", "-q", remote.url(), "main", cwd=tree)


async def test_hidden_and_protected_refs_are_refused_and_nothing_else_of_the_push_moves(remote: Remote) -> None:
    world = remote.world
    await world.pull()
    tree = await remote.clone("work")
    commit(tree, "x", x="x\n")
    refused = await remote.git("push", "origin", "+HEAD:refs/pull/1/head", "HEAD:refs/heads/extra", cwd=tree, ok=False)
    assert "deny updating a hidden ref" in refused.stderr
    needed = ("required_status_checks", "enforce_admins", "required_pull_request_reviews", "restrictions")
    await world.owner.repo("PUT", "/branches/main/protection", dict.fromkeys(needed))
    await remote.git("commit", "-q", "--amend", "-m", "rewritten", cwd=tree)
    await remote.git("reset", "-q", "--soft", "HEAD~2", cwd=tree)
    await remote.git("commit", "-q", "-m", "squashed", cwd=tree)
    refused = await remote.git("push", "-f", "origin", "HEAD:main", cwd=tree, ok=False)
    assert "cannot force-push to main" in refused.stderr
    assert (await remote.git("push", "origin", ":main", cwd=tree, ok=False)).returncode != 0
    refs = (await remote.git("ls-remote", "origin", cwd=tree)).stdout
    assert "extra" not in refs
    assert f"{world.sha('main')}\trefs/heads/main" in refs


async def test_atomic_pushes_leases_and_plain_refs_work(remote: Remote) -> None:
    world = remote.world
    tree = await remote.clone("work")
    sha = commit(tree, "x", x="x\n")
    stale = f"--force-with-lease=refs/heads/clean:{world.sha('main')}"
    refused = await remote.git("push", "--atomic", stale, "origin", "HEAD:clean", "HEAD:fresh", cwd=tree, ok=False)
    assert "stale info" in refused.stderr
    good = f"--force-with-lease=refs/heads/clean:{world.sha('clean')}"
    await remote.git("push", "-q", "--atomic", good, "origin", "HEAD:clean", "HEAD:refs/herd/attic/1/1", cwd=tree)
    refs = (await remote.git("ls-remote", "origin", cwd=tree)).stdout
    assert f"{sha}\trefs/heads/clean" in refs
    assert f"{sha}\trefs/herd/attic/1/1" in refs
    assert "fresh" not in refs


async def test_of_pushes_to_one_ref_at_once_one_wins(remote: Remote) -> None:
    world = remote.world
    trees = []
    for index in range(5):
        tree = await remote.clone(f"work{index}")
        trees.append((tree, commit(tree, f"from {index}", **{f"f{index}": "x\n"})))
    done = await asyncio.gather(*(remote.git("push", "origin", "main", cwd=tree, ok=False) for tree, _ in trees))
    winners = [sha for (_, sha), each in zip(trees, done, strict=True) if each.returncode == 0]
    assert len(winners) == 1
    assert (await world.bot.repo("GET", "/git/ref/heads/main"))["object"]["sha"] == winners[0]


async def test_pushes_to_many_branches_at_once_all_arrive(remote: Remote) -> None:
    world = remote.world
    tree = await remote.clone("work")
    pushes = []
    for index in range(8):
        sha = commit(tree, f"c{index}", **{f"f{index}": "x\n"})
        pushes.append((f"herd/worker/{index}-x", sha))
    await asyncio.gather(
        *(remote.git("push", "-q", "origin", f"{sha}:refs/heads/{name}", cwd=tree) for name, sha in pushes)
    )
    refs = await world.bot.repo("GET", "/git/matching-refs/heads/herd/worker/")
    assert {row["ref"]: row["object"]["sha"] for row in refs} == {f"refs/heads/{name}": sha for name, sha in pushes}


async def test_a_merge_by_request_and_a_push_to_the_base_never_both_win(remote: Remote) -> None:
    world = remote.world
    await world.pull()
    tree = await remote.clone("work")
    commit(tree, "mine", mine="x\n")

    async def merge() -> int:
        response = await world.bot.http.put("/repos/owner/road/pulls/1/merge", json={"merge_method": "squash"})
        return response.status_code

    status, pushed = await asyncio.gather(merge(), remote.git("push", "origin", "main", cwd=tree, ok=False))
    assert (status, pushed.returncode) in ((200, 1), (409, 0))
    log = (await remote.git("log", "--format=%s", "main", cwd=world.tmp / "forge" / "repositories" / "1.git")).stdout
    assert log.splitlines()[0] in ("Pull clean (#1)", "mine")
    assert (await world.bot.repo("GET", "/pulls/1"))["merged"] is (status == 200)


async def test_the_first_push_to_an_empty_repository_names_its_default_branch(remote: Remote) -> None:
    world = remote.world
    world.forge.create_repo("owner", "fresh")
    url = remote.url().replace("road.git", "fresh.git")
    await remote.git("push", "-q", url, "main:refs/heads/trunk", cwd=world.source)
    assert (await world.bot("GET", "/repos/owner/fresh"))["default_branch"] == "trunk"
    await remote.git("push", "-q", url, "main", cwd=world.source)
    assert (await world.bot("GET", "/repos/owner/fresh"))["default_branch"] == "trunk"
    await remote.git("clone", "-q", url, "fresh", cwd=world.tmp)
    assert (world.tmp / "fresh" / "README.md").exists()


async def test_a_body_in_pieces_and_one_that_is_compressed_arrive(remote: Remote) -> None:
    tree = await remote.clone("work")
    (tree / "blob").write_bytes(os.urandom(3_000_000))  # larger than http.postBuffer: sent in chunks
    sha = commit(tree, "large")
    await remote.git("push", "-q", "origin", "HEAD:large", cwd=tree)
    again = await remote.clone("again", "-b", "large")
    assert (await remote.git("rev-parse", "HEAD", cwd=again)).stdout.strip() == sha
    await remote.git("fsck", "--strict", cwd=again)
    for index in range(60):  # git compresses a request to fetch that is longer than a kilobyte
        commit(tree, f"c{index}")
    await remote.git("push", "-q", "origin", "HEAD:large", cwd=tree)
    await remote.git("fetch", "-q", "origin", cwd=again)
    assert (await remote.git("rev-parse", "HEAD", cwd=tree)).stdout in (
        await remote.git("rev-parse", "origin/large", cwd=again)
    ).stdout


async def test_a_client_that_leaves_in_the_middle_leaves_nothing_moved(remote: Remote) -> None:
    world = remote.world
    tree = await remote.clone("work")
    (tree / "blob").write_bytes(os.urandom(4_000_000))
    commit(tree, "large")
    head = f"POST /owner/road.git/git-receive-pack HTTP/1.1\r\nHost: x\r\nAuthorization: token {world.bot_token}\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", int(remote.base.rpartition(":")[2]))
    kind = "Content-Type: application/x-git-receive-pack-request\r\nContent-Length: 100000\r\n\r\n"
    writer.write((head + kind + "00").encode())
    await writer.drain()
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    assert reader is not None
    await remote.git("push", "-q", "origin", "HEAD:large", cwd=tree)  # the forge is as well as before


@pytest.mark.slow
async def test_fifty_megabytes_are_pushed_and_cloned(remote: Remote) -> None:
    tree = await remote.clone("work")
    (tree / "blob").write_bytes(os.urandom(50_000_000))
    sha = commit(tree, "large")
    started = time.monotonic()
    await remote.git("push", "-q", "origin", "HEAD:large", cwd=tree)
    pushed = time.monotonic()
    await remote.clone("again", "-b", "large")
    print(f"push {pushed - started:.1f} s, clone {time.monotonic() - pushed:.1f} s")
    ref = await remote.world.bot.repo("GET", "/git/ref/heads/large")
    assert ref["object"]["sha"] == sha


def test_a_forge_in_a_thread_answers_whatever_the_caller_s_loop_does(world: World) -> None:
    with serve_in_thread(world.forge) as url:
        remote = Remote(world, url)
        git("clone", "-q", remote.url(), "work", cwd=world.tmp)
    assert (world.tmp / "work" / "README.md").exists()
