"""``herd pull``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from droveway.cli.common import Say, common, here, run


@click.command()
@common()
def pull(say: Say) -> None:
    """Bring merged work into this clone: git pull --ff-only from the remote 'herd', of its base branch."""
    run(_pull(say))


async def _pull(say: Say) -> None:
    from droveway.core.errors import HerdError
    from droveway.core.runner import Limits, scrubbed_environment
    from droveway.service import resolve_target

    home, runner = here()
    target = await resolve_target(runner, home, os.environ, folder=Path.cwd())
    if target.root is None:
        raise HerdError("this folder is no clone: change into one and try again")
    env = scrubbed_environment(os.environ, {"GIT_TERMINAL_PROMPT": "0"})
    symref = await runner.run(
        ["git", "ls-remote", "--symref", "herd", "HEAD"], cwd=target.root, env=env, limits=Limits(timeout=60)
    )
    base = (
        symref.text().split("refs/heads/", 1)[-1].split("\t", 1)[0]
        if symref.ok and "refs/heads/" in symref.text()
        else "main"
    )
    before = await runner.run(["git", "rev-parse", "HEAD"], cwd=target.root, env=env)
    done = await runner.run(
        ["git", "pull", "--ff-only", "herd", base], cwd=target.root, env=env, limits=Limits(timeout=600)
    )
    if not done.ok:
        reason = (done.error_text().strip().splitlines() or ["git gave no reason"])[-1]
        raise HerdError(f"git pull --ff-only herd {base} failed: {reason}")
    after = await runner.run(["git", "rev-parse", "HEAD"], cwd=target.root, env=env)
    old, new = before.text().strip(), after.text().strip()
    say.line(f"{base} is up to date at {new[:12]}" if old == new else f"{base}: {old[:12]} → {new[:12]}")
    say.result({"base": base, "before": old, "after": new})
