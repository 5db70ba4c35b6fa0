"""Commit objects written without a process each: a sweep writes two for every branch, and processes are what it costs.

The bytes are those of ``git commit-tree`` (a test compares them); identities are formatted by git itself.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zlib
from collections.abc import Sequence
from datetime import datetime

from droveway.git.model import Identity
from droveway.git.objects import Objects, identity_environment, message_bytes


class CommitWriter:
    """Writes loose commits by one author and committer at one time."""

    def __init__(self, objects: Objects, author: bytes, committer: bytes) -> None:
        """Take the two identity lines; use ``open``."""
        self._folder = objects.path / "objects"
        self._tail = b"author " + author + b"\ncommitter " + committer + b"\n\n"

    @classmethod
    async def open(cls, objects: Objects, author: Identity, committer: Identity, when: datetime) -> CommitWriter:
        """Let git format (and clean) the identities."""
        env = identity_environment(author, committer, when, when)
        lines = [
            (await objects.call("var", f"GIT_{who}_IDENT", env=env)).rstrip(b"\n") for who in ("AUTHOR", "COMMITTER")
        ]
        return cls(objects, *lines)

    def write(self, tree: str, parents: Sequence[str], message: str) -> str:
        """Write one commit and give its SHA."""
        head = f"tree {tree}\n" + "".join(f"parent {parent}\n" for parent in parents)
        body = head.encode() + self._tail + message_bytes(message)
        data = b"commit %d\0" % len(body) + body
        digest = hashlib.sha1(data, usedforsecurity=False) if len(tree) == 40 else hashlib.sha256(data)
        sha = digest.hexdigest()
        self._put(sha, zlib.compress(data, 1))
        return sha

    def _put(self, sha: str, packed: bytes) -> None:
        folder = self._folder / sha[:2]
        target = folder / sha[2:]
        if target.exists():
            return
        folder.mkdir(exist_ok=True)
        handle, fresh = tempfile.mkstemp(prefix="tmp_obj_", dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(packed)
            os.fchmod(file.fileno(), 0o444)
        os.replace(fresh, target)
