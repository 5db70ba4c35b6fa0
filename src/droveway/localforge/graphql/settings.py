"""Who may do what in a repository, what its branches demand, and what an owner has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from droveway.localforge.graphql import source
from droveway.localforge.graphql.context import Context, context, node_id
from droveway.localforge.graphql.pages import Connection, Key, Node, listed, page_of, paged
from droveway.localforge.graphql.registry import Info, attribute, field


# --- people ---
def _people(node: Node, info: Info, query: str | None) -> list[Node]:
    sql = """SELECT user_id AS id FROM roles WHERE repo_id = ?1 UNION SELECT ?2"""
    ids = [row["id"] for row in context(info).tx.all(sql, node.row["id"], node.row["owner_id"])]
    known = context(info).users(ids)
    people = sorted((known[each] for each in ids), key=lambda each: each.row["login"].lower())
    wanted = (query or "").lower()
    return [
        each
        for each in people
        if each.type == "User" and wanted in f"{each.row['login']}\n{each.row['name'] or ''}".lower()
    ]


@field("Repository.assignableUsers")
def assignable(node: Node, info: Info, query: str | None = None, **arguments: Any) -> Connection:
    """Give who may be assigned: the owner and those with a role."""
    return listed(info, arguments, _people(node, info, query))


@field("Repository.mentionableUsers")
def mentionable(node: Node, info: Info, query: str | None = None, **arguments: Any) -> Connection:
    """Give who may be mentioned: the owner and those with a role."""
    return listed(info, arguments, _people(node, info, query))


class _Collaborators(Connection):
    __slots__ = ("repo_id", "there")
    repo_id: int
    there: Context

    def edges(self) -> list[Any]:
        """Give the people with what they may do."""
        pairs = zip(super().edges(), self.nodes(), strict=True)
        return [
            {
                "cursor": edge.cursor,
                "node": node,
                "permission": source.permission(self.there, self.repo_id, node.row["id"]),
            }
            for edge, node in pairs
        ]


@field("Repository.collaborators")
def collaborators(
    node: Node,
    info: Info,
    query: str | None = None,
    affiliation: str | None = None,  # noqa: ARG001 (there are no organisations: all are direct)
    **arguments: Any,
) -> Connection | None:
    """Give the collaborators to who may push, None to others as GitHub does."""
    if not source.may_write(context(info), node.row["id"], source.viewer_id(context(info))):
        return None
    plain = listed(info, arguments, _people(node, info, query))
    found = _Collaborators(plain.keys, plain.bounds, lambda _keys: plain.nodes())
    found.repo_id, found.there = node.row["id"], context(info)
    return found


for _name in ("cursor", "node", "permission"):
    field(f"RepositoryCollaboratorEdge.{_name}")(lambda edge, _info, name=_name: edge[name])


# --- branch protection ---
@field("Repository.branchProtectionRules")
def rules(node: Node, info: Info, **arguments: Any) -> Connection:
    """Give the protections."""
    rows = context(info).tx.all("SELECT * FROM protections WHERE repo_id = ? ORDER BY id", node.row["id"])
    return listed(info, arguments, page_of("BranchProtectionRule", rows))


field("BranchProtectionRule.id")(node_id("BranchProtectionRule"))
attribute("BranchProtectionRule.databaseId", of="id")
attribute("BranchProtectionRule.pattern", of="branch")
attribute("BranchProtectionRule.requiredApprovingReviewCount", of="reviews")
for _name, _column in {
    "requiresStrictStatusChecks": "strict", "dismissesStaleReviews": "dismiss_stale",
    "isAdminEnforced": "enforce_admins", "requiresConversationResolution": "conversations",
}.items():  # fmt: skip
    field(f"BranchProtectionRule.{_name}")(lambda node, _info, column=_column: bool(node.row[column]))


@field("BranchProtectionRule.requiresStatusChecks")
def rule_checks(node: Node, _info: Info) -> bool:
    """Whether checks are required."""
    return node.row["checks"] is not None


@field("BranchProtectionRule.requiresApprovingReviews")
def rule_reviews(node: Node, _info: Info) -> bool:
    """Whether reviews are required."""
    return node.row["reviews"] is not None


@field("BranchProtectionRule.requiredStatusCheckContexts")
def rule_contexts(node: Node, _info: Info) -> list[str]:
    """Give the names of the required checks."""
    return source.required_checks(node.row)


# --- an owner's repositories ---
@field("User.repositories", "Organization.repositories")
def owned(
    node: Node,
    info: Info,
    privacy: str | None = None,
    isFork: bool | None = None,  # noqa: N803
    orderBy: dict[str, Any] | None = None,  # noqa: N803
    ownerAffiliations: Sequence[str] | None = None,  # noqa: ARG001, N803
    **arguments: Any,
) -> Connection:
    """Give the owner's repositories that who asks may see."""
    column = {"NAME": "name", "UPDATED_AT": "updated_at", "PUSHED_AT": "pushed_at"}.get(
        orderBy["field"] if orderBy else "", "created_at"
    )
    down = bool(orderBy) and orderBy is not None and orderBy["direction"] == "DESC"
    way = "DESC" if down else "ASC"
    sql = f"SELECT {column}, id, private FROM repos WHERE owner_id = ? ORDER BY 1 {way}, id {way}"  # noqa: S608
    there = context(info)
    keys: list[Key] = [
        (row[0], row["id"])
        for row in there.tx.all(sql, node.row["id"])
        if source.visible(there, row["id"])
        and not isFork
        and (privacy is None or (privacy == "PRIVATE") == bool(row["private"]))
    ]
    return paged(
        info, arguments, keys, lambda shown: [source.repository(there, ident) for _, ident in shown], descending=down
    )


@field("User.repository", "Organization.repository")
def named(node: Node, info: Info, name: str, followRenames: bool = True) -> Node | None:  # noqa: ARG001, N803
    """Give the owner's repository of this name."""
    ident = context(info).tx.value("SELECT id FROM repos WHERE owner_id = ? AND name = ?", node.row["id"], name)
    return source.repository(context(info), ident) if ident and source.visible(context(info), ident) else None
