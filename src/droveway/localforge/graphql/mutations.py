"""How a mutation runs: find what the ids name, call the shared operation, undo alone what fails, give the payload."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from droveway.localforge.access import Refused
from droveway.localforge.db import Row, Tx
from droveway.localforge.graphql import source
from droveway.localforge.graphql.context import Context, context
from droveway.localforge.graphql.errors import Refusal, not_found
from droveway.localforge.graphql.pages import Node
from droveway.localforge.graphql.registry import Info, field
from droveway.localforge.graphql.root import find
from droveway.localforge.ops.labels import UNSET

Input: TypeAlias = Mapping[str, Any]
Mutation: TypeAlias = Callable[[Info, Input], Mapping[str, Any]]
_TYPES = {401: "FORBIDDEN", 403: "FORBIDDEN", 404: "NOT_FOUND"}


def mutation(name: str) -> Callable[[Mutation], Mutation]:
    """Register ``function(info, input) -> payload`` as the mutation of this name."""

    def register(function: Mutation) -> Mutation:
        def resolve(_source: Any, info: Info, input: Input) -> dict[str, Any]:  # noqa: A002
            payload = _alone(context(info), lambda: function(info, input))
            return {"clientMutationId": input.get("clientMutationId"), **payload}

        field(f"Mutation.{name}")(resolve)
        return function

    return register


def _alone(there: Context, act: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """Run a mutation so that what it wrote goes again where it is refused."""
    tx = there.tx
    tx.memo.clear()
    tx.db.execute("SAVEPOINT mutation")
    try:
        payload = act()
    except Refused as refused:
        _undo(tx)
        raise Refusal(_TYPES.get(refused.status, "UNPROCESSABLE"), _words(refused)) from refused
    except BaseException:
        _undo(tx)
        raise
    with contextlib.suppress(sqlite3.OperationalError):  # the operation committed its journal, the savepoint with it
        tx.db.execute("RELEASE mutation")
    return payload


def _undo(tx: Tx) -> None:
    try:
        tx.db.execute("ROLLBACK TO mutation")
        tx.db.execute("RELEASE mutation")
    except sqlite3.OperationalError:
        # The operation committed its journal before refs moved: what the move means is then written by itself.
        tx.db.execute("ROLLBACK")
        undo, tx.undo = tx.undo, None
        if undo:
            undo()
        tx.db.execute("BEGIN IMMEDIATE")


def _words(refused: Refused) -> str:
    lines = []
    for error in refused.errors:
        if isinstance(error, str):
            lines.append(error)
        elif isinstance(error, Mapping):
            code = str(error.get("code", "invalid")).replace("_", " ")
            lines.append(str(error.get("message") or f"{error.get('resource')} {error.get('field')} is {code}"))
    return "; ".join(lines) or refused.message


# --- from ids to rows ---
def target(info: Info, ident: str, *kinds: str) -> Node:
    """Give what an id names, of one of these types, or refuse."""
    found = find(info, ident)
    if found is None or found.type not in kinds:
        raise not_found(f"Could not resolve to a node with the global id of '{ident}'.")
    return found


def repo_of(info: Info, node: Node) -> Row:
    """Give the repository to which a node belongs, as it stands."""
    return context(info).tx.get("repos", source.repo_id(node, info))


def issue_row(info: Info, node: Node) -> Row:
    """Give the row of ``issues`` of an issue or a PR."""
    return context(info).tx.get("issues", node.row["id"])


def label_names(info: Info, ids: Sequence[str]) -> list[str]:
    """Give the names of labels."""
    return [target(info, each, "Label").row["name"] for each in ids]


def logins(info: Info, ids: Sequence[str]) -> list[str]:
    """Give the logins of accounts."""
    return [target(info, each, "User", "Bot").row["login"] for each in ids]


def milestone_number(info: Info, ident: str | None) -> int | None:
    """Give a milestone's number."""
    return None if ident is None else int(target(info, ident, "Milestone").row["number"])


def changed(info: Info, wanted: Input) -> dict[str, Any]:
    """Give the arguments of ``ops.issues.edit`` that an update asks for; null leaves all but a milestone as it is."""
    changes: dict[str, Any] = {key: wanted[key] for key in ("title", "body") if wanted.get(key) is not None}
    if wanted.get("state") is not None:
        changes["state"] = wanted["state"].lower()
    if wanted.get("stateReason") is not None:
        changes["state_reason"] = wanted["stateReason"].lower()
    if wanted.get("labelIds") is not None:
        changes["labels"] = label_names(info, wanted["labelIds"])
    if wanted.get("assigneeIds") is not None:
        changes["assignees"] = logins(info, wanted["assigneeIds"])
    changes["milestone"] = milestone_number(info, wanted["milestoneId"]) if "milestoneId" in wanted else UNSET
    return changes


def again(info: Info, node: Node) -> Node:
    """Give a node anew, as it stands after the change."""
    there = context(info)
    there.forget()
    found = find(info, source.encode(node.type, node.row["id"]))
    assert found is not None
    return found


def me(info: Info) -> Node | None:
    """Give who acts."""
    there = context(info)
    ident = source.viewer_id(there)
    return there.users([ident]).get(ident)
