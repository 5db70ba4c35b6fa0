"""Renders prompts from Jinja templates; foreign text gets into them only fenced (AGT-007, QLT-041)."""

from __future__ import annotations

from functools import cache
from typing import Any

import jinja2

from droveway.core.text import fence_untrusted, show_hidden

PIECE_BYTES = 60_000


def one_line(text: str, limit: int = 300) -> str:
    """Give foreign text fit for a header line: one line, nothing hidden, cut."""
    return " ".join(show_hidden(text).split())[:limit]


def _fence(text: str, source: str, limit: int = PIECE_BYTES) -> str:
    return fence_untrusted(text, source=source, limit=limit)


@cache
def _environment(package: str) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(package, "prompts"),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 - prompts are no HTML
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["fence"] = _fence
    environment.filters["one_line"] = one_line
    return environment


def render_prompt(package: str, name: str, **values: Any) -> str:
    """Render ``<package>/prompts/<name>.md.j2``. A value that the template names and that is missing is an error.

    The filters are ``fence(source, limit)`` for foreign text and ``one_line`` for header lines. Every prompt starts
    with the lines ``Role:``, ``Issue: #12 title`` and ``Attempt:``, by which scripts tell calls apart.
    """
    return _environment(package).get_template(f"{name}.md.j2").render(**values)
