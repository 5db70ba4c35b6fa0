"""The query's own fields: who asks, repositories, nodes by id, search, the rate limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from droveway.localforge import access, nodes
from droveway.localforge.graphql import source
from droveway.localforge.graphql.actors import by_login
from droveway.localforge.graphql.commits import commits, refs
from droveway.localforge.graphql.context import Context, context
from droveway.localforge.graphql.errors import Refusal, not_found
from droveway.localforge.graphql.issues import either, load
from droveway.localforge.graphql.pages import Connection, Key, Node, one, paged, selects
from droveway.localforge.graphql.registry import Info, field
from droveway.localforge.graphql.reviews import review_comments


@field("Query.viewer")
def viewer(_source: Any, info: Info) -> Node:
    """Give who asks. The type is User: a bot shows itself as one, as GitHub's own tokens of apps do."""
    there = context(info)
    row = there.users([source.viewer_id(there)]).get(source.viewer_id(there))
    if row is None:
        raise Refusal("FORBIDDEN", "Resource not accessible")
    return row


@field("Query.repository")
def repository(_source: Any, info: Info, owner: str, name: str, followRenames: bool = True) -> Node:  # noqa: ARG001, N803
    """Give a repository that who asks may see."""
    there = context(info)
    row = access.find_repo(there.tx, owner, name)
    if row is None or not source.visible(there, row["id"]):
        raise not_found(f"Could not resolve to a Repository with the name '{owner}/{name}'.")
    return source.repository(there, row["id"])


@field("Query.user")
def user(_source: Any, info: Info, login: str) -> Node:
    """Give a person (not a bot)."""
    found = by_login(info, login)
    if found is None or found.type != "User":
        raise not_found(f"Could not resolve to a User with the login of '{login}'.")
    return found


@field("Query.repositoryOwner")
def repository_owner(_source: Any, info: Info, login: str) -> Node | None:
    """Give who may own repositories, or None."""
    found = by_login(info, login)
    return found if found and found.type == "User" else None


@field("Query.organization")
def organization(_source: Any, _info: Info, login: str) -> Node:
    """Refuse: there are no organisations yet."""
    raise not_found(f"Could not resolve to an Organization with the login of '{login}'.")


@field("Query.rateLimit")
def rate_limit(_source: Any, info: Info, dryRun: bool = False) -> dict[str, Any] | None:  # noqa: ARG001, N803
    """Give the GraphQL bucket as it stands after this query."""
    return context(info).rate


# --- nodes by id ---
def _plain(kind: str, table: str) -> Callable[[Info, int], Node | None]:
    def read(info: Info, ident: int) -> Node | None:
        row = context(info).tx.by_ids(table, [ident]).get(ident)
        return one(kind, row) if row else None

    return read


def _first(found: Sequence[Node]) -> Node | None:
    return found[0] if found else None


def _account(info: Info, ident: int) -> Node | None:
    return context(info).users([ident]).get(ident)


def _repository(info: Info, ident: int) -> Node | None:
    there = context(info)
    return source.repository(there, ident) if there.tx.value("SELECT 1 FROM repos WHERE id = ?", ident) else None


_READERS: Final[dict[str, Callable[[Info, int], Node | None]]] = {
    "User": _account,
    "Bot": _account,
    "Repository": _repository,
    "Issue": lambda info, ident: _first([each for each in either(info, [ident]) if each.type == "Issue"]),
    "PullRequest": lambda info, ident: _first(load(info, "PullRequest", [ident])),
    "PullRequestReviewComment": lambda info, ident: _first(review_comments(info, "c.id = ?", ident)),
    "Label": _plain("Label", "labels"),
    "Milestone": _plain("Milestone", "milestones"),
    "IssueComment": _plain("IssueComment", "comments"),
    "PullRequestReview": _plain("PullRequestReview", "reviews"),
    "PullRequestReviewThread": _plain("PullRequestReviewThread", "threads"),
    "StatusContext": _plain("StatusContext", "statuses"),
    "CheckSuite": _plain("CheckSuite", "check_suites"),
    "CheckRun": _plain("CheckRun", "check_runs"),
    "BranchProtectionRule": _plain("BranchProtectionRule", "protections"),
    "App": _plain("App", "apps"),
}
_GLOBAL: Final = ("User", "Bot", "App")


def find(info: Info, ident: str) -> Node | None:
    """Give what a node id names, or None where it does not exist or may not be seen."""
    known = nodes.decode(ident)
    if known is None:
        return None
    kind, parts = known
    if kind in _READERS and len(parts) == 1 and parts[0].isdecimal():
        found = _READERS[kind](info, int(parts[0]))
    elif kind in ("Commit", "Tree", "Blob", "Tag", "Ref") and len(parts) == 2 and parts[0].isdecimal():
        found = _git_thing(info, kind, int(parts[0]), parts[1])
    else:
        return None
    if found is None or kind in _GLOBAL:
        return found
    repo = found.row["id"] if kind == "Repository" else source.repo_id(found, info)
    return found if source.visible(context(info), repo) and _shown(found, context(info)) else None


def _shown(node: Node, there: Context) -> bool:
    # A pending review is its author's alone.
    if node.type == "PullRequestReview":
        return bool(node.row["state"] != "PENDING" or node.row["author_id"] == source.viewer_id(there))
    return True


def _git_thing(info: Info, kind: str, repo: int, name: str) -> Node | None:
    there = context(info)
    if not there.tx.value("SELECT 1 FROM repos WHERE id = ?", repo):
        return None
    if kind == "Ref":
        sha = source.refs(there, repo).get(name)
        prefix = name[: name.index("/", 5) + 1] if name.count("/") > 1 else "refs/"
        return refs(repo, [(name, sha)], prefix)[0] if sha else None
    if source.git(there, repo).kind(name) != kind.lower():
        return None
    return commits(repo, [name])[0] if kind == "Commit" else one(kind, {"repo_id": repo, "sha": name})


@field("Query.node")
def node(_source: Any, info: Info, id: str) -> Node:  # noqa: A002
    """Give what the id names."""
    found = find(info, id)
    if found is None:
        raise not_found(f"Could not resolve to a node with the global id of '{id}'.")
    return found


@field("Query.nodes")
def several(_source: Any, info: Info, ids: Sequence[str]) -> list[Node | Refusal]:
    """Give what the ids name; an unknown one is null and an error of its own."""
    return [
        find(info, each) or not_found(f"Could not resolve to a node with the global id of '{each}'.") for each in ids
    ]


@field("Query.resource")
def resource(_source: Any, info: Info, url: str) -> Node | None:
    """Give what a page's address shows: a person, a repository, an issue, a PR, a commit."""
    there = context(info)
    parts = [unquote(part) for part in urlsplit(url).path.strip("/").split("/")]
    if len(parts) == 1:
        return by_login(info, parts[0])
    row = access.find_repo(there.tx, parts[0], parts[1])
    if row is None or not source.visible(there, row["id"]):
        return None
    if len(parts) == 2:
        return source.repository(there, row["id"])
    if len(parts) >= 4 and parts[2] in ("issues", "pull") and parts[3].isdecimal():
        ident = there.tx.value("SELECT id FROM issues WHERE repo_id = ? AND number = ?", row["id"], int(parts[3]))
        return _first(either(info, [ident])) if ident else None
    if len(parts) == 4 and parts[2] == "commit":
        return _git_thing(info, "Commit", row["id"], parts[3])
    return None


# --- search ---
@field("Query.search")
def search(_source: Any, info: Info, query: str, type: str, **arguments: Any) -> Connection:  # noqa: A002
    """Search issues and PRs by GitHub's qualifiers; other kinds of search find nothing here."""
    ids = source.search(context(info), query) if type.startswith("ISSUE") else []
    keys: list[Key] = [(place, place) for place in range(len(ids))]
    if not selects(info, "nodes", "edges") and not arguments:
        arguments = {"first": 1}
    return paged(info, arguments, keys, lambda shown: list(either(info, [ids[place] for place, _ in shown])))
