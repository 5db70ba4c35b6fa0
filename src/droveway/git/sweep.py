"""A sweep: all candidates of a consolidation onto one tip, one merge commit each, in the object database (BAT-180)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

import msgspec

from droveway.git.attributes import install_attributes
from droveway.git.loose import CommitWriter
from droveway.git.merging import folding_warnings, merge_trees
from droveway.git.model import (
    Conflict,
    Identity,
    SweepConflict,
    SweepContained,
    SweepFailure,
    SweepMerge,
    SweepResult,
)
from droveway.git.objects import Objects
from droveway.git.runner import GitError

PROGRESS_PATHS = (".herd/progress", "WORKER_PROGRESS.md")
CLEANUP_MESSAGE = "Remove progress files"


class _History:
    """The commits that are not in the tip: which branch holds which, without asking git for each."""

    def __init__(self, parents: dict[str, tuple[str, ...]], attributes: set[str]) -> None:
        self._missing = parents
        self._attributes = attributes
        self._taken: set[str] = set()

    @classmethod
    async def read(cls, objects: Objects, tip: str, shas: Iterable[str]) -> _History:
        wanted = "".join(f"{sha}\n" for sha in shas)
        raw = await objects.call("rev-list", "--parents", "--stdin", stdin=f"{wanted}^{tip}\n".encode())
        rows = [line.split() for line in raw.decode().splitlines()]
        scope = "--\n:(glob)**/.gitattributes\n"
        raw = await objects.call("rev-list", "--full-history", "--stdin", stdin=f"{wanted}^{tip}\n{scope}".encode())
        return cls({row[0]: tuple(row[1:]) for row in rows}, set(raw.decode().split()))

    def contains(self, sha: str) -> bool:
        """Whether the commit is in what was merged so far."""
        return sha not in self._missing

    def apart(self, sha: str) -> bool:
        """Whether the commit shares nothing but the tip's own history with what was merged so far."""
        seen = set()
        stack = [sha]
        while stack:
            commit = stack.pop()
            if commit in self._taken:
                return False
            if commit in self._missing and commit not in seen:
                seen.add(commit)
                stack.extend(self._missing[commit])
        return True

    def take(self, sha: str) -> bool:
        """Count the commit and all its ancestors as merged; tell whether any of them touched attributes."""
        touched = False
        stack = [sha]
        while stack:
            commit = stack.pop()
            parents = self._missing.pop(commit, None)
            if parents is not None:
                self._taken.add(commit)
                touched |= commit in self._attributes
                stack.extend(parents)
        return touched


async def run_sweep(
    objects: Objects,
    tip: str,
    branches: Sequence[tuple[int, str, str]],
    *,
    message: Callable[[int, str], str],
    author: Identity,
    committer: Identity,
    when: datetime,
    remove: Sequence[str] = PROGRESS_PATHS,
    cleanup_message: str = CLEANUP_MESSAGE,
) -> SweepResult:
    """Merge every branch that merges; what does not is listed and left out. The caller holds the repository's lock."""
    ordered = sorted(branches)
    present, failed = await _present(objects, ordered)
    history = await _History.read(objects, tip, [sha for _, _, sha in present])
    await install_attributes(objects, tip)
    writer = await CommitWriter.open(objects, author, committer, when)
    head = stand_in = tip
    merged: list[SweepMerge] = []
    contained: list[SweepContained] = []
    conflicts: list[SweepConflict] = []
    for number, branch, sha in present:
        if history.contains(sha):
            contained.append(SweepContained(number, branch, sha))
            continue
        try:
            # The merge base is found by walking the history, which grows by each merge. A stand-in with the same tree
            # right on the tip has the same bases, as long as this branch shares nothing with those merged before.
            ours = stand_in if history.apart(sha) else head
            found = await merge_trees(objects, ours, sha)
            if isinstance(found, Conflict):
                conflicts.append(SweepConflict(number, branch, sha, _named(found, {ours: "ours", sha: branch})))
                continue
        except GitError as error:
            failed.append(SweepFailure(number, branch, sha, str(error)))
            continue
        head = writer.write(found.tree, [head, sha], message(number, branch))
        stand_in = writer.write(found.tree, [tip], "stand-in")
        merged.append(SweepMerge(number, branch, sha, head))
        if history.take(sha):
            await install_attributes(objects, head)
    warnings = await folding_warnings(objects, tip, head) if merged else ()
    tree, removed = await objects.without(head, remove) if remove else ("", ())
    cleanup = None
    if removed:
        cleanup = head = writer.write(tree, [head], cleanup_message)
    return SweepResult(
        tip=tip,
        final=head,
        merged=tuple(merged),
        contained=tuple(contained),
        conflicts=tuple(conflicts),
        failed=tuple(sorted(failed, key=lambda f: f.number)),
        cleanup=cleanup,
        removed=removed,
        warnings=warnings,
    )


def _named(conflict: Conflict, names: dict[str, str]) -> Conflict:
    """Put names for the SHAs in git's sentences."""
    messages = conflict.messages
    for sha, name in names.items():
        messages = tuple(message.replace(sha, name) for message in messages)
    return msgspec.structs.replace(conflict, messages=messages)


async def _present(
    objects: Objects, branches: Sequence[tuple[int, str, str]]
) -> tuple[list[tuple[int, str, str]], list[SweepFailure]]:
    """Part the branches into those whose commit we have and those whose we have not."""
    asked = "".join(f"{sha}^{{commit}}\n" for _, _, sha in branches).encode()
    answers = (await objects.call("cat-file", "--batch-check", stdin=asked)).decode().splitlines() if branches else []
    present: list[tuple[int, str, str]] = []
    failed: list[SweepFailure] = []
    for (number, branch, sha), answer in zip(branches, answers, strict=True):
        if answer.split(" ")[:2] == [sha, "commit"]:
            present.append((number, branch, sha))
        else:
            failed.append(SweepFailure(number, branch, sha, f"the commit {sha} is not in the mirror"))
    return present, failed
