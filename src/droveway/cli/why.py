"""``herd why``."""

from __future__ import annotations

import click

from droveway.cli.common import Say, beside, common, repo_option, run


@click.command()
@click.argument("subject", metavar="SUBJECT")
@click.option("--history", is_flag=True, help="Also the decisions that were taken, newest first.")
@repo_option
@common()
def why(say: Say, subject: str, history: bool, repo: str | None) -> None:
    """Explain what SUBJECT waits for and who can change that: 12 (issue or PR), issue:12, pr:7, batch:3."""
    run(_why(say, subject, history, repo))


async def _why(say: Say, subject: str, history: bool, repo: str | None) -> None:
    from droveway.batch import explain

    async with beside(repo) as (fleet, target):
        told = await explain(fleet, target.repo, subject)
        past = await fleet.store.decisions(repo=str(target.repo), subject=told.subject) if history else []
    say.line(f"{told.subject}: {told.state}")
    for line in told.facts:
        say.line(f"  {line}")
    for blocker in told.blockers:
        say.line(f"  ✗ {blocker.because}  [{blocker.code}]")
        if blocker.clears:
            say.line(f"      clears when: {blocker.clears}" + (f"   who: {blocker.who}" if blocker.who else ""))
    if not told.blockers:
        say.line("  ✓ nothing holds it back")
    for record in past:
        outcome = ", ".join(f"{item['outcome']}" for item in record.outcomes)
        say.line(f"  {record.at:%Y-%m-%d %H:%M:%S} {record.rule} {'; '.join(record.facts)} → {outcome or 'waits'}")
    say.result(
        {"subject": told.subject, "state": told.state, "facts": told.facts, "blockers": told.blockers, "history": past}
    )
