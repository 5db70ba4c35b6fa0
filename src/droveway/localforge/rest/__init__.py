"""The REST operations, a module per noun; importing this package registers them all."""

from __future__ import annotations

from droveway.localforge.rest import (
    checks,
    comments,
    commits,
    contents,
    hooks,
    issues,
    labels,
    protection,
    pulls,
    refs,
    repos,
    reviews,
    root,
    search,
)

__all__ = [
    "checks",
    "comments",
    "commits",
    "contents",
    "hooks",
    "issues",
    "labels",
    "protection",
    "pulls",
    "refs",
    "repos",
    "reviews",
    "root",
    "search",
]
