"""``herd status``."""

from __future__ import annotations

import click

from droveway.cli.common import Say, beside, common, repo_option, run


@click.command()
@click.option("--batch", type=click.IntRange(1), help="Only this batch.")
@click.option("--api", is_flag=True, help="Also say what this cost in requests.")
@repo_option
@common()
def status(say: Say, batch: int | None, api: bool, repo: str | None) -> None:
    """Show the batches and the workers."""
    run(_status(say, batch, api, repo))


async def _status(say: Say, batch: int | None, api: bool, repo: str | None) -> None:
    from droveway.batch import batches

    async with beside(repo) as (fleet, target):
        found = [item for item in await batches(fleet, target.repo) if batch in (None, item.number)]
        jobs = await fleet.engine.jobs(kind="worker", id_prefix=f"worker/{target.repo}/", active_only=True)
        requests = fleet.forge.requests()
    workers = [{"run_id": job.id, "status": job.state, "url": ""} for job in jobs]
    for item in found:
        manual = f", {item.manual} manual 👤" if item.manual else ""
        counts = f"{item.active} active, {item.ready} ready, {item.blocked} blocked, {item.failed} failed{manual}"
        say.line(f"#{item.number:<4} {item.done}/{item.total} done, {counts}   {item.title}")
    if not found:
        say.line("no batch")
    for job in jobs:
        say.line(f"worker {job.id}  {job.state}")
    if api:
        say.line(f"{requests} requests")
    say.result({"batches": found, "workers": workers, **({"requests": requests} if api else {})})
