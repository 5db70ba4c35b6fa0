"""The inner loop of a sweep, as a small program of its own: merge, write the commit, next (BAT-180).

The runner starts it once, with a deadline, and kills it with all its children like any run: for hundreds of merges of
two milliseconds each, a supervised start of every single one costs more than the merges. It needs the standard library
alone, so that it is there at once. It reads one JSON request on standard input and answers with one JSON object.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


class History:
    """The commits that are not in the tip: which branch holds which, without asking git for each."""

    def __init__(
        self, missing: Mapping[str, Sequence[str]], attributes: Iterable[str] = (), taken: Iterable[str] = ()
    ) -> None:
        """Take commit → parents, the commits that touch attributes, and those that were merged already."""
        self.missing = dict(missing)
        self.attributes = set(attributes)
        self.taken = set(taken)

    def contains(self, sha: str) -> bool:
        """Whether the commit is in what was merged so far."""
        return sha not in self.missing

    def apart(self, sha: str) -> bool:
        """Whether the commit shares nothing but the tip's own history with what was merged so far."""
        seen = set()
        stack = [sha]
        while stack:
            commit = stack.pop()
            if commit in self.taken:
                return False
            if commit in self.missing and commit not in seen:
                seen.add(commit)
                stack.extend(self.missing[commit])
        return True

    def take(self, sha: str) -> bool:
        """Count the commit and all its ancestors as merged; tell whether any of them touched attributes."""
        touched = False
        stack = [sha]
        while stack:
            commit = stack.pop()
            parents = self.missing.pop(commit, None)
            if parents is not None:
                self.taken.add(commit)
                touched |= commit in self.attributes
                stack.extend(parents)
        return touched


def write_commit(git_dir: str, identities: bytes, tree: str, parents: Sequence[str], message: bytes) -> str:
    """Write one commit as a loose object and give its SHA: the bytes are those of ``git commit-tree``.

    ``identities`` are the two header lines of author and committer.
    """
    head = f"tree {tree}\n" + "".join(f"parent {parent}\n" for parent in parents)
    body = head.encode() + identities + b"\n" + message
    data = b"commit %d\0" % len(body) + body
    digest = hashlib.sha1(data, usedforsecurity=False) if len(tree) == 40 else hashlib.sha256(data)
    sha = digest.hexdigest()
    folder = os.path.join(git_dir, "objects", sha[:2])
    target = os.path.join(folder, sha[2:])
    if not os.path.exists(target):
        os.makedirs(folder, exist_ok=True)
        handle, fresh = tempfile.mkstemp(prefix="tmp_obj_", dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(zlib.compress(data, 1))
            os.fchmod(file.fileno(), 0o444)
        os.replace(fresh, target)
    return sha


def run(request: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the branches in turn; stop after one that touched attributes, because they count for the next."""
    git_dir, tip, head = request["git_dir"], request["tip"], request["head"]
    identities = base64.b64decode(request["identities"])
    history = History(request["missing"], request["attributes"], request["taken"])
    stand_in = request["stand_in"]
    events: list[dict[str, Any]] = []
    for sha, message in request["branches"]:
        if history.contains(sha):
            events.append({"kind": "contained"})
            continue
        # The merge base is found by walking the history, which grows by each merge. A stand-in with the same tree
        # right on the tip has the same bases, as long as this branch shares nothing with those merged before.
        ours = stand_in if history.apart(sha) else head
        argv = ["git", f"--git-dir={git_dir}", "merge-tree", "--write-tree", "-z", "--end-of-options", ours, sha]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode != 0:
            out, err = base64.b64encode(done.stdout).decode(), done.stderr.decode("utf-8", "replace")
            events.append({"kind": "refused", "code": done.returncode, "ours": ours, "out": out, "err": err})
            continue
        tree = done.stdout.split(b"\0", 1)[0].decode().strip()
        head = write_commit(git_dir, identities, tree, [head, sha], base64.b64decode(message))
        stand_in = write_commit(git_dir, identities, tree, [tip], b"stand-in\n")
        events.append({"kind": "merged", "commit": head})
        if history.take(sha):
            break
    return {"events": events, "head": head, "stand_in": stand_in}


if __name__ == "__main__":
    json.dump(run(json.load(sys.stdin)), sys.stdout)
