"""The demo's run: a temporary home, a forge, a project, a plan, and the batch landing (CLI-003)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from droveway.agents import PROVIDERS
from droveway.app import Home
from droveway.core.clock import SystemClock
from droveway.core.errors import HerdError, InputError
from droveway.core.ids import RandomIds
from droveway.core.lease import Lease
from droveway.core.repo import RepoId
from droveway.core.runner import Runner
from droveway.demo.project import Project, make_project
from droveway.service import Running, UpOptions, running, save_secret

if TYPE_CHECKING:
    from droveway.batch import CycleReport
    from droveway.core.decisions import Blocker

_POLL_SECONDS = 2.0  # the ends of runs wake the loop; this is for what nobody tells
_LOOK_SECONDS = 5.0
_IDLE_CYCLES = 2


_PLAN = "demo"


class TaskResult(msgspec.Struct, frozen=True):
    """What became of one task; a fix or resolver issue stands in no tier."""

    number: int
    title: str
    tier: int | None
    state: str
    attempts: int


class PullResult(msgspec.Struct, frozen=True):
    """What became of the batch PR."""

    number: int
    merged: bool
    merge_sha: str


class DemoResult(msgspec.Struct, frozen=True):
    """The demo's end, as ``--json`` prints it. ``seconds`` is wall time from the plan on."""

    ok: bool
    batch: int
    tasks: list[TaskResult]
    pr: PullResult | None
    forge_requests: int
    seconds: float


@dataclass(frozen=True)
class DemoOptions:
    """``data`` None: a temporary folder that goes at the end, unless ``keep``. ``say`` gets lines for people."""

    source: str | None = None
    agent: str = "scripted"
    model: str = ""
    data: Path | None = None
    keep: bool = False
    timeout: float = 600.0
    port: int = 0
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    say: Callable[[str], None] = print
    served: Callable[[Running, RepoId, Path], Any] | None = None


async def run_demo(options: DemoOptions) -> DemoResult:
    """Land the demo's batch and give what happened. With ``served`` that coroutine function is awaited at the end.

    Raises InputError for an agent that is unknown or can't be used here, HerdError where the batch does not land.
    """
    provider = PROVIDERS.get(options.agent)
    if provider is None:
        raise InputError(f"unknown agent {options.agent!r}; known are {', '.join(sorted(PROVIDERS))}")
    problem = provider.login_check(options.environ, Path.home())
    if problem:
        raise InputError(f"--agent {options.agent}: {problem}")
    if options.data is not None or options.keep:
        root = options.data or Path(tempfile.mkdtemp(prefix="herd-demo-"))
        root.mkdir(parents=True, exist_ok=True)
        return await _in(root, options)
    with tempfile.TemporaryDirectory(prefix="herd-demo-", ignore_cleanup_errors=True) as folder:
        return await _in(Path(folder), options)


async def _in(root: Path, options: DemoOptions) -> DemoResult:
    clock, ids = SystemClock(), RandomIds()
    runner = Runner(clock, ids)
    plan_file = root / "plan.json"
    if not plan_file.exists():  # written last and whole: with it, all that the demo starts from is there
        shutil.rmtree(root / "project", ignore_errors=True)
        project = await make_project(
            runner, options.environ, root / "project", options.source, agent=options.agent, model=options.model
        )
        (root / "script.yaml").write_text(project.script(), encoding="utf-8")
        save_secret(plan_file, msgspec.json.format(msgspec.json.encode(project.plan())).decode())
    else:  # an earlier demo in the same folder was interrupted: it goes on from what is on its forge
        project = Project("project", root / "project", "", "", {})
    environ = {name: value for name, value in options.environ.items() if not name.startswith(("HERD_", "DROVEWAY_"))}
    home = Home(root / "home")

    course = _Course()

    def told(_repo: RepoId, _number: int, report: CycleReport) -> None:
        for line in report.lines:
            options.say(f"  {line}")
        course.follow(report)

    up = UpOptions(
        home=home,
        environ=environ,
        port=options.port,
        poll_seconds=_POLL_SECONDS,
        script=root / "script.yaml" if options.agent == "scripted" else None,
        clock=clock,
        ids=ids,
        on_cycle=told,
    )
    began = clock.monotonic()
    async with running(up) as service:
        repo = RepoId("owner", "demo")
        options.say(f"forge on {service.info.forge_url}, project {project.name}, agent {options.agent}")
        options.say(f"sandbox {service.fleet.sandbox.level}: {service.fleet.sandbox.reason}")
        number = await _start_batch(service, repo, project, plan_file, options)
        try:
            async with asyncio.timeout(options.timeout):
                await _landed(service, repo, number, course)
        except TimeoutError:
            told_last = _reasons(f"the batch had not landed after {options.timeout:g} seconds; it waits for:", course)
            raise HerdError(told_last) from None
        result = await _result(service, repo, number, clock.monotonic() - began)
        _tell(result, root, options)
        if options.served is not None:
            await options.served(service, repo, root)
        return result


async def _start_batch(service: Running, repo: RepoId, project: Project, plan_file: Path, options: DemoOptions) -> int:
    from droveway.batch import create_batch, read_metadata, read_plan

    assert service.forge is not None
    if not service.forge.has_repo(repo.owner, repo.name):
        service.forge.create_repo(repo.owner, repo.name)
    if await service.fleet.forge.ref(repo, "refs/heads/main") is None:  # also after a crash between the two
        service.forge.import_repo(repo.owner, repo.name, project.path)
    for milestone in await service.fleet.forge.milestones(repo, state="closed"):
        if read_metadata(milestone.description).plan == _PLAN:  # an earlier demo here was killed after it had landed
            return milestone.number
    created = await create_batch(
        service.fleet,
        repo,
        read_plan(plan_file).plan,
        _PLAN,
        created_by={"login": "owner", "name": "Droveway Demo", "email": "droveway@noreply.invalid"},
        lease=Lease.unshared(f"plan/{repo}/demo"),
    )
    options.say(f"batch #{created.milestone} '{created.title}': {len(created.issues)} tasks on {created.branch}")
    service.loops.wake(repo, created.milestone)
    return created.milestone


class _Course:
    """What the cycles' reports say of the batch: that something is to be looked at, and what only a person can clear.

    One cycle may look before a worker's end has been acted on; a batch that waits for people in two in a row stands
    still, and nobody is there in a demo.
    """

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.waiting: tuple[Blocker, ...] = ()
        self.stuck = False
        self._idle = 0

    def follow(self, report: CycleReport) -> None:
        waits = bool(report.waiting) and all(blocker.who == "a person" for blocker in report.waiting)
        self._idle = self._idle + 1 if waits and not report.acted else 0
        self.waiting = report.waiting
        self.stuck = self._idle >= _IDLE_CYCLES
        if report.ended or self.stuck:
            self.news.set()


def _reasons(head: str, course: _Course) -> str:
    return "\n".join([head, *(f"  {blocker.because} ({blocker.clears})" for blocker in course.waiting)])


async def _landed(service: Running, repo: RepoId, number: int, course: _Course) -> None:
    """Wait until the batch's milestone is closed: that is what "landed" is on the forge (BAT-222).

    The loop says when; the forge is asked now and then all the same: a person may close the milestone. Raises HerdError
    with the reasons where the batch stands still.
    """
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_SECONDS):
                await course.news.wait()
        milestone = await service.fleet.forge.milestone(repo, number)
        if milestone is None:
            raise HerdError(f"the demo's milestone #{number} is gone")
        if milestone.state == "closed":
            return
        if course.stuck:
            raise HerdError(_reasons("the batch stands still, and only a person could go on:", course))
        course.news.clear()


async def _result(service: Running, repo: RepoId, number: int, seconds: float) -> DemoResult:
    from droveway.batch import show_batch

    shown = await show_batch(service.fleet, repo, number)
    pull = shown.pull
    tasks = [TaskResult(task.number, task.title, task.tier, task.state, task.attempts) for task in shown.tasks]
    merged = PullResult(pull.number, pull.state == "merged", pull.merge_sha or "") if pull else None
    ok = bool(merged and merged.merged) and all(task.state == "done" for task in tasks)
    return DemoResult(ok, number, tasks, merged, service.fleet.forge.requests(), round(seconds, 2))


def _tell(result: DemoResult, root: Path, options: DemoOptions) -> None:
    say = options.say
    say("")
    for task in result.tasks:
        tier = "-" if task.tier is None else task.tier
        attempts = "1 attempt " if task.attempts == 1 else f"{task.attempts} attempts"
        say(f"  #{task.number:<3} tier {tier}  {task.state:<9} {attempts}  {task.title}")
    if result.pr:
        state = f"merged as {result.pr.merge_sha[:12]}" if result.pr.merged else "not merged"
        say(f"  PR #{result.pr.number}: {state}")
    say(f"  {result.seconds} s, {result.forge_requests} forge requests")
    if options.keep or options.data:
        say(f"  data: {root}")
