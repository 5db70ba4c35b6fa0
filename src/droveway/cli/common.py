"""What every verb shares: output for people and for programs, the common options, exit codes (CLI-001, CLI-002)."""

from __future__ import annotations

import asyncio
import functools
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import Console

    from droveway.app import Home
    from droveway.core.runner import Runner
    from droveway.service import Target
    from droveway.sessions import Fleet

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


@dataclass(frozen=True)
class Say:
    """Where a verb's words go: people's lines to standard output (unless quiet), or one JSON value with ``--json``."""

    as_json: bool = False
    quiet: bool = False
    no_color: bool = False

    def line(self, text: str = "") -> None:
        """Say one line to people."""
        if not self.as_json and not self.quiet:
            click.echo(text)

    def warn(self, text: str) -> None:
        """Say one line on standard error."""
        click.echo(f"warning: {text}", err=True)

    def result(self, value: Any) -> None:
        """Print the verb's one JSON value."""
        if self.as_json:
            import msgspec

            click.echo(msgspec.json.encode(value).decode())

    @property
    def for_people(self) -> bool:
        """Whether a person reads this on a terminal."""
        return not self.as_json and not self.quiet and sys.stdout.isatty()

    def console(self) -> Console:
        """Give a console that respects ``--no-color`` and ``NO_COLOR``."""
        from rich.console import Console

        return Console(no_color=self.no_color or bool(os.environ.get("NO_COLOR")), highlight=False, emoji=False)


def common(*, dry_run: bool = False) -> Callable[[F], F]:
    """Give a verb ``--json``, ``--quiet``, ``--no-color`` and, where it changes anything, ``--dry-run``."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def wrapped(*args: Any, as_json: bool, quiet: bool, no_color: bool, **kwargs: Any) -> Any:
            return function(*args, say=Say(as_json, quiet, no_color), **kwargs)

        decorated: Any = wrapped
        if dry_run:
            decorated = click.option("--dry-run", is_flag=True, help="Say what would be done; change nothing.")(
                decorated
            )
        decorated = click.option("--no-color", is_flag=True, help="No colours.")(decorated)
        decorated = click.option("--quiet", "-q", is_flag=True, help="Print only errors.")(decorated)
        return click.option("--json", "as_json", is_flag=True, help="Print one JSON value.")(decorated)  # type: ignore[no-any-return]

    return decorate


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a verb's coroutine; end by SIGTERM as by an interrupt, so that everything is taken down in order."""
    import signal

    async def main() -> T:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task
        ended_by: list[int] = []

        def stop(number: int) -> None:
            if not ended_by:
                ended_by.append(number)
                task.cancel()

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, stop, number)
        try:
            return await coroutine
        except asyncio.CancelledError:
            if ended_by:
                raise SystemExit(128 + ended_by[0]) from None
            raise

    import structlog

    # Standard output belongs to the verb's own words, with --json to one value alone.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    if sys.version_info < (3, 12):  # later versions do so themselves: no thread for every child
        asyncio.set_child_watcher(asyncio.PidfdChildWatcher())
    return asyncio.run(main())


def here() -> tuple[Home, Runner]:
    """Give this machine's home and a runner."""
    from droveway.app import Home
    from droveway.core.clock import SystemClock
    from droveway.core.ids import RandomIds
    from droveway.core.runner import Runner

    return Home.from_environment(os.environ), Runner(SystemClock(), RandomIds())


@asynccontextmanager
async def beside(
    repo: str | None, *, dry_run: bool = False, engine: str = "client"
) -> AsyncIterator[tuple[Fleet, Target]]:
    """Open a Fleet for a verb that works beside a running ``herd up``, on the repository that the folder means."""
    from droveway.app import FleetSpec, open_fleet
    from droveway.service import read_up, resolve_target

    home, runner = here()
    target = await resolve_target(runner, home, os.environ, repo=repo, folder=Path.cwd())
    up = read_up(home)
    spec = FleetSpec(
        home=home,
        api_url=target.api_url,
        token=target.token,
        git_url=target.git_url,
        engine=engine,
        script=Path(up.script) if up and up.script else None,
        dry_run=dry_run,
    )
    async with open_fleet(spec) as fleet:
        yield fleet, target


repo_option = click.option("--repo", metavar="OWNER/NAME", help="The repository, if not this folder's.")
