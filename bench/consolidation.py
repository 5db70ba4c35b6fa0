"""QLT-001: consolidating many worker branches, in a work tree with a push each, and as one sweep with one push.

Run ``python bench/consolidation.py [--scale 0.1] [--json]``. Both sides start from equal bare remotes, all
branches fetched. Trees and conflicts are compared: the exit code is 1 if they differ or the ratio is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from droveway.core.clock import SystemClock
from droveway.core.decisions import RefUpdate
from droveway.core.ids import RandomIds
from droveway.core.runner import Runner
from droveway.git import Git, Identity, Mirror, Remote

BRANCHES, FILES, PER_BRANCH, CONFLICTING = 300, 2000, 3, 0.05
WANTED_RATIO = 8.0
WHEN = datetime(2026, 1, 1, tzinfo=UTC)
BOT = Identity("Droveway", "droveway@localhost")
ATTRIBUTES = "CHANGELOG.md merge=union\n*.lock -merge\n*.crlf text eol=crlf\n"
ENVIRONMENT = {
    "PATH": os.environ.get("PATH", os.defpath),
    "LC_ALL": "C",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", BOT.name), ("EMAIL", BOT.email), ("DATE", "@1767225600 +0000"))
    },
}


def git(
    cwd: Path, *args: str, stdin: bytes | None = None, ok: tuple[int, ...] = (0,)
) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(["git", *args], cwd=cwd, env=ENVIRONMENT, input=stdin, capture_output=True, check=False)
    if done.returncode not in ok:
        raise SystemExit(f"git {' '.join(args[:3])} failed: {done.stderr.decode('utf-8', 'replace')}")
    return done


def name_of(index: int, files: int, attributes: bool) -> str:
    suffix = ".crlf" if attributes and index % 10 == 0 else ".txt"
    return f"src/m{index % 40:02}/file{index % files:05}{suffix}"


def build(remote: Path, branches: int, files: int, *, attributes: bool) -> list[tuple[int, str]]:
    """Make the bare remote by fast-import: a base of ``files`` files, and a branch per worker."""
    git(remote.parent, "init", "-q", "--bare", "-b", "main", str(remote))
    stream: list[bytes] = []

    def data(text: str) -> bytes:
        raw = text.encode()
        return b"data %d\n%s\n" % (len(raw), raw)

    def commit(ref: str, parent: str | None, changes: dict[str, str]) -> None:
        stream.append(f"commit {ref}\ncommitter Droveway <droveway@localhost> 1767225600 +0000\n".encode())
        stream[-1] = stream[-1].replace(b"\n", b"\nmark :1\n", 1) if parent is None else stream[-1]
        stream.append(data(ref))
        if parent:
            stream.append(f"from {parent}\n".encode())
        stream.extend(f"M 100644 inline {path}\n".encode() + data(text) for path, text in changes.items())

    def body(index: int, changed: int | None = None) -> str:
        lines = [f"line {n} of file {index}" for n in range(30)]
        if changed is not None:
            lines[changed % 30] = f"changed by worker {changed}"
        return "\n".join(lines) + "\n"

    base = {name_of(index, files, attributes): body(index) for index in range(files)}
    base["hot.txt"] = body(-1)
    base["packages.lock"] = body(-2)
    base["CHANGELOG.md"] = "# Changes\n"
    if attributes:
        base[".gitattributes"] = ATTRIBUTES
    commit("refs/heads/main", None, base)
    every = round(1 / CONFLICTING)
    first = {1: "hot.txt", 2: "packages.lock"} if attributes else {1: "hot.txt"}  # these merge, those after collide
    names = []
    for worker in range(1, branches + 1):
        changes = {}
        for nth in range(PER_BRANCH):
            index = (worker * PER_BRANCH + nth) % files
            changes[name_of(index, files, attributes)] = body(index, worker)
        last = next(reversed(changes))
        if worker in first or worker % every == 0:
            del changes[last]
            path = first.get(worker) or ("packages.lock" if attributes and worker // every % 2 else "hot.txt")
            # Two changes to one line collide; in the lock file, which is -merge, already two changes do.
            text = body(-1 if path == "hot.txt" else -2, worker if path == "packages.lock" else None)
            changes[path] = text.replace("line 3 of", f"worker {worker} of") if path == "hot.txt" else text
        elif attributes and worker % 7 == 0:
            del changes[last]
            changes["CHANGELOG.md"] = f"# Changes\n- by worker {worker}\n"
        name = f"herd/worker/{worker}-task"
        commit(f"refs/heads/{name}", ":1", changes)
        names.append((worker, name))
    git(remote, "fast-import", "--quiet", stdin=b"".join(stream))
    git(remote, "update-ref", "refs/heads/herd/batch/1-bench", "refs/heads/main")
    return names


def in_work_tree(remote: Path, names: list[tuple[int, str]]) -> tuple[float, str, set[str]]:
    """Check out, merge and push each branch; give the seconds, the tree, and the branches that conflicted."""
    tree = remote.parent / "worktree"
    git(remote.parent, "clone", "-q", "-c", "gc.auto=0", "--no-checkout", str(remote), str(tree))
    conflicts = set()
    started = time.perf_counter()
    git(tree, "checkout", "-q", "-b", "batch", "origin/herd/batch/1-bench")
    for _, name in names:
        git(tree, "checkout", "-q", "batch")
        merged = git(tree, "merge", "-q", "--no-ff", "-m", f"Merge {name}", f"origin/{name}", ok=(0, 1))
        if merged.returncode:
            conflicts.add(name)
            git(tree, "merge", "--abort")
            continue
        git(tree, "push", "-q", "origin", "batch:herd/batch/1-bench", f":{name}")
    seconds = time.perf_counter() - started
    return seconds, git(tree, "rev-parse", "batch^{tree}").stdout.decode().strip(), conflicts


async def as_sweep(remote: Path, names: list[tuple[int, str]]) -> tuple[float, str, set[str]]:
    """Sweep all branches and push once; give the same three."""
    clock = SystemClock()
    runner = Git(Runner(clock, RandomIds()))
    mirror = await Mirror.open(remote.parent / "mirror.git", Remote(f"file://{remote}"), git=runner, clock=clock)
    await mirror.fetch()
    started = time.perf_counter()
    refs = await mirror.refs()
    tip = refs["refs/heads/herd/batch/1-bench"]
    result = await mirror.sweep(
        tip,
        [(number, name, refs[f"refs/heads/{name}"]) for number, name in names],
        message=lambda _number, name: f"Merge {name}",
        author=BOT,
        committer=BOT,
        when=WHEN,
    )
    moves = [RefUpdate("refs/heads/herd/batch/1-bench", tip, result.final)]
    moves += [RefUpdate(f"refs/heads/{merge.branch}", merge.sha, None) for merge in result.merged]
    pushed = await mirror.push(moves)
    seconds = time.perf_counter() - started
    if not pushed.ok:
        raise SystemExit(f"the push failed: {pushed.reason}")
    return seconds, await mirror.tree_of(result.final), {conflict.branch for conflict in result.conflicts}


def measure(branches: int, files: int, *, attributes: bool) -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="herd-bench-") as folder:
        remotes = []
        for side in ("a", "b"):
            (Path(folder) / side).mkdir()
            remotes.append(Path(folder) / side / "remote.git")
            names = build(remotes[-1], branches, files, attributes=attributes)
        new, new_tree, new_conflicts = asyncio.run(as_sweep(remotes[1], names))
        old, old_tree, old_conflicts = in_work_tree(remotes[0], names)
    return {
        "attributes": attributes,
        "branches": branches,
        "files": files,
        "conflicts": len(new_conflicts),
        "work_tree_per_second": round(branches / old, 1),
        "sweep_per_second": round(branches / new, 1),
        "ratio": round(old / new, 2),
        "same_tree": old_tree == new_tree,
        "same_conflicts": old_conflicts == new_conflicts,
    }


def main(argv: list[str] | None = None) -> int:
    """Measure both repositories; exit 1 where trees or conflicts differ, or the ratio is missed at full scale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="part of the branches and files (default 1)")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    options = parser.parse_args(argv)
    branches, files = max(int(BRANCHES * options.scale), 4), max(int(FILES * options.scale), 40)
    rows = [measure(branches, files, attributes=attributes) for attributes in (False, True)]
    worst = min(float(str(row["ratio"])) for row in rows)
    same = all(row["same_tree"] and row["same_conflicts"] for row in rows)
    met = same and (worst >= WANTED_RATIO or options.scale < 1)
    if options.json:
        print(
            json.dumps(
                {
                    "bench": "consolidation",
                    "id": "QLT-001",
                    "wanted": WANTED_RATIO,
                    "ratio": worst,
                    "met": met,
                    "runs": rows,
                }
            )
        )
    else:
        for row in rows:
            print(
                f"{'attributes' if row['attributes'] else 'plain':10}  {row['branches']} branches, "
                f"{row['conflicts']} conflicts: work tree {row['work_tree_per_second']}/s, "
                f"sweep {row['sweep_per_second']}/s, ratio {row['ratio']}, "
                f"same trees {row['same_tree']}, same conflicts {row['same_conflicts']}"
            )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
