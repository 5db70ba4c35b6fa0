"""The agent's run with what goes on beside it: the relay of its branch, and the progress comment (BAT-137, BAT-162)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import structlog

from droveway.core.errors import HerdError
from droveway.core.runner import Completed
from droveway.git import GitError, Place, Relay, RelayOutcome
from droveway.sessions import AgentRequest, Role, TurnResult, Walls, run_agent, run_walled
from droveway.work.validation import DiskTree
from droveway.work.worker import effects
from droveway.work.worker.branch import LEGACY_PROGRESS, Start, progress_path
from droveway.work.worker.model import Work

RELAY_SECONDS = 3.0
HARVEST_SECONDS = 60.0


async def invoke(work: Work, place: Place, relay: Relay, prompt: str, system: str, deadline: datetime) -> TurnResult:
    """Run the agent until it ends or its deadline; its branch and its checklist are shown meanwhile."""
    work.logs.mkdir(parents=True, exist_ok=True, mode=0o700)
    (work.logs / "prompt.md").write_text(work.fleet.redactor(prompt), encoding="utf-8")
    walls = walls_of(work, place)
    request = AgentRequest(
        repo=work.repo,
        role=Role(work.task.role),
        subject=f"issue:{work.number}",
        title=work.task.title,
        job=work.context.job.id,
        prompt=prompt,
        place=place.root,
        work_dir=place.tree,
        writable=walls.writable,
        readable=walls.readable,
        deadline=deadline,
        transcript=work.logs / "transcript.jsonl",
        issue=work.number,
        batch=work.orders.batch,
        attempt=work.orders.attempt,
        system=system,
        identity=walls.identity,
        model=work.task.front.model,
    )
    async with _beside(work, place, relay):
        return await run_agent(work.fleet, request, work.context)


def walls_of(work: Work, place: Place) -> Walls:
    """Give the walls of the place, the same for the agent, the harvest and the validation (BAT-151)."""
    return Walls(
        home=place.root / "home",
        writable=place.writable,
        readable=place.readonly,
        env=work.settings.workers.extra_env,
        identity=(work.user.name, work.user.email),
    )


async def harvest(work: Work, place: Place) -> None:
    """Push, inside the sandbox, what the agent committed and did not push; best effort."""
    done = await run_walled(
        work.fleet, walls_of(work, place), place.harvest_argv(), cwd=place.tree, timeout=HARVEST_SECONDS
    )
    if not done.ok:
        structlog.get_logger().info("harvest gave nothing", issue=work.number, code=done.code)


async def run_command(
    work: Work, place: Place, argv: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float
) -> Completed:
    """Run a validation command in the place; caches that Python writes go into the private home."""
    walls = walls_of(work, place)
    names = (*walls.env, *work.settings.validation.env)
    whole = {"PYTHONPYCACHEPREFIX": str(walls.home / "pycache"), **env}
    walls = Walls(walls.home, walls.writable, walls.readable, names, walls.identity)
    return await run_walled(
        work.fleet, walls, argv, cwd=cwd, env=whole, timeout=timeout, cancelled=work.context.cancelled
    )


def checklist(work: Work, place: Place | None) -> str:
    """Read the agent's checklist from its tree; it is only what the agent claims (BAT-161)."""
    if place is None:
        return ""
    tree = DiskTree(place.tree)
    return tree.text(progress_path(work.number)) or tree.text(LEGACY_PROGRESS) or ""


@contextlib.asynccontextmanager
async def _beside(work: Work, place: Place, relay: Relay) -> AsyncIterator[None]:
    """Keep the relay and the progress comment going while the body runs."""
    seconds = work.settings.workers.progress_interval_seconds
    tasks = [asyncio.ensure_future(_repeat(work, RELAY_SECONDS, lambda: relay_once(work, relay)))]
    if seconds > 0:
        shown = [checklist(work, place)]

        async def progress() -> None:
            now = checklist(work, place)
            if now != shown[0]:
                await effects.show_progress(work, now)
                shown[0] = now

        tasks.append(asyncio.ensure_future(_repeat(work, float(seconds), progress)))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _repeat(work: Work, seconds: float, do: Callable[[], Awaitable[None]]) -> None:
    """Do it again and again; what fails is logged and tried again: the end of the run does it once more for good."""
    while not work.context.cancelled.is_set():
        await work.fleet.clock.sleep(seconds)
        try:
            await do()
        except (HerdError, OSError) as error:
            note = work.fleet.redactor(str(error))
            structlog.get_logger().warning("beside the agent", issue=work.number, error=note)


async def relay_once(work: Work, relay: Relay) -> None:
    """Relay what the agent has pushed, while the lease holds."""
    await work.context.lease.check()
    result = await relay.push()
    if result.outcome in (RelayOutcome.LOST_LEASE, RelayOutcome.REJECTED):
        structlog.get_logger().warning("relay", issue=work.number, outcome=result.outcome.value, reason=result.reason)


__all__ = ["GitError", "Start", "checklist", "harvest", "invoke", "relay_once", "run_command", "walls_of"]
