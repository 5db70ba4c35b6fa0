"""The ``herd`` command: groups whose modules are loaded only when used (CLI-001)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

import click

# verb → (module of this package, name in it, one line of help). The help stands here so that --help imports nothing.
VERBS: Mapping[str, tuple[str, str, str]] = {
    "demo": ("demo", "demo", "Land a batch of a real project, with nothing set up."),
    "up": ("up", "up", "Run everything for one machine: forge, engine, loops."),
    "init": ("init", "init", "Prepare this repository: remote, labels, configuration."),
    "plan": ("plan", "plan", "Turn a description or a plan file into a batch."),
    "dispatch": ("dispatch", "dispatch", "Start ready or failed issues."),
    "status": ("status", "status", "Show batches and workers."),
    "watch": ("watch", "watch", "Follow a batch live until it lands."),
    "why": ("why", "why", "Explain what a batch, an issue or a PR waits for."),
    "pull": ("pull", "pull", "Bring merged work into this clone."),
    "batch": ("batch", "batch", "List, show, cancel, pause and resume batches."),
    "worker": ("worker", "worker", "Do one worker's run by hand."),
    "integrator": ("integrator", "integrator", "Do the integrator's steps by hand."),
    "forge": ("forge", "forge", "Serve, fill and use the embedded forge."),
    "git-credential": ("credential", "git_credential", "Answer git's questions for the embedded forge's token."),
    "doctor": ("doctor", "doctor", "Check this machine and repository, and say how to mend it."),
    "config": ("config", "config", "List, read, set and edit the configuration."),
}


class LazyGroup(click.Group):
    """A group that knows its commands' names and one-line helps without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Give the verbs in the order of the table: the way a newcomer needs them."""
        del ctx
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb's module and give its command."""
        del ctx
        if cmd_name not in VERBS:
            return None
        module, name, _ = VERBS[cmd_name]
        command = getattr(importlib.import_module(f"droveway.cli.{module}"), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest verb where an unknown one was typed."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            import difflib

            close = difflib.get_close_matches(args[0], list(VERBS), n=1)
            hint = f" Did you mean '{close[0]}'?" if close else " 'herd --help' lists the commands."
            raise click.UsageError(f"No such command '{args[0]}'.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs from the table alone."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in VERBS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="droveway", prog_name="herd", message="%(prog)s %(version)s")
def herd() -> None:
    """Droveway: the road that a herd of coding agents takes from a plan to merged code.

    Exit codes: 0 done, 1 failed, 2 bad input, 3 declined because a fact is unknown, 75 busy.
    """
