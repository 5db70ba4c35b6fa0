"""What a review is made of: the diff set, the reviewer's contract, findings, the aggregate (REV-010, REV-031)."""

from __future__ import annotations

import enum

import msgspec


class FileClass(enum.StrEnum):
    """How a changed file is treated (REV-013 … REV-017). Only ``source`` is material."""

    GENERATED = "generated"
    LOCKFILE = "lockfile"
    BINARY = "binary"
    METADATA = "metadata"
    SOURCE = "source"


class DiffFile(msgspec.Struct, frozen=True):
    """One changed file. ``patch`` is its part of the diff as text; ``size`` is in bytes; paths as git has them."""

    path: str
    status: str
    patch: str
    size: int
    added: int = 0
    removed: int = 0
    old_path: str = ""
    klass: FileClass = FileClass.SOURCE
    reason: str = ""


class DiffSet(msgspec.Struct, frozen=True):
    """Every changed file between ``base`` (the merge base) and ``head``; both are full SHAs."""

    source: str
    base: str
    head: str
    files: tuple[DiffFile, ...]
    complete: bool = True
    warnings: tuple[str, ...] = ()


class Piece(msgspec.Struct, frozen=True):
    """A file, or one of several parts of it, as a chunk shows it."""

    path: str
    text: str
    part: int = 1
    parts: int = 1


class Chunk(msgspec.Struct, frozen=True):
    """What one run of the reviewer sees."""

    number: int
    pieces: tuple[Piece, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """Give the chunk's paths in order, each once."""
        return tuple(dict.fromkeys(piece.path for piece in self.pieces))


class ChunkPlan(msgspec.Struct, frozen=True):
    """The chunks, and what they leave out: ``omitted`` and ``truncated`` are (path, reason)."""

    chunks: tuple[Chunk, ...]
    omitted: tuple[tuple[str, str], ...] = ()
    truncated: tuple[tuple[str, str], ...] = ()
    needed: int = 0

    @property
    def limited(self) -> bool:
        """Whether anything was left out at all."""
        return bool(self.omitted or self.truncated)


class Severity(enum.StrEnum):
    """REV-040 … REV-043."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"
    CRITERIA = "CRITERIA"


RANK = {Severity.HIGH: 0, Severity.MEDIUM: 1, Severity.LOW: 2, Severity.CRITERIA: 3}


class Finding(msgspec.Struct, frozen=True):
    """One finding of the reviewer."""

    severity: Severity
    description: str
    path: str = ""
    line: int | None = None
    symbol: str = ""
    title: str = ""


class ReviewerOutput(msgspec.Struct, frozen=True):
    """The reviewer's one JSON object; unknown keys are ignored, ``comments`` is the legacy list (REV-031)."""

    approved: bool
    summary: str
    findings: tuple[Finding, ...]


class ChunkResult(msgspec.Struct, frozen=True):
    """What came of one chunk: its output, or the error after the last try.

    ``breach`` says what the reviewer did that it must not: its answer counts for nothing then (REV-030).
    """

    number: int
    output: ReviewerOutput | None = None
    error: str = ""
    breach: str = ""


class Aggregate(msgspec.Struct, frozen=True):
    """All chunks together, deduplicated and in order."""

    findings: tuple[Finding, ...]
    raw: int
    summaries: tuple[str, ...] = ()
    refused_without_finding: bool = False
    failed_chunks: tuple[int, ...] = ()
    worst_high: int = 0


class ReviewStatus(enum.StrEnum):
    """The status in a result marker (REV-049)."""

    APPROVED = "approved"
    CHANGES_REQUESTED = "changes_requested"
    MAX_CYCLES = "max_cycles_hit"
    SAFETY_VALVE = "safety_valve"
    DISAGREEMENT = "disagreement"
    WAITING = "waiting"
    INVALID = "invalid"


class ReviewResult(msgspec.Struct, frozen=True):
    """The result marker of one head (REV-049); ``criteria`` counts findings that ask for a person (REV-044)."""

    pr_number: int
    head_sha: str
    base_sha: str
    status: ReviewStatus
    cycle: int
    findings_count: int
    findings: tuple[str, ...] = ()
    batch_number: int | None = None
    created_at: str = ""
    version: int = 1
    criteria: int = 0
