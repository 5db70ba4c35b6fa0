"""A sweep: all candidates of a consolidation onto one tip, one merge commit each, in the object database (BAT-180)."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from droveway.git import chain
from droveway.git.attributes import install_attributes
from droveway.git.chain import History
from droveway.git.loose import CommitWriter
from droveway.git.merging import folding_warnings, parse_conflict
from droveway.git.model import (
    Conflict,
    Identity,
    SweepConflict,
    SweepContained,
    SweepFailure,
    SweepMerge,
    SweepResult,
)
from droveway.git.objects import Objects, message_bytes
from droveway.git.runner import DEFAULT_TIMEOUT, GitError

PROGRESS_PATHS = (".herd/progress", "WORKER_PROGRESS.md")
CLEANUP_MESSAGE = "Remove progress files"
_SECONDS_PER_BRANCH = 5.0


async def _history(objects: Objects, tip: str, shas: Iterable[str]) -> History:
    wanted = "".join(f"{sha}\n" for sha in shas)
    raw = await objects.call("rev-list", "--parents", "--stdin", stdin=f"{wanted}^{tip}\n".encode())
    rows = [line.split() for line in raw.decode().splitlines()]
    scope = "--\n:(glob)**/.gitattributes\n"
    raw = await objects.call("rev-list", "--full-history", "--stdin", stdin=f"{wanted}^{tip}\n{scope}".encode())
    return History({row[0]: tuple(row[1:]) for row in rows}, raw.decode().split())


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
    writer = await CommitWriter.open(objects, author, committer, when)
    loop = _Loop(objects, writer, tip, await _history(objects, tip, [sha for _, _, sha in present]))
    await loop.run([(number, branch, sha, message(number, branch)) for number, branch, sha in present])
    head = loop.head
    warnings = await folding_warnings(objects, tip, head) if loop.merged else ()
    tree, removed = await objects.without(head, remove) if remove else ("", ())
    cleanup = None
    if removed:
        cleanup = head = writer.write(tree, [head], cleanup_message)
    return SweepResult(
        tip=tip,
        final=head,
        merged=tuple(loop.merged),
        contained=tuple(loop.contained),
        conflicts=tuple(loop.conflicts),
        failed=tuple(sorted([*failed, *loop.failed], key=lambda f: f.number)),
        cleanup=cleanup,
        removed=removed,
        warnings=warnings,
    )


class _Loop:
    """Runs the chain program, once or, where attributes change on the way, a few times; sorts what it tells."""

    def __init__(self, objects: Objects, writer: CommitWriter, tip: str, history: History) -> None:
        self._objects = objects
        self._writer = writer
        self._tip = tip
        self._history = history
        self.head = tip
        self.merged: list[SweepMerge] = []
        self.contained: list[SweepContained] = []
        self.conflicts: list[SweepConflict] = []
        self.failed: list[SweepFailure] = []

    async def run(self, branches: Sequence[tuple[int, str, str, str]]) -> None:
        """Merge all: (number, branch, SHA, message)."""
        left = list(branches)
        stand_in = self._tip
        while left:
            await install_attributes(self._objects, self.head)
            told = await self._chain(left, stand_in)
            events = told["events"]
            for (number, branch, sha, _), event in zip(left, events, strict=False):
                self._sort(number, branch, sha, event)
            left = left[len(events) :]
            self.head, stand_in = told["head"], told["stand_in"]

    async def _chain(self, left: Sequence[tuple[int, str, str, str]], stand_in: str) -> dict[str, Any]:
        request = {
            "git_dir": str(self._objects.path),
            "tip": self._tip,
            "head": self.head,
            "stand_in": stand_in,
            "identities": base64.b64encode(self._writer.identities).decode(),
            "missing": self._history.missing,
            "attributes": sorted(self._history.attributes),
            "taken": sorted(self._history.taken),
            "branches": [(sha, base64.b64encode(message_bytes(text)).decode()) for _, _, sha, text in left],
        }
        argv = (sys.executable, "-I", "-S", chain.__file__)
        limit = DEFAULT_TIMEOUT + _SECONDS_PER_BRANCH * len(left)
        done = await self._objects.git.helper(*argv, stdin=json.dumps(request).encode(), timeout=limit)
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def _sort(self, number: int, branch: str, sha: str, event: dict[str, Any]) -> None:
        match event["kind"]:
            case "merged":
                self._history.take(sha)
                self.merged.append(SweepMerge(number, branch, sha, event["commit"]))
            case "contained":
                self.contained.append(SweepContained(number, branch, sha))
            case _ if event["code"] == 1:
                found = parse_conflict(base64.b64decode(event["out"]))
                named = _named(found, {event["ours"]: "ours", sha: branch})
                self.conflicts.append(SweepConflict(number, branch, sha, named))
            case _:
                error = GitError(("git", "merge-tree"), event["code"], event["err"])
                self.failed.append(SweepFailure(number, branch, sha, str(error)))


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
