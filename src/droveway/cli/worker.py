"""``herd worker``."""

from __future__ import annotations

import click

from droveway.cli.common import Say, beside, common, repo_option, run


@click.group()
def worker() -> None:
    """Do one worker's run by hand."""


@worker.command("exec")
@click.argument("issue", type=click.IntRange(1))
@repo_option
@common()
def exec_(say: Say, issue: int, repo: str | None) -> None:
    """Do the work of ISSUE here and now: its branch, the agent, validation, push, report, label (BAT-122)."""
    run(_exec(say, issue, repo))


async def _exec(say: Say, issue: int, repo: str | None) -> None:
    from droveway.batch import worker_job
    from droveway.core.errors import HerdError
    from droveway.core.jobs import JobState

    async with beside(repo, engine="inline") as (fleet, target):
        job = await worker_job(fleet, target.repo, issue)
        await fleet.engine.enqueue(job)
        info = await fleet.engine.wait(job.id)
    say.line(f"{job.id}: {info.state}" + (f", {info.error}" if info.error else f", {info.result}"))
    say.result({"run_id": job.id, "state": info.state, "result": info.result, "error": info.error})
    if info.state is not JobState.DONE:
        raise HerdError(info.error or f"the run ended {info.state}")
