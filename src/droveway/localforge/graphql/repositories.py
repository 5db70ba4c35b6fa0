"""The repository and what hangs on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from droveway.localforge.graphql import source
from droveway.localforge.graphql.commits import refs as ref_nodes
from droveway.localforge.graphql.context import context, node_id, user
from droveway.localforge.graphql.errors import not_found
from droveway.localforge.graphql.issues import Query, load, ordered
from droveway.localforge.graphql.pages import Connection, Key, Node, listed, one, page_of, paged
from droveway.localforge.graphql.registry import Info, attribute, field

for _name, _column in {
    "name": "name", "databaseId": "id", "description": "description", "createdAt": "created_at",
    "updatedAt": "updated_at", "pushedAt": "pushed_at",
}.items():  # fmt: skip
    attribute(f"Repository.{_name}", of=_column)
for _name, _column in {
    "isPrivate": "private", "isArchived": "archived", "mergeCommitAllowed": "allow_merge_commit",
    "squashMergeAllowed": "allow_squash_merge", "rebaseMergeAllowed": "allow_rebase_merge",
    "deleteBranchOnMerge": "delete_branch_on_merge",
}.items():  # fmt: skip
    field(f"Repository.{_name}")(lambda node, _info, column=_column: bool(node.row[column]))
field("Repository.id")(node_id("Repository"))


@field("Repository.nameWithOwner")
def full_name(node: Node, info: Info) -> str:
    """Give ``owner/name``."""
    return source.repo_path(context(info), node.row["id"])[1:]


@field("Repository.resourcePath")
def path(node: Node, info: Info) -> str:
    """Give ``/owner/name``."""
    return source.repo_path(context(info), node.row["id"])


@field("Repository.url")
def url(node: Node, info: Info) -> str:
    """Give the address of its page, below which ``.git`` is served."""
    return source.html(context(info)) + path(node, info)


@field("Repository.sshUrl")
def ssh_url(node: Node, info: Info) -> str:
    """Give the address for git; there is no ssh here, so it is the same place over HTTP."""
    return f"{url(node, info)}.git"


@field("Repository.openGraphImageUrl")
def image(node: Node, info: Info) -> str:
    """Give an address of a picture (there is none behind it)."""
    return f"{url(node, info)}/opengraph"


@field("Repository.owner")
def owner(node: Node, info: Info) -> Node | None:
    """Give the owner."""
    return user(node, info, "owner_id")


@field("Repository.visibility")
def visibility(node: Node, _info: Info) -> str:
    """Give PUBLIC or PRIVATE."""
    return "PRIVATE" if node.row["private"] else "PUBLIC"


@field("Repository.isEmpty")
def empty(node: Node, info: Info) -> bool:
    """Whether no branch was ever pushed."""
    return not any(name.startswith("refs/heads/") for name in source.refs(context(info), node.row["id"]))


@field("Repository.hasIssuesEnabled")
def has_issues(_node: Node, _info: Info) -> bool:
    """Give yes: each repository has issues."""
    return True


@field("Repository.viewerPermission")
def viewer_permission(node: Node, info: Info) -> str | None:
    """Give what who asks may do."""
    return source.permission(context(info), node.row["id"])


@field("Repository.viewerCanAdminister")
def viewer_admin(node: Node, info: Info) -> bool:
    """Whether who asks is an admin."""
    return viewer_permission(node, info) == "ADMIN"


@field("Repository.viewerDefaultMergeMethod")
def merge_method(node: Node, _info: Info) -> str:
    """Give the first method that is allowed."""
    for word in ("merge_commit", "squash_merge", "rebase_merge"):
        if node.row[f"allow_{word}"]:
            return word.split("_", 1)[0].upper()
    return "MERGE"


# --- refs ---
@field("Repository.defaultBranchRef")
def default_branch(node: Node, info: Info) -> Node | None:
    """Give the default branch, or None while nothing was pushed."""
    return _ref(node, info, f"refs/heads/{node.row['default_branch']}", "refs/heads/")


def _ref(node: Node, info: Info, whole: str, prefix: str) -> Node | None:
    sha = source.refs(context(info), node.row["id"]).get(whole)
    return ref_nodes(node.row["id"], [(whole, sha)], prefix)[0] if sha else None


@field("Repository.ref")
def ref(node: Node, info: Info, qualifiedName: str) -> Node | None:  # noqa: N803
    """Give a ref by its whole or its short name."""
    for prefix in ("", "refs/", "refs/heads/", "refs/tags/"):
        whole = prefix + qualifiedName
        if whole.startswith("refs/"):
            found = _ref(node, info, whole, whole[: whole.index("/", 5) + 1] if whole.count("/") > 1 else "refs/")
            if found:
                return found
    return None


@field("Repository.refs")
def refs(
    node: Node,
    info: Info,
    refPrefix: str,  # noqa: N803
    query: str | None = None,
    direction: str | None = None,
    orderBy: dict[str, Any] | None = None,  # noqa: N803
    **arguments: Any,
) -> Connection:
    """Give the refs below a prefix, by name; their names are shown without it."""
    every = source.refs(context(info), node.row["id"])
    names = sorted(name for name in every if name.startswith(refPrefix))
    if query:
        names = [name for name in names if query.lower() in name.removeprefix(refPrefix).lower()]
    down = (orderBy["direction"] if orderBy else direction) == "DESC"
    if down:
        names.reverse()
    keys: list[Key] = [(name, 0) for name in names]
    repo_id = node.row["id"]

    def show(shown: Sequence[Key]) -> list[Node]:
        return ref_nodes(repo_id, [(name, every[name]) for name, _ in shown], refPrefix)

    return paged(info, arguments, keys, show, descending=down)


@field("Repository.object")
def git_object(node: Node, info: Info, expression: str | None = None, oid: str | None = None) -> Node | None:
    """Give a git object by its SHA or by an expression such as ``main:README.md``."""
    repo = source.git(context(info), node.row["id"])
    wanted = oid or expression or ""
    sha = repo.resolve(wanted) if ":" not in wanted and not oid else None
    if sha is None and wanted and not wanted.startswith("-") and "\0" not in wanted:
        sha = repo.ref(wanted)
    kind = repo.kind(sha) if sha else None
    if sha is None or kind is None:
        return None
    return one(kind.capitalize(), {"repo_id": node.row["id"], "sha": sha})


_TEXT_LIMIT: Final = 1_000_000


@field("Blob.text")
def blob_text(node: Node, info: Info) -> str | None:
    """Give the text, None for a binary file."""
    raw = source.blob(context(info), node.row["repo_id"], node.row["sha"])
    return None if b"\0" in raw else raw[:_TEXT_LIMIT].decode("utf-8", "replace")


@field("Blob.isBinary")
def blob_binary(node: Node, info: Info) -> bool:
    """Whether it holds a zero byte."""
    return b"\0" in source.blob(context(info), node.row["repo_id"], node.row["sha"])


@field("Blob.byteSize")
def blob_size(node: Node, info: Info) -> int:
    """Give the size."""
    return len(source.blob(context(info), node.row["repo_id"], node.row["sha"]))


@field("Blob.isTruncated")
def blob_cut(node: Node, info: Info) -> bool:
    """Whether the text is longer than what is given."""
    return blob_size(node, info) > _TEXT_LIMIT


# --- issues and pull requests ---
@field("Repository.issues", "Repository.pullRequests")
def issues(
    node: Node,
    info: Info,
    states: Sequence[str] | None = None,
    labels: Sequence[str] | None = None,
    filterBy: dict[str, Any] | None = None,  # noqa: N803
    headRefName: str | None = None,  # noqa: N803
    baseRefName: str | None = None,  # noqa: N803
    **arguments: Any,
) -> Connection:
    """Give the repository's issues or PRs that fit."""
    query = Query("PullRequest" if info.field_name == "pullRequests" else "Issue")
    query.add("i.repo_id = ?", node.row["id"])
    query.states(states)
    query.labels(labels)
    query.filter(filterBy or {})
    if headRefName is not None:
        query.add("p.head_ref = ?", headRefName)
    if baseRefName is not None:
        query.add("p.base_ref = ?", baseRefName)
    return query.connection(info, arguments)


def _numbered(node: Node, info: Info, number: int, kind: str, words: str) -> Node:
    is_pull = {"Issue": (0,), "PullRequest": (1,)}.get(kind, (0, 1))
    row = context(info).tx.one(
        "SELECT id, is_pull FROM issues WHERE repo_id = ? AND number = ?", node.row["id"], number
    )
    if row is None or row["is_pull"] not in is_pull:
        raise not_found(f"Could not resolve to {words} with the number of {number}.")
    return load(info, "PullRequest" if row["is_pull"] else "Issue", [row["id"]])[0]


@field("Repository.issue")
def issue(node: Node, info: Info, number: int) -> Node:
    """Give one issue."""
    return _numbered(node, info, number, "Issue", "an Issue")


@field("Repository.pullRequest")
def pull(node: Node, info: Info, number: int) -> Node:
    """Give one PR."""
    return _numbered(node, info, number, "PullRequest", "a PullRequest")


@field("Repository.issueOrPullRequest")
def issue_or_pull(node: Node, info: Info, number: int) -> Node:
    """Give what has this number."""
    return _numbered(node, info, number, "", "an issue or pull request")


@field("Repository.label")
def label(node: Node, info: Info, name: str) -> Node | None:
    """Give a label by its name, in any case of letters."""
    row = context(info).tx.one("SELECT * FROM labels WHERE repo_id = ? AND name = ?", node.row["id"], name)
    return one("Label", row) if row else None


@field("Repository.labels")
def labels(
    node: Node,
    info: Info,
    query: str | None = None,
    orderBy: dict[str, Any] | None = None,  # noqa: N803
    **arguments: Any,
) -> Connection:
    """Give the labels; ``query`` looks into name and description."""
    rows = context(info).tx.all("SELECT * FROM labels WHERE repo_id = ? ORDER BY id", node.row["id"])
    if query:
        rows = [row for row in rows if query.lower() in f"{row['name']}\n{row['description'] or ''}".lower()]
    return listed(info, arguments, ordered(page_of("Label", rows), orderBy))


@field("Repository.milestone")
def milestone(node: Node, info: Info, number: int) -> Node | None:
    """Give a milestone, or None."""
    row = context(info).tx.one("SELECT * FROM milestones WHERE repo_id = ? AND number = ?", node.row["id"], number)
    return one("Milestone", row) if row else None


_MILESTONE_ORDERS: Final = {
    "CREATED_AT": "created_at", "UPDATED_AT": "updated_at", "NUMBER": "number", "DUE_DATE": "coalesce(due_on, '9')",
}  # fmt: skip


@field("Repository.milestones")
def milestones(
    node: Node,
    info: Info,
    states: Sequence[str] | None = None,
    query: str | None = None,
    orderBy: dict[str, Any] | None = None,  # noqa: N803
    **arguments: Any,
) -> Connection:
    """Give the milestones."""
    column = _MILESTONE_ORDERS[orderBy["field"]] if orderBy else "number"
    down = bool(orderBy) and orderBy is not None and orderBy["direction"] == "DESC"
    way = "DESC" if down else "ASC"
    sql = f"SELECT {column}, id, title, state FROM milestones WHERE repo_id = ? ORDER BY 1 {way}, id {way}"  # noqa: S608
    keys: list[Key] = [
        (row[0], row["id"])
        for row in context(info).tx.all(sql, node.row["id"])
        if (states is None or row["state"].upper() in states) and (not query or query.lower() in row["title"].lower())
    ]

    def show(shown: Sequence[Key]) -> list[Node]:
        rows = context(info).tx.by_ids("milestones", [ident for _, ident in shown])
        return page_of("Milestone", [rows[ident] for _, ident in shown])

    return paged(info, arguments, keys, show, descending=down)
