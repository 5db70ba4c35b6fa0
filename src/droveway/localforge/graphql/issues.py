"""Issues, and what they share with pull requests: labels, milestones, comments, and lists of either."""
# ruff: noqa: S608 (fragments of this module alone are put together; values are parameters)

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from droveway.localforge.graphql import source
from droveway.localforge.graphql.context import children, context, counted, node_id, user
from droveway.localforge.graphql.pages import Connection, Key, Node, Page, listed, paged, selects, shared
from droveway.localforge.graphql.registry import Info, attribute, field

BOTH: Final = ("Issue", "PullRequest")
_IN: Final = "IN (SELECT value FROM json_each(?))"
#: An issue's row, or a PR's with the columns of ``pulls``.
SELECT: Final = {
    "Issue": "SELECT i.* FROM issues i",
    "PullRequest": "SELECT i.*, p.* FROM issues i JOIN pulls p ON p.issue_id = i.id",
}
COMMENT_COUNT: Final = f"SELECT issue_id, count(*) FROM comments WHERE issue_id {_IN} GROUP BY issue_id"
_ORDERS: Final = {
    "CREATED_AT": "i.created_at",
    "UPDATED_AT": "i.updated_at",
    "COMMENTS": "(SELECT count(*) FROM comments c WHERE c.issue_id = i.id)",
}


def load(info: Info, kind: str, ids: Sequence[int]) -> list[Node]:
    """Read issues or PRs by their row ids, as one page, in that order."""
    rows = context(info).rows(f"{SELECT[kind]} WHERE i.id {_IN}", ids)
    found = {row["id"]: row for row in rows}
    page = Page()
    return [Node(kind, found[each], page) for each in ids if each in found]


def either(info: Info, ids: Sequence[int]) -> list[Node]:
    """Read issues and PRs mixed, each kind as one page, in that order."""
    pulls = {row["issue_id"] for row in context(info).rows(f"SELECT issue_id FROM pulls WHERE issue_id {_IN}", ids)}
    found = {node.row["id"]: node for node in load(info, "Issue", [each for each in ids if each not in pulls])}
    found |= {node.row["id"]: node for node in load(info, "PullRequest", [each for each in ids if each in pulls])}
    return [found[each] for each in ids if each in found]


class Query:
    """Conditions on ``issues i`` (and ``pulls p``) that all must hold, with their parameters."""

    def __init__(self, kind: str) -> None:
        """Begin with all issues or all PRs."""
        self.kind = kind
        self.where = [f"i.is_pull = {int(kind == 'PullRequest')}"]
        self.values: list[Any] = []

    def add(self, sql: str, *values: Any) -> None:
        """Add a condition."""
        self.where.append(sql)
        self.values += values

    def states(self, states: Sequence[str] | None) -> None:
        """Keep these GraphQL states; None keeps all."""
        if states is None:
            return
        known = {
            "OPEN": "i.state = 'open'",
            "CLOSED": "i.state = 'closed'" + (" AND NOT p.merged" if self.kind == "PullRequest" else ""),
            "MERGED": "p.merged",
        }
        self.add("(" + " OR ".join(known[each] for each in states) + ")" if states else "0")

    def labels(self, names: Sequence[str] | None) -> None:
        """Keep what carries any of these labels, as GitHub's argument does."""
        if names:
            self.add(
                "i.id IN (SELECT il.issue_id FROM issue_labels il JOIN labels l ON l.id = il.label_id "
                "JOIN json_each(?) wanted ON l.name = wanted.value)",
                json.dumps(list(names)),
            )

    def filter(self, by: dict[str, Any]) -> None:
        """Apply ``IssueFilters``; a null or ``*`` means none or any."""
        if by.get("states") is not None:
            self.states(by["states"])
        self.labels(by.get("labels"))
        if by.get("since"):
            self.add("i.updated_at >= ?", source.moment(by["since"]))
        if by.get("createdBy"):
            self.add("i.author_id = (SELECT id FROM users WHERE login = ?)", by["createdBy"])
        if by.get("mentioned"):
            self.add("instr(lower(coalesce(i.body, '')), ?) > 0", "@" + by["mentioned"].lower())
        if "assignee" in by:
            self._assignee(by["assignee"])
        for word in ("milestone", "milestoneNumber"):
            if word in by:
                self._milestone(by[word], by_number=word == "milestoneNumber")

    def _assignee(self, login: str | None) -> None:
        mine = "SELECT 1 FROM assignees a JOIN users u ON u.id = a.user_id WHERE a.issue_id = i.id"
        if login is None:
            self.add(f"NOT EXISTS ({mine})")
        elif login == "*":
            self.add(f"EXISTS ({mine})")
        else:
            self.add(f"EXISTS ({mine} AND u.login = ?)", login)

    def _milestone(self, value: str | None, *, by_number: bool) -> None:
        # `milestone` takes a database id or a number as text: numbers are what clients send.
        if value is None:
            self.add("i.milestone_id IS NULL")
        elif value == "*":
            self.add("i.milestone_id IS NOT NULL")
        elif by_number or value.isdecimal():
            self.add("i.milestone_id IN (SELECT id FROM milestones WHERE number = CAST(? AS INTEGER))", value)
        else:
            self.add("i.milestone_id IN (SELECT id FROM milestones WHERE title = ?)", value)

    def keys(self, info: Info, order: dict[str, Any] | None) -> tuple[list[Key], bool]:
        """Give (sort value, row id) of everything that fits, in the order asked for, and whether it descends."""
        column = _ORDERS[order["field"]] if order else "i.number"
        descending = bool(order) and order is not None and order["direction"] == "DESC"
        way = "DESC" if descending else "ASC"
        join = " JOIN pulls p ON p.issue_id = i.id" if self.kind == "PullRequest" else ""
        where = " AND ".join(self.where)
        sql = f"SELECT {column}, i.id FROM issues i{join} WHERE {where} ORDER BY 1 {way}, i.id {way}"
        return [(row[0], row[1]) for row in context(info).tx.all(sql, *self.values)], descending

    def connection(self, info: Info, arguments: dict[str, Any]) -> Connection:
        """Give the page that the field's arguments ask for."""
        keys, descending = self.keys(info, arguments.get("orderBy"))
        kind = self.kind
        return paged(
            info, arguments, keys, lambda shown: load(info, kind, [each for _, each in shown]), descending=descending
        )


attribute("Issue.number", "PullRequest.number", of="number")
attribute("Issue.title", "PullRequest.title", of="title")
attribute("Issue.closedAt", "PullRequest.closedAt", of="closed_at")


@field("Issue.id", "PullRequest.id")
def ident(node: Node, _info: Info) -> str:
    """Give the node id."""
    return source.encode(node.type, node.row["id"])


@field("Issue.state")
def state(node: Node, _info: Info) -> str:
    """Give OPEN or CLOSED."""
    return str(node.row["state"]).upper()


@field("Issue.stateReason")
def state_reason(node: Node, _info: Info, enableDuplicate: bool = False) -> str | None:  # noqa: ARG001, N803
    """Give why it stands as it does."""
    reason = node.row["state_reason"]
    return reason.upper() if reason else None


@field("Issue.closed", "PullRequest.closed")
def closed(node: Node, _info: Info) -> bool:
    """Whether it is closed (merged counts)."""
    return bool(node.row["state"] == "closed")


@field("Issue.locked", "PullRequest.locked")
def locked(node: Node, _info: Info) -> bool:
    """Whether the conversation is locked."""
    return bool(node.row["locked"])


@field(*(f"{kind}.repository" for kind in (*BOTH, "Label", "Milestone", "IssueComment")))
def repository(node: Node, info: Info) -> Node:
    """Give the repository."""
    return source.repository(context(info), node.row["repo_id"])


@field("Issue.resourcePath", "PullRequest.resourcePath")
def path(node: Node, info: Info) -> str:
    """Give the path of its page."""
    word = "pull" if node.type == "PullRequest" else "issues"
    return f"{source.repo_path(context(info), node.row['repo_id'])}/{word}/{node.row['number']}"


@field("Issue.url", "PullRequest.url", "PullRequest.permalink")
def url(node: Node, info: Info) -> str:
    """Give the address of its page."""
    return source.html(context(info)) + path(node, info)


@field("Issue.milestone", "PullRequest.milestone")
def milestone(node: Node, info: Info) -> Node | None:
    """Give the milestone."""

    def read(siblings: list[Node]) -> dict[int, Node]:
        ids = list({each.row["milestone_id"] for each in siblings if each.row["milestone_id"] is not None})
        page = Page()
        return {
            ident: Node("Milestone", row, page) for ident, row in context(info).tx.by_ids("milestones", ids).items()
        }

    ident = node.row["milestone_id"]
    return None if ident is None else shared(node, "milestone", read).get(ident)


@field("Issue.labels", "PullRequest.labels")
def labels(node: Node, info: Info, **arguments: Any) -> Connection:
    """Give the labels."""
    sql = f"""SELECT il.issue_id, l.* FROM issue_labels il JOIN labels l ON l.id = il.label_id
              WHERE il.issue_id {_IN} ORDER BY il.issue_id, l.name"""
    return listed(info, arguments, ordered(children(node, info, "labels", "Label", sql), arguments.get("orderBy")))


def ordered(found: list[Node], order: dict[str, Any] | None) -> list[Node]:
    """Sort labels by name or age as ``LabelOrder`` says."""
    if not order:
        return found
    column = {"NAME": "name", "CREATED_AT": "created_at"}[order["field"]]
    return sorted(found, key=lambda node: (node.row[column], node.row["id"]), reverse=order["direction"] == "DESC")


@field("Issue.comments", "PullRequest.comments")
def comments(node: Node, info: Info, **arguments: Any) -> Connection:
    """Give the comments, oldest first; where only their number is wanted no text is read."""
    if not selects(info, "nodes", "edges", "pageInfo"):
        total = counted(node, info, "comments#", COMMENT_COUNT)
        return Connection([(0, 0)] * total, (0, 0), lambda _keys: [])
    sql = f"SELECT * FROM comments WHERE issue_id {_IN} ORDER BY id"
    found = children(node, info, "comments", "IssueComment", sql)
    order = arguments.get("orderBy")
    if order:
        found = sorted(found, key=lambda each: each.row["updated_at"], reverse=order["direction"] == "DESC")
    for each in found:
        each.extra = node
    return listed(info, arguments, found)


@field("Issue.closedByPullRequestsReferences")
def closed_by(node: Node, info: Info, **arguments: Any) -> Connection:
    """Give the PRs whose text says that they close this issue."""
    ids = source.closing_pulls(context(info), node.row["repo_id"]).get(node.row["number"], [])
    keys: list[Key] = [(each, each) for each in ids]
    return paged(info, arguments, keys, lambda shown: load(info, "PullRequest", [each for _, each in shown]))


# --- comments ---
field("IssueComment.id")(node_id("IssueComment"))


def _parent(node: Node, info: Info) -> Node:
    if node.extra is None:
        node.extra = either(info, [node.row["issue_id"]])[0]
    parent: Node = node.extra
    return parent


@field("IssueComment.issue")
def comment_issue(node: Node, info: Info) -> Node:
    """Give the issue; for a PR's comment it is the PR seen as an issue."""
    parent = _parent(node, info)
    return parent if parent.type == "Issue" else load(info, "Issue", [parent.row["id"]])[0]


@field("IssueComment.pullRequest")
def comment_pull(node: Node, info: Info) -> Node | None:
    """Give the PR, or None for an issue's comment."""
    parent = _parent(node, info)
    return parent if parent.type == "PullRequest" else None


@field("IssueComment.resourcePath")
def comment_path(node: Node, info: Info) -> str:
    """Give the path of the comment on its page."""
    return f"{path(_parent(node, info), info)}#issuecomment-{node.row['id']}"


@field("IssueComment.url")
def comment_url(node: Node, info: Info) -> str:
    """Give the address of the comment."""
    return source.html(context(info)) + comment_path(node, info)


# --- labels ---
for _name, _column in {
    "name": "name", "color": "color", "description": "description", "createdAt": "created_at",
    "updatedAt": "updated_at",
}.items():  # fmt: skip
    attribute(f"Label.{_name}", of=_column)
field("Label.id")(node_id("Label"))


@field("Label.isDefault")
def label_default(node: Node, _info: Info) -> bool:
    """Whether it came with the repository."""
    return bool(node.row["is_default"])


@field("Label.resourcePath")
def label_path(node: Node, info: Info) -> str:
    """Give the path of the label's page."""
    return f"{source.repo_path(context(info), node.row['repo_id'])}/labels/{source.quoted(node.row['name'])}"


@field("Label.url")
def label_url(node: Node, info: Info) -> str:
    """Give the address of the label's page."""
    return source.html(context(info)) + label_path(node, info)


# --- milestones ---
for _name, _column in {
    "number": "number", "title": "title", "description": "description", "dueOn": "due_on", "createdAt": "created_at",
    "updatedAt": "updated_at", "closedAt": "closed_at",
}.items():  # fmt: skip
    attribute(f"Milestone.{_name}", of=_column)
field("Milestone.id")(node_id("Milestone"))
field("Milestone.state")(state)
field("Milestone.closed")(closed)


@field("Milestone.creator")
def milestone_creator(node: Node, info: Info) -> Node | None:
    """Give who made it."""
    return user(node, info, "creator_id")


@field("Milestone.resourcePath")
def milestone_path(node: Node, info: Info) -> str:
    """Give the path of the milestone's page."""
    return f"{source.repo_path(context(info), node.row['repo_id'])}/milestone/{node.row['number']}"


@field("Milestone.url")
def milestone_url(node: Node, info: Info) -> str:
    """Give the address of the milestone's page."""
    return source.html(context(info)) + milestone_path(node, info)


def _tally(node: Node, info: Info) -> dict[tuple[int, int, str], int]:
    def read(siblings: list[Node]) -> dict[tuple[int, int, str], int]:
        sql = f"""SELECT milestone_id, is_pull, state, count(*) FROM issues WHERE milestone_id {_IN} GROUP BY 1, 2, 3"""
        rows = context(info).rows(sql, [each.row["id"] for each in siblings])
        return {(row[0], row[1], row[2]): row[3] for row in rows}

    return shared(node, "tally", read)


@field("Milestone.progressPercentage")
def progress(node: Node, info: Info) -> float:
    """Give how much of it is closed, issues and PRs, 0 to 100."""
    counts = _tally(node, info)
    done, left = (
        sum(counts.get((node.row["id"], pull, word), 0) for pull in (0, 1)) for word in ("closed", "open")
    )  # fmt: skip
    return 100.0 * done / (done + left) if done + left else 0.0


@field("Milestone.issues", "Milestone.pullRequests")
def milestone_issues(node: Node, info: Info, **arguments: Any) -> Connection:
    """Give the milestone's issues or PRs; where only a number is wanted, all milestones are counted at once."""
    pulls = info.field_name == "pullRequests"
    states = arguments.get("states")
    plain = set(arguments) <= {"states", "first", "last"} and "MERGED" not in (states or ()) and not pulls
    if plain and not selects(info, "nodes", "edges", "pageInfo"):
        words = [each.lower() for each in states] if states is not None else ["open", "closed"]
        total = sum(_tally(node, info).get((node.row["id"], 0, word), 0) for word in words)
        return Connection([(0, 0)] * total, (0, 0), lambda _keys: [])
    query = Query("PullRequest" if pulls else "Issue")
    query.add("i.milestone_id = ?", node.row["id"])
    query.states(states)
    query.labels(arguments.get("labels"))
    query.filter(arguments.get("filterBy") or {})
    return query.connection(info, arguments)
