"""What a pull request changes: its range, files and commits. Named by SHAs, so kept in memory."""

from __future__ import annotations

from typing import Any

from droveway.localforge import gitdata
from droveway.localforge.db import Row, Tx
from droveway.localforge.gitdata import FileChange
from droveway.localforge.gitrepo import GitFailed

Range = tuple[str, str, str]  # merge base, head, base


def pull_range(tx: Tx, repo: Row, pull: Row) -> Range:
    """Give (merge base, head, base) of a pull request. Of a merged one the base is the one that it was merged into."""
    base, head = pull["base_sha"], pull["head_sha"]
    key = ("range", repo["id"], base, head)
    found: str | None = tx.kernel.tested.get(key)
    if found is None:
        try:
            found = tx.kernel.git(repo["id"]).merge_base(base, head) or gitdata.EMPTY_TREE
        except GitFailed:
            found = gitdata.EMPTY_TREE
        tx.kernel.tested.put(key, found)
    return found, head, base


def pull_files(tx: Tx, repo: Row, pull: Row) -> list[FileChange]:
    """Give the changed files with their patches."""
    old, head, _ = pull_range(tx, repo, pull)
    key = ("files", repo["id"], old, head)
    found: list[FileChange] | None = tx.kernel.diffs.get(key)
    if found is None:
        found = tx.kernel.diffs.put(key, gitdata.changed_files(tx.kernel.git(repo["id"]), old, head))
    return found


def pull_commits(tx: Tx, repo: Row, pull: Row) -> list[str]:
    """Give the SHAs of a pull request's commits, oldest first."""
    old, head, base = pull_range(tx, repo, pull)
    key = ("shas", repo["id"], base, head)
    found: list[str] | None = tx.kernel.tested.get(key)
    if found is None:
        span = [head] if old == gitdata.EMPTY_TREE else [f"{base}..{head}"]
        found = tx.kernel.tested.put(key, tx.kernel.git(repo["id"]).rev_list("--reverse", "--topo-order", *span))
    return found


def pull_size(tx: Tx, repo: Row, pull: Row) -> dict[str, Any]:
    """Give the numbers of commits, added and deleted lines and changed files."""
    files = pull_files(tx, repo, pull)
    return {
        "commits": len(pull_commits(tx, repo, pull)),
        "additions": sum(each.additions for each in files),
        "deletions": sum(each.deletions for each in files),
        "changed_files": len(files),
    }
