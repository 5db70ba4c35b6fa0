"""A bare repository of the forge, driven by git itself. Synchronous: it runs on the worker threads of requests."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from droveway.core.errors import HerdError

ZERO: Final = "0" * 40
TIMEOUT: Final = 120.0  # seconds for one plain git call


class GitFailed(HerdError):  # noqa: N818 - a fact, as git tells it
    """Git said no. ``code`` is its exit code, ``output`` what it wrote to its error stream."""

    def __init__(self, argv: Sequence[str], code: int, output: str) -> None:
        """Hold one line for people."""
        super().__init__(f"git {argv[0] if argv else ''} failed ({code}): {output.strip() or 'no message'}")
        self.code = code
        self.output = output


class RefRace(HerdError):  # noqa: N818 - what happened
    """A ref is not where the caller thought it to be; nothing was moved."""


def environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Give the whole environment of a git process: no configuration, credential or hook of the account's."""
    config = {"safe.directory": "*", "gc.auto": "0", "advice.defaultBranchName": "false", "core.quotePath": "false"}
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_CONFIG_COUNT": str(len(config)),
    }
    for index, (name, value) in enumerate(config.items()):
        env[f"GIT_CONFIG_KEY_{index}"] = name
        env[f"GIT_CONFIG_VALUE_{index}"] = value
    return {**env, **(extra or {})}


class GitRepo:
    """One bare repository at ``path``."""

    def __init__(self, path: Path, home: Path) -> None:
        """Name the repository; ``home`` is an empty folder that git takes for the account's home."""
        self.path = path
        self.home = home

    def run(
        self,
        *argv: str,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        ok: tuple[int, ...] = (0,),
        timeout: float = TIMEOUT,
    ) -> bytes:
        """Run git and give its output. Raises GitFailed for any exit code that is not in ``ok``."""
        return self.both(*argv, stdin=stdin, env=env, ok=ok, timeout=timeout)[1]

    def both(
        self,
        *argv: str,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        ok: tuple[int, ...] = (0,),
        timeout: float = TIMEOUT,
    ) -> tuple[int, bytes]:
        """Run git and give exit code and output."""
        done = subprocess.run(
            ["git", "--git-dir", str(self.path), *argv],
            input=stdin if stdin is not None else b"",
            capture_output=True,
            env=environment(self.home, env),
            cwd=self.home,
            timeout=timeout,
            check=False,
        )
        if done.returncode not in ok:
            raise GitFailed(argv, done.returncode, done.stderr.decode("utf-8", "replace"))
        return done.returncode, done.stdout

    def text(self, *argv: str, ok: tuple[int, ...] = (0,)) -> str:
        """Run git and give its output as text without the last line's end."""
        return self.run(*argv, ok=ok).decode("utf-8", "replace").rstrip("\n")

    # --- the repository ---

    def init(self, default_branch: str) -> None:
        """Make the repository; doing it again is harmless."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.run("init", "--quiet", "--bare", "--initial-branch", default_branch, str(self.path))
        for sample in (self.path / "hooks").glob("*.sample"):
            sample.unlink()
        for key, value in (
            ("http.receivepack", "true"),
            ("receive.denyDeleteCurrent", "ignore"),
            ("receive.fsckObjects", "true"),
            ("receive.unpackLimit", "1000"),
            ("uploadpack.allowFilter", "true"),
            ("uploadpack.allowAnySHA1InWant", "true"),
            ("transfer.hideRefs", "refs/forge"),
        ):
            self.run("config", key, value)

    def set_head(self, branch: str) -> None:
        """Make ``branch`` the one that a clone checks out."""
        self.run("symbolic-ref", "HEAD", f"refs/heads/{branch}")

    def remove(self) -> None:
        """Delete the repository from the disk."""
        shutil.rmtree(self.path, ignore_errors=True)

    # --- refs ---

    def ref(self, name: str) -> str | None:
        """Give the object that a full ref name points to, or None."""
        code, out = self.both("rev-parse", "--verify", "--quiet", "--end-of-options", name, ok=(0, 1, 128))
        return out.decode().strip() if code == 0 else None

    def refs(self, *prefixes: str) -> dict[str, str]:
        """Give the refs under the given prefixes (``refs/heads/``; no prefix: all) with their objects, by name."""
        out = self.text("for-each-ref", "--format=%(objectname) %(refname)", *prefixes)
        pairs = (line.split(" ", 1) for line in out.splitlines())
        return {name: sha for sha, name in pairs}

    def starting_with(self, prefix: str) -> dict[str, str]:
        """Give the refs whose full name starts with ``prefix``, which may end inside a component."""
        folder = prefix[: prefix.rfind("/") + 1]
        return {name: sha for name, sha in self.refs(folder).items() if name.startswith(prefix)}

    def branch(self, name: str) -> str | None:
        """Give the tip of a branch, or None."""
        return self.ref(f"refs/heads/{name}")

    def valid_ref(self, name: str) -> bool:
        """Whether git takes this for the full name of a ref."""
        return self.both("check-ref-format", name, ok=(0, 1))[0] == 0

    def move(self, updates: Sequence[tuple[str, str, str]]) -> None:
        """Move refs, all or none: (ref, old, new) with forty zeros for "no such ref". Raises RefRace."""
        lines = ["start"]
        for ref, old, new in updates:
            lines.append(f"delete {ref} {old}" if new == ZERO else f"update {ref} {new} {old}")
        lines += ["prepare", "commit", ""]
        try:
            self.run("update-ref", "--stdin", stdin="\n".join(lines).encode())
        except GitFailed as error:
            raise RefRace(error.output.strip().removeprefix("fatal: ")) from error

    # --- objects ---

    def resolve(self, rev: str, kind: str = "commit") -> str | None:
        """Give the SHA of a revision peeled to ``kind`` (a branch, a tag, a full or short SHA), or None."""
        if rev.startswith("-") or "\0" in rev or not rev:
            return None
        for candidate in (f"refs/heads/{rev}", f"refs/tags/{rev}", rev):
            found = self.ref(f"{candidate}^{{{kind}}}")
            if found:
                return found
        return None

    def kind(self, sha: str) -> str | None:
        """Give the type of an object, or None where there is none."""
        code, out = self.both("cat-file", "-t", sha, ok=(0, 1, 128))
        return out.decode().strip() if code == 0 else None

    def merge_base(self, one: str, other: str) -> str | None:
        """Give the best common ancestor, or None where the histories are unrelated."""
        code, out = self.both("merge-base", one, other, ok=(0, 1))
        return out.decode().strip() if code == 0 else None

    def is_ancestor(self, old: str, new: str) -> bool:
        """Whether ``old`` is reachable from ``new``. Unknown objects are not."""
        return self.both("merge-base", "--is-ancestor", old, new, ok=(0, 1, 128))[0] == 0

    def count(self, old: str, new: str) -> int:
        """Give the number of commits in ``new`` and not in ``old``."""
        return int(self.text("rev-list", "--count", f"{old}..{new}"))

    def rev_list(self, *argv: str) -> list[str]:
        """Give the SHAs that ``git rev-list`` lists."""
        return self.text("rev-list", *argv).split()

    def merge_tree(self, ours: str, theirs: str) -> tuple[str, bool]:
        """Merge two commits without a work tree: (tree, whether it is clean). A conflicted tree is never committed."""
        code, out = self.both("merge-tree", "--write-tree", "--no-messages", ours, theirs, ok=(0, 1))
        return out.decode("utf-8", "replace").split("\n", 1)[0], code == 0

    def commit_tree(self, tree: str, parents: Sequence[str], message: str, env: Mapping[str, str]) -> str:
        """Write a commit; ``env`` names author and committer with their dates."""
        argv = ["commit-tree", tree]
        for parent in parents:
            argv += ["-p", parent]
        return self.run(*argv, stdin=message.encode(), env=env).decode().strip()

    def tree_of(self, commit: str) -> str:
        """Give a commit's tree."""
        return self.text("rev-parse", "--verify", f"{commit}^{{tree}}")
