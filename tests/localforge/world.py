"""A forge in process with a repository that has some history, and clients for its accounts."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import httpx

from droveway.core.clock import SystemClock
from droveway.core.ids import RandomIds
from droveway.localforge import LocalForge

IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C.UTF-8",
}  # fmt: skip


def git(*argv: str, cwd: Path, ok: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
    """Run git as Ada."""
    import os

    done = subprocess.run(
        ["git", *argv], cwd=cwd, text=True, capture_output=True, check=False, timeout=200,
        env={"PATH": os.environ["PATH"], "HOME": str(cwd), **IDENTITY, **env},
    )  # fmt: skip
    if ok:
        assert done.returncode == 0, f"git {' '.join(argv)}: {done.stdout}\n{done.stderr}"
    return done


def commit(tree: Path, message: str, **files: str) -> str:
    """Write files (``__`` in a name stands for a dot), commit them, give the SHA."""
    for name, text in files.items():
        (tree / name.replace("__", ".")).write_text(text)
    git("add", "-A", cwd=tree)
    git("commit", "-q", "--allow-empty", "-m", message, cwd=tree)
    return git("rev-parse", "HEAD", cwd=tree).stdout.strip()


def source(path: Path) -> Path:
    """Make a repository: main with two commits, and three branches from its first."""
    path.mkdir(parents=True)
    git("init", "-q", "-b", "main", cwd=path)
    commit(path, "one", README__md="one\n", code__txt="a\nb\nc\nd\ne\nf\ng\nh\n")
    for branch, files in (
        ("clean", {"new__txt": "new\n"}),
        ("other", {"other__txt": "other\n"}),
        ("conflict", {"README__md": "theirs\n"}),
    ):
        git("checkout", "-q", "-b", branch, "main", cwd=path)
        commit(path, f"work on {branch}", **files)
    git("checkout", "-q", "main", cwd=path)
    commit(path, "two", README__md="two\n")
    git("tag", "-a", "v1", "-m", "first", cwd=path)
    return path


class Api:
    """A client in process, as one account. ``get`` and friends assert the status."""

    def __init__(self, forge: LocalForge, token: str | None) -> None:
        headers = {"Authorization": f"token {token}"} if token else {}
        transport = httpx.ASGITransport(app=forge.app)  # type: ignore[arg-type]
        self.http = httpx.AsyncClient(transport=transport, base_url="http://forge.test", headers=headers)
        self.token = token

    async def __call__(self, method: str, path: str, json: Any = None, *, want: int = 200, **headers: str) -> Any:
        shown = {name.replace("_", "-"): value for name, value in headers.items()}
        response = await self.http.request(method, path, json=json, headers=shown)
        assert response.status_code == want, f"{method} {path}: {response.status_code} {response.text}"
        return response.json() if response.content and "json" in response.headers["content-type"] else response.text

    async def repo(self, method: str, path: str = "", json: Any = None, *, want: int = 200, **headers: str) -> Any:
        return await self(method, f"/repos/owner/road{path}", json, want=want, **headers)


class World:
    """The forge with owner, bot, and a stranger without a role."""

    def __init__(self, tmp: Path) -> None:
        self.tmp = tmp
        self.source = source(tmp / "source")
        self.forge = LocalForge.open(tmp / "forge", clock=SystemClock(), ids=RandomIds())
        self.forge.import_repo("owner", "road", self.source)
        self.forge.create_user("stranger")
        tokens = self.forge.first_tokens or {}
        self.owner_token, self.bot_token = tokens["owner"], tokens["herd-bot"]
        self.owner = Api(self.forge, self.owner_token)
        self.bot = Api(self.forge, self.bot_token)
        self.stranger = Api(self.forge, self.forge.issue_token("stranger"))
        self.nobody = Api(self.forge, None)

    def sha(self, branch: str) -> str:
        return git("rev-parse", branch, cwd=self.source).stdout.strip()

    async def pull(self, branch: str = "clean", *, want: int = 201, **more: Any) -> Any:
        body = {"title": f"Pull {branch}", "head": branch, "base": "main", **more}
        return await self.bot.repo("POST", "/pulls", body, want=want)

    async def settled(self, number: int) -> Any:
        """Read a pull request until its mergeability is known."""
        await self.bot.repo("GET", f"/pulls/{number}")
        return await self.bot.repo("GET", f"/pulls/{number}")
