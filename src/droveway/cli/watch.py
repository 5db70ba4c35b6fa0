"""``herd watch``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import click

from droveway.cli.common import Say, beside, common, repo_option, run

if TYPE_CHECKING:
    from droveway.batch import BatchView


@click.command()
@click.argument("batch", required=False, type=click.IntRange(1))
@click.option("--interval", type=click.FloatRange(0.2), default=1.0, show_default=True, help="Seconds between looks.")
@click.option("--timeout", type=click.FloatRange(1), help="Give up after so many seconds (exit 1).")
@repo_option
@common()
def watch(say: Say, batch: int | None, interval: float, timeout: float | None, repo: str | None) -> None:
    """Follow a batch (default: the newest open one) until it has landed or was cancelled."""
    run(_watch(say, batch, interval, timeout, repo))


async def _watch(say: Say, number: int | None, interval: float, timeout: float | None, repo: str | None) -> None:
    from droveway.batch import batches, show_batch
    from droveway.core.errors import HerdError

    async with beside(repo) as (fleet, target):
        if number is None:
            open_ones = await batches(fleet, target.repo)
            if not open_ones:
                raise HerdError("no batch is open: start one with 'herd plan'")
            number = max(item.number for item in open_ones)
        began = fleet.clock.monotonic()
        live = _Live(say)
        with live:
            while True:
                shown = await show_batch(fleet, target.repo, number)
                live.show(shown)
                if shown.state in ("landed", "cancelled"):
                    break
                if timeout and fleet.clock.monotonic() - began > timeout:
                    raise HerdError(f"batch #{number} is still {shown.state} after {timeout:g} seconds")
                await fleet.clock.sleep(interval)
    say.result(shown)
    if shown.state == "cancelled":
        raise SystemExit(1)


class _Live:
    """Redraws on a terminal; elsewhere says a line for each change."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._last: dict[int, str] = {}
        self._live: object | None = None

    def __enter__(self) -> Self:
        if self._say.for_people:
            from rich.live import Live

            self._live = Live(console=self._say.console(), auto_refresh=False)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()  # type: ignore[attr-defined]

    def show(self, shown: BatchView) -> None:
        if self._live is not None:
            self._live.update(_table(shown), refresh=True)  # type: ignore[attr-defined]
            return
        for task in shown.tasks:
            if self._last.get(task.number) != task.state:
                self._say.line(f"#{task.number} {task.state}  {task.title}")
                self._last[task.number] = task.state
        state = f"{shown.state}, PR #{shown.pull.number} {shown.pull.state}" if shown.pull else shown.state
        if self._last.get(0) != state:
            self._say.line(f"batch #{shown.number} {state}")
            self._last[0] = state


def _table(shown: BatchView) -> object:
    from rich.table import Table

    table = Table(title=f"#{shown.number} {shown.title}: {shown.state}", title_justify="left")
    for column in ("tier", "issue", "state", "attempts", "title"):
        table.add_column(column)
    for task in shown.tasks:
        table.add_row(
            "-" if task.tier is None else str(task.tier), f"#{task.number}", task.state, str(task.attempts), task.title
        )
    if shown.pull:
        table.caption = f"PR #{shown.pull.number}: {shown.pull.state}"
    return table
