"""``herd dispatch``."""

from __future__ import annotations

import click

from droveway.cli.common import Say, beside, common, repo_option, run


@click.command()
@click.argument("issues", nargs=-1, type=click.IntRange(1))
@click.option("--batch", type=click.IntRange(1), help="Start this batch: its branch and its first tier.")
@click.option("--all", "all_ready", is_flag=True, help="Every issue of the batch that is ready or failed.")
@click.option("--ignore-limit", is_flag=True, help="Also beyond workers.max_concurrent.")
@repo_option
@common(dry_run=True)
def dispatch(
    say: Say,
    issues: tuple[int, ...],
    batch: int | None,
    all_ready: bool,
    ignore_limit: bool,
    repo: str | None,
    dry_run: bool,
) -> None:
    """Start ready or failed issues, or a batch that was created with --no-dispatch. Manual tasks are skipped."""
    from droveway.core.errors import InputError

    if not issues and batch is None:
        raise InputError("name issues (herd dispatch 12 13), or a batch (herd dispatch --batch 3)")
    run(_dispatch(say, issues, batch, all_ready, ignore_limit, repo, dry_run))


async def _dispatch(
    say: Say,
    issues: tuple[int, ...],
    batch: int | None,
    all_ready: bool,
    ignore_limit: bool,
    repo: str | None,
    dry_run: bool,
) -> None:
    from droveway.batch import dispatch_issues
    from droveway.core.lease import Lease

    async with beside(repo, dry_run=dry_run) as (fleet, target):
        lines = await dispatch_issues(
            fleet,
            target.repo,
            issues=issues,
            batch=batch,
            all_ready=all_ready,
            ignore_limit=ignore_limit,
            lease=Lease.unshared(f"dispatch/{target.repo}"),
        )
    for line in lines:
        say.line(line)
    say.result({"lines": lines, "dry_run": dry_run})
