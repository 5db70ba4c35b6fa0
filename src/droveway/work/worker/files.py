"""Commits that the framework makes on top of an agent's work: small files in or out, nothing checked out."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence

from droveway.core.vocabulary import PROGRESS_DIR
from droveway.git import Mirror
from droveway.work.worker.model import Work


async def without_progress(mirror: Mirror, commit: str) -> str:
    """Give the tree of a commit with ``.herd/progress/`` left out: what validation speaks of (BAT-154)."""
    tree: str = await mirror.remove_paths(commit, [PROGRESS_DIR])
    return tree


async def with_files(
    work: Work, parent: str, message: str, *, add: Mapping[str, bytes], remove: Sequence[str] = ()
) -> str:
    """Commit onto ``parent`` that these files are so, and those gone; gives ``parent`` where that is so already.

    Whatever stands in the way of a file (an agent may have made its folder a file or a link) is replaced.
    """
    mirror = work.mirror
    with tempfile.TemporaryDirectory(prefix="index-", dir=mirror.path) as folder:
        env = {"GIT_INDEX_FILE": f"{folder}/index"}
        await mirror.call("read-tree", parent, env=env)
        lines = b"".join(b"0 " + b"0" * 40 + b"\t" + path.encode() + b"\0" for path in remove)
        for path, content in add.items():
            blob = (await mirror.call("hash-object", "-w", "--stdin", stdin=content)).strip()
            lines += b"100644 " + blob + b"\t" + path.encode() + b"\0"
        await mirror.call("update-index", "-z", "--add", "--replace", "--index-info", stdin=lines, env=env)
        tree = (await mirror.call("write-tree", env=env)).decode().strip()
    if tree == await mirror.tree_of(parent):
        return parent
    commit: str = await mirror.commit_tree(tree, [parent], message, work.framework, work.framework, work.now())
    return commit
