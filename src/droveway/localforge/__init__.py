"""The embedded forge: GitHub's wire format on one machine, on SQLite and bare repositories (FRG-020 … FRG-033)."""

from __future__ import annotations

from droveway.localforge.forge import LocalForge
from droveway.localforge.heads import CiView
from droveway.localforge.serving import ServeOptions, main_serve, serve, serve_in_thread

__all__ = ["CiView", "LocalForge", "ServeOptions", "main_serve", "operations", "serve", "serve_in_thread"]


def operations() -> list[tuple[str, str, str]]:
    """Give every REST operation as (method, template, summary), for ``docs/reference/forge-api.md``."""
    from droveway.localforge import rest, routing

    assert rest.__all__
    return routing.operations()
