"""An agent that attacks: none of its code runs by a git of ours, and only its branch reaches the forge (BAT-134)."""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from droveway.core.errors import InputError
from droveway.git import GateError, Mirror, Place, Relay, RelayOutcome

from .conftest import BRANCH, COMMIT, Forge, sh

pytestmark = pytest.mark.req("BAT-134")


class Canary:
    """A program of the agent's. If it ever runs, a file says so."""

    def __init__(self, folder: Path) -> None:
        self.sang = folder / "the-canary-sang"
        self.program = folder / "canary.sh"
        self.program.write_text(f'#!/bin/sh\necho "$0 $*" >>{self.sang}\ncat 2>/dev/null\nexit 0\n')
        self.program.chmod(0o755)
        hooks = folder / "hooks"
        hooks.mkdir()
        names = (
            "pre-receive update post-receive post-update reference-transaction pre-push post-checkout post-index-change"
        )
        for name in [*names.split(), "pre-commit", "post-commit", "pre-auto-gc", "push-to-checkout", "proc-receive"]:
            shutil.copy(self.program, hooks / name)
        self.hooks = hooks

    def config(self) -> str:
        run = self.program
        return f"""
[core]
    fsmonitor = {run}
    hooksPath = {self.hooks}
    sshCommand = {run}
    pager = {run}
    editor = {run}
    askPass = {run}
    alternateRefsCommand = {run}
    attributesFile = {self.hooks.parent}/attributes
[filter "evil"]
    clean = {run}
    smudge = {run}
    process = {run}
    required = true
[diff "evil"]
    command = {run}
    textconv = {run}
[diff]
    external = {run}
[merge "evil"]
    driver = {run}
[uploadpack]
    packObjectsHook = {run}
[receive]
    procReceiveRefs = refs
[credential]
    helper = {run}
[gpg]
    program = {run}
[submodule "sub"]
    update = !{run}
    url = ext::{run}
[remote "origin"]
    uploadpack = {run}
    receivepack = {run}
[include]
    path = {self.hooks.parent}/more
[extensions]
    worktreeConfig = true
"""

    def poison(self, repository: Path) -> None:
        """Put the settings into a repository, and its hooks."""
        (self.hooks.parent / "attributes").write_text("* filter=evil diff=evil merge=evil\n")
        (self.hooks.parent / "more").write_text(f"[core]\n\tfsmonitor = {self.program}\n")
        with (repository / "config").open("a") as config:
            config.write(self.config())
        (repository / "config.worktree").write_text(self.config())
        shutil.rmtree(repository / "hooks", ignore_errors=True)
        shutil.copytree(self.hooks, repository / "hooks")
        (repository / "info").mkdir(exist_ok=True)
        (repository / "info" / "attributes").write_text("* filter=evil diff=evil merge=evil\n")

    @property
    def silent(self) -> bool:
        return not self.sang.exists()


@pytest.fixture
def canary(tmp_path: Path) -> Canary:
    folder = tmp_path / "agent"
    folder.mkdir()
    return Canary(folder)


def work(place: Place, name: str = "new.txt") -> str:
    """Commit something and push it, as a well-behaved agent."""
    (place.tree / name).write_text("work\n")
    sh(place.tree, "add", name)
    sh(place.tree, "commit", "-qm", name)
    sh(place.tree, "push", "-q", "origin", "HEAD")
    return sh(place.tree, "rev-parse", "HEAD")


async def everything(place: Place, mirror: Mirror, forge: Forge) -> str | None:
    """Do all that the framework ever does with a place; give the forge's tip of the branch."""
    relay = Relay(place, mirror, last_seen=forge.tip(BRANCH))
    await relay.push()
    await place.attempted_refs()
    base = relay.last_seen or place.start
    await place.dirty()
    commit = await place.commit_leftovers(base, "Checkpoint", **COMMIT)
    if commit:
        removed = await place.rm_paths_commit(commit, "Remove", **COMMIT)
        await relay.push(removed.commit if removed else commit)
    await mirror.diff(place.start, relay.last_seen or place.start)
    await mirror.diff_stat(place.start, relay.last_seen or place.start)
    merged = await mirror.merge(place.start, relay.last_seen or place.start, message="m", **COMMIT)
    assert merged
    return forge.tip(BRANCH)


@pytest.mark.smoke
async def test_no_setting_hook_or_filter_of_the_agent_s_runs(
    place: Place, mirror: Mirror, forge: Forge, canary: Canary
) -> None:
    tip = work(place)
    (place.tree / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    (place.tree / "left.txt").write_text("left over\n")
    (place.tree / "src" / "a.txt").write_text("changed\n")
    canary.poison(place.tree / ".git")
    canary.poison(place.gate)
    sh(place.tree, "status", ok=(0, 1, 128))
    assert not canary.silent, "the attack itself must work, or this test proves nothing"
    canary.sang.unlink()
    reached = await everything(place, mirror, forge)
    assert canary.silent, canary.sang.read_text()
    assert reached != tip
    assert await mirror.changed_files(tip, reached or "") == [".gitattributes", "left.txt", "src/a.txt"]
    assert await mirror.show_file(reached or "", "left.txt") == b"left over\n"


@pytest.mark.smoke
@pytest.mark.req("BAT-135")
async def test_a_push_past_the_gate_s_hook_stays_in_the_gate_and_in_the_report(
    place: Place, mirror: Mirror, forge: Forge
) -> None:
    work(place)
    before = forge.refs()
    sh(place.tree, "push", "origin", "HEAD:refs/heads/main", ok=(1,))
    past = "--receive-pack=git -c core.hooksPath=/dev/null receive-pack"
    sh(
        place.tree,
        "push",
        past,
        "origin",
        "HEAD:refs/heads/herd/batch/7-x",
        "HEAD:refs/heads/main2",
        "HEAD:refs/tags/v1",
    )
    tip = await everything(place, mirror, forge)
    assert tip == await place.gate_tip()
    assert {**before, f"refs/heads/{BRANCH}": tip} == forge.refs()
    assert await place.attempted_refs() == [
        "refs/heads/herd/batch/7-x",
        "refs/heads/main",
        "refs/heads/main2",
        "refs/tags/v1",
    ]


def symbolic(place: Place, ref: Path, secret: str) -> None:
    ref.write_text("ref: refs/heads/main\n")


def link_to_a_secret(place: Place, ref: Path, secret: str) -> None:
    target = place.root.parent / "outside-ref"
    target.write_text(f"{secret}\n")
    ref.symlink_to(target)


def folder_link(place: Place, ref: Path, secret: str) -> None:
    outside = place.root.parent / "outside"
    outside.mkdir()
    (outside / ref.name).write_text(f"{secret}\n")
    shutil.rmtree(ref.parent)
    ref.parent.symlink_to(outside)


def huge(place: Place, ref: Path, secret: str) -> None:
    with ref.open("wb") as file:
        file.truncate(1 << 40)


def pipe(place: Place, ref: Path, secret: str) -> None:
    os.mkfifo(ref)


def packed_pipe(place: Place, ref: Path, secret: str) -> None:
    (place.gate / "packed-refs").unlink()
    os.mkfifo(place.gate / "packed-refs")


def no_sha(place: Place, ref: Path, secret: str) -> None:
    ref.write_text("$(touch /tmp/x) --upload-pack=x\n")


def gate_is_a_link(place: Place, ref: Path, secret: str) -> None:
    place.gate.rename(place.root / "real")
    place.gate.symlink_to(place.root / "real")


def gate_is_gone(place: Place, ref: Path, secret: str) -> None:
    shutil.rmtree(place.gate)


@pytest.mark.parametrize(
    "attack",
    [symbolic, link_to_a_secret, folder_link, huge, pipe, packed_pipe, no_sha, gate_is_a_link, gate_is_gone],
    ids=lambda a: a.__name__,
)
async def test_a_gate_edited_by_hand_gives_no_tip(
    place: Place, mirror: Mirror, forge: Forge, attack: Callable[[Place, Path, str], None]
) -> None:
    ref = place.gate / "refs" / "heads" / BRANCH
    ref.parent.mkdir(parents=True, exist_ok=True)
    # A packed ref of the branch would be a sound answer: take it away, so that only the attack is left.
    packed = place.gate / "packed-refs"
    packed.write_text("".join(line for line in packed.read_text().splitlines(keepends=True) if BRANCH not in line))
    attack(place, ref, forge.tip("main") or "")
    before = forge.refs()
    assert await place.gate_tip() is None
    result = await Relay(place, mirror, last_seen=None).push()
    assert result.outcome is RelayOutcome.UNCHANGED
    await place.attempted_refs()
    assert await place.dirty() == []
    assert forge.refs() == before


@pytest.mark.parametrize("how", ["alternates", "objects-link", "fan-link", "pack-link", "http-alternates"])
async def test_objects_of_another_repository_can_t_be_drawn_in(
    place: Place, mirror: Mirror, forge: Forge, tmp_path: Path, how: str
) -> None:
    """The agent knows the SHA of a commit in a repository that it may not publish, and points the gate there."""
    secret = tmp_path / "secret"
    sh(tmp_path, "init", "-q", str(secret))
    (secret / "key").write_text("secret\n")
    sh(secret, "add", "-A")
    sh(secret, "commit", "-qm", "secret")
    sha = sh(secret, "rev-parse", "HEAD")
    if how == "pack-link":
        sh(secret, "gc", "-q")
    objects = secret / ".git" / "objects"
    if how == "alternates":
        with (place.gate / "objects" / "info" / "alternates").open("a") as file:
            file.write(f"{objects}\n")
    elif how == "objects-link":
        shutil.rmtree(place.gate / "objects")
        (place.gate / "objects").symlink_to(objects)
    elif how == "fan-link":
        for fan in (p for p in objects.iterdir() if len(p.name) == 2):
            shutil.rmtree(place.gate / "objects" / fan.name, ignore_errors=True)
            (place.gate / "objects" / fan.name).symlink_to(fan)
    elif how == "pack-link":
        shutil.rmtree(place.gate / "objects" / "pack")
        (place.gate / "objects" / "pack").symlink_to(objects / "pack")
    else:
        (place.gate / "objects" / "info" / "http-alternates").write_text(f"{objects}\n")
    ref = place.gate / "refs" / "heads" / BRANCH
    ref.parent.mkdir(parents=True, exist_ok=True)
    ref.write_text(f"{sha}\n")
    before = forge.refs()
    result = await Relay(place, mirror, last_seen=None).push()
    assert (result.outcome, result.sha) == (RelayOutcome.REJECTED, None)
    assert "not sound" in result.reason or "no commit" in result.reason
    assert forge.refs() == before
    assert await mirror.rev_parse(sha) is None


def loose(gate: Path, sha: str) -> Path:
    return gate / "objects" / sha[:2] / sha[2:]


@pytest.mark.parametrize("damage", ["missing", "swapped", "cut", "bomb", "garbage"])
async def test_damaged_objects_reach_neither_the_mirror_nor_the_forge(
    place: Place, mirror: Mirror, forge: Forge, damage: str
) -> None:
    tip = work(place)
    blob = sh(place.tree, "rev-parse", "HEAD:new.txt")
    path = loose(place.gate, blob)
    data = path.read_bytes()
    path.unlink()
    wrong = {
        "swapped": zlib.compress(b"blob 5\0evil\n"),
        "cut": data[:-4],
        "bomb": zlib.compress(b"blob 400000000\0" + b"\0" * 400_000_000, 9),
        "garbage": b"\xff" * 100,
    }
    if damage in wrong:
        path.write_bytes(wrong[damage])
    before = forge.refs()
    relay = Relay(place, mirror, last_seen=None)
    assert (await relay.push()).outcome is RelayOutcome.REJECTED
    assert (await relay.push()).outcome is RelayOutcome.REJECTED  # the first refusal left nothing that passes later
    assert forge.refs() == before
    with pytest.raises(GateError):
        await place.take()
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    assert (await relay.push()).sha == tip
    sh(mirror.path, "fsck", "--strict", "--no-dangling")


async def test_an_object_of_the_mirror_can_t_be_replaced_by_one_in_the_gate(
    place: Place, mirror: Mirror, forge: Forge
) -> None:
    known = sh(place.tree, "rev-parse", "HEAD:src/a.txt")
    path = loose(place.gate, known)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(zlib.compress(b"blob 4\0evil"))
    work(place)
    assert (await Relay(place, mirror, last_seen=None).push()).outcome is RelayOutcome.PUSHED
    assert await mirror.show_file(forge.tip(BRANCH) or "", "src/a.txt") == b"one\ntwo\nthree\n"
    sh(forge.path, "fsck", "--strict")


async def test_a_malformed_commit_or_tree_is_refused_as_a_forge_would(
    place: Place, mirror: Mirror, forge: Forge
) -> None:
    blob = sh(place.tree, "rev-parse", "HEAD:src/a.txt")
    entry = b"100644 .git\0" + bytes.fromhex(blob)
    (place.root / "raw").write_bytes(entry)
    tree = sh(place.tree, "hash-object", "-t", "tree", "-w", "--literally", str(place.root / "raw"))
    commit = sh(place.tree, "commit-tree", tree, "-p", "HEAD", "-m", "evil")
    sh(place.tree, "push", "-q", "origin", f"+{commit}:refs/heads/{BRANCH}")
    result = await Relay(place, mirror, last_seen=None).push()
    assert result.outcome is RelayOutcome.REJECTED
    assert forge.tip(BRANCH) is None
    assert await mirror.rev_parse(commit) is None


async def test_a_large_push_comes_as_a_pack_and_is_taken(place: Place, mirror: Mirror, forge: Forge) -> None:
    for n in range(150):
        (place.tree / f"f{n}").write_text(f"{n}\n")
    sh(place.tree, "add", "-A")
    tip = work(place)
    assert list((place.gate / "objects" / "pack").glob("*.pack"))
    (place.gate / "objects" / "pack" / ("pack-" + "0" * 40 + ".pack")).write_bytes(b"PACK nonsense")
    result = await Relay(place, mirror, last_seen=None).push()
    assert result.outcome is RelayOutcome.REJECTED
    (place.gate / "objects" / "pack" / ("pack-" + "0" * 40 + ".pack")).unlink()
    assert (await Relay(place, mirror, last_seen=None).push()).sha == tip
    assert forge.tip(BRANCH) == tip


# --- the tree ---


def git_is_a_link(tree: Path, evil: Path) -> None:
    shutil.rmtree(tree / ".git")
    (tree / ".git").symlink_to(evil)


def git_is_a_file(tree: Path, evil: Path) -> None:
    shutil.rmtree(tree / ".git")
    (tree / ".git").write_text(f"gitdir: {evil}\n")


def git_is_gone(tree: Path, evil: Path) -> None:
    shutil.rmtree(tree / ".git")


@pytest.mark.parametrize("attack", [git_is_a_link, git_is_a_file, git_is_gone], ids=lambda a: a.__name__)
async def test_another_git_directory_in_the_tree_is_not_looked_at(
    place: Place, mirror: Mirror, forge: Forge, canary: Canary, tmp_path: Path, attack: Callable[[Path, Path], None]
) -> None:
    evil = tmp_path / "evil.git"
    sh(tmp_path, "init", "-q", "--bare", str(evil))
    canary.poison(evil)
    attack(place.tree, evil)
    (place.tree / "left.txt").write_text("x")
    reached = await everything(place, mirror, forge)
    assert canary.silent
    assert await mirror.changed_files(place.start, reached or "") == ["left.txt"]


async def test_a_repository_inside_the_tree_is_not_run_and_not_committed(
    place: Place, mirror: Mirror, forge: Forge, canary: Canary
) -> None:
    """As an untracked folder, and as a submodule that the agent's own commit records."""
    for name in ("untracked", "sub"):
        sh(place.tree, "init", "-q", name)
        sh(place.tree / name, "commit", "-q", "--allow-empty", "-m", "x")
    (place.tree / ".gitmodules").write_text('[submodule "sub"]\n\tpath = sub\n\turl = ./elsewhere\n')
    sh(place.tree, "add", ".gitmodules", "sub")
    tip = work(place)
    for name in ("untracked", "sub"):
        (place.tree / name / "dirt").write_text("x")
        canary.poison(place.tree / name / ".git")
    sh(place.tree, "status", ok=(0, 1, 128))
    assert not canary.silent, "the attack itself must work, or this test proves nothing"
    canary.sang.unlink()
    (place.tree / "left.txt").write_text("x")
    reached = await everything(place, mirror, forge)
    assert canary.silent, canary.sang.read_text()
    assert await mirror.changed_files(tip, reached or "") == ["left.txt"]


async def test_a_tree_that_is_a_link_to_elsewhere_is_refused(place: Place, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "id_rsa").write_text("secret")
    shutil.rmtree(place.tree)
    place.tree.symlink_to(home)
    with pytest.raises(GateError, match="not the folder"):
        await place.dirty()
    with pytest.raises(GateError, match="not the folder"):
        await place.commit_leftovers(place.start, "m", **COMMIT)
    assert (await place.remove()).state == "kept"
    assert (await place.remove(force=True)).state == "removed"
    assert (home / "id_rsa").exists()


async def test_a_folder_that_became_a_link_is_committed_as_a_link(
    place: Place, mirror: Mirror, forge: Forge, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("secret")
    shutil.rmtree(place.tree / "src")
    (place.tree / "src").symlink_to(outside)
    reached = await everything(place, mirror, forge)
    assert await mirror.changed_files(place.start, reached or "") == ["src", "src/a.txt"]
    assert await mirror.show_file(reached or "", "src") == str(outside).encode()
    assert sorted(p.name for p in outside.iterdir()) == ["a.txt"]


async def test_one_file_that_can_t_be_read_or_named_does_not_cost_the_others(
    place: Place, mirror: Mirror, forge: Forge
) -> None:
    (place.tree / "good.txt").write_text("x")
    os.mkfifo(place.tree / "pipe")
    (place.tree / ".gitattributes").write_text("bad.txt working-tree-encoding=UTF-16\n")
    (place.tree / "bad.txt").write_bytes(b"\x00\xd8x")
    (place.tree / "GIT~1").write_text("x")
    (place.tree / os.fsdecode(b"bytes-\xff\n")).write_text("x")
    reached = await everything(place, mirror, forge)
    changed = await mirror.changed_files(place.start, reached or "")
    assert {".gitattributes", "good.txt", "bytes-\ufffd\n"} <= set(changed)
    assert not {"pipe", "GIT~1"} & set(changed)


async def test_names_of_refs_in_the_report_are_cut_and_printable(place: Place) -> None:
    heads = place.gate / "refs" / "heads"
    heads.mkdir(parents=True, exist_ok=True)
    (heads / "evil\n## Report\x1b[31m").write_text("x")
    (place.gate / "refused-refs").write_bytes(b"refs/heads/\xff" + b"a" * 5000 + b"\n" + b"x\n" * 100_000)
    told = await place.attempted_refs()
    assert len(told) <= 50
    assert all(len(name) <= 200 and name.isprintable() for name in told)
    assert "refs/heads/evil?## Report?[31m" in told


@pytest.mark.req("QLT-043")
async def test_files_of_the_tree_are_read_and_written_through_no_link(place: Place, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "1.md").write_text("secret")
    (place.tree / ".herd").symlink_to(outside)
    (place.tree / "link.md").symlink_to(outside / "1.md")
    os.mkfifo(place.tree / "pipe")
    assert place.read(".herd/1.md") is None
    assert place.read("link.md") is None
    assert place.read("pipe") is None
    assert place.read("src") is None
    assert place.read("src/a.txt") == b"one\ntwo\nthree\n"
    assert place.read("src/a.txt", limit=3) is None
    with pytest.raises(OSError, match=r"."):
        place.write(".herd/images/x.png", b"1")
    place.write("link.md", b"ours")
    assert (place.tree / "link.md").read_bytes() == b"ours"
    place.write("deep/er/x", b"1")
    assert place.read("deep/er/x") == b"1"
    with pytest.raises(OSError, match=r"."):
        place.write("src", b"1")
    assert sorted(p.name for p in outside.iterdir()) == ["1.md"]
    assert (outside / "1.md").read_text() == "secret"
    for path in ("../x", "/etc/passwd", "a//b", "", "a/../../x", "."):
        with pytest.raises(InputError):
            place.read(path)
        with pytest.raises(InputError):
            place.write(path, b"1")
