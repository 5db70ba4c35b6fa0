"""A Fleet with real runner, sandbox and store; its forge is never asked."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from droveway.core.actuator import Actuator
from droveway.core.clock import Clock, SystemClock
from droveway.core.ids import RandomIds
from droveway.core.jobs import Job
from droveway.core.lease import Lease
from droveway.core.repo import RepoId
from droveway.core.runner import Runner, scrubbed_environment
from droveway.core.settings import Settings, parse_settings
from droveway.core.text import Redactor
from droveway.engine import InlineEngine, JobContext
from droveway.forge.github import GitHubForge
from droveway.git import Git, Mirror
from droveway.sandbox import Sandbox
from droveway.sessions import AgentRequest, Fleet, Role
from droveway.store import Store

REPO = RepoId("o", "r")
CANARY = "ghp_canary0123456789canary0123456789"


@contextlib.asynccontextmanager
async def open_fleet(root: Path, raw: dict[str, Any], clock: Clock | None = None) -> AsyncIterator[Fleet]:
    """Build a Fleet below ``root`` with the given settings."""
    clock = clock or SystemClock()
    ids = RandomIds()
    runner = Runner(clock, ids)
    redactor = Redactor()
    settings = parse_settings(raw)
    forge = GitHubForge("http://127.0.0.1:9", CANARY, clock=clock, store_etags=None, redactor=redactor)
    store = await Store.open(f"sqlite:///{root / 'store.db'}", clock=clock, ids=ids)

    async def settings_of(_repo: RepoId) -> Settings:
        return settings

    async def no_mirror(repo: RepoId) -> Mirror:
        raise AssertionError(repo)

    try:
        yield Fleet(
            clock=clock,
            ids=ids,
            runner=runner,
            redactor=redactor,
            git=Git(runner, scrubbed_environment(os.environ)),
            forge=forge,
            sandbox=await Sandbox.probe(runner),
            store=store,
            engine=InlineEngine(clock=clock, ids=ids, slots={}),
            actuator=Actuator({}, audit=store, clock=clock, ids=ids, redactor=redactor),
            settings=settings_of,
            mirror=no_mirror,
            runs=lambda _repo: root / "runs",
        )
    finally:
        await store.close()
        await forge.close()


def context(fleet: Fleet, minutes: float = 10) -> JobContext:
    now = fleet.clock.now()
    job = Job("worker/o/r/12/1", "worker", "issue:12")
    return JobContext(job, now, asyncio.Event(), Lease.unshared("x"), now + timedelta(minutes=minutes))


def request(root: Path, **more: Any) -> AgentRequest:
    work = root / "place" / "tree"
    work.mkdir(parents=True, exist_ok=True)
    values: dict[str, Any] = {
        "repo": REPO,
        "role": Role.WORKER,
        "subject": "issue:12",
        "title": "A task",
        "job": "worker/o/r/12/1",
        "prompt": "Role: worker\nIssue: #12 A task\nAttempt: 1\n\nDo it.",
        "place": root / "place",
        "work_dir": work,
        "deadline": 60.0,
        "transcript": root / "logs" / "transcript.jsonl",
        "issue": 12,
        "batch": 3,
    }
    return AgentRequest(**values | more)
