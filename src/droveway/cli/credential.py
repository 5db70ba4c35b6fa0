"""``herd git-credential``: a git credential helper for the embedded forge (CLI-009)."""

from __future__ import annotations

import os
import sys
from urllib.parse import urlsplit

import click


@click.command()
@click.argument("operation", type=click.Choice(["get", "store", "erase"]))
def git_credential(operation: str) -> None:
    """Answer git: for the running embedded forge's address, the person's token; for anything else, nothing."""
    if operation != "get":
        return
    from droveway.app import Home
    from droveway.service.found import read_secret, read_up

    asked = dict(line.rstrip("\n").split("=", 1) for line in sys.stdin if "=" in line)
    home = Home.from_environment(os.environ)
    info = read_up(home)
    if info is None or info.provider != "local":
        return
    forge = urlsplit(info.forge_url)
    if (asked.get("protocol"), asked.get("host")) != (forge.scheme, forge.netloc):
        return
    token = read_secret(home.state / "owner.token")
    if token:
        click.echo(f"username={info.owner}\npassword={token}")
