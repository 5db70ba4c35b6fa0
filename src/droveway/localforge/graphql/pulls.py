"""Pull requests."""
# ruff: noqa: S608 (fragments of this module alone are put together; values are parameters)

from __future__ import annotations

from typing import Any, Final

from droveway.localforge.graphql import source
from droveway.localforge.graphql.checks import rollup
from droveway.localforge.graphql.commits import commit_of, commits, refs
from droveway.localforge.graphql.context import children, context, user
from droveway.localforge.graphql.issues import load, path
from droveway.localforge.graphql.pages import Connection, Key, Node, listed, one, paged, selects
from droveway.localforge.graphql.registry import Info, attribute, field

_IN: Final = "IN (SELECT value FROM json_each(?))"

for _name, _column in {
    "headRefName": "head_ref", "headRefOid": "head_sha", "baseRefName": "base_ref", "baseRefOid": "base_sha",
    "mergedAt": "merged_at",
}.items():  # fmt: skip
    attribute(f"PullRequest.{_name}", of=_column)


@field("PullRequest.state")
def state(node: Node, _info: Info) -> str:
    """Give OPEN, CLOSED or MERGED."""
    return "MERGED" if node.row["merged"] else str(node.row["state"]).upper()


@field("PullRequest.merged")
def merged(node: Node, _info: Info) -> bool:
    """Whether it is merged."""
    return bool(node.row["merged"])


@field("PullRequest.isDraft")
def draft(node: Node, _info: Info) -> bool:
    """Whether it is a draft."""
    return bool(node.row["draft"])


@field("PullRequest.maintainerCanModify")
def modifiable(node: Node, _info: Info) -> bool:
    """Whether maintainers may push to its head."""
    return bool(node.row["maintainer_can_modify"])


@field("PullRequest.isCrossRepository")
def cross(node: Node, _info: Info) -> bool:
    """Whether the head is in another repository."""
    return bool(node.row["head_repo_id"] != node.row["repo_id"])


@field("PullRequest.mergedBy")
def merged_by(node: Node, info: Info) -> Node | None:
    """Give who merged it."""
    return user(node, info, "merged_by_id")


@field("PullRequest.headRepository")
def head_repository(node: Node, info: Info) -> Node:
    """Give the head's repository."""
    return source.repository(context(info), node.row["head_repo_id"])


@field("PullRequest.baseRepository")
def base_repository(node: Node, info: Info) -> Node:
    """Give the base's repository."""
    return source.repository(context(info), node.row["repo_id"])


@field("PullRequest.headRepositoryOwner")
def head_owner(node: Node, info: Info) -> Node | None:
    """Give the owner of the head's repository."""
    return user(source.repository(context(info), node.row["head_repo_id"]), info, "owner_id")


@field("PullRequest.headRef")
def head_ref(node: Node, info: Info) -> Node | None:
    """Give the head branch, or None where it was deleted."""
    return _branch(info, node.row["head_repo_id"], node.row["head_ref"])


@field("PullRequest.baseRef")
def base_ref(node: Node, info: Info) -> Node | None:
    """Give the base branch, or None where it was deleted."""
    return _branch(info, node.row["repo_id"], node.row["base_ref"])


def _branch(info: Info, repo_id: int, name: str) -> Node | None:
    whole = f"refs/heads/{name}"
    sha = source.refs(context(info), repo_id).get(whole)
    return refs(repo_id, [(whole, sha)], "refs/heads/")[0] if sha else None


@field("PullRequest.mergeCommit")
def merge_commit(node: Node, _info: Info) -> Node | None:
    """Give the commit that the merge put on the base."""
    return commit_of(node, node.row["merge_sha"], node.row["repo_id"], "merge", "merge_sha")


@field("PullRequest.mergeable")
def mergeable(node: Node, info: Info) -> str:
    """Give MERGEABLE, CONFLICTING or UNKNOWN, which it is until it was computed (FRG-025)."""
    return source.mergeability(context(info), node.row).mergeable


@field("PullRequest.mergeStateStatus")
def merge_state(node: Node, info: Info) -> str:
    """Give what stands between the PR and its merge."""
    return source.mergeability(context(info), node.row).state


@field("PullRequest.potentialMergeCommit")
def potential(node: Node, info: Info) -> Node | None:
    """Give the test merge."""
    sha = source.mergeability(context(info), node.row).test_sha
    return commits(node.row["repo_id"], [sha])[0] if sha else None


@field("PullRequest.checksResourcePath")
def checks_path(node: Node, info: Info) -> str:
    """Give the path of the checks' page."""
    return f"{path(node, info)}/checks"


def head(node: Node) -> Node:
    """Give the head commit, on one page with those of the PR's siblings."""
    found = commit_of(node, node.row["head_sha"], node.row["repo_id"], "heads", "head_sha")
    assert found is not None
    return found


@field("PullRequest.statusCheckRollup")
def pull_rollup(node: Node, info: Info) -> Node | None:
    """Give the head's roll-up."""
    return rollup(head(node), info)


@field("PullRequest.commits")
def pull_commits(node: Node, info: Info, **arguments: Any) -> Connection:
    """Give the PR's commits, oldest first; the last one is the head, for which git is not asked."""

    def show(shas: list[str]) -> list[Node]:
        known = shas if len(shas) > 1 else []
        others = {each.row["sha"]: each for each in commits(node.row["repo_id"], known)}
        return [_pull_commit(node, others.get(sha) or head(node)) for sha in shas]

    last_only = arguments.get("last") == 1 and not arguments.keys() & {"first", "after", "before"}
    if last_only and not selects(info, "totalCount", "edges", "pageInfo"):
        return Connection([("", 0)], (0, 1), lambda _keys: show([node.row["head_sha"]]))
    shas = source.pull_commits(context(info), node.row)
    keys: list[Key] = [(place, place) for place in range(len(shas))]
    return paged(info, arguments, keys, lambda shown: show([shas[place] for place, _ in shown]))


def _pull_commit(node: Node, commit: Node) -> Node:
    return one("PullRequestCommit", {"pull": node, "commit": commit})


@field("PullRequestCommit.commit")
def commit_commit(node: Node, _info: Info) -> Node:
    """Give the commit."""
    found: Node = node.row["commit"]
    return found


@field("PullRequestCommit.pullRequest")
def commit_pull(node: Node, _info: Info) -> Node:
    """Give the PR."""
    found: Node = node.row["pull"]
    return found


@field("PullRequestCommit.id")
def commit_id(node: Node, _info: Info) -> str:
    """Give an id of the pair."""
    return source.opaque("PURC", node.row["pull"].row["id"], node.row["commit"].row["sha"])


@field("PullRequestCommit.resourcePath")
def commit_path(node: Node, info: Info) -> str:
    """Give the path of the commit's page in the PR."""
    return f"{path(node.row['pull'], info)}/commits/{node.row['commit'].row['sha']}"


@field("PullRequestCommit.url")
def commit_url(node: Node, info: Info) -> str:
    """Give the address of the commit's page in the PR."""
    return source.html(context(info)) + commit_path(node, info)


@field("PullRequest.files")
def files(node: Node, info: Info, **arguments: Any) -> Connection:
    """Give the changed files, by path."""
    found = source.changes(context(info), node.row)
    keys: list[Key] = [(place, place) for place in range(len(found))]
    return paged(info, arguments, keys, lambda shown: [found[place] for place, _ in shown])


@field("PullRequest.additions", "PullRequest.deletions")
def lines(node: Node, info: Info) -> int:
    """Count the lines added or deleted."""
    return sum(each[info.field_name] for each in source.changes(context(info), node.row))


@field("PullRequest.changedFiles")
def changed_files(node: Node, info: Info) -> int:
    """Count the changed files."""
    return len(source.changes(context(info), node.row))


@field("PullRequest.closingIssuesReferences")
def closes(node: Node, info: Info, **arguments: Any) -> Connection:
    """Give the issues that the PR's text says it closes."""
    numbers = source.closed_issues(context(info), node.row)
    keys: list[Key] = [(each, each) for each in numbers]
    return paged(info, arguments, keys, lambda shown: load(info, "Issue", [each for _, each in shown]))


@field("PullRequest.reviewRequests")
def review_requests(node: Node, info: Info, **arguments: Any) -> Connection:
    """Give who was asked to review and has not yet."""
    sql = (
        f"""SELECT r.*, r.user_id AS id FROM review_requests r WHERE r.issue_id {_IN} ORDER BY r.issue_id, r.user_id"""
    )
    found = children(node, info, "requests", "ReviewRequest", sql)
    for each in found:
        each.extra = node
    return listed(info, arguments, found)


@field("ReviewRequest.requestedReviewer")
def requested(node: Node, info: Info) -> Node | None:
    """Give the person."""
    return user(node, info, "user_id")


@field("ReviewRequest.id")
def request_id(node: Node, _info: Info) -> str:
    """Give an id of the pair."""
    return source.opaque("RR", node.row["issue_id"], node.row["user_id"])


@field("ReviewRequest.databaseId")
def request_database_id(_node: Node, _info: Info) -> None:
    """Give none: the row has no number of its own."""
    return


@field("ReviewRequest.pullRequest")
def request_pull(node: Node, _info: Info) -> Node:
    """Give the PR."""
    found: Node = node.extra
    return found
