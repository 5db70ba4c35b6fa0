"""Git objects and refs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from droveway.localforge.gitdata import Commit
from droveway.localforge.graphql import source
from droveway.localforge.graphql.context import context
from droveway.localforge.graphql.issues import Query
from droveway.localforge.graphql.pages import Connection, Key, Node, Page, listed, one, paged, shared
from droveway.localforge.graphql.registry import Info, attribute, field

_OBJECTS: Final = ("Commit", "Tree", "Tag", "Blob")


def commits(repo_id: int, shas: Iterable[str]) -> list[Node]:
    """Make commits of one page; nothing is read until a field asks."""
    page = Page()
    return [Node("Commit", {"repo_id": repo_id, "sha": sha}, page) for sha in shas]


def commit_of(node: Node, sha: str | None, repo_id: int, what: str, column: str) -> Node | None:
    """Give the commit that ``column`` of the row names, on one page with those of the node's siblings."""
    if not sha:
        return None

    def load(siblings: list[Node]) -> dict[str, Node]:
        shas = list(dict.fromkeys(each.row[column] for each in siblings if each.row[column]))
        return dict(zip(shas, commits(repo_id, shas), strict=True))

    return shared(node, (what, repo_id), load).get(sha)


@field(*(f"{kind}.id" for kind in _OBJECTS))
def ident(node: Node, _info: Info) -> str:
    """Give the node id."""
    return source.encode(node.type, node.row["repo_id"], node.row["sha"])


attribute(*(f"{kind}.oid" for kind in _OBJECTS), of="sha")


@field(*(f"{kind}.abbreviatedOid" for kind in _OBJECTS))
def short(node: Node, _info: Info) -> str:
    """Give the first seven digits."""
    return str(node.row["sha"])[:7]


def data(node: Node, info: Info) -> Commit:
    """Read the commit, together with its page, from git."""

    def load(siblings: list[Node]) -> dict[str, Commit]:
        return source.commits(context(info), node.row["repo_id"], [each.row["sha"] for each in siblings])

    return shared(node, "data", load)[node.row["sha"]]


@field("Commit.message")
def message(node: Node, info: Info) -> str:
    """Give the whole message."""
    return data(node, info).message


@field("Commit.messageHeadline")
def headline(node: Node, info: Info) -> str:
    """Give the first line."""
    return data(node, info).title


@field("Commit.messageBody")
def rest(node: Node, info: Info) -> str:
    """Give the message without its first line."""
    return data(node, info).message.partition("\n")[2].strip("\n")


@field("Commit.authoredDate")
def authored(node: Node, info: Info) -> str:
    """Give when it was written."""
    return data(node, info).author.date


@field("Commit.committedDate")
def committed(node: Node, info: Info) -> str:
    """Give when it was committed."""
    return data(node, info).committer.date


@field("Commit.author")
def author(node: Node, info: Info) -> dict[str, Any]:
    """Give who wrote it."""
    return source.person(data(node, info).author)


@field("Commit.committer")
def committer(node: Node, info: Info) -> dict[str, Any]:
    """Give who committed it."""
    return source.person(data(node, info).committer)


@field("Commit.authors")
def authors(node: Node, info: Info, **arguments: Any) -> Connection:
    """Give the author; co-authors in trailers are not read."""
    found = [source.person(data(node, info).author)]
    return paged(info, arguments, [(0, 0)], lambda shown: [found[place] for place, _ in shown])


@field("GitActor.user")
def actor_user(actor: dict[str, Any], info: Info) -> Node | None:
    """Give the account with this address."""
    there = context(info)
    ident = there.memoised(
        ("email", actor["email"]),
        lambda: there.tx.value("SELECT id FROM users WHERE email = ? COLLATE NOCASE AND kind = 'User'", actor["email"]),
    )
    return there.users([ident]).get(ident) if ident else None


@field("GitActor.avatarUrl")
def actor_avatar(_actor: dict[str, Any], info: Info) -> str:
    """Give an address of a picture (there is none behind it)."""
    return f"{source.html(context(info))}/avatars/u"


@field("Commit.parents")
def parents(node: Node, info: Info, **arguments: Any) -> Connection:
    """Give the parents."""
    return listed(info, arguments, commits(node.row["repo_id"], data(node, info).parents))


@field("Commit.history")
def history(node: Node, info: Info, **arguments: Any) -> Connection:
    """Give the commit and what it stands on, newest first."""
    repo_id = node.row["repo_id"]
    shas = source.log(context(info), repo_id, node.row["sha"])
    keys: list[Key] = [(place, place) for place in range(len(shas))]
    return paged(info, arguments, keys, lambda shown: commits(repo_id, [shas[place] for place, _ in shown]))


@field("Commit.tree")
def tree(node: Node, info: Info) -> Node:
    """Give the tree."""
    return one("Tree", {"repo_id": node.row["repo_id"], "sha": data(node, info).tree})


@field("Commit.repository")
def repository(node: Node, info: Info) -> Node:
    """Give the repository through which it was reached."""
    return source.repository(context(info), node.row["repo_id"])


@field("Commit.resourcePath")
def path(node: Node, info: Info) -> str:
    """Give the path of its page."""
    return f"{source.repo_path(context(info), node.row['repo_id'])}/commit/{node.row['sha']}"


@field("Commit.url", "Commit.commitUrl")
def url(node: Node, info: Info) -> str:
    """Give the address of its page."""
    return source.html(context(info)) + path(node, info)


@field("Tag.name")
def tag_name(node: Node, info: Info) -> str:
    """Give the annotated tag's name."""
    return source.tag(context(info), node.row["repo_id"], node.row["sha"])[1]


@field("Tag.message")
def tag_message(node: Node, info: Info) -> str:
    """Give the annotated tag's message."""
    return source.tag(context(info), node.row["repo_id"], node.row["sha"])[2]


@field("Tag.target")
def tag_target(node: Node, info: Info) -> Node:
    """Give what the annotated tag points at."""
    return one(
        "Commit",
        {"repo_id": node.row["repo_id"], "sha": source.tag(context(info), node.row["repo_id"], node.row["sha"])[0]},
    )


# --- refs: rows are {"repo_id", "name" (whole), "sha"} ---
def refs(repo_id: int, found: Iterable[tuple[str, str]], prefix: str) -> list[Node]:
    """Make refs of one page, shown as seen below ``prefix``."""
    page = Page()
    return [Node("Ref", {"repo_id": repo_id, "name": name, "sha": sha}, page, prefix) for name, sha in found]


@field("Ref.id")
def ref_id(node: Node, _info: Info) -> str:
    """Give the node id."""
    return source.encode("Ref", node.row["repo_id"], node.row["name"])


@field("Ref.name")
def ref_name(node: Node, _info: Info) -> str:
    """Give the name below the prefix."""
    return str(node.row["name"]).removeprefix(node.extra)


@field("Ref.prefix")
def ref_prefix(node: Node, _info: Info) -> str:
    """Give the prefix, for instance ``refs/heads/``."""
    return str(node.extra)


@field("Ref.target")
def ref_target(node: Node, info: Info) -> Node:
    """Give what it points at; branches point at commits, tags may not."""

    def load(siblings: list[Node]) -> dict[str, Node]:
        shas = list(dict.fromkeys(each.row["sha"] for each in siblings))
        if all(each.row["name"].startswith("refs/heads/") for each in siblings):
            return dict(zip(shas, commits(node.row["repo_id"], shas), strict=True))
        kinds = source.kinds(context(info), node.row["repo_id"], shas)
        page = Page()
        return {sha: Node(kinds[sha], {"repo_id": node.row["repo_id"], "sha": sha}, page) for sha in shas}

    return shared(node, "targets", load)[node.row["sha"]]


@field("Ref.branchProtectionRule")
def ref_rule(node: Node, info: Info) -> Node | None:
    """Give the branch's protection."""
    row = source.protection(context(info), node.row["repo_id"], node.row["name"].removeprefix("refs/heads/"))
    return one("BranchProtectionRule", row) if row else None


@field("Ref.compare")
def compare(node: Node, info: Info, headRef: str) -> dict[str, Any] | None:  # noqa: N803
    """Compare this ref (the base) with another."""
    return source.compare(context(info), node.row["repo_id"], node.row["sha"], headRef)


@field("Commit.associatedPullRequests", "Ref.associatedPullRequests")
def associated(node: Node, info: Info, **arguments: Any) -> Connection:
    """Give the PRs whose head or merge this is."""
    query = Query("PullRequest")
    query.add("i.repo_id = ?", node.row["repo_id"])
    query.states(arguments.get("states"))
    if node.type == "Ref":
        query.add("p.head_repo_id = i.repo_id AND p.head_ref = ?", node.row["name"].removeprefix("refs/heads/"))
    else:
        query.add("? IN (p.head_sha, p.merge_sha)", node.row["sha"])
    return query.connection(info, arguments)
