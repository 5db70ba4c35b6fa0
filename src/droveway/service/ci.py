"""The embedded forge's CI: ``ci.commands`` at each head of a PR or batch branch, as check runs of the bot (FRG-028).

Observe (heads that have no completed check runs of ours), decide (start, or cancel what is no head any more), act. A
push only makes the look sooner, so that a crash loses nothing: what it left is found by the first look.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from droveway.agents import agent_environment
from droveway.core.errors import HerdError
from droveway.core.facts import FactUnknownError
from droveway.core.points import point
from droveway.core.repo import RepoId
from droveway.core.runner import Completed
from droveway.core.settings import Settings
from droveway.forge import CheckRunChange
from droveway.git import Checkout
from droveway.service import ci_words as words
from droveway.sessions import Walls, run_walled
from droveway.work.validation import DiskTree, plan, run_checks

if TYPE_CHECKING:
    from droveway.localforge import CiView, LocalForge
    from droveway.sessions import Fleet

EXTERNAL_ID = "herd-ci"
SLOTS = 2
LOOK_SECONDS = 30.0
MAX_TRIES = 3
_TROUBLES = (HerdError, FactUnknownError, OSError, TimeoutError)


@dataclass
class _Job:
    """One commit that is being checked. ``stop`` is set when it is the head of nothing any more."""

    repo: RepoId
    sha: str
    settings: Settings
    stop: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class _Seen:
    """What is remembered of a repository; all of it only spares reading the forge again."""

    jobs: dict[str, _Job] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    tries: Counter[str] = field(default_factory=Counter)


class CiRunner:
    """Runs until it is cancelled; at most ``slots`` commits at a time."""

    def __init__(
        self,
        fleet: Fleet,
        forge: LocalForge,
        *,
        only: Sequence[RepoId] = (),
        slots: int = SLOTS,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        """Check heads of ``forge``, of the repositories ``only`` or of all that our identity may write to."""
        self._fleet = fleet
        self._forge = forge
        self._only = frozenset(only)
        self._slots = asyncio.Semaphore(slots)
        self._look_seconds = look_seconds
        self._wake = asyncio.Event()
        self._seen: dict[RepoId, _Seen] = {}
        self._log = structlog.get_logger().bind(loop="ci")

    async def run(self) -> None:
        """Look at every push, and now and then."""
        loop = asyncio.get_running_loop()

        def told(_repo: str, _ref: str, _sha: str) -> None:
            with contextlib.suppress(RuntimeError):  # our loop has ended
                loop.call_soon_threadsafe(self._wake.set)

        self._forge.on_push = told
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    self._wake.clear()
                    for view in await asyncio.to_thread(self._forge.ci_view, self._fleet.forge.login, EXTERNAL_ID):
                        await self._settle(view, group)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self._look_seconds):
                            await self._wake.wait()
        finally:
            self._forge.on_push = None

    async def _settle(self, view: CiView, group: asyncio.TaskGroup) -> None:
        """Start and stop what one repository's heads ask for; a failure costs no other repository its turn."""
        repo = RepoId.parse(view.repo)
        if self._only and repo not in self._only:
            return
        try:
            await self._look(repo, view, group)
        except _TROUBLES as error:
            self._log.warning("heads could not be looked at", repo=view.repo, error=self._said(error))

    async def _look(self, repo: RepoId, view: CiView, group: asyncio.TaskGroup) -> None:
        heads = set(view.heads.values())
        if repo not in self._seen:
            # Only a killed service leaves folders here: one serves a home, and this is its first look.
            await Checkout(self._folder(repo), self._fleet.clock).remove()
        seen = self._seen.setdefault(repo, _Seen())
        seen.done &= heads
        for sha, job in seen.jobs.items():
            if sha not in heads:
                job.stop.set()
        for run, sha in view.unfinished:
            if sha not in heads:
                await self._fleet.forge.update_check_run(repo, run, words.superseded())
        fresh = sorted(heads - seen.done - seen.jobs.keys())
        if not fresh:
            return
        settings = await self._fleet.settings(repo)
        if settings.ci.commands:
            for sha in fresh:
                job = seen.jobs[sha] = _Job(repo, sha, settings)
                group.create_task(self._job(job, seen))

    async def _job(self, job: _Job, seen: _Seen) -> None:
        """Check one commit; what fails in the checking itself is tried again at later looks, and then told."""
        trouble = ""
        try:
            open_runs = await self._announce(job)
            if open_runs:
                async with self._slots:
                    if not job.stop.is_set():
                        await self._check(job, open_runs)
            if not job.stop.is_set():
                seen.done.add(job.sha)
        except _TROUBLES as error:
            trouble = self._said(error)
            self._log.warning("a head could not be checked", repo=str(job.repo), sha=job.sha, error=trouble)
            seen.tries[job.sha] += 1
        try:
            if trouble and seen.tries[job.sha] >= MAX_TRIES and not job.stop.is_set():
                for run in (await self._announce(job)).values():
                    await self._fleet.forge.update_check_run(job.repo, run, words.not_run(trouble))
                seen.done.add(job.sha)
        except _TROUBLES as error:
            self._log.warning("a check run could not be ended", repo=str(job.repo), error=self._said(error))
        finally:
            seen.jobs.pop(job.sha, None)
            if job.stop.is_set():
                self._wake.set()  # what it has left open is ended, or begun again where it is a head once more

    async def _announce(self, job: _Job) -> dict[str, int]:
        """Make sure that each command has its one check run; give those that are not ended, by name.

        A cancelled one counts as not ended: its commit is a head once more.
        """
        forge = self._fleet.forge
        app = forge.login.lower()
        found = {run.name: run for run in (await forge.checks(job.repo, job.sha)).runs if run.app.lower() == app}
        open_runs = {}
        for each in words.named(job.settings.ci):
            run = found.get(each.name)
            if run is None:
                open_runs[each.name] = await forge.create_check_run(
                    job.repo, job.sha, each.name, external_id=EXTERNAL_ID
                )
                await point("ci.queued")
            elif run.status != "completed" or run.conclusion == "cancelled":
                open_runs[each.name] = run.id
        return open_runs

    async def _check(self, job: _Job, open_runs: Mapping[str, int]) -> None:
        """Run the commands of one commit in one fresh tree, one after the other."""
        root = self._folder(job.repo) / job.sha
        place = await Checkout.create(root, await self._fleet.mirror(job.repo), job.sha)
        try:
            await self._commands(job, place, open_runs)
        finally:
            await place.remove()

    async def _commands(self, job: _Job, place: Checkout, open_runs: Mapping[str, int]) -> None:
        forge = self._fleet.forge
        broken = ""
        files = DiskTree(place.tree).files()
        for each in words.named(job.settings.ci):
            run = open_runs.get(each.name)
            if run is None and not each.setup:
                continue  # it had ended before a crash; a setup is needed again for the others
            if broken:
                change = words.not_run(f"the setup failed: {broken}")
            else:
                if run is not None:
                    await forge.update_check_run(job.repo, run, words.started(self._fleet.sandbox.level.value))
                    await point("ci.started")
                change = await self._run(job, place, each, files)
            if job.stop.is_set():
                return
            if each.setup and change.conclusion in ("failure", "timed_out"):
                broken = broken or each.name
            if run is not None:
                await forge.update_check_run(job.repo, run, change)
                await point("ci.ended")

    async def _run(self, job: _Job, place: Checkout, each: words.Named, files: Sequence[str]) -> CheckRunChange:
        walls = Walls(place.root / "home", writable=(place.tree,))

        async def run(argv: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float) -> Completed:
            whole = {"CI": "true", "PYTHONPYCACHEPREFIX": str(walls.home / "pycache"), **env}
            return await run_walled(self._fleet, walls, argv, cwd=cwd, env=whole, timeout=timeout, cancelled=job.stop)

        checks = plan(each.validation(job.settings), DiskTree(place.tree))
        report = await run_checks(
            checks,
            place.tree,
            run,
            clock=self._fleet.clock,
            budget=sum(check.timeout_seconds for check in checks),
            path=agent_environment(os.environ, walls.home)["PATH"],
        )
        return words.finished(report, each.command, files)

    def _folder(self, repo: RepoId) -> Path:
        return self._fleet.runs(repo).parent / "ci"

    def _said(self, error: BaseException) -> str:
        return self._fleet.redactor(f"{type(error).__name__}: {error}")
