"""What git's answers look like here: identities, merges, conflicts, pushes, sweeps. Frozen data only."""

from __future__ import annotations

import base64
import enum
from datetime import datetime
from typing import TypeAlias
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec


class Identity(msgspec.Struct, frozen=True):
    """Who a commit is by."""

    name: str
    email: str


class Remote(msgspec.Struct, frozen=True):
    """Where a repository is pushed to and fetched from. ``token`` travels in the child's environment only."""

    url: str
    token: str = ""

    @classmethod
    def of(cls, url: str, token: str = "") -> Remote:
        """Take a credential out of ``url``, where it would reach argument lists and error texts."""
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and "@" in parts.netloc:
            user, _, host = parts.netloc.rpartition("@")
            name, _, password = user.partition(":")
            return cls(urlunsplit(parts._replace(netloc=host)), token or unquote(password or name))
        return cls(url, token)

    @property
    def basic(self) -> str:
        """Give the value of the Basic scheme, which is as secret as the token."""
        return base64.b64encode(f"x-access-token:{self.token}".encode()).decode()

    def config(self) -> dict[str, str]:
        """Give the git settings that authenticate, bound to this remote's own host."""
        parts = urlsplit(self.url)
        if not self.token or parts.scheme not in ("http", "https"):
            return {}
        return {f"http.{parts.scheme}://{parts.netloc}/.extraHeader": f"Authorization: Basic {self.basic}"}


class Merged(msgspec.Struct, frozen=True, tag="merged"):
    """A clean merge: its commit and tree. ``warnings`` names paths that fold to one name (case G05)."""

    commit: str
    tree: str
    warnings: tuple[str, ...] = ()


class Conflict(msgspec.Struct, frozen=True, tag="conflict"):
    """A merge that git would not make. ``paths`` are all conflicted paths, sorted; ``kinds`` git's short type names
    (``CONFLICT (rename/rename)``), ``messages`` its sentences. Nothing was committed.
    """

    paths: tuple[str, ...]
    messages: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()


class AlreadyContained(msgspec.Struct, frozen=True, tag="contained"):
    """There is nothing to merge: ``theirs`` is an ancestor of ``ours``."""


MergeOutcome: TypeAlias = Merged | Conflict | AlreadyContained


class Replayed(msgspec.Struct, frozen=True, tag="replayed"):
    """Commits replayed onto another base: the new tip, and (old, new) for each commit that left a change."""

    tip: str
    commits: tuple[tuple[str, str], ...] = ()


class RefOutcome(enum.StrEnum):
    """What happened to one ref of a push."""

    OK = "ok"
    STALE = "stale"  # the race was lost: the ref is no longer at ``old``
    REJECTED = "rejected"  # the forge does not want it (protection, hook, missing right)
    ABORTED = "aborted"  # another ref of the same atomic push failed


class RefResult(msgspec.Struct, frozen=True):
    """One ref's outcome, with the reason that the forge gave."""

    ref: str
    outcome: RefOutcome
    reason: str = ""


class PushResult(msgspec.Struct, frozen=True):
    """All refs of one push, in the order asked."""

    refs: tuple[RefResult, ...]

    @property
    def ok(self) -> bool:
        """Whether every ref moved."""
        return all(ref.outcome is RefOutcome.OK for ref in self.refs)

    @property
    def outcome(self) -> RefOutcome:
        """Give the push's outcome: a rejection outweighs a lost race, because a retry can't help it."""
        found = {ref.outcome for ref in self.refs}
        for outcome in (RefOutcome.REJECTED, RefOutcome.STALE, RefOutcome.ABORTED):
            if outcome in found:
                return outcome
        return RefOutcome.OK

    @property
    def reason(self) -> str:
        """Give one line that says which refs failed and why."""
        bad = [r for r in self.refs if r.outcome in (RefOutcome.REJECTED, RefOutcome.STALE)] or [
            r for r in self.refs if r.outcome is not RefOutcome.OK
        ]
        return "; ".join(f"{ref.ref}: {ref.reason or ref.outcome.value}" for ref in bad)


class CommitInfo(msgspec.Struct, frozen=True):
    """One commit. ``at`` is the committer's time in UTC; ``message`` is whole."""

    sha: str
    tree: str
    parents: tuple[str, ...]
    author: Identity
    committer: Identity
    authored_at: datetime
    at: datetime
    message: str

    @property
    def subject(self) -> str:
        """Give the first line."""
        return self.message.partition("\n")[0]


class LineEnds(msgspec.Struct, frozen=True):
    """A file of which mostly the line ends changed (case G06): changed lines, and those left ignoring CR."""

    path: str
    changed: int
    real: int


class SweepMerge(msgspec.Struct, frozen=True):
    """One branch that was merged by a sweep, and its merge commit."""

    number: int
    branch: str
    sha: str
    commit: str


class SweepContained(msgspec.Struct, frozen=True):
    """One branch whose work is in the tip already (BAT-179)."""

    number: int
    branch: str
    sha: str


class SweepConflict(msgspec.Struct, frozen=True):
    """One branch that conflicts with what was merged before it."""

    number: int
    branch: str
    sha: str
    conflict: Conflict


class SweepFailure(msgspec.Struct, frozen=True):
    """One branch that could not be merged for another reason (a missing object, an unrelated history)."""

    number: int
    branch: str
    sha: str
    reason: str


class SweepResult(msgspec.Struct, frozen=True):
    """What a sweep made of all candidates. ``final`` is the new tip to push, equal to ``tip`` if nothing changed.

    ``cleanup`` is the clean-up commit (BAT-163) or None; ``warnings`` are new names that differ only in case.
    """

    tip: str
    final: str
    merged: tuple[SweepMerge, ...] = ()
    contained: tuple[SweepContained, ...] = ()
    conflicts: tuple[SweepConflict, ...] = ()
    failed: tuple[SweepFailure, ...] = ()
    cleanup: str | None = None
    removed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether there is anything to push."""
        return self.final != self.tip
