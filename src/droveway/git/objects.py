"""One object database: what can be read from it and written into it without a work tree, by our own git directory."""

from __future__ import annotations

import fnmatch
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from droveway.git.model import CommitInfo, Identity, LineEnds
from droveway.git.refs import SHA
from droveway.git.runner import Git

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_FORMAT = "%H%x00%T%x00%P%x00%an%x00%ae%x00%cn%x00%ce%x00%at%x00%ct%x00%B"
_FIELDS = 10
_DIFF = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-relative")


def text_of(raw: bytes) -> str:
    """Read a path or a message; bad bytes are replaced, not fatal (case X08)."""
    return raw.decode("utf-8", "replace")


def records(raw: bytes) -> list[bytes]:
    """Split ``-z`` output."""
    return [part for part in raw.split(b"\0") if part]


def identity_environment(author: Identity, committer: Identity, authored: datetime, when: datetime) -> dict[str, str]:
    """Give the variables that make a commit's two identities and times, whatever the machine is set to."""
    return {
        "GIT_AUTHOR_NAME": author.name,
        "GIT_AUTHOR_EMAIL": author.email,
        "GIT_AUTHOR_DATE": f"@{int(authored.timestamp())} +0000",
        "GIT_COMMITTER_NAME": committer.name,
        "GIT_COMMITTER_EMAIL": committer.email,
        "GIT_COMMITTER_DATE": f"@{int(when.timestamp())} +0000",
    }


def message_bytes(message: str) -> bytes:
    """Give a commit message as it is stored: no NUL, which git refuses, and a last line that ends."""
    text = message.replace("\0", "").encode("utf-8", "replace")
    return text if not text or text.endswith(b"\n") else text + b"\n"


class Objects:
    """The object database of one bare repository of ours. A revision is a SHA or a full ref name."""

    def __init__(self, git: Git, path: Path) -> None:
        """Use the git directory ``path``."""
        self.git = git
        self.path = path

    async def call(
        self, *args: str, stdin: bytes | None = None, env: Mapping[str, str] | None = None, ok: Sequence[int] = (0,)
    ) -> bytes:
        """Run git in this repository and give its output."""
        return (await self.git.run(*args, git_dir=self.path, stdin=stdin, env=env, ok=ok)).stdout

    # --- reading ---

    async def rev_parse(self, rev: str) -> str | None:
        """Give the SHA of the commit (or tree, for ``X^{tree}``) that ``rev`` names, or None."""
        wanted = rev if rev.endswith("}") else f"{rev}^{{commit}}"
        done = await self.git.run(
            "rev-parse", "--verify", "--quiet", "--end-of-options", wanted, git_dir=self.path, ok=(0, 1, 128)
        )
        found = done.text().strip()
        return found if done.code == 0 and SHA.fullmatch(found) else None

    async def tree_of(self, rev: str) -> str:
        """Give the SHA of the revision's tree."""
        return (await self.call("rev-parse", "--verify", "--end-of-options", f"{rev}^{{tree}}")).decode().strip()

    async def merge_base(self, a: str, b: str) -> str | None:
        """Give the best common ancestor, or None where the histories are unrelated."""
        return (await self.call("merge-base", a, b, ok=(0, 1))).decode().strip() or None

    async def is_ancestor(self, a: str, b: str) -> bool:
        """Whether ``a`` is contained in ``b``."""
        return (await self.git.run("merge-base", "--is-ancestor", a, b, git_dir=self.path, ok=(0, 1))).code == 0

    async def commit_info(self, sha: str) -> CommitInfo:
        """Read one commit."""
        raw = await self.call(
            "log", "-1", "-z", "--encoding=UTF-8", f"--format=tformat:{_FORMAT}", "--end-of-options", sha
        )
        return next(_commits(raw))

    async def log(self, *revs: str, limit: int = 10_000) -> list[CommitInfo]:
        """Read the commits of a range (``a..b``, or several revisions), newest first."""
        raw = await self.call(
            "log",
            "-z",
            f"--max-count={limit}",
            "--encoding=UTF-8",
            f"--format=tformat:{_FORMAT}",
            "--end-of-options",
            *revs,
        )
        return list(_commits(raw))

    async def changed_files(self, a: str, b: str) -> list[str]:
        """List the paths that differ between two revisions, sorted; a rename gives both names."""
        raw = await self.call("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--end-of-options", a, b)
        return sorted(text_of(part) for part in records(raw))

    async def diff_stat(self, a: str, b: str, *, without: Sequence[str] = ()) -> str:
        """Give ``git diff --stat`` between two revisions, for people; ``without`` are files or folders left out."""
        left_out = [f":(top,literal,exclude){path}" for path in without]
        more = ("--", ":(top)", *left_out) if left_out else ()
        return text_of(await self.call("diff", *_DIFF, "--stat=100", "-M", "--end-of-options", a, b, *more))

    async def diff(self, base: str, head: str, *, three_dot: bool = True, paths: Sequence[str] = ()) -> bytes:
        """Give the unified diff; ``three_dot`` diffs against the merge base, as a pull request does."""
        span = (f"{base}...{head}",) if three_dot else (base, head)
        more = ("--", *paths) if paths else ()
        return await self.call(
            "--literal-pathspecs",
            "diff",
            *_DIFF,
            "-M",
            "--src-prefix=a/",
            "--dst-prefix=b/",
            "--end-of-options",
            *span,
            *more,
        )

    async def line_ends(self, base: str, head: str) -> list[LineEnds]:
        """List the files in which at least nine changed lines of ten differ only in the line end (case G06)."""
        counts = []
        for flags in ((), ("--ignore-cr-at-eol",)):
            raw = await self.call(
                "diff", *_DIFF, *flags, "--numstat", "-z", "--no-renames", "--end-of-options", base, head
            )
            rows = [part.split(b"\t", 2) for part in records(raw)]
            counts.append({row[2]: int(row[0]) + int(row[1]) for row in rows if row[0] != b"-"})
        every, real = counts
        return [
            LineEnds(text_of(path), lines, real.get(path, 0))
            for path, lines in sorted(every.items())
            if lines and real.get(path, 0) * 10 <= lines
        ]

    async def show_file(self, rev: str, path: str) -> bytes | None:
        """Give a file's content at a revision; None where it is no file there."""
        if any(part in ("", ".", "..") for part in path.split("/")):
            return None
        found = await self.call("--literal-pathspecs", "ls-tree", "-z", "--full-tree", rev, "--", path)
        for row in records(found):
            meta, _, name = row.partition(b"\t")
            _mode, kind, sha = meta.split(b" ")
            if kind == b"blob" and text_of(name) == path:
                return await self.call("cat-file", "blob", sha.decode())
        return None

    async def list_files(self, rev: str, *below: str) -> list[str]:
        """List all paths of a revision, or those below (or equal to) the given ones."""
        more = ("--", *below) if below else ()
        raw = await self.call("ls-tree", "-r", "-z", "--name-only", "--full-tree", rev, *more)
        return [text_of(part) for part in records(raw)]

    # --- writing ---

    async def commit_tree(
        self,
        tree: str,
        parents: Sequence[str],
        message: str,
        author: Identity,
        committer: Identity,
        when: datetime,
        *,
        authored: datetime | None = None,
    ) -> str:
        """Write one commit object and give its SHA; the same arguments give the same commit. No hook, no signature."""
        linked = [part for parent in parents for part in ("-p", parent)]
        env = identity_environment(author, committer, authored or when, when)
        raw = await self.call("commit-tree", tree, *linked, "-F", "-", stdin=message_bytes(message), env=env)
        return raw.decode().strip()

    async def remove_paths(self, commit: str, paths: Sequence[str]) -> str:
        """Give the tree of ``commit`` without the given files, folders or patterns (``.herd/review-fixes-*.md``).

        A pattern's ``*`` stays within one folder. The same tree comes back where none of them exists.
        """
        tree, _ = await self.without(commit, paths)
        return tree

    async def without(self, commit: str, paths: Sequence[str]) -> tuple[str, tuple[str, ...]]:
        """As ``remove_paths``, and also tell which files went."""
        doomed = await self._matching(commit, paths)
        if not doomed:
            return await self.tree_of(commit), ()
        with tempfile.TemporaryDirectory(prefix="index-", dir=self.path) as folder:
            env = {"GIT_INDEX_FILE": f"{folder}/index"}
            await self.call("read-tree", commit, env=env)
            # The zero mode takes an entry out.
            lines = b"".join(b"0 " + b"0" * 40 + b"\t" + path + b"\0" for path in doomed)
            await self.call("update-index", "-z", "--index-info", stdin=lines, env=env)
            tree = (await self.call("write-tree", env=env)).decode().strip()
        return tree, tuple(text_of(path) for path in doomed)

    async def holds_any(self, commit: str, paths: Sequence[str]) -> bool:
        """Whether any of the files, folders or patterns is in ``commit``."""
        return bool(await self._matching(commit, paths))

    async def _matching(self, commit: str, paths: Sequence[str]) -> list[bytes]:
        roots = sorted({_fixed_part(path) for path in paths})
        scope = ("--", *roots) if all(roots) else ()
        raw = await self.call("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit, *scope)
        return [part for part in records(raw) if any(_matches(text_of(part), path) for path in paths)]


def _fixed_part(path: str) -> str:
    """Give the folder above the first part that is a pattern."""
    kept = []
    for part in path.strip("/").split("/"):
        if any(char in part for char in "*?["):
            break
        kept.append(part)
    return "/".join(kept)


def _matches(name: str, path: str) -> bool:
    wanted = path.strip("/").split("/")
    parts = name.split("/")
    return len(parts) >= len(wanted) and all(
        fnmatch.fnmatchcase(part, pattern) for part, pattern in zip(parts, wanted, strict=False)
    )


def _commits(raw: bytes) -> Iterator[CommitInfo]:
    fields = raw.split(b"\0")
    for at in range(0, len(fields) - _FIELDS + 1, _FIELDS):
        sha, tree, parents, a_name, a_mail, c_name, c_mail, authored, committed, body = map(
            text_of, fields[at : at + _FIELDS]
        )
        yield CommitInfo(
            sha=sha,
            tree=tree,
            parents=tuple(parents.split()),
            author=Identity(a_name, a_mail),
            committer=Identity(c_name, c_mail),
            authored_at=datetime.fromtimestamp(int(authored or 0), UTC),
            at=datetime.fromtimestamp(int(committed or 0), UTC),
            message=body.rstrip("\n"),
        )
