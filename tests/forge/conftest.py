"""The embedded forge in process, with a repository that has branches, and two identities on it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from droveway.core.clock import SystemClock
from droveway.core.ids import RandomIds
from droveway.core.repo import RepoId
from droveway.core.text import Redactor
from droveway.forge import GitHubForge
from droveway.localforge import LocalForge

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
       for what, value in (("NAME", "A Person"), ("EMAIL", "p@example.invalid"))},
}  # fmt: skip


class Road:
    """A repository on the embedded forge: the fleet's client, a person's client, and a clone to push from."""

    repo = RepoId("owner", "road")

    def __init__(self, local: LocalForge, folder: Path) -> None:
        self.local = local
        self.clone = folder / "clone"
        self.clone.mkdir()
        self.git("init", "-q", "-b", "main")
        self.commit("first", {"README.md": "# road\n", "a b/ü.txt": "x\n"})
        local.import_repo("owner", "road", self.clone)
        local.set_role("owner", "road", "herd-bot", "maintain")
        tokens = local.first_tokens or {}
        self.transport = httpx.ASGITransport(app=local.app)
        self.bot_token = tokens["herd-bot"]
        self.bot = self.client(tokens["herd-bot"])
        self.person = self.client(tokens["owner"])

    def client(self, token: str, transport: httpx.AsyncBaseTransport | None = None) -> GitHubForge:
        return GitHubForge(
            "http://127.0.0.1", token, clock=SystemClock(), store_etags=None, redactor=Redactor(),
            transport=transport or self.transport,
        )  # fmt: skip

    def git(self, *args: str) -> str:
        done = subprocess.run(["git", *args], cwd=self.clone, env=ENVIRONMENT, capture_output=True, check=True)
        return done.stdout.decode().strip()

    def commit(self, message: str, files: dict[str, str]) -> str:
        for name, content in files.items():
            path = self.clone / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    def branch(self, name: str, files: dict[str, str], base: str = "main") -> str:
        """Make a branch with one commit and bring it to the forge; give its tip."""
        self.git("checkout", "-q", "-B", name, base)
        sha = self.commit(f"work on {name}", files)
        self.local.import_repo("owner", "road", self.clone)
        return sha


@pytest.fixture
async def road(tmp_path: Path) -> AsyncIterator[Road]:
    local = LocalForge.open(tmp_path / "forge", clock=SystemClock(), ids=RandomIds())
    place = Road(local, tmp_path)
    await place.bot.connect()
    await place.person.connect()
    yield place
    await place.bot.close()
    await place.person.close()
    local.close()
