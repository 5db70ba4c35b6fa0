"""The whole service in this process with its embedded forge, and a person who pushes to it with git."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx

from droveway.app import Home
from droveway.core.repo import RepoId
from droveway.service import Running, UpOptions, running

T = TypeVar("T")
REPO = RepoId("owner", "shop")


def git(folder: Path, *args: str) -> str:
    identity = {f"GIT_{who}_{what}": "ada@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    plain = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}
    env = {**os.environ, **identity, **plain}
    done = subprocess.run(["git", *args], cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, f"git {args}: {done.stderr}"
    return done.stdout.strip()


def commit(folder: Path, files: Mapping[str, str]) -> str:
    """Write and commit files; give the SHA."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", "work")
    return git(folder, "rev-parse", "HEAD")


def project(folder: Path, config: Mapping[str, Any]) -> Path:
    """Make a repository whose configuration is ``config`` (JSON is YAML)."""
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    whole = {"version": 1, "platform": {"provider": "local"}, "agent": {"provider": "scripted"}, **config}
    commit(folder, {".herd/config.yml": json.dumps(whole), "README.md": "# Shop\n"})
    return folder


@dataclass
class World:
    """The service, a clone of the project, and what its loops said."""

    service: Running
    clone: Path
    codes: set[str] = field(default_factory=set)

    def push(self, branch: str, files: Mapping[str, str] | None = None, start: str = "origin/main") -> str:
        """Push a commit of ``files`` on top of ``start`` (without files, ``start`` itself) as ``branch``, by force."""
        git(self.clone, "fetch", "-q", "origin")
        git(self.clone, "checkout", "-q", "--detach", start)
        sha = git(self.clone, "rev-parse", "HEAD") if files is None else commit(self.clone, files)
        git(self.clone, "push", "-q", "-f", "origin", f"HEAD:refs/heads/{branch}")
        return sha

    async def person(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"token {self.service.owner_token}"}
        async with httpx.AsyncClient(headers=headers) as client:
            answer = await client.request(method, f"{self.service.info.forge_url}/repos/{REPO}{path}", json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    async def pull(self, branch: str) -> int:
        made = await self.person("POST", "/pulls", {"title": branch, "head": branch, "base": "main"})
        return int(made["number"])

    async def runs(self, sha: str) -> list[dict[str, Any]]:
        """Give every check run of a commit, older attempts too."""
        found = await self.person("GET", f"/commits/{sha}/check-runs?filter=all&per_page=100")
        return list(found["check_runs"])

    async def ended(self, sha: str, count: int = 1) -> dict[str, dict[str, Any]]:
        """Wait until so many check runs of a commit are completed, and give them by name; each name is there once."""

        async def all_completed() -> list[dict[str, Any]]:
            runs = await self.runs(sha)
            return runs if len([run for run in runs if run["status"] == "completed"]) >= count else []

        runs = await until(all_completed)
        assert len({run["name"] for run in runs}) == len(runs) == count
        return {run["name"]: run for run in runs}


async def until(condition: Callable[[], Awaitable[T]], seconds: float = 60) -> T:
    """Ask again and again for what other processes make true."""
    async with asyncio.timeout(seconds):
        while not (value := await condition()):  # noqa: ASYNC110 - what is asked has no event
            await asyncio.sleep(0.05)
    return value


@contextlib.asynccontextmanager
async def world(
    tmp_path: Path, config: Mapping[str, Any], script: Any = (), *, again: bool = False
) -> AsyncIterator[World]:
    """Run the service with one project on its forge; ``again``: on what an earlier one has left."""
    source = tmp_path / "source" if again else project(tmp_path / "source", config)
    (tmp_path / "script.yaml").write_text(json.dumps(list(script)))
    codes: set[str] = set()
    options = UpOptions(
        home=Home(tmp_path / "home"),
        environ={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        engine="inline",
        poll_seconds=0.3,
        script=tmp_path / "script.yaml",
        on_cycle=lambda _repo, _number, report: codes.update(blocker.code for blocker in report.waiting),
    )
    async with running(options) as service:
        assert service.forge is not None
        clone = tmp_path / "clone"
        if again:
            yield World(service, clone, codes)
            return
        service.forge.import_repo(REPO.owner, REPO.name, source)
        scheme, _, rest = service.info.forge_url.partition("://")
        url = f"{scheme}://x:{service.owner_token}@{rest}/{REPO}.git"
        await asyncio.to_thread(git, tmp_path, "clone", "-q", url, str(clone))
        yield World(service, clone, codes)
