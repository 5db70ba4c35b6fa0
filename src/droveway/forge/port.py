"""The forge port: what the rooms may ask of a forge. Reads are for anyone; writes are for effect handlers alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from droveway.core.errors import HerdError
from droveway.core.repo import RepoId
from droveway.forge.model import (
    BatchSnapshot,
    CheckRunChange,
    Comment,
    HeadChecks,
    Issue,
    Milestone,
    Permission,
    Protection,
    PullRequest,
    Repository,
    RepoSnapshot,
    Review,
    ReviewThread,
)


class ForgeError(HerdError):
    """A call that failed for good. ``status`` is the HTTP status, 0 where no answer came."""

    def __init__(self, message: str, status: int = 0) -> None:
        """Hold one line for people and the status."""
        super().__init__(message)
        self.status = status


class NotFoundError(ForgeError):
    """A definite "not found" (404, 410): the only answer that means that a thing is gone (BAT-165)."""


class PermissionDeniedError(ForgeError):
    """A 403 that is no limit: it names the permission that is missing."""


class ConflictError(ForgeError):
    """A compare-and-set that lost: 409, or 405 of a merge."""


class ExistsError(ForgeError):
    """422 "already exists"."""


class LimitedError(ForgeError):
    """The rate limit stands for longer than the caller may wait; nothing was done."""


class IncompleteError(ForgeError):
    """An answer came, and a part of it is missing: a null list, a repeated page, ``errors`` beside the data."""


class EtagStore(Protocol):
    """Where answers are kept for conditional requests; ``droveway.store.Store`` is one."""

    async def etag(self, key: str) -> tuple[str, bytes] | None:
        """Give the ETag and the body that were last put under ``key``."""
        ...

    async def put_etag(self, key: str, etag: str, body: bytes) -> None:
        """Keep an answer with its ETag."""
        ...


class Forge(Protocol):
    """One forge, as one identity. Every method may raise ForgeError; ``None`` always means a definite "not found"."""

    login: str  # our own identity; known after ``connect``
    host: str  # the forge's host name, for places on disk
    git_url: (
        str  # prefix of clone URLs, e.g. ``http://127.0.0.1:8080``; a repository is at ``<git_url>/<owner>/<name>.git``
    )
    token: str

    async def connect(self) -> None:
        """Learn who we are."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...

    def requests(self) -> int:
        """Give the number of requests sent so far (counted per loop by ``counting``)."""
        ...

    # --- reads ---
    async def repository(self, repo: RepoId) -> Repository: ...
    async def repositories(self) -> tuple[Repository, ...]:
        """Give every repository that our identity may write to; ``Repository.name`` is ``owner/name``."""
        ...

    async def repo_snapshot(self, repo: RepoId) -> RepoSnapshot: ...
    async def batch_snapshot(self, repo: RepoId, milestone: int) -> BatchSnapshot: ...
    async def milestones(self, repo: RepoId, *, state: str = "all") -> tuple[Milestone, ...]: ...
    async def milestone(self, repo: RepoId, number: int) -> Milestone | None: ...
    async def issue(self, repo: RepoId, number: int) -> Issue | None: ...
    async def issues(
        self, repo: RepoId, *, milestone: int | None = None, state: str = "open", creator: str | None = None
    ) -> tuple[Issue, ...]: ...
    async def comments(self, repo: RepoId, number: int) -> tuple[Comment, ...]: ...
    async def pull(self, repo: RepoId, number: int) -> PullRequest | None:
        """Read the live single PR, with checks, reviews and unresolved threads (BAT-195)."""
        ...

    async def pull_live(self, repo: RepoId, number: int) -> PullRequest | None:
        """Read the live single PR in one request, without checks, reviews and threads: for a look before an effect."""
        ...

    async def pull_for(self, repo: RepoId, head: str, *, state: str = "all") -> PullRequest | None: ...
    async def threads(self, repo: RepoId, number: int) -> tuple[ReviewThread, ...]: ...
    async def reviews(self, repo: RepoId, number: int) -> tuple[Review, ...]: ...
    async def checks(self, repo: RepoId, sha: str) -> HeadChecks: ...
    async def protection(self, repo: RepoId, branch: str) -> Protection: ...
    async def permission(self, repo: RepoId, login: str) -> Permission: ...
    async def ref(self, repo: RepoId, ref: str) -> str | None: ...
    async def refs(self, repo: RepoId, prefix: str) -> dict[str, str]: ...
    async def file(self, repo: RepoId, path: str, *, ref: str | None = None) -> bytes | None: ...
    async def label_names(self, repo: RepoId) -> frozenset[str]: ...
    async def diff(self, repo: RepoId, number: int) -> bytes: ...

    # --- writes (effect handlers and creation only) ---
    async def create_repository(self, name: str, *, default_branch: str = "main") -> bool:
        """Create an empty repository of our own account; False where it exists already."""
        ...

    async def create_milestone(self, repo: RepoId, title: str, description: str) -> Milestone: ...
    async def edit_milestone(
        self, repo: RepoId, number: int, *, description: str | None = None, state: str | None = None
    ) -> Milestone: ...
    async def create_issue(
        self, repo: RepoId, title: str, body: str, *, labels: Sequence[str] = (), milestone: int | None = None
    ) -> Issue: ...
    async def edit_issue(
        self,
        repo: RepoId,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        state: str | None = None,
        labels: Sequence[str] | None = None,
        milestone: int | None = None,
    ) -> Issue:
        """Edit; ``labels`` replaces the whole list in the same request (BAT-057)."""
        ...

    async def add_labels(self, repo: RepoId, number: int, names: Sequence[str]) -> None: ...
    async def remove_label(self, repo: RepoId, number: int, name: str) -> None: ...
    async def ensure_label(self, repo: RepoId, name: str, color: str, description: str) -> bool:
        """Create the label or mend its colour and description; False where it was right already."""
        ...

    async def create_comment(self, repo: RepoId, number: int, body: str) -> Comment: ...
    async def edit_comment(self, repo: RepoId, comment_id: int, body: str) -> Comment: ...
    async def create_pull(self, repo: RepoId, *, title: str, body: str, head: str, base: str) -> PullRequest: ...
    async def merge_pull(
        self, repo: RepoId, number: int, *, sha: str, method: str, title: str = "", message: str = ""
    ) -> str: ...
    async def submit_review(self, repo: RepoId, number: int, *, sha: str, event: str, body: str) -> int: ...
    async def dismiss_review(self, repo: RepoId, number: int, review_id: int, message: str) -> None: ...
    async def set_status(self, repo: RepoId, sha: str, *, context: str, state: str, description: str = "") -> None: ...
    async def create_check_run(self, repo: RepoId, sha: str, name: str, *, external_id: str) -> int:
        """Report a check as queued; gives its id. On GitHub only an App may."""
        ...

    async def update_check_run(self, repo: RepoId, run_id: int, change: CheckRunChange) -> None: ...
    async def add_reaction(self, repo: RepoId, comment_id: int, content: str) -> None: ...
    async def create_ref(self, repo: RepoId, ref: str, sha: str) -> None: ...
    async def delete_ref(self, repo: RepoId, ref: str) -> None: ...
