"""A real embedded forge over HTTP, real git, the real fleet; workers and the reviewer are played by the test."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from droveway import review, work
from droveway.app import FleetSpec, Home, open_fleet
from droveway.batch import CreatedBatch, CycleReport, Plan, create_batch, integrate, validate
from droveway.core.clock import SystemClock
from droveway.core.decisions import Comment, Decision, SetStatus
from droveway.core.ids import RandomIds
from droveway.core.jobs import JobInfo
from droveway.core.keys import Key, marker
from droveway.core.lease import Lease
from droveway.core.repo import RepoId
from droveway.core.vocabulary import Message, Status
from droveway.engine import JobContext
from droveway.localforge import LocalForge, serve_in_thread
from droveway.sessions import Fleet

REPO = RepoId("owner", "proj")
BY = {"login": "ann", "name": "Ann", "email": "ann@example.org"}
CONFIG = """
pull_requests: {auto_merge: true}
integrator: {review: false, require_ci: true, ci_start_grace_seconds: 0}
"""
Files = Mapping[str, str | None]


def git(folder: Path, *args: str, stdin: str | None = None) -> str:
    env = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "T",
        "GIT_AUTHOR_EMAIL": "t@example.org",
        "GIT_COMMITTER_NAME": "T",
        "GIT_COMMITTER_EMAIL": "t@example.org",
        "GIT_TERMINAL_PROMPT": "0",
    }
    done = subprocess.run(
        ["git", *args], cwd=folder, env=env, input=stdin, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, f"git {args}: {done.stderr}"
    return done.stdout.strip()


def project(folder: Path, config: str, files: Files, branch: str = "main") -> Path:
    folder.mkdir()
    git(folder, "init", "-q", "-b", branch)
    write(folder, {".herd/config.yml": config, "README.md": "# Project\n", "shared.txt": "one\ntwo\n", **files})
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def write(folder: Path, files: Files) -> None:
    for name, text in files.items():
        path = folder / name
        if text is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


class World:
    """What a test drives. ``plays`` gives, by issue title, the files that its worker writes; None plays a failure."""

    def __init__(self, folder: Path, forge: LocalForge, url: str, token: str) -> None:
        self.folder = folder
        self.forge = forge
        self.url = url
        self.token = token
        self.plays: dict[str, Files | None] = {}
        self.runs: list[int] = []
        self.reviewed: list[str] = []
        self.verdicts: list[str] = []
        self.held: asyncio.Event | None = None
        self.fleet: Fleet

    @property
    def remote(self) -> str:
        scheme, _, rest = self.url.partition("://")
        return f"{scheme}://x-access-token:{self.token}@{rest}/{REPO}.git"

    def clone(self, branch: str) -> Path:
        place = Path(tempfile.mkdtemp(prefix="clone-", dir=self.folder))  # workers are played side by side in threads
        git(self.folder, "clone", "-q", "--branch", branch, self.remote, str(place))
        return place

    def push(self, start: str, branch: str, files: Files, message: str = "work", merge: str = "") -> str:
        """Commit files on top of ``start`` and push as ``branch``; ``merge`` is merged first, ours on conflict."""
        place = self.clone(start)
        git(place, "checkout", "-q", "-B", branch)
        if merge:
            git(place, "merge", "-q", "-s", "ours", "--no-edit", f"origin/{merge}")
        write(place, files)
        git(place, "add", "-A")
        git(place, "commit", "-q", "--allow-empty", "-m", message)
        git(place, "push", "-q", "-f", "origin", f"HEAD:refs/heads/{branch}")
        return git(place, "rev-parse", "HEAD")

    def read(self, branch: str, path: str) -> str:
        return git(self.clone(branch), "show", f"HEAD:{path}")

    def branches(self) -> list[str]:
        listed = git(self.folder, "ls-remote", "--heads", self.remote)
        return sorted(line.split("refs/heads/")[1] for line in listed.splitlines())

    async def play(self, fleet: Fleet, context: JobContext) -> dict[str, Any]:
        """Play a run by whatever ``worker`` is now."""
        return await self.worker(fleet, context)

    async def worker(self, fleet: Fleet, context: JobContext) -> dict[str, Any]:
        """Play a worker's run: write, push, label."""
        args = context.job.args
        number = int(args["issue"])
        self.runs.append(number)
        if self.held is not None:
            await self.held.wait()
        issue = await fleet.forge.issue(REPO, number)
        assert issue
        task = work.read_task(issue)
        files = self.plays.get(issue.title, {f"out/{number}.txt": f"{issue.title}\n"})
        status = Status.FAILED
        if files is not None:
            merge = next(iter(task.front.conflicting_branches), "")
            files = {f".herd/progress/{number}.md": "- [x] all\n", **files}
            await asyncio.to_thread(self.push, args["batch_branch"], task.branch, files, f"do #{number}", merge)
            status = Status.DONE
        key = str(Key("BAT-131", str(REPO), f"issue:{number}", "-", str(args["attempt"])))
        done = SetStatus(str(REPO), key, number, status, (Status.IN_PROGRESS,))
        await fleet.actuator.act(
            Decision("BAT-131", str(REPO), f"issue:{number}", actions=(done,)), context.lease, loop="worker"
        )
        return {"outcome": "success" if files is not None else "failed"}

    async def reviewer(self, fleet: Fleet, context: JobContext) -> dict[str, Any]:
        """Play a review: one result comment for the head."""
        args = context.job.args
        self.reviewed.append(args["head"])
        status = self.verdicts.pop(0) if self.verdicts else "approved"
        result = {
            "version": 1,
            "pr_number": args["pull"],
            "batch_number": args["batch"],
            "head_sha": args["head"],
            "base_sha": "",
            "status": status,
            "cycle": 1,
            "findings_count": 0,
        }
        key = str(Key("REV-049", str(REPO), f"pr:{args['pull']}", args["head"]))
        said = Comment(str(REPO), key, args["pull"], Message.REVIEW, "reviewed", (marker("review-result", result),))
        await fleet.actuator.act(
            Decision("REV-049", str(REPO), f"pr:{args['pull']}", actions=(said,)), context.lease, loop="review"
        )
        return {"status": status}

    async def create(self, *tasks: dict[str, Any], plan_id: str = "p1", **more: Any) -> CreatedBatch:
        """Create a batch from tasks in few words."""
        return await create_batch(
            self.fleet,
            REPO,
            plan(*tasks),
            plan_id,
            created_by=BY,
            lease=Lease.unshared("plan"),
            **more,
        )

    async def cycle(self, number: int) -> CycleReport:
        return await integrate(self.fleet, REPO, number, Lease.unshared(f"integrate/{number}"))

    async def settle(self, number: int, cycles: int = 25) -> CycleReport:
        """Run cycles until the batch has ended or stands still with no run active."""
        report = CycleReport()
        for _ in range(cycles):
            running = await self.fleet.engine.jobs(active_only=True)
            report = await self.cycle(number)
            if report.ended or not (report.acted or running):
                return report
            for job in await self.fleet.engine.jobs(active_only=True):
                await self.fleet.engine.wait(job.id, timeout=60)
        return report

    async def labels(self, number: int) -> set[str]:
        issue = await self.fleet.forge.issue(REPO, number)
        assert issue
        return set(issue.labels)

    async def bodies(self, number: int) -> str:
        return "\n---\n".join(comment.body for comment in await self.fleet.forge.comments(REPO, number))

    async def person(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Do something as the repository's owner."""
        import httpx

        token = self.forge.issue_token("owner")
        async with httpx.AsyncClient(headers={"Authorization": f"token {token}"}) as client:
            answer = await client.request(method, f"{self.url}{path}", json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None


def plan(*tasks: dict[str, Any]) -> Plan:
    rows = [{"acceptance_criteria": ["it works"], "description": f"do {t['title']}", **t} for t in tasks]
    check = validate({"batch_name": "Batch", "pr_summary": "Why not. Fixes #88", "tasks": rows})
    assert check.plan, check.errors
    return check.plan


@contextlib.asynccontextmanager
async def world(
    tmp_path: Path,
    monkeypatch: Any,
    *,
    config: str = CONFIG,
    files: Files | None = None,
    branch: str = "main",
    dry_run: bool = False,
) -> AsyncIterator[World]:
    """Serve a forge with one project, and a fleet beside it with an engine in process."""
    source = project(tmp_path / "source", config, files or {}, branch)
    forge = LocalForge.open(tmp_path / "forge", clock=SystemClock(), ids=RandomIds(), owner="owner")
    try:
        with serve_in_thread(forge) as url:
            forge.import_repo("owner", "proj", source)
            token = forge.issue_token("herd-bot")
            made = World(tmp_path, forge, url, token)
            monkeypatch.setattr(work, "JOBS", {"worker": ("workers", made.play)})
            monkeypatch.setattr(review, "JOBS", {"review": ("reviews", made.reviewer)})
            spec = FleetSpec(
                home=Home(tmp_path / "home"),
                api_url=url,
                token=token,
                git_url=url,
                engine="inline",
                dry_run=dry_run,
            )
            async with open_fleet(spec) as fleet:
                made.fleet = fleet
                yield made
    finally:
        forge.close()


def states(jobs: list[JobInfo]) -> list[str]:
    return [job.state.value for job in jobs]
