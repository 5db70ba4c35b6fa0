"""The demo's run: a temporary home, a forge, a project, a plan, and the batch landing (CLI-003)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from droveway.app import Home
from droveway.core.clock import SystemClock
from droveway.core.errors import HerdError
from droveway.core.ids import RandomIds
from droveway.core.lease import Lease
from droveway.core.repo import RepoId
from droveway.core.runner import Runner
from droveway.demo.project import Project, make_project
from droveway.service import Running, UpOptions, running

_POLL_SECONDS = 2.0  # the ends of runs wake the loop; this is for what nobody tells
_LOOK_SECONDS = 5.0


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
    data: Path | None = None
    keep: bool = False
    timeout: float = 600.0
    port: int = 0
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    say: Callable[[str], None] = print
    served: Callable[[Running, RepoId, Path], Any] | None = None


async def run_demo(options: DemoOptions) -> DemoResult:
    """Land the demo's batch and give what happened. With ``served`` that coroutine function is awaited at the end."""
    if options.data is not None or options.keep:
        root = options.data or Path(tempfile.mkdtemp(prefix="herd-demo-"))
        root.mkdir(parents=True, exist_ok=True)
        return await _in(root, options)
    with tempfile.TemporaryDirectory(prefix="herd-demo-", ignore_cleanup_errors=True) as folder:
        return await _in(Path(folder), options)


async def _in(root: Path, options: DemoOptions) -> DemoResult:
    clock, ids = SystemClock(), RandomIds()
    runner = Runner(clock, ids)
    if not (root / "project" / ".git").exists():
        project = await make_project(runner, options.environ, root / "project", options.source, agent=options.agent)
        (root / "script.yaml").write_text(project.script(), encoding="utf-8")
        (root / "plan.json").write_bytes(msgspec.json.format(msgspec.json.encode(project.plan())))
    else:  # an earlier demo in the same folder was interrupted: it goes on from what is on its forge
        project = Project("project", root / "project", "", "", {})
    environ = {name: value for name, value in options.environ.items() if not name.startswith(("HERD_", "DROVEWAY_"))}
    home = Home(root / "home")

    ended = asyncio.Event()

    def told(_repo: RepoId, _number: int, report: Any) -> None:
        for line in report.lines:
            options.say(f"  {line}")
        if report.ended:
            ended.set()

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
        number = await _start_batch(service, repo, project, root / "plan.json", options)
        async with asyncio.timeout(options.timeout):
            await _landed(service, repo, number, ended)
        result = await _result(service, repo, number, clock.monotonic() - began)
        _tell(result, root, options)
        if options.served is not None:
            await options.served(service, repo, root)
        return result


async def _start_batch(service: Running, repo: RepoId, project: Project, plan_file: Path, options: DemoOptions) -> int:
    from droveway.batch import create_batch, read_plan

    assert service.forge is not None
    existing = {RepoId.parse(found.name) for found in await service.fleet.forge.repositories()}
    if repo not in existing:
        service.forge.create_repo(repo.owner, repo.name)
        service.forge.import_repo(repo.owner, repo.name, project.path)
    created = await create_batch(
        service.fleet,
        repo,
        read_plan(plan_file).plan,
        "demo",
        created_by={"login": "owner", "name": "Droveway Demo", "email": "droveway@noreply.invalid"},
        lease=Lease.unshared(f"plan/{repo}/demo"),
    )
    options.say(f"batch #{created.milestone} '{created.title}': {len(created.issues)} tasks on {created.branch}")
    service.loops.wake(repo, created.milestone)
    return created.milestone


async def _landed(service: Running, repo: RepoId, number: int, ended: asyncio.Event) -> None:
    """Wait until the batch's milestone is closed: that is what "landed" is on the forge (BAT-222).

    The loop says when; the forge is asked now and then all the same: a person may close the milestone.
    """
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_SECONDS):
                await ended.wait()
        milestone = await service.fleet.forge.milestone(repo, number)
        if milestone is None:
            raise HerdError(f"the demo's milestone #{number} is gone")
        if milestone.state == "closed":
            return
        ended.clear()


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
        say(f"  #{task.number:<3} tier {task.tier}  {task.state:<9} {task.attempts} attempt(s)  {task.title}")
    if result.pr:
        state = f"merged as {result.pr.merge_sha[:12]}" if result.pr.merged else "not merged"
        say(f"  PR #{result.pr.number}: {state}")
    say(f"  {result.seconds} s, {result.forge_requests} forge requests")
    if options.keep or options.data:
        say(f"  data: {root}")
