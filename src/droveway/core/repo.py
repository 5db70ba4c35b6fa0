"""The name of a repository."""

from __future__ import annotations

import re

import msgspec

from droveway.core.errors import InputError

_PART = re.compile(r"^[A-Za-z0-9_.-]+$")


class RepoId(msgspec.Struct, frozen=True, order=True):
    """``owner/name``."""

    owner: str
    name: str

    def __str__(self) -> str:
        """Give ``owner/name``."""
        return f"{self.owner}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> RepoId:
        """Read ``owner/name``; raise InputError where it is none."""
        owner, _, name = text.partition("/")
        parts = (owner, name)
        if not all(_PART.match(part) and part not in (".", "..") for part in parts):
            raise InputError(f"{text!r} is no repository: write owner/name")
        return cls(owner, name)
