"""``herd batch``."""

from __future__ import annotations

import sys

import click

from droveway.cli.common import Say, beside, common, repo_option, run


@click.group()
def batch() -> None:
    """List, show, cancel, pause and resume batches."""


@batch.command("list")
@click.option("--all", "every", is_flag=True, help="Also those that have landed or were cancelled.")
@repo_option
@common()
def list_(say: Say, every: bool, repo: str | None) -> None:
    """List the batches."""
    run(_list(say, every, repo))


async def _list(say: Say, every: bool, repo: str | None) -> None:
    from droveway.batch import batches

    async with beside(repo) as (fleet, target):
        found = await batches(fleet, target.repo, every=every)
    for item in found:
        say.line(f"#{item.number:<4} {item.state:<11} {item.done}/{item.total}  {item.title}")
    if not found:
        say.line("no batch")
    say.result(found)


@batch.command()
@click.argument("number", type=click.IntRange(1))
@repo_option
@common()
def show(say: Say, number: int, repo: str | None) -> None:
    """Show one batch: its tasks by tiers, its PR."""
    run(_show(say, number, repo))


async def _show(say: Say, number: int, repo: str | None) -> None:
    from droveway.batch import show_batch

    async with beside(repo) as (fleet, target):
        shown = await show_batch(fleet, target.repo, number)
    say.line(f"#{shown.number} {shown.title}: {shown.state}")
    for task in shown.tasks:
        manual = "👤 " if task.manual else ""
        tier = "-" if task.tier is None else task.tier
        say.line(f"  tier {tier}  {task.state:<11} #{task.number:<4} {manual}{task.title}")
    if shown.pull:
        say.line(f"  PR #{shown.pull.number}: {shown.pull.state}")
    say.result(shown)


@batch.command()
@click.argument("number", type=click.IntRange(1))
@click.option("--force", is_flag=True, help="Do not ask.")
@repo_option
@common(dry_run=True)
def cancel(say: Say, number: int, force: bool, repo: str | None, dry_run: bool) -> None:
    """Cancel a batch for good: its runs end; its issues, PR and milestone are closed; its branches go."""
    from droveway.core.errors import HerdError

    if not force and not dry_run:
        if not sys.stdin.isatty():
            raise HerdError(f"cancelling batch #{number} can't be undone: give --force where nobody can be asked")
        if click.prompt(f"Cancel batch #{number} for good? Type 'yes'", default="no") != "yes":
            raise HerdError("nothing was cancelled")
    run(_cancel(say, number, repo, dry_run))


async def _cancel(say: Say, number: int, repo: str | None, dry_run: bool) -> None:
    from droveway.batch import cancel_batch
    from droveway.core.lease import Lease

    async with beside(repo, dry_run=dry_run) as (fleet, target):
        lines = await cancel_batch(fleet, target.repo, number, Lease.unshared(f"cancel/{target.repo}/{number}"))
    for line in lines:
        say.line(line)
    say.result({"batch": number, "lines": lines, "dry_run": dry_run})


def _pause(name: str, paused: bool, text: str) -> None:
    @batch.command(name, help=text)
    @click.argument("number", type=click.IntRange(1))
    @repo_option
    @common(dry_run=True)
    def verb(say: Say, number: int, repo: str | None, dry_run: bool) -> None:
        run(_set_paused(say, number, repo, dry_run, paused))


_pause("pause", True, "Start nothing new of this batch; running workers finish.")
_pause("resume", False, "Let a paused batch go on.")


async def _set_paused(say: Say, number: int, repo: str | None, dry_run: bool, paused: bool) -> None:
    from droveway.batch import pause_batch
    from droveway.core.lease import Lease

    async with beside(repo, dry_run=dry_run) as (fleet, target):
        lease = Lease.unshared(f"pause/{target.repo}/{number}")
        lines = await pause_batch(fleet, target.repo, number, paused=paused, lease=lease)
    for line in lines:
        say.line(line)
    say.result({"batch": number, "paused": paused, "lines": lines})
