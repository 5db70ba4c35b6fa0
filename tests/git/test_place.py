"""Places: an agent's tree and gate, what was done in them, and their removal."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from droveway.core.errors import BusyError, InputError
from droveway.git import Mirror, Place, Relay, RelayOutcome

from .conftest import BOT, BRANCH, COMMIT, ENVIRONMENT, Forge, sh


def size_of(path: Path) -> int:
    return sum(p.lstat().st_size for p in path.rglob("*") if not p.is_dir())


async def relayed(place: Place, mirror: Mirror, forge: Forge) -> tuple[Relay, str | None]:
    relay = Relay(place, mirror, last_seen=forge.tip(BRANCH))
    result = await relay.push()
    return relay, result.sha


@pytest.mark.smoke
@pytest.mark.req("BAT-134", "BAT-135", "QLT-010")
async def test_a_place_has_the_branch_checked_out_and_costs_little(
    mirror: Mirror, forge: Forge, tmp_path: Path
) -> None:
    big = forge.branch(
        "big", {f"d{n % 20}/f{n}.txt": f"{n}\n" * 40 for n in range(300)} | {"blob": os.urandom(3_000_000)}
    )
    other = forge.branch("herd/batch/7-x", {"y": "1"})
    await mirror.fetch()
    place = await Place.create(
        tmp_path / "p",
        mirror,
        branch=BRANCH,
        start=big,
        readable={"main": forge.tip("main") or "", "herd/batch/7-x": other},
        author=BOT,
    )
    assert sh(place.tree, "symbolic-ref", "HEAD") == f"refs/heads/{BRANCH}"
    assert sh(place.tree, "status", "--porcelain") == ""
    assert sh(place.tree, "rev-parse", "origin/herd/batch/7-x") == other
    assert sh(place.tree, "config", "user.email") == BOT.email
    assert sh(place.tree, "config", "remote.origin.url") == str(place.gate)
    assert await place.dirty() == []
    assert await place.gate_tip() == big
    assert await place.attempted_refs() == []
    assert size_of(place.gate) + size_of(place.git_dir) + size_of(place.tree / ".git") < 100_000
    assert place.readonly == (mirror.path / "objects",)
    sh(place.tree, "merge", "-q", "--no-edit", "origin/herd/batch/7-x")
    sh(place.tree, "push", "-q", "origin", "HEAD")
    assert await place.take() == sh(place.tree, "rev-parse", "HEAD")


async def test_a_place_that_a_killed_run_left_half_made_is_made_anew_and_a_whole_one_is_opened(
    place: Place, mirror: Mirror, forge: Forge
) -> None:
    with pytest.raises(InputError, match="is a place already"):
        await Place.create(place.root, mirror, branch=BRANCH, start=place.start, author=BOT)
    again = await Place.open(place.root, mirror)
    assert again is not None
    assert (again.branch, again.start) == (BRANCH, place.start)
    (place.git_dir / "place.json").unlink()
    assert await Place.open(place.root, mirror) is None
    (place.root / "prompt.md").write_text("kept")
    anew = await Place.create(place.root, mirror, branch=BRANCH, start=place.start, author=BOT)
    assert await anew.dirty() == []
    assert (place.root / "prompt.md").read_text() == "kept"


@pytest.mark.req("QLT-043")
async def test_names_are_tested_before_anything_is_made(mirror: Mirror, forge: Forge, tmp_path: Path) -> None:
    """Case B01."""
    start = forge.tip("main") or ""
    for branch, readable in (("task", {"task/login": start}), ("task/login/fix", {"task/login": start}), ("a..b", {})):
        with pytest.raises(InputError):
            await Place.create(tmp_path / "p", mirror, branch=branch, start=start, readable=readable, author=BOT)
        assert not (tmp_path / "p" / "gate.git").exists()
    place = await Place.create(tmp_path / "p", mirror, branch="task|x", start=start, author=BOT)
    assert await place.gate_tip() == start


@pytest.mark.smoke
@pytest.mark.req("BAT-136", "BAT-137")
async def test_what_the_agent_pushes_is_relayed_and_nothing_else_is(place: Place, mirror: Mirror, forge: Forge) -> None:
    relay = Relay(place, mirror, last_seen=None)
    assert (await relay.push()).outcome is RelayOutcome.UNCHANGED
    assert forge.tip(BRANCH) is None
    (place.tree / "new.txt").write_text("1")
    sh(place.tree, "add", "-A")
    sh(place.tree, "commit", "-qm", "one")
    assert (await relay.push()).outcome is RelayOutcome.UNCHANGED
    sh(place.tree, "push", "-q", "origin", "HEAD")
    first = await relay.push()
    assert (first.outcome, forge.tip(BRANCH)) == (RelayOutcome.PUSHED, first.sha)
    assert (await relay.push()).outcome is RelayOutcome.UNCHANGED
    sh(place.tree, "commit", "-q", "--amend", "-m", "rewritten")
    sh(place.tree, "push", "-q", "-f", "origin", "HEAD")
    second = await relay.push()
    assert (second.outcome, forge.tip(BRANCH)) == (RelayOutcome.PUSHED, second.sha)
    assert second.sha != first.sha
    sh(forge.path, "fsck", "--strict")


@pytest.mark.req("BAT-136")
async def test_a_branch_that_somebody_else_moved_is_left_alone(place: Place, mirror: Mirror, forge: Forge) -> None:
    relay = Relay(place, mirror, last_seen=None)
    theirs = forge.branch(BRANCH, {"theirs": "x"})
    sh(place.tree, "commit", "-q", "--allow-empty", "-m", "mine")
    sh(place.tree, "push", "-q", "origin", "HEAD")
    result = await relay.push()
    assert result.outcome is RelayOutcome.LOST_LEASE
    assert theirs in result.reason
    assert forge.tip(BRANCH) == theirs
    earlier = Relay(place, mirror, last_seen=theirs)  # an earlier attempt's tip: seen, so it may be replaced
    assert (await earlier.push()).outcome is RelayOutcome.PUSHED


@pytest.mark.req("BAT-136", "BAT-137")
async def test_a_push_that_was_cancelled_after_it_got_through_holds_nothing_up(
    place: Place, mirror: Mirror, forge: Forge, tmp_path: Path
) -> None:
    """As at an agent's end: the relay beside it is cancelled, and what is pushed next stands on top."""
    hook = forge.path / "hooks" / "post-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/reached\nexec sleep 60\n")
    hook.chmod(0o755)
    relay = Relay(place, mirror, last_seen=None)
    for message in ("one", "two"):
        sh(place.tree, "commit", "-q", "--allow-empty", "-m", message)
        sh(place.tree, "push", "-q", "origin", "HEAD")
        if message == "one":
            under_way = asyncio.create_task(relay.push())
            async with asyncio.timeout(20):
                while not (tmp_path / "reached").exists():  # noqa: ASYNC110 - another process makes it
                    await asyncio.sleep(0.01)
            under_way.cancel()
            await asyncio.gather(under_way, return_exceptions=True)
            assert forge.tip(BRANCH) == sh(place.tree, "rev-parse", "HEAD")
            hook.unlink()
    result = await relay.push()
    assert (result.outcome, forge.tip(BRANCH)) == (RelayOutcome.PUSHED, sh(place.tree, "rev-parse", "HEAD"))
    sh(forge.path, "update-ref", f"refs/heads/{BRANCH}", sh(place.tree, "rev-parse", "HEAD^"))
    sh(place.tree, "commit", "-q", "--allow-empty", "-m", "three")
    sh(place.tree, "push", "-q", "origin", "HEAD")
    assert (await relay.push()).outcome is RelayOutcome.LOST_LEASE  # somebody set it back, after we had our answer


@pytest.mark.req("BAT-136")
async def test_a_push_whose_answer_was_lost_is_found_again(place: Place, mirror: Mirror, forge: Forge) -> None:
    sh(place.tree, "commit", "-q", "--allow-empty", "-m", "mine")
    sh(place.tree, "push", "-q", "origin", "HEAD")
    assert (await Relay(place, mirror, last_seen=None).push()).outcome is RelayOutcome.PUSHED
    assert (await Relay(place, mirror, last_seen=None).push()).outcome is RelayOutcome.PUSHED
    other = Relay(place, mirror, last_seen=place.start)
    assert (await other.push()).outcome is RelayOutcome.PUSHED


async def test_a_branch_that_the_forge_protects_is_rejected_with_its_reason(
    place: Place, mirror: Mirror, forge: Forge
) -> None:
    hook = forge.path / "hooks" / "update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    sh(place.tree, "commit", "-q", "--allow-empty", "-m", "mine")
    sh(place.tree, "push", "-q", "origin", "HEAD")
    result = await Relay(place, mirror, last_seen=None).push()
    assert result.outcome is RelayOutcome.REJECTED
    assert "hook declined" in result.reason


def harvest(place: Place) -> None:
    subprocess.run(place.harvest_argv(), env=ENVIRONMENT, check=True, capture_output=True, cwd="/")


@pytest.mark.req("BAT-171")
async def test_the_harvest_brings_local_commits_into_the_gate_and_takes_nothing_back(place: Place) -> None:
    def commit(text: str) -> str:
        sh(place.tree, "commit", "-q", "--allow-empty", "-m", text)
        return sh(place.tree, "rev-parse", "HEAD")

    harvest(place)
    assert await place.gate_tip() == place.start
    one = commit("one")
    harvest(place)
    assert await place.gate_tip() == one
    sh(place.tree, "commit", "-q", "--amend", "--allow-empty", "-m", "amended")
    harvest(place)
    amended = sh(place.tree, "rev-parse", "HEAD")
    assert await place.gate_tip() == amended
    sh(place.tree, "checkout", "-q", "-b", "local")
    ahead = commit("on another local branch")
    sh(place.tree, "push", "-q", "origin", f"HEAD:{BRANCH}")
    sh(place.tree, "checkout", "-q", BRANCH)
    harvest(place)
    assert await place.gate_tip() == ahead
    sh(place.tree, "checkout", "-q", "--detach", place.start)
    commit("elsewhere")
    harvest(place)
    assert await place.gate_tip() == ahead


@pytest.mark.smoke
@pytest.mark.req("BAT-171", "BAT-138")
async def test_what_is_uncommitted_becomes_one_commit_without_the_framework_s_own_files(
    place: Place, mirror: Mirror, forge: Forge
) -> None:
    (place.tree / ".gitignore").write_text("ignored/\n*.log\n")
    sh(place.tree, "add", "-A")
    sh(place.tree, "commit", "-qm", "one")
    sh(place.tree, "push", "-q", "origin", "HEAD")
    relay, pushed = await relayed(place, mirror, forge)
    files = {
        "src/a.txt": "changed\n",
        "new/deep.txt": "new\n",
        "ignored/x": "x",
        "a.log": "x",
        ".herd/tmp/prompt": "x",
        ".herd/review-fixes-3.md": "x",
        ".herd/progress/1.md": "- [ ] a\n",
    }
    for name, text in files.items():
        (place.tree / name).parent.mkdir(parents=True, exist_ok=True)
        (place.tree / name).write_text(text)
    (place.tree / "README.md").unlink()
    (place.tree / "run.sh").write_text("#!/bin/sh\n")
    (place.tree / "run.sh").chmod(0o755)
    (place.tree / "link").symlink_to("/etc/passwd")
    sh(place.tree, "add", "src/a.txt", "-f", "a.log")  # what the agent staged is no matter: ignored stays ignored
    expected = [".herd/progress/1.md", "README.md", "link", "new/deep.txt", "run.sh", "src/a.txt"]
    assert await place.dirty() == expected
    commit = await place.commit_leftovers(pushed or "", "Checkpoint", **COMMIT)
    assert commit is not None
    assert await mirror.changed_files(pushed or "", commit) == expected
    assert (await mirror.commit_info(commit)).parents == (pushed,)
    listed = sh(mirror.path, "ls-tree", "-r", commit)
    assert "100755 blob" in listed.split("run.sh")[0].splitlines()[-1]
    assert "120000 blob" in listed.split("\tlink")[0].splitlines()[-1]
    assert await place.commit_leftovers(commit, "again", **COMMIT) is None
    assert (await relay.push(commit)).outcome is RelayOutcome.PUSHED
    assert forge.tip(BRANCH) == commit
    sh(forge.path, "fsck", "--strict")


@pytest.mark.req("BAT-171")
async def test_a_file_that_became_a_folder_and_a_folder_that_became_a_file_are_committed(
    place: Place, mirror: Mirror
) -> None:
    (place.tree / "README.md").unlink()
    (place.tree / "README.md").mkdir()
    (place.tree / "README.md" / "x").write_text("1")
    (place.tree / "src" / "a.txt").unlink()
    (place.tree / "src").rmdir()
    (place.tree / "src").write_text("2")
    commit = await place.commit_leftovers(place.start, "m", **COMMIT)
    assert await mirror.list_files(commit or "") == ["README.md/x", "src"]


@pytest.mark.req("BAT-138")
async def test_the_framework_s_files_are_removed_in_a_commit_of_exactly_these(place: Place, mirror: Mirror) -> None:
    (place.tree / ".herd" / "tmp").mkdir(parents=True)
    (place.tree / ".herd" / "tmp" / "x").write_text("1")
    (place.tree / ".herd" / "review-fixes-1.md").write_text("1")
    (place.tree / "work").write_text("1")
    sh(place.tree, "add", "-A", "-f")
    sh(place.tree, "commit", "-qm", "all of it")
    sh(place.tree, "push", "-q", "origin", "HEAD")
    (place.tree / "staged").write_text("1")
    sh(place.tree, "add", "staged")
    tip = await place.take() or ""
    removed = await place.rm_paths_commit(tip, "Remove working files", **COMMIT)
    assert removed is not None
    assert removed.paths == (".herd/review-fixes-1.md", ".herd/tmp/x")
    assert await mirror.changed_files(tip, removed.commit) == list(removed.paths)
    assert await place.rm_paths_commit(removed.commit, "again", **COMMIT) is None


@pytest.mark.req("BAT-171")
@pytest.mark.parametrize(
    ("attributes", "stored"),
    [
        ("* text eol=lf\n", b"a\r\nb\r\n"),
        ("* text=auto\n", b"a\r\nb\r\n"),
        ("* text eol=crlf\n", b"a\nb\r\nc\n"),
        ("* text eol=crlf\n", b"a\nb\n"),
        ("*.txt working-tree-encoding=UTF-16LE text eol=crlf\n", b"a\nb\n"),
    ],
)
async def test_a_tree_that_only_conversions_make_modified_is_no_work(
    mirror: Mirror, forge: Forge, tmp_path: Path, attributes: str, stored: bytes
) -> None:
    """Case G06, the variant: the index holds what a fresh add would not make."""
    sh(forge.clone, "checkout", "-q", "-b", "raw", "main")
    (forge.clone / "f.txt").write_bytes(stored)
    blob = sh(forge.clone, "hash-object", "-w", "--no-filters", "f.txt")
    (forge.clone / ".gitattributes").write_text(attributes)
    sh(forge.clone, "add", ".gitattributes")
    sh(forge.clone, "update-index", "--add", "--cacheinfo", f"100644,{blob},f.txt")
    sh(forge.clone, "commit", "-qm", "raw")
    sh(forge.clone, "push", "-q", "origin", "HEAD:raw")
    await mirror.fetch()
    place = await Place.create(tmp_path / "p", mirror, branch=BRANCH, start=forge.tip("raw") or "", author=BOT)
    for _ in range(2):
        assert await place.dirty() == []
        assert await place.commit_leftovers(place.start, "m", **COMMIT) is None
    (place.tree / "f.txt").write_bytes(
        (place.tree / "f.txt").read_bytes() + "z\n".encode("utf-16-le" if "16" in attributes else "utf-8")
    )
    assert await place.dirty() == ["f.txt"]


# --- cases W01, W02 ---


@pytest.mark.req("BAT-171")
async def test_an_index_lock_of_a_killed_git_does_not_stop_us_and_a_living_one_is_not_touched(
    place: Place, monkeypatch
) -> None:
    (place.tree / "x").write_text("1")
    (place.tree / ".git" / "index.lock").touch()  # the agent's: nobody's business here
    lock = place.git_dir / "index.lock"
    lock.touch()
    assert await place.dirty() == ["x"]
    assert not lock.exists()
    monkeypatch.setattr("droveway.git.place.release_dead_locks", lambda *a: _false())
    lock.touch()
    with lock.open(), pytest.raises(BusyError):
        await place.dirty()
    assert lock.exists()


async def _false() -> bool:
    return False


async def test_a_removal_says_removed_absent_or_kept_with_the_reason(
    place: Place, mirror: Mirror, forge: Forge
) -> None:
    (place.tree / "new").write_text("1")
    assert (await place.remove()).reason == "uncommitted files: 1"
    sh(place.tree, "add", "-A")
    sh(place.tree, "commit", "-qm", "x")
    sh(place.tree, "push", "-q", "origin", "HEAD")
    kept = await place.remove()
    assert (kept.state, "was not taken" in kept.reason) == ("kept", True)
    assert place.tree.exists()
    await place.take()
    unreadable = place.tree / "locked"
    unreadable.mkdir()
    (unreadable / "x").write_text("1")
    sh(place.tree, "init", "-q", "nested")
    unreadable.chmod(0)
    assert (await place.remove(force=True)).state == "removed"
    assert not place.root.exists()
    assert (await place.remove()).state == "absent"
    assert await mirror.refs("refs/droveway/") == {}


async def test_removing_a_place_follows_no_link_out_of_it(place: Place, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "x").write_text("1")
    (place.tree / "out").symlink_to(precious)
    (place.gate / "out").symlink_to(precious)
    assert (await place.remove(force=True)).state == "removed"
    assert (precious / "x").read_text() == "1"


async def test_a_stale_branch_name_is_no_start_and_a_place_without_a_commit_is_no_success(
    place: Place, mirror: Mirror, forge: Forge, tmp_path: Path
) -> None:
    """Case W07 (d): the branch of an earlier, cancelled batch exists; the place starts where it is told, not there."""
    stale = forge.tip("main") or ""
    forge.branch("herd/batch/9-x", {}, "main")
    fresh = forge.branch("main", {"fresh": "1"})
    await mirror.fetch()
    await place.remove(force=True)
    made = await Place.create(place.root, mirror, branch="herd/batch/9-x", start=fresh, author=BOT)
    assert (made.tree / "fresh").exists()
    assert fresh != stale
    result = await Relay(made, mirror, last_seen=forge.tip("herd/batch/9-x")).push()
    assert result.outcome is RelayOutcome.UNCHANGED
