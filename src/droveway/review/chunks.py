"""Planning the reviewer's chunks: deterministic, one pass, O(files + bytes) (REV-019 … REV-022)."""

from __future__ import annotations

import posixpath
import re

from droveway.core.settings import ReviewDiff
from droveway.core.text import byte_length, cut_bytes
from droveway.review.model import Chunk, ChunkPlan, DiffFile, DiffSet, FileClass, Piece

_HUNK_START = re.compile(r"^(?=@@ )", re.MULTILINE)


def plan_chunks(diff: DiffSet, limits: ReviewDiff) -> ChunkPlan:
    """Pack the material files into chunks within ``limits``; what is not material is summarised by its reason.

    Files of one directory stay together and tests stand next to their sources, where the limits allow.
    """
    truncated: list[tuple[str, str]] = []
    pieces: list[Piece] = []
    for file in sorted((file for file in diff.files if file.klass is FileClass.SOURCE), key=_near):
        pieces += _pieces(file, limits, truncated)
    chunks: list[Chunk] = []
    current: list[Piece] = []
    size = 0
    for piece in pieces:
        length = byte_length(piece.text)
        files = len({item.path for item in current} | {piece.path})
        if current and (size + length > limits.max_chunk_bytes or files > limits.max_files_per_chunk):
            chunks.append(Chunk(len(chunks) + 1, tuple(current)))
            current, size = [], 0
        current.append(piece)
        size += length
    if current:
        chunks.append(Chunk(len(chunks) + 1, tuple(current)))
    kept, dropped = chunks[: limits.max_chunks], chunks[limits.max_chunks :]
    omitted = [(file.path, f"{file.klass}: {file.reason}") for file in diff.files if file.klass is not FileClass.SOURCE]
    seen = {path for chunk in kept for path in chunk.paths}
    for path in dict.fromkeys(path for chunk in dropped for path in chunk.paths):
        (truncated if path in seen else omitted).append((path, f"beyond max_chunks ({limits.max_chunks})"))
    return ChunkPlan(tuple(kept), tuple(omitted), tuple(truncated), needed=len(chunks))


def material_gaps(diff: DiffSet, plan: ChunkPlan) -> tuple[str, ...]:
    """Give the source files that nobody saw whole: each blocks approval (REV-020, REV-026)."""
    material = {file.path for file in diff.files if file.klass is FileClass.SOURCE}
    missing = {path for path, _ in (*plan.omitted, *plan.truncated) if path in material}
    missing |= {file.path for file in diff.files if file.klass is FileClass.SOURCE and not file.patch}
    return tuple(sorted(missing))


def _near(file: DiffFile) -> tuple[str, str, int, str]:
    """Order by directory and stem without a test's prefix or suffix, so that a test stands next to its source."""
    folder, name = posixpath.split(file.path)
    stem = re.sub(r"^test_|_test(?=\.)|\.(?:test|spec)(?=\.)", "", name)
    folder = re.sub(r"(^|/)(?:tests?|__tests__)(?=/|$)", r"\1", folder).strip("/")
    return folder, stem, int(name != stem), file.path


def _pieces(file: DiffFile, limits: ReviewDiff, truncated: list[tuple[str, str]]) -> list[Piece]:
    if file.size <= limits.max_file_bytes:
        return [Piece(file.path, file.patch)]
    header, *hunks = _HUNK_START.split(file.patch)
    parts: list[str] = []
    current = header
    for whole in hunks:
        room = limits.max_chunk_bytes - byte_length(header)
        hunk = whole
        if byte_length(whole) > room:
            hunk = cut_bytes(whole, room, "\n[cut: this hunk is larger than a chunk]\n")
            truncated.append((file.path, "one hunk is larger than a chunk"))
        if current != header and byte_length(current) + byte_length(hunk) > limits.max_file_bytes:
            parts.append(current)
            current = header
        current += hunk
    parts.append(current)
    return [Piece(file.path, text, index + 1, len(parts)) for index, text in enumerate(parts)]
