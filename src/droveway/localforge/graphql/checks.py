"""What was said about a commit: statuses, check suites, check runs, and their roll-up."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from droveway.localforge.graphql import source
from droveway.localforge.graphql.commits import commits
from droveway.localforge.graphql.context import context, node_id, user
from droveway.localforge.graphql.pages import Connection, Node, Page, listed, shared
from droveway.localforge.graphql.registry import Info, attribute, field

for _name, _column in {
    "context": "context", "description": "description", "targetUrl": "target_url", "createdAt": "created_at",
}.items():  # fmt: skip
    attribute(f"StatusContext.{_name}", of=_column)
for _name, _column in {
    "name": "name", "databaseId": "id", "startedAt": "started_at", "completedAt": "completed_at", "title": "title",
    "summary": "summary", "text": "text", "externalId": "external_id",
}.items():  # fmt: skip
    attribute(f"CheckRun.{_name}", of=_column)
attribute("CheckSuite.createdAt", of="created_at")
attribute("CheckSuite.updatedAt", of="updated_at")
attribute("CheckSuite.databaseId", "App.databaseId", of="id")
attribute("App.name", of="name")
attribute("App.slug", of="slug")
for _kind in ("StatusContext", "CheckRun", "CheckSuite", "App"):
    field(f"{_kind}.id")(node_id(_kind))


@field("CheckSuite.workflowRun")
def workflow_run(_node: Node, _info: Info) -> None:
    """Give none: no suite here comes from a workflow."""
    return


@field("App.url")
def app_url(node: Node, info: Info) -> str:
    """Give the address of the app's page."""
    return f"{source.html(context(info))}/apps/{node.row['slug']}"


@field("StatusContext.state")
def status_state(node: Node, _info: Info) -> str:
    """Give the state."""
    return str(node.row["state"]).upper()


@field("StatusContext.creator")
def status_creator(node: Node, info: Info) -> Node | None:
    """Give who set it."""
    return user(node, info, "creator_id")


@field("StatusContext.avatarUrl")
def status_avatar(node: Node, info: Info) -> str:
    """Give an address of a picture (there is none behind it)."""
    return f"{source.html(context(info))}/avatars/{node.row['creator_id']}"


@field("CheckRun.status", "CheckSuite.status")
def check_status(node: Node, _info: Info) -> str:
    """Give the status."""
    return str(node.row["status"]).upper()


@field("CheckRun.conclusion", "CheckSuite.conclusion")
def check_conclusion(node: Node, _info: Info) -> str | None:
    """Give the conclusion of what is completed."""
    word = node.row["conclusion"]
    return word.upper() if word else None


@field("CheckRun.repository")
def check_repository(node: Node, info: Info) -> Node:
    """Give the repository."""
    return source.repository(context(info), node.row["repo_id"])


@field("CheckRun.resourcePath")
def check_path(node: Node, info: Info) -> str:
    """Give the path of its page."""
    return f"{source.repo_path(context(info), node.row['repo_id'])}/runs/{node.row['id']}"


@field("CheckRun.url", "CheckRun.permalink")
def check_url(node: Node, info: Info) -> str:
    """Give the address of its page."""
    return source.html(context(info)) + check_path(node, info)


@field("CheckRun.detailsUrl")
def check_details(node: Node, info: Info) -> str:
    """Give the address that the check named, or its page."""
    return node.row["details_url"] or check_url(node, info)


@field("CheckSuite.resourcePath")
def suite_path(node: Node, info: Info) -> str:
    """Give the path of the suite's page."""
    return f"{source.repo_path(context(info), node.row['repo_id'])}/commit/{node.row['sha']}/checks"


@field("CheckSuite.url")
def suite_url(node: Node, info: Info) -> str:
    """Give the address of the suite's page."""
    return source.html(context(info)) + suite_path(node, info)


@field("CheckRun.checkSuite")
def check_suite(node: Node, info: Info) -> Node:
    """Give the suite."""

    def load(siblings: list[Node]) -> dict[int, Node]:
        page = Page()
        ids = [each.row["suite_id"] for each in siblings if each.type == "CheckRun"]
        return {
            ident: Node("CheckSuite", row, page) for ident, row in context(info).tx.by_ids("check_suites", ids).items()
        }

    return shared(node, "suites", load)[node.row["suite_id"]]


@field("CheckSuite.app")
def suite_app(node: Node, info: Info) -> Node:
    """Give the app."""

    def load(siblings: list[Node]) -> dict[int, Node]:
        page = Page()
        ids = [each.row["app_id"] for each in siblings]
        return {ident: Node("App", row, page) for ident, row in context(info).tx.by_ids("apps", ids).items()}

    return shared(node, "apps", load)[node.row["app_id"]]


@field("CheckSuite.commit", "StatusContext.commit", "Status.commit", "StatusCheckRollup.commit")
def said_of(node: Node, _info: Info) -> Node:
    """Give the commit that it speaks of."""
    return commits(node.row["repo_id"], [node.row["sha"]])[0]


@field("CheckSuite.checkRuns")
def suite_runs(node: Node, info: Info, **arguments: Any) -> Connection:
    """Give the suite's runs."""
    rows = context(info).tx.all("SELECT * FROM check_runs WHERE suite_id = ? ORDER BY id", node.row["id"])
    page = Page()
    return listed(info, arguments, [Node("CheckRun", row, page) for row in rows])


@field("Commit.checkSuites")
def suites(node: Node, info: Info, **arguments: Any) -> Connection:
    """Give the suites of a commit."""

    def load(siblings: list[Node]) -> dict[str, list[Node]]:
        sql = """SELECT * FROM check_suites WHERE repo_id = ? AND sha IN (SELECT value FROM json_each(?)) ORDER BY id"""
        page = Page()
        found: dict[str, list[Node]] = {}
        for row in context(info).tx.all(sql, node.row["repo_id"], json.dumps([each.row["sha"] for each in siblings])):
            found.setdefault(row["sha"], []).append(Node("CheckSuite", row, page))
        return found

    return listed(info, arguments, shared(node, "suites", load).get(node.row["sha"], []))


def _contexts(node: Node, info: Info) -> tuple[dict[str, list[Node]], dict[str, list[Node]]]:
    """Read the newest run per app and name, and the newest status per context, of all commits of the page."""

    def load(siblings: list[Node]) -> tuple[dict[str, list[Node]], dict[str, list[Node]]]:
        repo_id, shas = node.row["repo_id"], json.dumps([each.row["sha"] for each in siblings])
        newest = """SELECT * FROM {0} WHERE id IN (SELECT max(id) FROM {0} WHERE repo_id = ?
                    AND sha IN (SELECT value FROM json_each(?)) GROUP BY sha, {1}) ORDER BY id"""
        answer: tuple[dict[str, list[Node]], dict[str, list[Node]]] = ({}, {})
        for place, (table, group, kind) in enumerate(
            (("check_runs", "suite_id, name", "CheckRun"), ("statuses", "context", "StatusContext"))
        ):
            page = Page()
            for row in context(info).tx.all(newest.format(table, group), repo_id, shas):
                answer[place].setdefault(row["sha"], []).append(Node(kind, row, page))
        return answer

    return shared(node, "contexts", load)


@field("Commit.statusCheckRollup")
def rollup(node: Node, info: Info) -> Node | None:
    """Give the roll-up, or None where nobody said anything about the commit."""
    runs, statuses = _contexts(node, info)
    sha = node.row["sha"]
    found = [*runs.get(sha, ()), *statuses.get(sha, ())]
    return Node("StatusCheckRollup", node.row, Page(), found) if found else None


@field("Commit.status")
def status(node: Node, info: Info) -> Node | None:
    """Give the combined status, or None where there is none."""
    found = _contexts(node, info)[1].get(node.row["sha"])
    return Node("Status", node.row, Page(), found) if found else None


@field("Status.id", "StatusCheckRollup.id")
def rollup_id(node: Node, _info: Info) -> str:
    """Give the node id."""
    return source.encode(node.type, node.row["repo_id"], node.row["sha"])


_GOOD: Final = frozenset({"success", "neutral", "skipped"})


def _state(found: Sequence[Node]) -> str:
    words = set()
    for node in found:
        if node.type == "StatusContext":
            words.add(node.row["state"].upper())
        elif node.row["status"] != "completed":
            words.add("PENDING")
        else:
            words.add("SUCCESS" if node.row["conclusion"] in _GOOD else "FAILURE")
    return next(word for word in ("FAILURE", "ERROR", "PENDING", "SUCCESS") if word in words)


@field("Status.state", "StatusCheckRollup.state")
def rollup_state(node: Node, _info: Info) -> str:
    """Give the worst of what was said."""
    return _state(node.extra)


@field("Status.contexts")
def status_contexts(node: Node, _info: Info) -> list[Node]:
    """Give the newest status per context."""
    found: list[Node] = node.extra
    return found


@field("StatusCheckRollup.contexts")
def rollup_contexts(node: Node, info: Info, **arguments: Any) -> Connection:
    """Give the newest run per app and name, and the newest status per context."""
    connection = listed(info, arguments, node.extra)
    connection.extra = node.extra
    return connection


def _counts(connection: Connection, kind: str) -> list[dict[str, Any]]:
    words: Counter[str] = Counter()
    for node in connection.extra:
        if node.type == kind:
            done = kind == "CheckRun" and node.row["status"] == "completed"
            word = node.row["conclusion"] if done else node.row["status" if kind == "CheckRun" else "state"]
            words[word.upper()] += 1
    return [{"state": word, "count": count} for word, count in words.items()]


@field("StatusCheckRollupContextConnection.checkRunCountsByState")
def runs_by_state(connection: Connection, _info: Info) -> list[dict[str, Any]]:
    """Count the runs by state or conclusion."""
    return _counts(connection, "CheckRun")


@field("StatusCheckRollupContextConnection.statusContextCountsByState")
def statuses_by_state(connection: Connection, _info: Info) -> list[dict[str, Any]]:
    """Count the statuses by state."""
    return _counts(connection, "StatusContext")


@field("StatusCheckRollupContextConnection.checkRunCount")
def run_count(connection: Connection, _info: Info) -> int:
    """Count the runs."""
    return sum(each["count"] for each in _counts(connection, "CheckRun"))


@field("StatusCheckRollupContextConnection.statusContextCount")
def status_count(connection: Connection, _info: Info) -> int:
    """Count the statuses."""
    return sum(each["count"] for each in _counts(connection, "StatusContext"))


@field("CheckRun.isRequired", "StatusContext.isRequired")
def is_required(
    node: Node,
    info: Info,
    pullRequestId: str | None = None,  # noqa: N803
    pullRequestNumber: int | None = None,  # noqa: N803
) -> bool:
    """Whether the PR's base branch asks for it."""
    base = source.base_of(context(info), node.row["repo_id"], pullRequestId, pullRequestNumber)
    rule = source.protection(context(info), node.row["repo_id"], base)
    return node.row["name" if node.type == "CheckRun" else "context"] in source.required_checks(rule)
