"""Commits and differences read from git into data. What a SHA names never changes, so it is kept in memory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

import msgspec

from droveway.localforge.db import stamp
from droveway.localforge.gitrepo import ZERO, GitRepo
from droveway.localforge.kernel import Kernel

EMPTY_TREE: Final = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_PERSON: Final = re.compile(r"^(.*?) ?<(.*?)> (\d+) ([+-]\d{4})$")


class Person(msgspec.Struct, frozen=True):
    """An author or committer; ``date`` as GitHub writes it, ``raw`` as git does (``seconds zone``)."""

    name: str
    email: str
    date: str
    raw: str
    local: str  # with the person's own zone, ISO 8601


class Commit(msgspec.Struct, frozen=True):
    """A commit object."""

    sha: str
    tree: str
    parents: tuple[str, ...]
    author: Person
    committer: Person
    message: str

    @property
    def title(self) -> str:
        """The message's first line."""
        return self.message.split("\n", 1)[0]


class FileChange(msgspec.Struct, frozen=True):
    """One file of a difference. ``patch`` is None for binary and oversized files."""

    path: str
    status: str  # added, removed, modified, renamed, copied, changed
    additions: int
    deletions: int
    sha: str
    previous: str | None = None
    patch: str | None = None


def person(text: str) -> Person:
    """Read ``Name <email> seconds zone``; what is odd becomes the epoch."""
    match = _PERSON.match(text)
    if not match:
        return Person(text, "", "1970-01-01T00:00:00Z", "0 +0000", "1970-01-01T00:00:00+00:00")
    name, email, seconds, zone = match.groups()
    offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[3:])) * (-1 if zone[0] == "-" else 1)
    try:
        moment = datetime.fromtimestamp(int(seconds), UTC)
        local = moment.astimezone(timezone(offset)).isoformat()
    except (OverflowError, ValueError, OSError):
        moment, local = datetime(1970, 1, 1, tzinfo=UTC), "1970-01-01T00:00:00+00:00"
    return Person(name, email, stamp(moment), f"{seconds} {zone}", local)


def _parse(sha: str, raw: bytes) -> Commit:
    head, _, message = raw.decode("utf-8", "replace").partition("\n\n")
    tree, parents, people = "", [], {}
    for line in head.split("\n"):
        key, _, value = line.partition(" ")
        if key == "tree":
            tree = value
        elif key == "parent":
            parents.append(value)
        elif key in ("author", "committer"):
            people[key] = person(value)
    return Commit(sha, tree, tuple(parents), people["author"], people["committer"], message.rstrip("\n"))


def commits(kernel: Kernel, git: GitRepo, shas: Sequence[str]) -> list[Commit]:
    """Give the commits of these full SHAs, in order; those that do not exist are left out."""
    known: dict[str, Commit | None] = {sha: kernel.commits.get(sha) for sha in shas}
    missing = [sha for sha, found in known.items() if found is None]
    if missing:
        out = git.run("cat-file", "--batch", stdin="".join(f"{sha}\n" for sha in missing).encode())
        at = 0
        for sha in missing:
            end = out.index(b"\n", at)
            parts = out[at:end].split()
            at = end + 1
            if len(parts) != 3:
                continue
            size = int(parts[2])
            if parts[1] == b"commit":
                known[sha] = kernel.commits.put(sha, _parse(sha, out[at : at + size]))
            at += size + 1
    return [found for sha in shas if (found := known[sha]) is not None]


def commit(kernel: Kernel, git: GitRepo, sha: str) -> Commit | None:
    """Give one commit, or None. The object must be in *this* repository also where the memory knows it."""
    found = commits(kernel, git, [sha])
    return found[0] if found else None


def diff(git: GitRepo, old: str, new: str) -> bytes:
    """Give the patch text between two trees or commits, with renames found."""
    return git.run(
        "diff", "--no-color", "--no-ext-diff", "--no-textconv", "-M", "--full-index", "--binary", old, new, "--"
    )


def patch_series(git: GitRepo, old: str, new: str) -> bytes:
    """Give the commits in ``new`` and not in ``old`` as ``git format-patch`` writes them."""
    return git.run(
        "format-patch", "--stdout", "--no-color", "--no-ext-diff", "--no-textconv", "--no-signature", f"{old}..{new}"
    )


_STATUS: Final = {"A": "added", "D": "removed", "M": "modified", "R": "renamed", "C": "copied", "T": "changed"}


def changed_files(git: GitRepo, old: str, new: str, *, patches: bool = True) -> list[FileChange]:
    """Give the files that differ, in the order of their names."""
    flags = ("--no-color", "--no-ext-diff", "--no-textconv", "-M", "--full-index")
    raw = git.run("diff", *flags, "--raw", "--numstat", "-z", "--no-abbrev", old, new, "--").split(b"\0")
    entries: list[tuple[str, str, str | None, str]] = []  # status, path, previous, sha
    counts: dict[str, tuple[int, int]] = {}
    index = 0
    while index < len(raw) and raw[index]:
        record = raw[index].decode("utf-8", "replace")
        if record.startswith(":"):
            fields = record[1:].split(" ")
            letter = fields[4][0]
            sha = fields[3] if letter != "D" else fields[2]
            first = raw[index + 1].decode("utf-8", "replace")
            if letter in "RC":
                entries.append((letter, raw[index + 2].decode("utf-8", "replace"), first, sha))
                index += 3
            else:
                entries.append((letter, first, None, sha))
                index += 2
            continue
        plus, minus, name = record.split("\t", 2)
        if not name:
            name = raw[index + 2].decode("utf-8", "replace")
            index += 2
        counts[name] = (int(plus) if plus != "-" else 0, int(minus) if minus != "-" else 0)
        index += 1
    texts = _patches(git, old, new, flags) if patches and entries else {}
    return [
        FileChange(path, _STATUS.get(letter, "changed"), *counts.get(path, (0, 0)), sha, previous, texts.get(path))
        for letter, path, previous, sha in entries
    ]


def _patches(git: GitRepo, old: str, new: str, flags: Sequence[str]) -> dict[str, str]:
    """Give each file's hunks by its name. Binary files have none."""
    text = git.run("-c", "core.quotePath=false", "diff", *flags, old, new, "--").decode("utf-8", "replace")
    found: dict[str, str] = {}
    for section in re.split(r"(?m)^diff --git ", text)[1:]:
        start = section.find("\n@@ ")
        if start < 0:
            continue
        head = section[:start]
        name = re.search(r"(?m)^\+\+\+ (?:b/(.*)|/dev/null)$", head)
        path = name.group(1) if name else None
        if path is None:
            gone = re.search(r"(?m)^--- a/(.*)$", head)
            path = gone.group(1) if gone else None
        if path is not None:
            body = section[start + 1 :].rstrip("\n")
            if len(body) <= 1_000_000:
                found[path.rstrip("\t")] = body
    return found


def moved_line(git: GitRepo, old: str, new: str, path: str, line: int) -> int | None:
    """Give the number that ``line`` of ``path`` at ``old`` has at ``new``, or None where that line was changed."""
    out = git.run("diff", "--no-color", "--no-ext-diff", "--no-textconv", "-U0", "-M", old, new, "--", path).decode(
        "utf-8", "replace"
    )
    shift = 0
    for match in re.finditer(r"(?m)^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", out):
        start, length = int(match.group(1)), int(match.group(2) or 1)
        if length == 0:
            if start >= line:
                break
        elif start > line:
            break
        elif line < start + length:
            return None
        shift += int(match.group(4) or 1) - length
    return line + shift


def exists(git: GitRepo, sha: str) -> bool:
    """Whether this is the SHA of a commit in the repository."""
    return sha != ZERO and git.kind(sha) == "commit"
