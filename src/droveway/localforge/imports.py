"""Bringing in an existing git repository or bundle (FRG-030)."""

from __future__ import annotations

from pathlib import Path

from droveway.core.errors import InputError
from droveway.localforge.access import find_repo
from droveway.localforge.gitrepo import GitFailed, GitRepo
from droveway.localforge.kernel import Kernel
from droveway.localforge.ops import accounts, pulls

TIMEOUT = 3600.0  # seconds


def import_repo(kernel: Kernel, owner: str, name: str, source: Path) -> None:
    """Fetch every branch and tag of ``source`` into the repository, which is made where it does not exist."""
    if not source.exists():
        raise InputError(f"{source} does not exist")
    where = str(source.resolve())
    tmp = GitRepo(kernel.home, kernel.home)
    try:
        listed = tmp.run("ls-remote", "--symref", where, "HEAD", "refs/heads/*").decode("utf-8", "replace")
    except GitFailed as error:
        raise InputError(f"{source} is no git repository or bundle: {error.output.strip()}") from error
    branches = [
        line.split("\t")[1][11:]
        for line in listed.splitlines()
        if "\trefs/heads/" in line and not line.startswith("ref:")
    ]
    branch = _default(listed, branches)
    with kernel.write() as tx:
        user = tx.one("SELECT * FROM users WHERE login = ?", owner)
        if user is None:
            raise InputError(f"the forge has no account {owner!r}")
        repo = find_repo(tx, owner, name) or accounts.create_repo(tx, user, name, default_branch=branch)
    git = kernel.git(repo["id"])
    specs = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
    git.run("fetch", "--quiet", "--no-write-fetch-head", "--update-shallow", where, *specs, timeout=TIMEOUT)
    with kernel.write() as tx:
        if git.branch(tx.get("repos", repo["id"])["default_branch"]) is None and branches:
            tx.update("repos", repo["id"], default_branch=branch)
            git.set_head(branch)
        tx.update("repos", repo["id"], pushed_at=tx.now, updated_at=tx.now)
        pulls.reconcile(tx)


def _default(listed: str, branches: list[str]) -> str:
    """Give the branch that the source's HEAD names; failing that a usual one, or the first."""
    for line in listed.splitlines():
        if line.startswith("ref: refs/heads/") and line.endswith("\tHEAD"):
            return line[len("ref: refs/heads/") : -len("\tHEAD")]
    head = next((line.split("\t")[0] for line in listed.splitlines() if line.endswith("\tHEAD")), None)
    at_head = [
        line.split("\t")[1][11:] for line in listed.splitlines() if head and line.startswith(f"{head}\trefs/heads/")
    ]
    usual = [name for name in ("main", "master") if name in (at_head or branches)]
    plain = sorted(at_head or branches, key=lambda name: name.count("/"))
    return (usual or plain or ["main"])[0]
