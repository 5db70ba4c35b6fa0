"""The forge room: GitHub's protocol, to GitHub itself or to the embedded forge (FRG-001 … FRG-010)."""

from typing import TYPE_CHECKING, Any

from droveway.forge.comments import MissingPartError, find_by_key, fit, join_parts, post, render, split_body
from droveway.forge.counting import Count, Counters, Priority
from droveway.forge.credentials import TOKEN_VARIABLES, find_token
from droveway.forge.effects import handlers
from droveway.forge.facts import check_state, conflict_of, pull_facts, readiness_of
from droveway.forge.limits import Bucket
from droveway.forge.model import (
    Annotation,
    BatchSnapshot,
    CheckRun,
    CheckRunChange,
    Comment,
    CommitStatus,
    HeadChecks,
    Issue,
    MergeState,
    Milestone,
    Permission,
    Protection,
    PullRequest,
    Repository,
    RepoSnapshot,
    Review,
    ReviewState,
    ReviewThread,
)
from droveway.forge.port import (
    ConflictError,
    EtagStore,
    ExistsError,
    Forge,
    ForgeError,
    IncompleteError,
    LimitedError,
    NotFoundError,
    PermissionDeniedError,
)

if TYPE_CHECKING:
    from droveway.forge.github import GitHubForge

__all__ = [
    "TOKEN_VARIABLES",
    "Annotation",
    "BatchSnapshot",
    "Bucket",
    "CheckRun",
    "CheckRunChange",
    "Comment",
    "CommitStatus",
    "ConflictError",
    "Count",
    "Counters",
    "EtagStore",
    "ExistsError",
    "Forge",
    "ForgeError",
    "GitHubForge",
    "HeadChecks",
    "IncompleteError",
    "Issue",
    "LimitedError",
    "MergeState",
    "Milestone",
    "MissingPartError",
    "NotFoundError",
    "Permission",
    "PermissionDeniedError",
    "Priority",
    "Protection",
    "PullRequest",
    "RepoSnapshot",
    "Repository",
    "Review",
    "ReviewState",
    "ReviewThread",
    "check_state",
    "conflict_of",
    "find_by_key",
    "find_token",
    "fit",
    "handlers",
    "join_parts",
    "post",
    "pull_facts",
    "readiness_of",
    "render",
    "split_body",
]


def __getattr__(name: str) -> Any:
    """Import the client when it is first asked for: whoever needs the model alone does not wait for httpx."""
    if name == "GitHubForge":
        from droveway.forge.github import GitHubForge

        return GitHubForge
    raise AttributeError(name)
