"""Commit objects written without a process each; identities are formatted, and cleaned, by git itself."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from droveway.git.chain import write_commit
from droveway.git.model import Identity
from droveway.git.objects import Objects, identity_environment, message_bytes


class CommitWriter:
    """Writes loose commits by one author and committer at one time."""

    def __init__(self, objects: Objects, identities: bytes) -> None:
        """Take the two identity lines; use ``open``."""
        self._git_dir = str(objects.path)
        self.identities = identities

    @classmethod
    async def open(cls, objects: Objects, author: Identity, committer: Identity, when: datetime) -> CommitWriter:
        """Let git format the identities."""
        env = identity_environment(author, committer, when, when)
        lines = b""
        for who in ("AUTHOR", "COMMITTER"):
            lines += who.lower().encode() + b" " + await objects.call("var", f"GIT_{who}_IDENT", env=env)
        return cls(objects, lines)

    def write(self, tree: str, parents: Sequence[str], message: str) -> str:
        """Write one commit and give its SHA."""
        return write_commit(self._git_dir, self.identities, tree, parents, message_bytes(message))
