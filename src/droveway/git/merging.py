"""Merges in the object database: ``git merge-tree`` and ``git commit-tree``, nothing checked out (BAT-180)."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from droveway.git.model import Conflict, Identity, Replayed
from droveway.git.objects import Objects, records, text_of
from droveway.git.runner import GitError


class CleanTree(msgspec.Struct, frozen=True):
    """The tree of a merge without conflict."""

    tree: str


async def merge_trees(objects: Objects, ours: str, theirs: str) -> CleanTree | Conflict:
    """Merge two commits into a tree. Exit 0 is clean, 1 a conflict (the tree it names is never used), others errors."""
    done = await objects.git.run(
        "merge-tree", "--write-tree", "-z", "--end-of-options", ours, theirs, git_dir=objects.path, ok=(0, 1)
    )
    if done.code == 0:
        return CleanTree(done.stdout.split(b"\0", 1)[0].decode().strip())
    return parse_conflict(done.stdout)


def parse_conflict(raw: bytes) -> Conflict:
    """Read the ``-z`` output of a conflicted merge: stages, an empty record, then messages with their paths."""
    parts = raw.split(b"\0")
    at = 1  # after the tree
    paths = set()
    while at < len(parts) and parts[at]:
        paths.add(parts[at].partition(b"\t")[2])
        at += 1
    at += 1
    kinds: list[str] = []
    messages: list[str] = []
    while at < len(parts) and parts[at].strip().isdigit():
        count = int(parts[at])
        named = parts[at + 1 : at + 1 + count]
        kind, message = (text_of(part) for part in parts[at + 1 + count : at + 3 + count])
        if kind.startswith("CONFLICT"):
            paths.update(named)
            messages.append(message.strip())
            if kind not in kinds:
                kinds.append(kind)
        at += 3 + count
    return Conflict(tuple(sorted(text_of(path) for path in paths)), tuple(messages), tuple(kinds))


def folded_pairs(paths: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """Give the groups of files or folders that a case-insensitive disk would take for one (case G05)."""
    groups: dict[tuple[str, str], set[str]] = defaultdict(set)
    seen: set[str] = set()
    for path in paths:
        name = path
        while name and name not in seen:
            seen.add(name)
            folder, _, last = name.rpartition("/")
            # Grouped within one folder: of two folders that fold, the files in them are not named again one by one.
            groups[folder, unicodedata.normalize("NFC", last).casefold()].add(name)
            name = folder
    return tuple(sorted(tuple(sorted(group)) for group in groups.values() if len(group) > 1))


async def folding_warnings(objects: Objects, before: str, after: str) -> tuple[str, ...]:
    """Name the paths that fold to one name in ``after`` and did not in ``before``."""
    listed = [
        text_of(p) for p in records(await objects.call("ls-tree", "-r", "-z", "--name-only", "--full-tree", after))
    ]
    pairs = folded_pairs(listed)
    if not pairs:
        return ()
    known = set(folded_pairs(await objects.list_files(before)))
    return tuple(f"{' and '.join(pair)} differ only in case" for pair in pairs if pair not in known)


async def replay(
    objects: Objects, onto: str, commits: Sequence[str], *, committer: Identity, when: datetime
) -> Replayed | Conflict:
    """Put commits (oldest first) onto another base, each as its change against its first parent.

    ``--merge-base`` is absent in git 2.39: two synthetic commits on the change's own parent make that the merge base.
    Commits whose change is there already vanish. Authors and their times stay.
    """
    tip, done = onto, []
    for sha in commits:
        info = await objects.commit_info(sha)
        if not info.parents:
            raise GitError(("git", "replay", sha), 128, f"{sha} has no parent: there is no change to replay")
        base = info.parents[0]
        here = await objects.tree_of(tip)
        ours = await objects.commit_tree(here, [base], "ours", committer, committer, when)
        theirs = await objects.commit_tree(info.tree, [base], "theirs", committer, committer, when)
        merged = await merge_trees(objects, ours, theirs)
        if isinstance(merged, Conflict):
            return merged
        if merged.tree == here:
            continue
        tip = await objects.commit_tree(
            merged.tree, [tip], info.message, info.author, committer, when, authored=info.authored_at
        )
        done.append((sha, tip))
    return Replayed(tip, tuple(done))
