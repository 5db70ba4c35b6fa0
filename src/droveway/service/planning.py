"""From a description to a plan file by the planner agent; the clone's preflight; who plans (BAT-007 … BAT-013)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from droveway.core.errors import HerdError, InputError
from droveway.core.lease import Lease
from droveway.core.runner import Limits, Runner, scrubbed_environment
from droveway.core.text import cut_bytes, fence_untrusted
from droveway.service.target import Target

if TYPE_CHECKING:
    from droveway.batch import ReadPlan
    from droveway.engine import JobContext
    from droveway.sessions import Fleet

PLANS = ".herd/plans"
_MANIFESTS = (
    "pyproject.toml", "package.json", "go.mod", "Cargo.toml", "pom.xml", "build.gradle", "build.gradle.kts", "Gemfile",
    "Makefile",
)  # fmt: skip
_PLANNER_SECONDS = 1800.0


async def preflight(runner: Runner, environ: Mapping[str, str], top: Path) -> list[str]:
    """Give warnings about the clone: a dirty tree, a base that is behind (BAT-009). Nothing is changed."""
    env = scrubbed_environment(environ, {"GIT_TERMINAL_PROMPT": "0"})

    async def git(*args: str) -> tuple[bool, str]:
        done = await runner.run(["git", *args], cwd=top, env=env, limits=Limits(timeout=60))
        return done.ok, done.text().strip()

    warnings = []
    fetched, _ = await git("fetch", "--quiet", "herd")
    if not fetched:
        warnings.append("the remote 'herd' could not be fetched; planning on what is here")
    _, dirty = await git("status", "--porcelain", "--untracked-files=no")
    if dirty:
        count = len(dirty.splitlines())
        files = "1 file has" if count == 1 else f"{count} files have"
        warnings.append(f"{files} uncommitted changes, which workers will not see")
    return warnings


async def author_of(runner: Runner, environ: Mapping[str, str], target: Target) -> dict[str, str]:
    """Give the dispatching person from git's configuration: the author of the workers' commits (BAT-128)."""

    async def configured(key: str) -> str:
        done = await runner.run(
            ["git", "config", "--get", key],
            cwd=target.root or Path.cwd(),
            env=scrubbed_environment(environ),
            limits=Limits(timeout=10),
        )
        return done.text().strip() if done.ok else ""

    name = await configured("user.name")
    return {"login": target.repo.owner, "name": name or target.repo.owner, "email": await configured("user.email")}


def keep_plan(top: Path, read: ReadPlan) -> Path:
    """Keep the plan in its one place until the batch exists, so that a broken creation can be resumed (BAT-013)."""
    from droveway.batch import plan_as_json

    path = top / PLANS / f"{read.plan_id}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(plan_as_json(read.plan), encoding="utf-8")
    return path


async def ask_planner(fleet: Fleet, target: Target, description: str, *, strict_scope: bool) -> tuple[Path, ReadPlan]:
    """Let the planner agent turn a description into a plan; its answer is the plan's JSON, checked like any plan."""
    from droveway.agents import OutputError, Role
    from droveway.batch import Plan, plan_as_json, read_plan
    from droveway.sessions import AgentRequest, render_prompt, run_agent

    top = target.root
    assert top is not None
    place = fleet.runs(target.repo) / f"plan-{fleet.ids.new()[:12]}"
    work = place / "tree"
    work.mkdir(parents=True)
    house = top / ".herd" / "planner.md"
    prompt = render_prompt(
        "droveway.service",
        "planner",
        description=description,
        tree=fence_untrusted(_tree(top), source="the repository's tree", limit=2000),
        readme=fence_untrusted(_text(top / "README.md"), source="README.md", limit=2000),
        manifests=fence_untrusted(
            "\n\n".join(f"# {name}\n{_text(top / name)}" for name in _MANIFESTS if (top / name).exists()),
            source="manifests",
            limit=2000,
        ),
        house=_text(house) if house.exists() else "",
    )
    request = AgentRequest(
        repo=target.repo,
        role=Role.PLANNER,
        subject="plan:new",
        title=description[:80],
        job=f"plan/{place.name}",
        prompt=prompt,
        place=place,
        work_dir=work,
        readable=(top,),
        deadline=_PLANNER_SECONDS,
        transcript=place / "transcript.jsonl",
        output_type=Plan,
        read_only=True,
    )
    try:
        turn = await run_agent(fleet, request, _context(fleet, request.job))
        problem = "" if turn.ok and turn.output is not None else turn.error or str(turn.outcome)
    except OutputError as error:
        problem = str(error)
    if problem:
        raise HerdError(f"the planner gave no plan: {problem}; its transcript: {request.transcript}")
    path = top / PLANS / f"{place.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(plan_as_json(turn.output), encoding="utf-8")
    try:
        return path, read_plan(path, strict_scope=strict_scope)
    except InputError as error:
        raise InputError(
            str(error), f"the planner's plan is kept; mend it, then: herd plan --from-file {path}"
        ) from None


def _context(fleet: Fleet, name: str) -> JobContext:
    """Give the context of a run that is no engine's job: a person sits before it and can interrupt it."""
    from droveway.engine import Job, JobContext

    now = fleet.clock.now()
    deadline = now + timedelta(seconds=_PLANNER_SECONDS + 60)
    return JobContext(Job(name, "plan", "plan:new"), now, asyncio.Event(), Lease.unshared(name), deadline)


def _tree(top: Path) -> str:
    lines = []
    for path in sorted(top.iterdir()):
        if path.name == ".git":
            continue
        lines.append(path.name + ("/" if path.is_dir() else ""))
        if path.is_dir() and not path.is_symlink():
            lines += [f"  {inner.name}" for inner in sorted(path.iterdir())[:40]]
    return "\n".join(lines)


def _text(path: Path) -> str:
    try:
        return cut_bytes(re.sub(r"\x00", "", path.read_text(encoding="utf-8", errors="replace")), 2000)
    except OSError:
        return ""
