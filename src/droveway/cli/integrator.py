"""``herd integrator``: the integrator's steps by hand (CMD-037, CMD-038)."""

from __future__ import annotations

import click

from droveway.cli.common import Say, beside, common, repo_option, run


@click.group()
def integrator() -> None:
    """Do the integrator's steps by hand."""


def _step(name: str, text: str) -> None:
    @integrator.command(name, help=text)
    @click.option("--batch", type=click.IntRange(1), help="The batch.")
    @click.option("--run-id", help="The worker's run; it only tells the batch.")
    @click.option("--pr", type=click.IntRange(1), help="The batch PR.")
    @repo_option
    @common(dry_run=True)
    def verb(say: Say, batch: int | None, run_id: str | None, pr: int | None, repo: str | None, dry_run: bool) -> None:
        from droveway.core.errors import InputError

        if batch is None and run_id is None and pr is None:
            raise InputError("name what it is for: --batch N, --run-id ID or --pr N")
        run(_do(say, name, batch, run_id, pr, repo, dry_run))


_step("consolidate", "Merge all finished worker branches of the batch into the batch branch, with one push.")
_step("advance", "Unblock and dispatch the next tier, or open the batch PR.")
_step("review", "Review the batch PR's head, unless it has a result.")
_step("merge", "Merge the batch PR if it is ready; a person's word, so auto_merge may be off.")


async def _do(
    say: Say, step: str, batch: int | None, run_id: str | None, pr: int | None, repo: str | None, dry_run: bool
) -> None:
    from droveway.batch import batch_of, integrate_step
    from droveway.core.errors import BusyError

    async with beside(repo, dry_run=dry_run) as (fleet, target):
        number = await batch_of(fleet, target.repo, batch=batch, run_id=run_id, pull=pr)
        lease = await fleet.engine.lease(f"integrate/{target.repo}/{number}")
        if lease is None:
            raise BusyError(f"a cycle of batch #{number} is running: try again in a moment")
        try:
            report = await integrate_step(fleet, target.repo, number, step, lease)
        finally:
            await fleet.engine.release(lease)
    for line in report.lines or ["nothing to do"]:
        say.line(line)
    for blocker in report.waiting:
        say.line(f"waits: {blocker.because}")
    say.result({"batch": number, "step": step, "lines": report.lines, "waiting": report.waiting})
