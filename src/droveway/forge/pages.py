"""GraphQL connections read whole, or not at all: unknown is never empty (FRG-004, case R04)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Any

import msgspec

from droveway.forge.http import GraphError
from droveway.forge.port import IncompleteError

More = Callable[[str | None], Awaitable[Any]]
_MAX_PAGES = 1000


class Page(msgspec.Struct, frozen=True):
    """One page: its nodes, how many there are in all, and the cursor of the next page or nothing."""

    nodes: tuple[dict[str, Any], ...]
    total: int
    next: str = ""


def read_page(connection: Any, what: str) -> Page:
    """Check one page. Raises IncompleteError for a null connection, null list or null node."""
    if not isinstance(connection, dict):
        raise IncompleteError(f"{what}: no list came")
    nodes = connection.get("nodes")
    if not isinstance(nodes, list):
        raise IncompleteError(f"{what}: the list is null")
    if not all(isinstance(node, dict) for node in nodes):
        raise IncompleteError(f"{what}: an entry of the list is null")
    total = connection.get("totalCount")
    info = connection.get("pageInfo") or {}
    cursor = str(info.get("endCursor") or "") if info.get("hasNextPage") else ""
    if info.get("hasNextPage") and not cursor:
        raise IncompleteError(f"{what}: a next page without a cursor")
    return Page(tuple(nodes), total if isinstance(total, int) else len(nodes), cursor)


async def collect(
    first: Any, more: More | None, what: str, identity: Callable[[dict[str, Any]], Hashable]
) -> list[dict[str, Any]]:
    """Give all nodes of a connection, each once. ``more`` None: further pages are not asked for.

    Raises IncompleteError where a page is missing, comes again, or fewer came than the connection counts.
    """
    page = read_page(first, what)
    found: dict[Hashable, dict[str, Any]] = {}
    cursors: set[str] = set()
    for _ in range(_MAX_PAGES):
        found.update({identity(node): node for node in page.nodes})
        if not page.next:
            break
        if more is None:
            raise IncompleteError(f"{what}: more than one page ({page.total} entries)")
        if page.next in cursors:
            raise IncompleteError(f"{what}: the same page came again")
        cursors.add(page.next)
        page = read_page(await more(page.next), what)
    else:
        raise IncompleteError(f"{what}: more than {_MAX_PAGES} pages")
    if len(found) < page.total:
        raise IncompleteError(f"{what}: {len(found)} of {page.total} came")
    return list(found.values())


def dig(value: Any, *path: str) -> Any:
    """Follow names into nested objects; None where one is missing."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def under(errors: tuple[GraphError, ...], *prefix: str | int) -> list[GraphError]:
    """Give the errors inside ``prefix``, on the way to it, or without a path."""
    return [error for error in errors if all(one == other for one, other in zip(error.path, prefix, strict=False))]
