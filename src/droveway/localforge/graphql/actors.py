"""User, Bot, and what stands on people: authors, reactions, participants."""

from __future__ import annotations

from typing import Any, Final

from droveway.localforge import nodes
from droveway.localforge.graphql import source
from droveway.localforge.graphql.context import context, user
from droveway.localforge.graphql.pages import Connection, Node, listed, shared
from droveway.localforge.graphql.registry import Info, attribute, field

attribute("User.login", "Bot.login", of="login")
attribute("User.databaseId", "Bot.databaseId", of="id")
attribute("User.name", of="name")
attribute("User.email", of="email")

#: REST's word → GraphQL's, in GitHub's order.
REACTIONS: Final = {
    "+1": "THUMBS_UP", "-1": "THUMBS_DOWN", "laugh": "LAUGH", "hooray": "HOORAY", "confused": "CONFUSED",
    "heart": "HEART", "rocket": "ROCKET", "eyes": "EYES",
}  # fmt: skip
_REACTABLE: Final = {"IssueComment": "comment", "PullRequestReviewComment": "review_comment"}


@field("User.id", "Bot.id")
def ident(node: Node, _info: Info) -> str:
    """Give the node id."""
    return nodes.encode(node.type, node.row["id"])


@field("User.isViewer")
def is_viewer(node: Node, info: Info) -> bool:
    """Whether it is who asks."""
    return bool(node.row["id"] == source.viewer_id(context(info)))


@field("User.url", "Bot.url")
def url(node: Node, info: Info) -> str:
    """Give the person's page."""
    return source.html(context(info)) + path(node, info)


@field("User.resourcePath", "Bot.resourcePath")
def path(node: Node, _info: Info) -> str:
    """Give the path of the page."""
    return f"/{node.row['login']}"


@field("User.avatarUrl", "Bot.avatarUrl")
def avatar(node: Node, info: Info, size: int | None = None) -> str:
    """Give an address of a picture (there is none behind it)."""
    end = f"?s={size}" if size else ""
    return f"{source.html(context(info))}/avatars/{node.row['id']}{end}"


_WRITTEN: Final = ("Issue", "PullRequest", "IssueComment", "PullRequestReview", "PullRequestReviewComment")


@field(*(f"{kind}.author" for kind in _WRITTEN))
def author(node: Node, info: Info) -> Node | None:
    """Give who wrote it."""
    return user(node, info, "author_id")


@field(*(f"{kind}.authorAssociation" for kind in _WRITTEN))
def association(node: Node, info: Info) -> str:
    """Give what the author is to the repository."""
    return source.association(context(info), source.repo_id(node, info), node.row["author_id"])


@field(*(f"{kind}.viewerDidAuthor" for kind in _WRITTEN))
def by_viewer(node: Node, info: Info) -> bool:
    """Whether who asks wrote it."""
    return bool(node.row["author_id"] == source.viewer_id(context(info)))


@field(
    "Issue.viewerCanUpdate",
    "PullRequest.viewerCanUpdate",
    "IssueComment.viewerCanUpdate",
    "IssueComment.viewerCanDelete",
)
def may_update(node: Node, info: Info) -> bool:
    """Whether who asks may edit it."""
    may = source.permission(context(info), source.repo_id(node, info)) in ("ADMIN", "MAINTAIN", "WRITE")
    return may or by_viewer(node, info)


@field("Issue.editor", "PullRequest.editor", "IssueComment.editor")
def editor(node: Node, info: Info) -> Node | None:
    """Give who edited it last."""
    return user(node, info, "editor_id")


@field("PullRequestReview.editor", "PullRequestReviewComment.editor")
def no_editor(_node: Node, _info: Info) -> None:
    """Give nobody: the rows don't tell."""
    return


@field("Issue.includesCreatedEdit", "PullRequest.includesCreatedEdit", "IssueComment.includesCreatedEdit", "PullRequestReviewComment.includesCreatedEdit")  # fmt: skip # noqa: E501
def edited(node: Node, _info: Info) -> bool:
    """Whether it was edited since."""
    return node.row["edited_at"] is not None


@field("PullRequestReview.includesCreatedEdit")
def review_edited(_node: Node, _info: Info) -> bool:
    """Give no: reviews keep no edits."""
    return False


attribute(
    "Issue.lastEditedAt", "PullRequest.lastEditedAt", "IssueComment.lastEditedAt",
    "PullRequestReviewComment.lastEditedAt", of="edited_at",
)  # fmt: skip


@field("PullRequestReview.lastEditedAt")
def review_edited_at(_node: Node, _info: Info) -> None:
    """Give nothing: reviews keep no edits."""
    return


@field(*(f"{kind}.body" for kind in _WRITTEN), *(f"{kind}.bodyText" for kind in _WRITTEN))
def body(node: Node, _info: Info) -> str:
    """Give the text as it was written; it is not rendered."""
    return node.row["body"] or ""


for _kind in _WRITTEN:
    attribute(f"{_kind}.createdAt", of="created_at")
    attribute(f"{_kind}.updatedAt", of="updated_at")
    attribute(f"{_kind}.publishedAt", of="submitted_at" if _kind == "PullRequestReview" else "created_at")
    attribute(f"{_kind}.databaseId", of="id")


@field(*(f"{kind}.fullDatabaseId" for kind in _WRITTEN))
def full_id(node: Node, _info: Info) -> str:
    """Give the database id as GitHub gives a BigInt: text."""
    return str(node.row["id"])


@field(*(f"{kind}.reactionGroups" for kind in _WRITTEN if kind != "PullRequestReview"))
def reaction_groups(node: Node, info: Info) -> list[dict[str, Any]]:
    """Give the reactions by kind, all kinds, none left out."""

    def load(siblings: list[Node]) -> dict[tuple[int, str], list[int]]:
        sql = """SELECT subject_id, content, user_id FROM reactions WHERE subject_id IN (SELECT value FROM json_each(?))
                 AND subject_kind = ? ORDER BY id"""
        kind = _REACTABLE.get(node.type, "issue")
        found: dict[tuple[int, str], list[int]] = {}
        for row in context(info).rows(sql, [each.row["id"] for each in siblings], kind):
            found.setdefault((row[0], row[1]), []).append(row[2])
        return found

    found = shared(node, "reactions", load)
    return [
        {"content": name, "people": found.get((node.row["id"], word), [])}
        for word, name in REACTIONS.items()
    ]  # fmt: skip


@field("PullRequestReview.reactionGroups")
def no_reactions(_node: Node, _info: Info) -> list[dict[str, Any]]:
    """Give empty groups: reviews take no reactions here."""
    return [{"content": name, "people": []} for name in REACTIONS.values()]


@field("ReactionGroup.content")
def reaction_content(group: dict[str, Any], _info: Info) -> str:
    """Give the reaction's name."""
    return str(group["content"])


@field("ReactionGroup.viewerHasReacted")
def reacted(group: dict[str, Any], info: Info) -> bool:
    """Whether who asks is among them."""
    return source.viewer_id(context(info)) in group["people"]


@field("ReactionGroup.users")
def reacting(group: dict[str, Any], info: Info, **arguments: Any) -> Connection:
    """Give who reacted."""
    known = context(info).users(group["people"])
    return listed(info, {"first": 10, **arguments}, [known[each] for each in group["people"]])


@field("Issue.participants", "PullRequest.participants")
def participants(node: Node, info: Info, **arguments: Any) -> Connection:
    """Give the author and all who commented, in that order."""

    def load(siblings: list[Node]) -> dict[int, list[int]]:
        sql = """SELECT issue_id, author_id FROM comments WHERE issue_id IN (SELECT value FROM json_each(?))
                 GROUP BY issue_id, author_id ORDER BY min(id)"""
        found: dict[int, list[int]] = {}
        for row in context(info).rows(sql, [each.row["id"] for each in siblings]):
            found.setdefault(row[0], []).append(row[1])
        return found

    people = dict.fromkeys([node.row["author_id"], *shared(node, "participants", load).get(node.row["id"], [])])
    known = context(info).users(people)
    return listed(info, arguments, [known[each] for each in people])


def by_login(info: Info, login: str) -> Node | None:
    """Give the account of this name, in any case of letters."""
    ident = context(info).tx.value("SELECT id FROM users WHERE login = ?", login)
    return context(info).users([ident]).get(ident) if ident else None


def assigned(node: Node, info: Info) -> list[Node]:
    """Give the people whom an issue or PR is assigned to."""

    def load(siblings: list[Node]) -> dict[int, list[int]]:
        sql = """SELECT issue_id, user_id FROM assignees WHERE issue_id IN (SELECT value FROM json_each(?))
                 ORDER BY issue_id, user_id"""
        found: dict[int, list[int]] = {}
        for row in context(info).rows(sql, [each.row["id"] for each in siblings]):
            found.setdefault(row[0], []).append(row[1])
        context(info).users(each for people in found.values() for each in people)
        return found

    ids = shared(node, "assignees", load).get(node.row["id"], [])
    known = context(info).users(ids)
    return [known[each] for each in ids]


@field("Issue.assignees", "PullRequest.assignees")
def assignees(node: Node, info: Info, **arguments: Any) -> Connection:
    """Give the assignees; the type holds users alone, so bots are left out as on GitHub."""
    return listed(info, arguments, [each for each in assigned(node, info) if each.type == "User"])


@field("Issue.assignedActors", "PullRequest.assignedActors")
def assigned_actors(node: Node, info: Info, **arguments: Any) -> Connection:
    """Give the assignees, bots too."""
    return listed(info, arguments, assigned(node, info))
