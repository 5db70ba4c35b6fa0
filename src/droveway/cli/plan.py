"""``herd plan``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from droveway.cli.common import Say, beside, common, repo_option, run

if TYPE_CHECKING:
    from droveway.batch import Plan, ReadPlan


@click.command()
@click.argument("description", required=False)
@click.option("--from-file", "plan_file", type=click.Path(path_type=Path), help="Take this plan; no agent is needed.")
@click.option("--batch", "name", metavar="NAME", help="The batch's name, instead of the plan's.")
@click.option("--no-dispatch", is_flag=True, help="Create milestone and issues; start nothing.")
@click.option("--strict-scope", is_flag=True, help="Tasks that may run together must not share files.")
@click.option("--skip-preflight", is_flag=True, help="Do not look at the clone first.")
@click.option("--yes", "-y", is_flag=True, help="Take the plan as it is, without asking.")
@repo_option
@common(dry_run=True)
def plan(
    say: Say,
    description: str | None,
    plan_file: Path | None,
    name: str | None,
    no_dispatch: bool,
    strict_scope: bool,
    skip_preflight: bool,
    yes: bool,
    repo: str | None,
    dry_run: bool,
) -> None:
    """Turn a description or a plan file into a batch: milestone, issues, branch; the first tier starts.

    With a description the planner agent writes the plan first. Every fault of a plan is told at once, with task and
    field, before anything exists on the forge.
    """
    from droveway.batch import read_plan
    from droveway.core.errors import InputError

    if plan_file is None and not (description or "").strip():
        raise InputError('say what is to be built (herd plan "description"), or give --from-file plan.json')
    read = read_plan(plan_file, strict_scope=strict_scope) if plan_file else None
    run(
        _plan(
            say, description or "", plan_file, read, name, no_dispatch, strict_scope, skip_preflight, yes, repo, dry_run
        )
    )


async def _plan(
    say: Say,
    description: str,
    plan_file: Path | None,
    read: ReadPlan | None,
    name: str | None,
    no_dispatch: bool,
    strict_scope: bool,
    skip_preflight: bool,
    yes: bool,
    repo: str | None,
    dry_run: bool,
) -> None:
    from droveway.batch import create_batch, plan_table
    from droveway.core.errors import HerdError
    from droveway.core.lease import Lease
    from droveway.service.planning import ask_planner, author_of, keep_plan, preflight

    async with beside(repo, dry_run=dry_run) as (fleet, target):
        if read is None:
            if target.root is None:
                raise HerdError("the planner works in a clone: change into one, or give --from-file")
            if not skip_preflight:
                for warning in await preflight(fleet.runner, os.environ, target.root):
                    say.warn(warning)
            plan_file, read = await ask_planner(fleet, target, description, strict_scope=strict_scope)
        for warning in read.warnings:
            say.warn(warning)
        _show(say, read.plan, name)
        if dry_run:
            rows = list(plan_table(read.plan))
            say.line("nothing was created (--dry-run)")
            say.result({"dry_run": True, "batch": name or read.plan.batch_name, "tasks": rows})
            return
        if say.for_people and not yes and not click.confirm("Create this batch?", default=True):
            raise HerdError(f"nothing was created; the plan is kept: herd plan --from-file {plan_file}")
        kept = keep_plan(target.root, read) if target.root else None
        try:
            created = await create_batch(
                fleet,
                target.repo,
                read.plan,
                read.plan_id,
                created_by=await author_of(fleet.runner, os.environ, target),
                name_override=name,
                dispatch=not no_dispatch,
                lease=Lease.unshared(f"plan/{target.repo}/{read.plan_id}"),
            )
        except Exception:
            if kept:
                say.warn(f"the plan is kept; go on with: herd plan --from-file {kept}")
            raise
        if kept:
            kept.unlink(missing_ok=True)
    if created.note:
        say.line(created.note)
    say.line(f"batch #{created.milestone} '{created.title}': {len(created.issues)} tasks on {created.branch}")
    say.line(
        "nothing was started: herd dispatch --batch " + str(created.milestone)
        if no_dispatch
        else "follow it with: herd watch"
    )
    say.result(
        {
            "batch": created.milestone,
            "title": created.title,
            "branch": created.branch,
            "issues": [created.issues[index] for index in sorted(created.issues)],
        }
    )


def _show(say: Say, plan: Plan, name: str | None) -> None:
    from droveway.batch import plan_table

    say.line(f"{name or plan.batch_name}")
    for row in plan_table(plan):
        waits = f"after {', '.join(f'#{number}' for number in row.depends_on)}" if row.depends_on else ""
        manual = "👤 " if row.manual else ""
        say.line(
            f"  #{row.number:<3} tier {row.tier}  {row.complexity or '-':<7} {manual}{row.title}  {waits}".rstrip()
        )
