"""What GraphQL reads give: ids, connections, cursors, errors in GitHub's shapes."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from droveway.localforge.graphql import handle
from droveway.localforge.ops import checks, issues, labels, reviews

from .snapshot import SNAPSHOT
from .world import World

TITLES = ['Ümläute & "quotes"', "a/b\\c", "🐄 moo 🛣️", "<b>not html</b>", "$var `tick` 'x'"]


def write(world: World, count: int = 0) -> list[int]:
    numbers = []
    with world.kernel.write() as tx:
        for index in range(count or len(TITLES)):
            title = TITLES[index % len(TITLES)]
            numbers.append(issues.create(tx, world.bot, world.repo, title, f"body {index}")["number"])
    return numbers


@pytest.mark.req("FRG-023")
def test_text_comes_back_as_it_was_written(world: World) -> None:
    write(world)
    found = world.data('{repository(owner:"owner",name:"road"){issues(first:10){nodes{title body}}}}')
    assert [each["title"] for each in found["repository"]["issues"]["nodes"]] == TITLES


@pytest.mark.req("FRG-023")
@pytest.mark.parametrize("way", ["ASC", "DESC"])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_pages_forward_and_backward_give_each_issue_once(world: World, way: str, size: int) -> None:
    numbers = write(world, 7)
    if way == "DESC":
        numbers.reverse()
    query = """query($n: Int, $m: Int, $after: String, $before: String) { repository(owner: "owner", name: "road") {
      issues(first: $n, last: $m, after: $after, before: $before, orderBy: {field: CREATED_AT, direction: %s}) {
        totalCount edges { cursor node { number } }
        pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } } }"""
    seen: list[int] = []
    cursor: str | None = None
    while True:
        page = world.data(query % way, n=size, after=cursor)["repository"]["issues"]
        assert page["totalCount"] == 7
        seen += [edge["node"]["number"] for edge in page["edges"]]
        assert page["pageInfo"]["hasPreviousPage"] is (cursor is not None)
        if not page["pageInfo"]["hasNextPage"]:
            break
        cursor = page["pageInfo"]["endCursor"]
    assert seen == numbers
    back: list[int] = []
    cursor = None
    while True:
        page = world.data(query % way, m=size, before=cursor)["repository"]["issues"]
        back = [edge["node"]["number"] for edge in page["edges"]] + back
        if not page["pageInfo"]["hasPreviousPage"]:
            break
        cursor = page["pageInfo"]["startCursor"]
    assert back == numbers


@pytest.mark.req("FRG-023")
def test_a_page_goes_on_where_it_ended_when_its_last_issue_was_closed_meanwhile(world: World) -> None:
    numbers = write(world, 6)
    query = """query($after: String) { repository(owner: "owner", name: "road") {
      issues(first: 2, after: $after, states: [OPEN]) { nodes { number } pageInfo { endCursor } } } }"""
    page = world.data(query)["repository"]["issues"]
    with world.kernel.write() as tx:
        issues.set_state(tx, world.owner, world.repo, issues.find(tx, world.repo, numbers[1]), "closed")
    page = world.data(query, after=page["pageInfo"]["endCursor"])["repository"]["issues"]
    assert [each["number"] for each in page["nodes"]] == numbers[2:4]


@pytest.mark.req("FRG-023")
@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ('first: 2, after: "rubbish"', "INVALID_CURSOR_ARGUMENTS"),
        ('first: 2, after: "Y3Vyc29yOnYyOls="', "INVALID_CURSOR_ARGUMENTS"),
        ("first: 101", "EXCESSIVE_PAGINATION"),
        ("last: 500", "EXCESSIVE_PAGINATION"),
        ("states: [OPEN]", "MISSING_PAGINATION_BOUNDARIES"),
        ("first: -1", "ARGUMENT_LIMIT"),
    ],
)
def test_bad_paging_is_an_error_of_the_field(world: World, arguments: str, kind: str) -> None:
    answer = world.ask(f'{{repository(owner:"owner",name:"road"){{issues({arguments}){{nodes{{number}}}}}}}}')
    (error,) = answer["errors"]
    assert error["type"] == kind
    assert error["path"] == ["repository", "issues"]
    assert error["locations"] == [{"line": 1, "column": 40}]
    assert error["message"]
    assert answer["data"] == {"repository": None}


@pytest.mark.req("FRG-023")
def test_a_repository_that_is_not_there_is_null_and_not_found(world: World) -> None:
    answer = world.ask('query {\n  repository(owner: "owner", name: "nowhere") { id }\n  viewer { login }\n}')
    assert answer["data"] == {"repository": None, "viewer": {"login": "owner"}}
    assert answer["errors"] == [
        {
            "type": "NOT_FOUND",
            "path": ["repository"],
            "locations": [{"line": 2, "column": 3}],
            "message": "Could not resolve to a Repository with the name 'owner/nowhere'.",
        }
    ]


@pytest.mark.req("FRG-023", "FRG-021")
def test_a_private_repository_is_not_there_for_a_stranger(world: World) -> None:
    number = write(world)[0]
    issue = world.data(f'{{repository(owner:"owner",name:"road"){{id issue(number:{number}){{id}}}}}}')["repository"]
    with world.kernel.write() as tx:
        tx.update("repos", world.repo["id"], private=1)
    for ident in (issue["id"], issue["issue"]["id"]):
        answer = world.ask("query($id: ID!) { node(id: $id) { id } }", actor=world.stranger, id=ident)
        assert answer["data"] == {"node": None}
        assert answer["errors"][0]["type"] == "NOT_FOUND"
    assert world.ask('{repository(owner:"owner",name:"road"){id}}', actor=world.stranger)["errors"]


@pytest.mark.req("FRG-023")
@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("{ nope }", "nope"),
        ("{ viewer { login ", "Syntax Error"),
        ("query($n: Int!) { rateLimit { cost } }", ""),
        ("", ""),
    ],
)
def test_a_document_that_is_not_valid_gives_errors_and_no_data(world: World, document: str, words: str) -> None:
    answer = world.ask(document)
    assert "data" not in answer
    assert words in answer["errors"][0]["message"]
    with world.kernel.read() as tx:
        for body in ({}, {"query": 3}, [], None, {"query": "{viewer{login}}", "variables": "[1", "operationName": 3}):
            assert isinstance(handle(tx, world.owner, body), dict)


@pytest.mark.req("FRG-023")
def test_every_node_id_leads_back_to_its_node(world: World) -> None:
    world.pull("herd/1")
    with world.kernel.write() as tx:
        row = issues.create(tx, world.owner, world.repo, "An issue", labels=["bug"])
        labels.create_milestone(tx, world.owner, world.repo, "First")
        issues.comment(tx, world.owner, world.repo, row, "hello")
        issue = issues.find(tx, world.repo, 1)
        sha = tx.get("pulls", issue["id"])["head_sha"]
        comment = {"path": "herd-1.txt", "line": 1, "body": "why?"}
        reviews.create(tx, world.owner, world.repo, issue, event="COMMENT", body="hm", comments=[comment])
        checks.set_status(tx, world.bot, world.repo, sha, "success", context="ci")
        checks.create_run(tx, world.bot, world.repo, sha, "tests", {"conclusion": "failure"})
    everything = world.data("""{ viewer { id __typename } repository(owner: "owner", name: "road") { id __typename
      defaultBranchRef { id __typename target { id __typename } }
      labels(first: 1) { nodes { id __typename } } milestones(first: 1) { nodes { id __typename } }
      issues(first: 1) { nodes { id __typename comments(first: 1) { nodes { id __typename } } } }
      pullRequests(first: 1) { nodes { id __typename
        reviews(first: 1) { nodes { id __typename comments(first: 1) { nodes { id __typename } } } }
        reviewThreads(first: 1) { nodes { id __typename } }
        statusCheckRollup { contexts(first: 5) { nodes { __typename ... on CheckRun { id checkSuite { id __typename } }
          ... on StatusContext { id } } } } } } } }""")

    found: list[tuple[str, str]] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if "id" in value:
                found.append((value["id"], value["__typename"]))
            for each in value.values():
                walk(each)
        elif isinstance(value, list):
            for each in value:
                walk(each)

    walk(everything)
    assert {kind for _, kind in found} == {
        *("User", "Repository", "Ref", "Commit", "Label", "Milestone", "Issue", "IssueComment", "PullRequest"),
        *("PullRequestReview", "PullRequestReviewComment", "PullRequestReviewThread", "CheckRun", "CheckSuite"),
        "StatusContext",
    }  # fmt: skip
    query = "query($ids: [ID!]!) { nodes(ids: $ids) { id __typename } }"
    again = world.data(query, ids=[ident for ident, _ in found])["nodes"]
    assert [(each["id"], each["__typename"]) for each in again] == found
    for ident in ("rubbish", "I_azo5OTk5", "", "PR_" + found[0][0]):
        answer = world.ask("query($id: ID!) { node(id: $id) { id } }", id=ident)
        assert answer["errors"][0]["type"] == "NOT_FOUND"


@pytest.mark.req("FRG-004", "FRG-023")
def test_a_snapshot_is_one_answer_with_everything_in_it(world: World) -> None:
    with world.kernel.write() as tx:
        labels.create_milestone(tx, world.owner, world.repo, "Batch")
        issues.create(tx, world.bot, world.repo, TITLES[0], "x", labels=["bug", "herd:ready"], milestone=1)
        closed = issues.create(tx, world.bot, world.repo, TITLES[1], labels=["BUG"], milestone=1)
        issues.set_state(tx, world.owner, world.repo, closed, "closed")
        issues.comment(tx, world.owner, world.repo, closed, "done")
    pull = world.pull("herd/7", TITLES[2])
    with world.kernel.write() as tx:
        sha = tx.get("pulls", pull["id"])["head_sha"]
        checks.create_run(tx, world.bot, world.repo, sha, "tests", {"conclusion": "failure"})
        checks.create_run(tx, world.bot, world.repo, sha, "tests", {"conclusion": "success"})
        checks.set_status(tx, world.bot, world.repo, sha, "pending", context="lint")
        comment = {"path": "herd-7.txt", "line": 1, "body": "why?"}
        reviews.create(tx, world.owner, world.repo, pull, event="REQUEST_CHANGES", body="no", comments=[comment])
    answers = [world.data(SNAPSHOT, owner="owner", name="road") for _ in range(2)]
    repo = answers[-1]["repository"]
    assert repo["nameWithOwner"] == "owner/road"
    assert repo["defaultBranchRef"] == {"name": "main", "target": {"oid": world.base}}
    assert repo["viewerPermission"] == "ADMIN"
    assert repo["milestones"]["nodes"][0]["open"] == repo["milestones"]["nodes"][0]["closed"] == {"totalCount": 1}
    assert [each["title"] for each in repo["open"]["nodes"]] == TITLES[:1]
    assert sorted(each["name"] for each in repo["open"]["nodes"][0]["labels"]["nodes"]) == ["bug", "herd:ready"]
    assert {(each["title"], each["state"], each["comments"]["totalCount"]) for each in repo["labelled"]["nodes"]} == {
        (TITLES[0], "OPEN", 0),
        (TITLES[1], "CLOSED", 1),
    }
    assert [each["name"] for each in repo["refs"]["nodes"]] == ["7"]
    (one,) = repo["pullRequests"]["nodes"]
    assert one["title"] == TITLES[2]
    assert one["author"] == {"login": "herd-bot", "__typename": "Bot"}
    assert one["headRefOid"] == repo["refs"]["nodes"][0]["target"]["oid"] == sha
    assert one["baseRefOid"] == world.base
    assert one["reviewDecision"] == "CHANGES_REQUESTED"
    assert one["reviews"]["nodes"][0]["commit"] == {"oid": sha}
    assert one["reviews"]["nodes"][0]["authorAssociation"] == "OWNER"
    (thread,) = one["reviewThreads"]["nodes"]
    assert (thread["isResolved"], thread["path"], thread["line"]) == (False, "herd-7.txt", 1)
    assert thread["comments"]["nodes"][0]["body"] == "why?"
    rollup = one["commits"]["nodes"][0]["commit"]["statusCheckRollup"]
    assert rollup["state"] == "PENDING"
    assert rollup["contexts"]["totalCount"] == 2
    run, status = rollup["contexts"]["nodes"]
    assert (run["name"], run["status"], run["conclusion"]) == ("tests", "COMPLETED", "SUCCESS")
    assert run["checkSuite"] == {"app": {"slug": "herd-bot"}, "workflowRun": None}
    assert (status["context"], status["state"]) == ("lint", "PENDING")
    assert answers[-1]["rateLimit"]["limit"] == 5000


@pytest.mark.req("FRG-025")
def test_mergeability_is_unknown_at_first_and_known_at_the_second_asking(world: World) -> None:
    clean, dirty = world.pull("herd/clean"), world.pull("herd/dirty")
    world.commit("herd/dirty", {"README.md": "two\n"}, "Other", (world.base,))
    world.commit("main", {"README.md": "three\n"}, "Main goes on", (world.base,))
    with world.kernel.write() as tx:
        for row, branch in ((clean, "herd/clean"), (dirty, "herd/dirty")):
            tx.update("pulls", row["id"], head_sha=world.git.branch(branch), base_sha=world.git.branch("main"))
    query = """{repository(owner:"owner",name:"road"){pullRequests(first:9){nodes{mergeable mergeStateStatus}}}}"""
    first, second = (world.data(query)["repository"]["pullRequests"]["nodes"] for _ in range(2))
    assert first == [{"mergeable": "UNKNOWN", "mergeStateStatus": "UNKNOWN"}] * 2
    assert second == [
        {"mergeable": "MERGEABLE", "mergeStateStatus": "CLEAN"},
        {"mergeable": "CONFLICTING", "mergeStateStatus": "DIRTY"},
    ]


@pytest.mark.req("FRG-004")
def test_a_page_of_fifty_costs_as_many_reads_as_a_page_of_two_but_for_mergeability(world: World) -> None:
    with world.kernel.write() as tx:
        for index in range(60):
            issue = issues.create(tx, world.bot, world.repo, f"pull {index}", labels=["bug"])
            tx.update("issues", issue["id"], is_pull=1)
            tx.insert(
                "pulls", issue_id=issue["id"], head_repo_id=world.repo["id"], head_ref=f"herd/{index}",
                head_sha=world.base, base_ref="main", base_sha=world.base,
            )  # fmt: skip
            issues.comment(tx, world.owner, world.repo, issue, "hm")
    counts = []
    for size in (2, 50):
        document = SNAPSHOT.replace("first: 50, after: $pulls", f"first: {size}, after: $pulls")
        with world.kernel.read() as tx:
            seen: list[str] = []
            tx.db.set_trace_callback(seen.append)
            started = time.perf_counter()
            body = {
                "query": document.replace("mergeable mergeStateStatus", ""),
                "variables": {"owner": "owner", "name": "road"},
            }
            answer = handle(tx, world.owner, body)
            spent = time.perf_counter() - started
            tx.db.set_trace_callback(None)
        assert len(answer["data"]["repository"]["pullRequests"]["nodes"]) == size
        counts.append(len(seen))
    assert counts[0] == counts[1] <= 30
    assert spent < 5  # generous: it takes about 0.06 s on an idle machine


@pytest.mark.req("FRG-023")
def test_introspection_answers_what_gh_asks(world: World) -> None:
    found = world.data("""{ a: __type(name: "PullRequest") { fields(includeDeprecated: true) { name } }
      b: __type(name: "SearchType") { enumValues(includeDeprecated: true) { name } }
      c: __type(name: "Nope") { name } }""")
    assert {"isInMergeQueue", "stateReason"} & {each["name"] for each in found["a"]["fields"]} == {"isInMergeQueue"}
    assert {"name": "ISSUE"} in found["b"]["enumValues"]
    assert found["c"] is None


@pytest.mark.req("FRG-023")
def test_one_query_may_hold_many_aliases(world: World) -> None:
    numbers = write(world)
    parts = " ".join(f"i{n}: issue(number: {n}) {{ title }}" for n in numbers)
    found = world.data(
        f'{{ repository(owner: "owner", name: "road") {{ {parts} missing: milestone(number: 9) {{ id }} }} }}'
    )
    assert [found["repository"][f"i{n}"]["title"] for n in numbers] == TITLES
    assert found["repository"]["missing"] is None
    assert json.dumps(found)
