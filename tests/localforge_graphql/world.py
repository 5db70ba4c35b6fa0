"""A forge in process: real rows, real git, two accounts and a stranger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from droveway.core.clock import SystemClock
from droveway.core.ids import SeededIds
from droveway.localforge import LocalForge
from droveway.localforge.access import Actor, actor_of
from droveway.localforge.db import Row
from droveway.localforge.graphql import handle
from droveway.localforge.ops import accounts, pulls

_WHO = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Ada"), ("EMAIL", "ada@example.org"), ("DATE", "1700000000 +0100"))
}


class World:
    """One forge with the repository owner/road."""

    def __init__(self, data: Path) -> None:
        self.forge = LocalForge.open(
            data, clock=SystemClock(), ids=SeededIds(1), owner="owner", base_url="http://github.localhost"
        )
        self.kernel = self.forge._kernel
        self.token = (self.forge.first_tokens or {})["owner"]
        self.forge.create_repo("owner", "road")
        with self.kernel.write() as tx:
            self.owner, self.bot = (actor_of(tx, row["id"]) for row in tx.all("SELECT id FROM users ORDER BY id"))
            self.stranger = actor_of(tx, accounts.create_user(tx, "stranger")["id"])
            self.repo: Row = tx.get("repos", 1)
            self.git = self.kernel.git(self.repo["id"])
        self.base = self.commit("main", {"README.md": "one\n"}, "First")

    def commit(self, branch: str, files: dict[str, str], message: str, parents: tuple[str, ...] = ()) -> str:
        entries = b""
        for path, text in files.items():
            blob = self.git.run("hash-object", "-w", "--stdin", stdin=text.encode()).decode().strip()
            entries += f"100644 blob {blob}\t{path}\0".encode()
        tree = self.git.run("mktree", "-z", stdin=entries).decode().strip()
        sha = self.git.commit_tree(tree, list(parents), message, _WHO)
        self.git.run("update-ref", f"refs/heads/{branch}", sha)
        return sha

    def pull(self, branch: str, title: str = "A pull", *, actor: Actor | None = None, body: str | None = None) -> Row:
        files = {"README.md": "one\n", f"{branch.replace('/', '-')}.txt": "new\n"}
        self.commit(branch, files, f"Work on {branch}", (self.base,))
        with self.kernel.write() as tx:
            return pulls.create(
                tx, actor or self.bot, self.repo, title=title, head=branch, base="main", body=body
            )  # fmt: skip

    def ask(self, document: str, *, actor: Actor | None = None, **variables: Any) -> dict[str, Any]:
        opened = self.kernel.write if document.lstrip().startswith("mutation") else self.kernel.read
        with opened() as tx:
            return handle(tx, actor or self.owner, {"query": document, "variables": variables})

    def data(self, document: str, *, actor: Actor | None = None, **variables: Any) -> Any:
        answer = self.ask(document, actor=actor, **variables)
        assert "errors" not in answer, answer["errors"]
        return answer["data"]
