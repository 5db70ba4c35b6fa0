"""What all resolvers of one execution share: the transaction, who asks, and the rows read so far."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from droveway.localforge import nodes
from droveway.localforge.db import Row, Tx
from droveway.localforge.graphql.pages import Node, Page, shared
from droveway.localforge.graphql.registry import Info


class Context:
    """One execution. Users and repositories come up everywhere, so each is one node per execution."""

    def __init__(self, tx: Tx, actor: Any, rate: dict[str, Any] | None = None) -> None:
        """Stand on the caller's transaction."""
        self.tx = tx
        self.actor = actor
        self.rate = rate
        self.memo: dict[Any, Any] = {}
        self._users: dict[int, Node] = {}
        self._user_page = Page()

    def memoised(self, what: Any, load: Callable[[], Any]) -> Any:
        """Give what ``load`` gave the first time."""
        if what not in self.memo:
            self.memo[what] = load()
        return self.memo[what]

    def users(self, ids: Iterable[int | None]) -> dict[int, Node]:
        """Give the nodes of these users, reading the unknown ones in one query."""
        missing = [each for each in set(ids) if each is not None and each not in self._users]
        if missing:
            for ident, row in self.tx.by_ids("users", missing).items():
                self._users[ident] = Node(row["kind"], row, self._user_page)
        return self._users

    def forget(self) -> None:
        """Drop what was read: a mutation has changed the rows."""
        self.memo.clear()
        self._users.clear()
        self._user_page = Page()

    def rows(self, sql: str, ids: Sequence[int], *more: Any) -> list[Row]:
        """Give the rows of a query whose first parameter is a JSON list of ids (``json_each(?)``)."""
        return self.tx.all(sql, json.dumps(ids), *more)


def context(info: Info) -> Context:
    """Give the execution's context."""
    found: Context = info.context
    return found


def user(node: Node, info: Info, column: str) -> Node | None:
    """Give the user whom ``column`` of the row names; the whole page's users are read together."""
    ident = node.row[column]
    if ident is None:
        return None
    everyone = context(info)
    known = everyone._users  # noqa: SLF001 (the hot path of every author)
    if ident not in known:
        everyone.users(each.row[column] for each in node.page.nodes)
    return known.get(ident)


def children(node: Node, info: Info, what: str, type_: str, sql: str, parent: str = "issue_id") -> list[Node]:
    """Give the rows that belong to this node; ``sql`` reads those of the whole page, ``parent`` names its row."""

    def load(siblings: list[Node]) -> dict[int, list[Node]]:
        page = Page()
        found: dict[int, list[Node]] = {}
        for row in context(info).rows(sql, [each.row["id"] for each in siblings]):
            found.setdefault(row[parent], []).append(Node(type_, row, page))
        return found

    return shared(node, what, load).get(node.row["id"], [])


def counted(node: Node, info: Info, what: str, sql: str) -> int:
    """Give this node's number from a query that gives (row id, number) for the whole page."""

    def load(siblings: list[Node]) -> dict[int, int]:
        return {row[0]: row[1] for row in context(info).rows(sql, [each.row["id"] for each in siblings])}

    return shared(node, what, load).get(node.row["id"], 0)


def node_id(kind: str) -> Callable[[Node, Info], str]:
    """Give the resolver of ``id`` for rows of ``kind``."""
    return lambda node, _info: nodes.encode(kind, node.row["id"])
