"""A whole world for a worker: the embedded forge over HTTP, real git, the scripted agent, the real Fleet."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import subprocess
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import yaml

from droveway.app import FleetSpec, Home, open_fleet
from droveway.core.clock import SystemClock
from droveway.core.ids import RandomIds
from droveway.core.jobs import Job
from droveway.core.lease import Lease
from droveway.core.repo import RepoId
from droveway.core.vocabulary import TYPE_FEATURE, TYPE_FIX, Status, batch_branch, statuses, worker_branch
from droveway.engine import JobContext
from droveway.forge import Comment
from droveway.localforge import LocalForge, serve_in_thread
from droveway.sessions import Fleet
from droveway.work import FrontMatter, job_id, make_body, read_attempts, render_body, run_worker

REPO = RepoId("owner", "road")
AUTHOR = {"name": "Ann Planner", "email": "ann@example.org"}
LONG = "I did what was asked, and it works as the criteria say."


class World:
    """One repository with one batch, whose branch exists."""

    def __init__(self, fleet: Fleet, forge: LocalForge, url: str, owner_token: str, root: Path) -> None:
        self.fleet = fleet
        self.forge = forge
        self.url = f"{url}/{REPO}.git"
        self.root = root
        self.clone = root / "clone"
        basic = base64.b64encode(f"owner:{owner_token}".encode()).decode()
        self._auth = f"http.extraHeader=Authorization: Basic {basic}"
        self.milestone = 0
        self.batch = ""

    def git(self, *args: str, ok: bool = True) -> str:
        """Run git as the owner, in the clone."""
        env = {"PATH": os.environ["PATH"], "HOME": str(self.root), "GIT_CONFIG_NOSYSTEM": "1"}
        argv = ["git", "-c", self._auth, "-c", "user.name=Owner", "-c", "user.email=owner@example.org", *args]
        done = subprocess.run(argv, cwd=self.clone, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0 or not ok, done.stderr
        return done.stdout.strip()

    def push(self, branch: str, files: Mapping[str, str], *, onto: str | None = None, message: str = "change") -> str:
        """Commit files onto a remote branch (or a new one that starts at ``onto``)."""
        self.git("fetch", "-q", "--prune", "origin")
        self.git("checkout", "-q", "--detach", f"origin/{onto or branch}")
        for name, text in files.items():
            path = self.clone / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "-A", "-f")
        self.git("commit", "-q", "-m", message)
        self.git("push", "-q", "origin", f"HEAD:refs/heads/{branch}")
        return self.git("rev-parse", "HEAD")

    def refs(self) -> dict[str, str]:
        """Give the forge's refs."""
        rows = [line.split("\t") for line in self.git("ls-remote", "origin").splitlines()]
        return {name: sha for sha, name in rows if not name.startswith("refs/pull/")}

    def show(self, branch: str, path: str) -> str | None:
        """Give a file on a remote branch, or None."""
        self.git("fetch", "-q", "--prune", "origin")
        if path not in self.files(branch):
            return None
        return self.git("show", f"origin/{branch}:{path}")

    def files(self, branch: str) -> list[str]:
        """List the files of a remote branch."""
        self.git("fetch", "-q", "--prune", "origin")
        return self.git("ls-tree", "-r", "--name-only", f"origin/{branch}").splitlines()

    def log(self, branch: str) -> list[list[str]]:
        """Give (author, subject) of the commits that a branch adds to the batch branch, oldest first."""
        self.git("fetch", "-q", "--prune", "origin")
        span = f"origin/{self.batch}..origin/{branch}"
        out = self.git("log", "--reverse", "--no-merges", "--format=%an <%ae>|%s", span)
        return [line.split("|", 1) for line in out.splitlines()]

    async def start(self, files: Mapping[str, str], settings: Mapping[str, Any]) -> None:
        """Make the repository, its base branch and a batch."""
        self.forge.create_repo("owner", REPO.name)
        self.clone.mkdir()
        self.git("init", "-q", "-b", "main")
        self.git("remote", "add", "origin", self.url)
        for name, text in {**files, ".herd/config.yml": yaml.safe_dump(dict(settings))}.items():
            path = self.clone / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "-A", "-f")
        self.git("commit", "-q", "-m", "first")
        milestone = await self.fleet.forge.create_milestone(REPO, "A batch", "")
        self.milestone = milestone.number
        self.batch = batch_branch(milestone.number, milestone.title)
        self.git("push", "-q", "origin", "HEAD:refs/heads/main", f"HEAD:refs/heads/{self.batch}")

    async def issue(
        self,
        title: str,
        *,
        status: Status = Status.IN_PROGRESS,
        milestone: bool = True,
        task: str = "Do it.",
        **front: Any,
    ) -> int:
        """Make an issue of the batch."""
        labels = [status.label, TYPE_FIX if front.get("type") == "fix" else TYPE_FEATURE]
        made = await self.fleet.forge.create_issue(
            REPO, title, "", labels=labels, milestone=self.milestone if milestone else None
        )
        fields = FrontMatter(batch=self.milestone, branch=worker_branch(made.number, title), **front)
        body = render_body(make_body(fields, task=task, acceptance_criteria=["it works"]))
        await self.fleet.forge.edit_issue(REPO, made.number, body=body)
        return made.number

    def branch(self, number: int) -> str:
        """Name the worker branch of an issue (by its number on the forge)."""
        return next(name[11:] for name in self.refs() if name.startswith(f"refs/heads/herd/worker/{number}-"))

    async def job(self, number: int, attempt: int = 1, minutes: float = 30) -> Job:
        """Give the job of an attempt."""
        issue = await self.fleet.forge.issue(REPO, number)
        assert issue
        args = {
            "repo": str(REPO),
            "issue": number,
            "batch": issue.milestone,
            "branch": worker_branch(number, issue.title),
            "batch_branch": self.batch,
            "mode": "batch",
            "attempt": attempt,
            "timeout_minutes": minutes,
            "author": AUTHOR,
            "by_hand": False,
        }
        id_ = job_id(str(REPO), number, attempt)
        return Job(id_, "worker", f"issue:{number}", args, deadline_seconds=minutes * 60)

    async def work(
        self,
        number: int,
        attempt: int = 1,
        *,
        minutes: float = 30,
        lease: Lease | None = None,
        cancelled: asyncio.Event | None = None,
    ) -> dict[str, Any]:
        """Run one attempt, as the engine would."""
        now = self.fleet.clock.now()
        job = await self.job(number, attempt, minutes)
        deadline = now + timedelta(minutes=minutes)
        context = JobContext(job, now, cancelled or asyncio.Event(), lease or Lease.unshared(job.id), deadline)
        return await run_worker(self.fleet, context)

    async def retry(self, number: int) -> None:
        """Put an issue back in progress."""
        issue = await self.fleet.forge.issue(REPO, number)
        assert issue
        kept = [name for name in issue.labels if not name.startswith("herd/status:")]
        await self.fleet.forge.edit_issue(REPO, number, labels=[*kept, Status.IN_PROGRESS.label])

    async def status(self, number: int) -> Status | None:
        """Give an issue's one status."""
        issue = await self.fleet.forge.issue(REPO, number)
        assert issue
        found = statuses(issue.labels)
        return found[0] if len(found) == 1 else None

    async def comments(self, number: int) -> tuple[Comment, ...]:
        """Give an issue's comments."""
        return await self.fleet.forge.comments(REPO, number)

    async def said(self, number: int, start: str) -> str:
        """Give the newest comment that starts so, or nothing."""
        return next((c.body for c in reversed(await self.comments(number)) if c.body.startswith(start)), "")

    async def outcomes(self, number: int) -> list[str]:
        """Give the outcomes of an issue's attempts."""
        found = read_attempts(await self.comments(number))
        return [item.record.outcome.value if item.record.outcome else "-" for item in found]

    def script(self, text: str) -> None:
        """Give the agents another script."""
        assert self.fleet.script
        self.fleet.script.write_text(text)

    def prompt(self, number: int, attempt: int = 1) -> str:
        """Give the prompt that an attempt's agent got."""
        return (self.fleet.runs(REPO) / f"{number}-{attempt}.log" / "prompt.md").read_text()


def settings(**more: Any) -> dict[str, Any]:
    """Give settings with the scripted agent and a check that wants no file ``broken``."""
    check = {
        "name": "check",
        "run": ["sh", "-c", "! test -e broken || { echo broken is there; exit 1; }"],
        "kind": "test",
    }
    return {
        "agent": {"provider": "scripted"},
        "workers": {"progress_interval_seconds": 1},
        "validation": {"commands": [check]},
        **more,
    }


@contextlib.asynccontextmanager
async def open_world(
    root: Path, script: str, *, raw: Mapping[str, Any] | None = None, files: Mapping[str, str] | None = None
) -> AsyncIterator[World]:
    """Open a world below ``root``; ``raw`` are the repository's settings."""
    path = root / "script.yml"
    path.write_text(script)
    forge = LocalForge.open(root / "forge", clock=SystemClock(), ids=RandomIds(), owner="owner")
    try:
        tokens = forge.first_tokens or {}
        with serve_in_thread(forge) as url:
            spec = FleetSpec(
                home=Home(root / "home"),
                api_url=url,
                token=tokens["herd-bot"],
                git_url=url,
                engine="inline",
                script=path,
            )
            async with open_fleet(spec) as fleet:
                world = World(fleet, forge, url, tokens["owner"], root)
                await world.start(files or {"README.md": "hello\n", "a.txt": "one\n"}, raw or settings())
                yield world
    finally:
        forge.close()


def as_json(value: Any) -> bytes:
    """Give anything as JSON, for a search."""
    return msgspec.json.encode(value)
