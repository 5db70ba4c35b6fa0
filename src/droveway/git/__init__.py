"""Git without work trees: the one runner, mirrors, merges in the object database, places, gates and the relay."""

from __future__ import annotations

from droveway.git.checkout import Checkout
from droveway.git.effects import MoveRefsHandler
from droveway.git.gate import GateError
from droveway.git.locks import file_lock
from droveway.git.markers import conflict_markers
from droveway.git.merging import folded_pairs
from droveway.git.mirror import Mirror
from droveway.git.model import (
    AlreadyContained,
    CommitInfo,
    Conflict,
    Identity,
    LineEnds,
    Merged,
    MergeOutcome,
    PushResult,
    RefOutcome,
    RefResult,
    Remote,
    Replayed,
    SweepConflict,
    SweepContained,
    SweepFailure,
    SweepMerge,
    SweepResult,
)
from droveway.git.place import Place, RemovalResult, Removed
from droveway.git.refs import check_ref_name, clashing_ref
from droveway.git.relay import Relay, RelayOutcome, RelayResult
from droveway.git.runner import Git, GitError

__all__ = [
    "AlreadyContained",
    "Checkout",
    "CommitInfo",
    "Conflict",
    "GateError",
    "Git",
    "GitError",
    "Identity",
    "LineEnds",
    "MergeOutcome",
    "Merged",
    "Mirror",
    "MoveRefsHandler",
    "Place",
    "PushResult",
    "RefOutcome",
    "RefResult",
    "Relay",
    "RelayOutcome",
    "RelayResult",
    "Remote",
    "RemovalResult",
    "Removed",
    "Replayed",
    "SweepConflict",
    "SweepContained",
    "SweepFailure",
    "SweepMerge",
    "SweepResult",
    "check_ref_name",
    "clashing_ref",
    "conflict_markers",
    "file_lock",
    "folded_pairs",
]
