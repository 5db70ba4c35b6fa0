"""Random pairs of branches, merged in the object database and by ``git merge`` in a work tree: the same trees, the same
conflicts. ``HERD_PROBE_PAIRS`` sets how many, ``HERD_PROBE_SEED`` the first seed; a failure names its seed.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
from pathlib import Path

import pytest

from droveway.core.clock import SystemClock
from droveway.git import AlreadyContained, Conflict, Git, Mirror, Remote

from .conftest import COMMIT, ENVIRONMENT, sh

PAIRS = int(os.environ.get("HERD_PROBE_PAIRS", "60"))
SEED = int(os.environ.get("HERD_PROBE_SEED", "1000"))
Tree = dict[str, tuple[str, bytes]]  # path → mode, content (a gitlink's content is its SHA)


def lines(rng: random.Random, count: int, end: bytes = b"\n") -> bytes:
    return b"".join(b"line %d %d" % (n, rng.randrange(1000)) + end for n in range(count))


def base_tree(rng: random.Random) -> Tree:
    tree: Tree = {}
    for folder in ("", "src/", "src/deep/", "docs/"):
        for n in range(3):
            tree[f"{folder}f{n}.txt"] = ("100644", lines(rng, 24))
    tree["CHANGELOG.md"] = ("100644", b"# Changes\n\n- one\n")
    tree["docs/NEWS.md"] = ("100644", b"# News\n\n- one\n")
    tree["package.lock"] = ("100644", lines(rng, 30))
    tree["src/win.dos"] = ("100644", lines(rng, 20, b"\r\n"))
    tree["src/run.sh"] = ("100755", b"#!/bin/sh\n" + lines(rng, 10))
    tree["link"] = ("120000", b"src/f0.txt")
    tree["sub"] = ("160000", b"%040x" % rng.getrandbits(160))
    if rng.random() < 0.8:
        tree[".gitattributes"] = ("100644", b"CHANGELOG.md merge=union\n*.lock -merge\n*.dos -text\n*.sh text eol=lf\n")
    if rng.random() < 0.5:
        nested = (b"*.md merge=union\n", b"/f0.txt -merge\nf1.txt merge=union\n", b"deep/*.txt merge=union\n")
        tree[rng.choice(["docs/", "src/"]) + ".gitattributes"] = ("100644", rng.choice(nested))
    return tree


def change(rng: random.Random, tree: Tree) -> None:
    """Change one thing, as a worker might."""
    files = [path for path, (mode, _) in tree.items() if mode.startswith("100") and not path.endswith(".gitattributes")]
    path = rng.choice(files)
    mode, content = tree[path]
    kind = rng.choices(
        ["edit", "append", "delete", "rename", "case", "folder", "ends", "add", "mode", "sub", "link", "attr", "swap"],
        [30, 14, 5, 12, 5, 6, 5, 9, 3, 4, 2, 3, 3],
    )[0]
    if kind == "edit":
        rows = content.splitlines(keepends=True) or [b"\n"]
        rows[rng.randrange(len(rows))] = b"edited %d\n" % rng.randrange(5)
        tree[path] = (mode, b"".join(rows))
    elif kind == "append":
        target = rng.choice(["CHANGELOG.md", "docs/NEWS.md", "package.lock", path])
        if target in tree and tree[target][0].startswith("100"):
            tree[target] = (tree[target][0], tree[target][1] + b"- more %d\n" % rng.randrange(9))
    elif kind == "delete":
        del tree[path]
    elif kind == "rename":
        target = rng.choice(["moved.txt", "src/moved.txt", "docs/other.txt", f"{path}.new"])
        put(tree, target, tree.pop(path))
    elif kind == "case":
        folder, _, name = path.rpartition("/")
        put(tree, f"{folder}/{name.swapcase()}".lstrip("/"), tree.pop(path))
    elif kind == "folder":
        old, new = rng.choice([("src/deep/", "src/low/"), ("docs/", "manual/"), ("src/deep/", "deep/")])
        for inner in [p for p in tree if p.startswith(old)]:
            put(tree, new + inner.removeprefix(old), tree.pop(inner))
    elif kind == "ends":
        flipped = content.replace(b"\r\n", b"\n") if b"\r\n" in content else content.replace(b"\n", b"\r\n")
        tree[path] = (mode, flipped)
    elif kind == "add":
        put(tree, rng.choice(["fresh.txt", "src/deep/fresh.txt", "docs/fresh.md", "F0.TXT"]), ("100644", lines(rng, 3)))
    elif kind == "mode":
        tree[path] = ("100755" if mode == "100644" else "100644", content)
    elif kind == "sub" and "sub" in tree:
        tree["sub"] = ("160000", b"%040x" % rng.randint(1, 3))
    elif kind == "link" and "link" in tree:
        tree["link"] = ("120000", b"src/f%d.txt" % rng.randrange(3))
    elif kind == "attr":
        lines_ = [b"*.txt merge=union\n", b"f1.txt -merge\n", b"CHANGELOG.md -merge\n"]
        had = tree.get(".gitattributes", ("100644", b""))[1]
        tree[".gitattributes"] = ("100644", had + rng.choice(lines_))
    elif kind == "swap":  # a file becomes a folder
        del tree[path]
        put(tree, f"{path}/inner.txt", ("100644", content))


def put(tree: Tree, path: str, entry: tuple[str, bytes]) -> None:
    """Put an entry where neither a file above nor a folder below is in its way."""
    parts = path.split("/")
    blocked = any("/".join(parts[:n]) in tree for n in range(1, len(parts)))
    if not blocked and not any(other.startswith(f"{path}/") for other in tree):
        tree[path] = entry


def commit(ref: str, mark: int, parent: int | None, tree: Tree) -> bytes:
    out = [f"commit {ref}\nmark :{mark}\ncommitter P <p@x.invalid> 1767225600 +0000\ndata 1\nx\n".encode()]
    out += [f"from :{parent}\n".encode()] if parent else []
    out.append(b"deleteall\n")
    for path, (mode, content) in sorted(tree.items()):
        if mode == "160000":
            out.append(b"M 160000 %s %s\n" % (content, path.encode()))
        else:
            out.append(b"M %s inline %s\ndata %d\n%s\n" % (mode.encode(), path.encode(), len(content), content))
    return b"".join(out)


def build(repository: Path, seeds: range) -> None:
    stream = []
    for at, seed in enumerate(seeds):
        rng = random.Random(seed)
        base = base_tree(rng)
        sides = []
        for _ in range(2):
            side = dict(base)
            for _ in range(rng.randint(1, 6)):
                change(rng, side)
            sides.append(side)
        stream.append(commit(f"refs/heads/s{seed}/base", at * 3 + 1, None, base))
        stream.append(commit(f"refs/heads/s{seed}/ours", at * 3 + 2, at * 3 + 1, sides[0]))
        stream.append(commit(f"refs/heads/s{seed}/theirs", at * 3 + 3, at * 3 + 1, sides[1]))
    argv = ["git", "fast-import", "--quiet"]
    subprocess.run(argv, input=b"".join(stream), cwd=repository, env=ENVIRONMENT, check=True, capture_output=True)


def plain(path: str) -> str:
    """Take off the name of the side, by which git parts a file from a folder of its name."""
    return re.sub(r"~(HEAD|[0-9a-f]{40})(_\d+)?$", "~", path)


def in_work_tree(tree: Path, ours: str, theirs: str) -> str | frozenset[str] | None:
    """Merge as a person would; give the tree, or the unmerged paths, or None where git died of a bug or can't start."""
    sh(tree, "reset", "-q", "--hard", ours)
    sh(tree, "clean", "-qffdx")
    done = subprocess.run(
        ["git", "merge", "-q", "--no-ff", "-m", "m", theirs],
        cwd=tree,
        env=ENVIRONMENT,
        capture_output=True,
        check=False,
    )
    if done.returncode == 0:
        return sh(tree, "rev-parse", "HEAD^{tree}")
    if done.returncode == 2 and b"Your local changes" in done.stderr:
        return None  # a fresh checkout that counts as modified (case G06): a work tree can't merge at all
    if done.returncode < 0 and b"BUG: merge-ort.c" in done.stderr:
        (tree / ".git" / "index.lock").unlink(missing_ok=True)
        return None
    unmerged = sh(tree, "ls-files", "-u", "-z")
    assert done.returncode == 1, done.stderr
    assert unmerged, done.stdout + done.stderr
    return frozenset(plain(row.partition("\t")[2]) for row in unmerged.split("\0") if row)


@pytest.mark.slow
@pytest.mark.req("BAT-180", "BAT-238", "QLT-001")
async def test_the_object_database_merges_what_a_work_tree_merges(tmp_path: Path, git: Git, clock: SystemClock) -> None:
    seeds = range(SEED, SEED + PAIRS)
    tree = tmp_path / "person"
    sh(tmp_path, "init", "-q", "-b", "start", str(tree))
    sh(tree, "config", "gc.auto", "0")
    build(tree, seeds)
    mirror = await Mirror.open(tmp_path / "mirror.git", Remote(str(tree)), git=git, clock=clock)
    await mirror.fetch()
    refs = await mirror.refs()
    clean, conflicted, odd, unanswered = 0, 0, [], []
    for seed in seeds:
        ours, theirs = refs[f"refs/heads/s{seed}/ours"], refs[f"refs/heads/s{seed}/theirs"]
        expected = in_work_tree(tree, ours, theirs)
        found = await mirror.merge(ours, theirs, message="m", **COMMIT)
        assert not isinstance(found, AlreadyContained)
        if expected is None:
            unanswered.append(seed)
            continue
        if isinstance(found, Conflict):
            conflicted += 1
            # Our paths are those of the index and those that git's sentences name, which a work tree only prints.
            same = isinstance(expected, frozenset) and expected <= {plain(path) for path in found.paths}
        else:
            clean += 1
            same = found.tree == expected
        if not same:
            odd.append((seed, expected, found))
    told = f"{clean} clean, {conflicted} conflicts, {len(odd)} different, no answer from a work tree for {unanswered}"
    print(f"seeds {seeds.start}…{seeds.stop - 1}: {told}")
    assert len(unanswered) * 50 <= PAIRS
    assert not odd, odd
    assert min(clean, conflicted) >= PAIRS // 10, "too one-sided to prove much"


@pytest.mark.req("BAT-180", "BAT-181")
async def test_a_sweep_of_branches_that_build_on_each_other_is_what_merging_them_one_by_one_is(
    tmp_path: Path, git: Git, clock: SystemClock
) -> None:
    """The stand-in of a sweep must not change a merge base, also where branches contain or have merged each other."""
    tree = tmp_path / "person"
    sh(tmp_path, "init", "-q", "-b", "start", str(tree))
    sh(tree, "config", "gc.auto", "0")
    mirror = await Mirror.open(tmp_path / "mirror.git", Remote(str(tree)), git=git, clock=clock)
    compared = 0
    for seed in range(SEED, SEED + 8):
        names = history(tree, seed)
        await mirror.fetch()
        refs = await mirror.refs()
        tip = refs[f"refs/heads/h{seed}/tip"]
        expected: dict[int, str] = {}
        sh(tree, "checkout", "-q", "-f", "--detach", tip)
        for number, name in enumerate(names, 1):
            before = sh(tree, "rev-parse", "HEAD")
            outcome = in_work_tree(tree, before, refs[f"refs/heads/{name}"])
            if outcome is None:
                break  # a work tree has no answer: what came before is compared
            if not isinstance(outcome, str):
                sh(tree, "reset", "-q", "--hard", before)
                expected[number] = "conflict"
            else:
                expected[number] = "contained" if sh(tree, "rev-parse", "HEAD") == before else outcome
        branches = [(number, name, refs[f"refs/heads/{name}"]) for number, name in enumerate(names, 1)]
        result = await mirror.sweep(tip, branches, message=lambda _n, name: name, **COMMIT)
        found = {c.number: "conflict" for c in result.conflicts} | {c.number: "contained" for c in result.contained}
        found |= {m.number: await mirror.tree_of(m.commit) for m in result.merged}
        assert {number: found[number] for number in expected} == expected, f"seed {seed}"
        compared += len(expected)
    assert compared > 60


def history(repository: Path, seed: int) -> list[str]:
    """Make a tip some commits ahead of where its branches began, and branches that build on or merged each other."""
    rng = random.Random(seed)
    base = base_tree(rng)
    moved = dict(base)
    change(rng, moved)
    stream = [commit(f"refs/heads/h{seed}/base", 1, None, base), commit(f"refs/heads/h{seed}/tip", 2, 1, moved)]
    trees = [base, moved]
    names = []
    for mark in range(3, 13):
        parent = rng.choice([1, 1, 2, 2, *range(3, mark)]) if mark > 3 else 1
        side = dict(trees[parent - 1])
        for _ in range(rng.randint(1, 3)):
            change(rng, side)
        text = commit(f"refs/heads/h{seed}/w{mark}", mark, parent, side)
        if mark > 4 and rng.random() < 0.3:
            other = rng.choice([m for m in range(2, mark) if m != parent])
            text = text.replace(b"deleteall\n", f"merge :{other}\ndeleteall\n".encode(), 1)
        stream.append(text)
        trees.append(side)
        names.append(f"h{seed}/w{mark}")
    argv = ["git", "fast-import", "--quiet"]
    subprocess.run(argv, input=b"".join(stream), cwd=repository, env=ENVIRONMENT, check=True, capture_output=True)
    rng.shuffle(names)
    return names
