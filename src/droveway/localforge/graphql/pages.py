"""Nodes that know their siblings, so that a child is read once for a whole page and never once per node."""

from __future__ import annotations

import base64
import binascii
import bisect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from graphql import FieldNode, FragmentSpreadNode, InlineFragmentNode, SelectionSetNode

from droveway.localforge.graphql.errors import Refusal
from droveway.localforge.graphql.registry import Info

T = TypeVar("T")
LIMIT: Final = 100  # the most that GitHub gives in one page
_PREFIX: Final = "cursor:v2:"
#: A place in an ordered list: the sort value and the row's id, which breaks ties.
Key = tuple[Any, int]


class Page:
    """The nodes of one type that came into one answer together, and what was read for all of them."""

    __slots__ = ("cache", "nodes")

    def __init__(self) -> None:
        """Begin empty."""
        self.nodes: list[Node] = []
        self.cache: dict[Any, Any] = {}


class Node:
    """One object of the answer: its GraphQL type, its row and its page. ``extra`` holds what only its place knows."""

    __slots__ = ("extra", "page", "row", "type")

    def __init__(self, type_: str, row: Any, page: Page, extra: Any = None) -> None:
        """Join the page."""
        self.type = type_
        self.row = row
        self.page = page
        self.extra = extra
        page.nodes.append(self)


def page_of(type_: str, rows: Iterable[Any]) -> list[Node]:
    """Make nodes of one page."""
    page = Page()
    return [Node(type_, row, page) for row in rows]


def one(type_: str, row: Any) -> Node:
    """Make a node that is alone on its page."""
    return Node(type_, row, Page())


def shared(node: Node, what: Any, load: Callable[[list[Node]], T]) -> T:
    """Give what ``load`` read for the whole page of this node; it runs once per page and ``what``."""
    cache = node.page.cache
    if what not in cache:
        cache[what] = load(node.page.nodes)
    found: T = cache[what]
    return found


def encode(key: Key) -> str:
    """Make an opaque cursor."""
    return base64.b64encode((_PREFIX + json.dumps(key, separators=(",", ":"))).encode()).decode()


def decode(cursor: str) -> Key:
    """Read a cursor; anything that is not one of ours is refused as GitHub does."""
    try:
        text = base64.b64decode(cursor, validate=True).decode()
        if text.startswith(_PREFIX):
            value, ident = json.loads(text.removeprefix(_PREFIX))
            if isinstance(ident, int):
                return value, ident
    except (binascii.Error, UnicodeDecodeError, ValueError, TypeError):
        pass
    raise Refusal("INVALID_CURSOR_ARGUMENTS", f"`{cursor}` does not appear to be a valid cursor.")


def window(
    name: str,
    keys: Sequence[Key],
    *,
    descending: bool = False,
    first: Any = None,
    last: Any = None,
    after: str | None = None,
    before: str | None = None,
    unbounded: bool = False,
) -> tuple[int, int]:
    """Give the slice of ``keys`` (ordered as they are shown) that the arguments ask for.

    ``unbounded``: the connection may be read without ``first`` and ``last`` where only its total is wanted.
    """
    for word, count in (("first", first), ("last", last)):
        if count is not None and count < 0:
            raise Refusal("ARGUMENT_LIMIT", f"`{word}` on the `{name}` connection cannot be less than zero.")
        if count is not None and count > LIMIT:
            message = (
                f"Requesting {count} records on the `{name}` connection exceeds the `{word}` limit of {LIMIT} records."
            )
            raise Refusal("EXCESSIVE_PAGINATION", message)
    if first is None and last is None and not unbounded:
        message = f"You must provide a `first` or `last` value to properly paginate the `{name}` connection."
        raise Refusal("MISSING_PAGINATION_BOUNDARIES", message)
    start, end = 0, len(keys)
    if after:
        start = _past(keys, decode(after), descending=descending, include=True)
    if before:
        end = max(start, _past(keys, decode(before), descending=descending, include=False))
    if first is not None:
        end = min(end, start + first)
    if last is not None:
        start = max(start, end - last)
    return start, end


def _past(keys: Sequence[Key], key: Key, *, descending: bool, include: bool) -> int:
    # The row of the cursor may be gone by now: its place in the order still is one.
    try:
        if descending:
            ahead = bisect.bisect_left if include else bisect.bisect_right
            return len(keys) - ahead(list(reversed(keys)), key)
        ahead = bisect.bisect_right if include else bisect.bisect_left
        return ahead(keys, key)
    except TypeError:
        raise Refusal("INVALID_CURSOR_ARGUMENTS", f"`{encode(key)}` does not appear to be a valid cursor.") from None


class Connection:
    """A page of a longer list. ``nodes`` are read when they are asked for."""

    __slots__ = ("_load", "_nodes", "bounds", "extra", "keys", "total")

    def __init__(
        self,
        keys: Sequence[Key],
        bounds: tuple[int, int],
        load: Callable[[Sequence[Key]], list[Any]],
        extra: Any = None,
    ) -> None:
        """Hold the ordered keys of the whole list and the slice that is shown."""
        self.keys = keys
        self.bounds = bounds
        self.total = len(keys)
        self.extra = extra
        self._load = load
        self._nodes: list[Any] | None = None

    def nodes(self) -> list[Any]:
        """Give the nodes of the slice."""
        if self._nodes is None:
            self._nodes = self._load(self.keys[self.bounds[0] : self.bounds[1]])
        return self._nodes

    def edges(self) -> list[Edge]:
        """Give the nodes with their cursors."""
        shown = self.keys[self.bounds[0] : self.bounds[1]]
        return [Edge(encode(key), node) for key, node in zip(shown, self.nodes(), strict=True)]

    def page_info(self) -> dict[str, Any]:
        """Give ``PageInfo``."""
        start, end = self.bounds
        shown = self.keys[start:end]
        return {
            "hasNextPage": end < self.total,
            "hasPreviousPage": start > 0,
            "startCursor": encode(shown[0]) if shown else None,
            "endCursor": encode(shown[-1]) if shown else None,
        }


class Edge:
    """A node and its cursor."""

    __slots__ = ("cursor", "node")

    def __init__(self, cursor: str, node: Any) -> None:
        """Hold both."""
        self.cursor = cursor
        self.node = node


def paged(
    info: Info,
    arguments: Mapping[str, Any],
    keys: Sequence[Key],
    load: Callable[[Sequence[Key]], list[Any]],
    *,
    descending: bool = False,
    extra: Any = None,
) -> Connection:
    """Make the connection of a field from its arguments and the whole ordered list."""
    asked = {word: arguments.get(word) for word in ("first", "last", "after", "before")}
    bounds = window(
        info.field_name, keys, descending=descending, unbounded=not selects(info, "nodes", "edges"), **asked
    )
    return Connection(keys, bounds, load, extra)


def listed(info: Info, arguments: Mapping[str, Any], nodes: Sequence[Node]) -> Connection:
    """Make a connection of nodes that are all here already, in their order."""
    keys: list[Key] = [(place, place) for place in range(len(nodes))]
    return paged(info, arguments, keys, lambda shown: [nodes[place] for place, _ in shown])


def selects(info: Info, *names: str) -> bool:
    """Whether the query asks for any of these fields right below this one."""
    wanted = frozenset(names)
    return any(_selects(info, node.selection_set, wanted) for node in info.field_nodes)


def _selects(info: Info, selection: SelectionSetNode | None, names: frozenset[str]) -> bool:
    for item in selection.selections if selection else ():
        if isinstance(item, FieldNode) and item.name.value in names:
            return True
        if isinstance(item, InlineFragmentNode) and _selects(info, item.selection_set, names):
            return True
        if isinstance(item, FragmentSpreadNode):
            fragment = info.fragments[item.name.value]
            inner = getattr(fragment, "definition", fragment).selection_set
            if _selects(info, inner, names):
                return True
    return False
