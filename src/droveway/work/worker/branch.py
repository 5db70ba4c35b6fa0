"""Where an attempt starts: its own earlier branch with the batch branch merged in, or the batch branch (BAT-164)."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
import structlog

from droveway.core.vocabulary import ATTIC_PREFIX, PROGRESS_DIR
from droveway.git import AlreadyContained, Conflict, Merged, Mirror
from droveway.work.worker import effects
from droveway.work.worker.files import without_progress
from droveway.work.worker.model import Work, WorkerError

FRESH_NOTE = "Merge conflict when updating resumed worker branch, starting fresh from batch branch."
LEGACY_PROGRESS = "WORKER_PROGRESS.md"
_BOX = re.compile(r"^\s*[-*+] \[([ xX])\] ", re.MULTILINE)


class Start(msgspec.Struct, frozen=True):
    """Where the agent starts.

    ``commit`` is checked out; ``seen`` is the forge's tip of the worker branch, None where there is none; ``batch`` the
    tip of the batch branch. ``progress`` is the checklist found, ``errors`` those of the last validation;
    ``validated`` says that the tip is a tree at which our validation passed. ``readable`` are branches to offer.
    """

    commit: str
    seen: str | None
    batch: str
    progress: str = ""
    errors: str = ""
    validated: bool = False
    readable: Mapping[str, str] = {}

    @property
    def all_ticked(self) -> bool:
        """Whether the checklist has a box and all are ticked (BAT-166)."""
        boxes = _BOX.findall(self.progress)
        return bool(boxes) and all(box != " " for box in boxes)


def progress_path(number: int) -> str:
    """Name the checklist that the agent keeps (BAT-161)."""
    return f"{PROGRESS_DIR}/{number}.md"


def marker_path(number: int) -> str:
    """Name the empty file that says that validation passed (BAT-152)."""
    return f"{PROGRESS_DIR}/{number}.validation"


def errors_path(number: int) -> str:
    """Name the file with the failing commands' output (BAT-152)."""
    return f"{PROGRESS_DIR}/{number}.validation.errors"


async def validation_files(work: Work, commit: str) -> list[str]:
    """Give which of the two validation files are in a commit."""
    return list(await work.mirror.list_files(commit, marker_path(work.number), errors_path(work.number)))


async def find_start(work: Work) -> Start:
    """Fetch, and decide where to start. Only a definite "not found" means that a branch is gone (BAT-165)."""
    mirror = work.mirror
    await mirror.fetch()
    head = f"refs/heads/{work.orders.branch}"
    batch_ref = f"refs/heads/{work.orders.batch_branch}"
    refs = await mirror.refs()  # as the fetch found them, which takes away here what the forge has not
    batch, tip = refs.get(batch_ref), refs.get(head)
    if batch is None:
        raise WorkerError(
            f"the batch branch {work.orders.batch_branch} does not exist",
            next_step="start the batch with herd dispatch --batch, or cancel it",
        )
    readable = await _readable(work, mirror)
    if tip is None or await mirror.is_ancestor(tip, batch):
        # A branch with nothing of its own is stale, not a result: it starts anew from the batch branch (case W07).
        return Start(batch, tip, batch, readable=readable)
    validated = await _validated(work, mirror, tip)
    merged = await mirror.merge(
        tip,
        batch,
        message=f"Merge {work.orders.batch_branch} into {work.orders.branch}",
        author=work.framework,
        committer=work.framework,
        when=work.times.started,
    )
    match merged:
        case Conflict():
            structlog.get_logger().warning(FRESH_NOTE, issue=work.number)
            await effects.drop_branch(work, tip, keep=True)
            attic = f"{ATTIC_PREFIX}{work.number}/{work.orders.attempt}"
            work.notes.append(f"{FRESH_NOTE} The old tip {tip} is kept for 30 days at {attic}.")
            return Start(batch, None, batch, readable=readable)
        case AlreadyContained():
            commit = tip
        case Merged(commit=commit):
            pass
    progress = await _text(mirror, commit, progress_path(work.number)) or await _text(mirror, commit, LEGACY_PROGRESS)
    errors = await _text(mirror, commit, errors_path(work.number))
    return Start(commit, tip, batch, progress, errors, validated, readable)


async def _validated(work: Work, mirror: Mirror, tip: str) -> bool:
    """Whether the tip carries our marker for exactly its tree; one that an agent made does not count (BAT-154)."""
    if await mirror.show_file(tip, marker_path(work.number)) is None:
        return False
    tree = await without_progress(mirror, tip)
    return any(record.validated_tree == tree for record in work.earlier)


async def _text(mirror: Mirror, commit: str, path: str) -> str:
    return ((await mirror.show_file(commit, path)) or b"").decode("utf-8", "replace").strip()


async def _readable(work: Work, mirror: Mirror) -> dict[str, str]:
    """Give the branches that a resolver may read: the base, the batch branch, the conflicting branches (BAT-135)."""
    front = work.task.front
    if not front.is_resolver:
        return {}
    repository = await work.fleet.forge.repository(work.repo)
    names = {repository.default_branch, work.orders.batch_branch, *front.conflicting_branches}
    names.discard(work.orders.branch)
    refs = await mirror.refs("refs/heads/")
    return {name: refs[f"refs/heads/{name}"] for name in sorted(names) if f"refs/heads/{name}" in refs}
