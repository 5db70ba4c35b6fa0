"""Mutations do what the shared operations do, answer with what now stands, and leave nothing where they are refused."""

from __future__ import annotations

from typing import Any

import pytest

from droveway.localforge.ops import issues, labels, reviews

from .world import World

TITLE = 'Ümläut "q" a/b 🐄'


def repo_id(world: World) -> str:
    found: str = world.data('{repository(owner:"owner",name:"road"){id}}')["repository"]["id"]
    return found


def label_id(world: World, name: str) -> str:
    query = 'query($n: String!) {repository(owner:"owner",name:"road"){label(name:$n){id}}}'
    found: str = world.data(query, n=name)["repository"]["label"]["id"]
    return found


def user_id(world: World, login: str) -> str:
    found: str = world.data("query($l: String!) {user(login:$l){id}}", l=login)["user"]["id"]
    return found


def do(world: World, name: str, given: dict[str, Any], selection: str, **more: Any) -> Any:
    kind = name[0].upper() + name[1:] + "Input"
    document = f"mutation Do($input: {kind}!) {{ {name}(input: $input) {{ {selection} clientMutationId }} }}"
    payload = world.data(document, input={**given, "clientMutationId": "c1"}, **more)[name]
    assert payload.pop("clientMutationId") == "c1"
    return payload


def refused(world: World, name: str, given: dict[str, Any], **more: Any) -> dict[str, Any]:
    kind = name[0].upper() + name[1:] + "Input"
    document = f"mutation Do($input: {kind}!) {{ {name}(input: $input) {{ clientMutationId }} }}"
    answer = world.ask(document, input=given, **more)
    assert answer["data"] == {name: None}
    (error,) = answer["errors"]
    assert error["path"] == [name]
    assert error["locations"]
    return error


def rows(world: World, table: str) -> list[dict[str, Any]]:
    with world.kernel.read() as tx:
        return [dict(row) for row in tx.all(f"SELECT * FROM {table}")]


@pytest.mark.req("FRG-023")
def test_an_issue_through_its_whole_life(world: World) -> None:
    with world.kernel.write() as tx:
        labels.create_milestone(tx, world.owner, world.repo, "Batch")
    query = '{repository(owner:"owner",name:"road"){milestone(number:1){id}}}'
    milestone = world.data(query)["repository"]["milestone"]["id"]
    given = {
        "repositoryId": repo_id(world), "title": TITLE, "body": "b\n\n`c`", "labelIds": [label_id(world, "bug")],
        "assigneeIds": [user_id(world, "owner")], "milestoneId": milestone,
    }  # fmt: skip
    whole = """id number title body state stateReason author { login } labels(first: 5) { nodes { name } }
      assignees(first: 5) { nodes { login } } milestone { title } url"""
    issue = do(world, "createIssue", given, f"issue {{ {whole} }}")["issue"]
    ident = issue.pop("id")
    assert issue == {
        "number": 1, "title": TITLE, "body": "b\n\n`c`", "state": "OPEN", "stateReason": None,
        "author": {"login": "owner"},
        "labels": {"nodes": [{"name": "bug"}]}, "assignees": {"nodes": [{"login": "owner"}]},
        "milestone": {"title": "Batch"}, "url": "http://github.localhost/owner/road/issues/1",
    }  # fmt: skip
    issue = do(world, "updateIssue", {"id": ident, "title": "New", "milestoneId": None}, f"issue {{ {whole} }}")[
        "issue"
    ]
    assert (issue["title"], issue["body"], issue["milestone"]) == ("New", "b\n\n`c`", None)
    do(world, "addLabelsToLabelable", {"labelableId": ident, "labelIds": [label_id(world, "wontfix")]}, "")
    gone = {"labelableId": ident, "labelIds": [label_id(world, "bug")]}
    left = do(world, "removeLabelsFromLabelable", gone, "labelable { labels(first: 5) { nodes { name } } }")
    assert left["labelable"]["labels"]["nodes"] == [{"name": "wontfix"}]
    closed = {"issueId": ident, "stateReason": "NOT_PLANNED"}
    issue = do(world, "closeIssue", closed, "issue { state stateReason closed closedAt }")["issue"]
    assert (issue["state"], issue["stateReason"], issue["closed"]) == ("CLOSED", "NOT_PLANNED", True)
    assert issue["closedAt"]
    issue = do(world, "reopenIssue", {"issueId": ident}, "issue { state stateReason closedAt }")["issue"]
    assert issue == {"state": "OPEN", "stateReason": "REOPENED", "closedAt": None}
    who = {"assignableId": ident, "actorLogins": ["herd-bot"]}
    people = """assignable { ... on Issue { assignees(first: 5) { nodes { login } }
      assignedActors(first: 5) { nodes { __typename ... on Bot { login } } } } }"""
    assert do(world, "replaceActorsForAssignable", who, people)["assignable"] == {
        "assignees": {"nodes": []},
        "assignedActors": {"nodes": [{"__typename": "Bot", "login": "herd-bot"}]},
    }


@pytest.mark.req("FRG-023")
def test_comments_are_written_changed_and_deleted(world: World) -> None:
    with world.kernel.write() as tx:
        issues.create(tx, world.bot, world.repo, "One")
    ident = world.data('{repository(owner:"owner",name:"road"){issue(number:1){id}}}')["repository"]["issue"]["id"]
    selection = (
        "commentEdge { node { id url body author { login } } } subject { ... on Issue { comments { totalCount } } }"
    )
    made = do(world, "addComment", {"subjectId": ident, "body": TITLE}, selection)
    comment = made["commentEdge"]["node"]
    assert (comment["body"], comment["author"]) == (TITLE, {"login": "owner"})
    assert comment["url"].startswith("http://github.localhost/owner/road/issues/1#issuecomment-")
    assert made["subject"] == {"comments": {"totalCount": 1}}
    changed = do(
        world, "updateIssueComment", {"id": comment["id"], "body": "x"}, "issueComment { body includesCreatedEdit }"
    )
    assert changed["issueComment"] == {"body": "x", "includesCreatedEdit": True}
    do(world, "deleteIssueComment", {"id": comment["id"]}, "")
    assert rows(world, "comments") == []


@pytest.mark.req("FRG-023")
def test_a_pull_request_through_its_whole_life(world: World) -> None:
    head = world.commit("herd/1", {"README.md": "one\n", "a.txt": "1\n2\n"}, "Work\n\nbody", (world.base,))
    given = {
        "repositoryId": repo_id(world),
        "baseRefName": "main",
        "headRefName": "herd/1",
        "title": TITLE,
        "draft": True,
    }
    pull = do(world, "createPullRequest", given, "pullRequest { id number url isDraft headRefOid }")["pullRequest"]
    ident = pull["id"]
    assert (pull["number"], pull["isDraft"], pull["headRefOid"]) == (1, True, head)
    which = {"pullRequestId": ident}
    assert "draft" in refused(world, "mergePullRequest", which)["message"]
    assert not do(world, "markPullRequestReadyForReview", which, "pullRequest { isDraft }")["pullRequest"]["isDraft"]
    assert do(world, "convertPullRequestToDraft", which, "pullRequest { isDraft }")["pullRequest"]["isDraft"]
    do(world, "markPullRequestReadyForReview", which, "")
    changes = {**which, "title": "T", "body": "fixes #9", "labelIds": [label_id(world, "bug")]}
    selection = "pullRequest { title body labels(first: 3) { nodes { name } } }"
    assert do(world, "updatePullRequest", changes, selection)["pullRequest"] == {
        "title": "T", "body": "fixes #9", "labels": {"nodes": [{"name": "bug"}]},
    }  # fmt: skip
    asked = do(
        world, "requestReviewsByLogin", {**which, "botLogins": ["herd-bot"]},
        "pullRequest { reviewRequests(first: 3) { nodes { requestedReviewer { ... on Bot { login } } } } }",
    )  # fmt: skip
    assert asked["pullRequest"]["reviewRequests"]["nodes"] == [{"requestedReviewer": {"login": "herd-bot"}}]
    assert do(world, "closePullRequest", which, "pullRequest { state }")["pullRequest"] == {"state": "CLOSED"}
    assert do(world, "reopenPullRequest", which, "pullRequest { state }")["pullRequest"] == {"state": "OPEN"}
    files = """{repository(owner:"owner",name:"road"){pullRequest(number:1){additions deletions changedFiles
      files(first:5){nodes{path additions deletions changeType}}
      commits(first:5){totalCount
        nodes{commit{oid messageHeadline messageBody authors(first:1){nodes{name email}}}}}}}}"""
    assert world.data(files)["repository"]["pullRequest"] == {
        "additions": 2, "deletions": 0, "changedFiles": 1,
        "files": {"nodes": [{"path": "a.txt", "additions": 2, "deletions": 0, "changeType": "ADDED"}]},
        "commits": {"totalCount": 1, "nodes": [{"commit": {
            "oid": head, "messageHeadline": "Work", "messageBody": "body",
            "authors": {"nodes": [{"name": "Ada", "email": "ada@example.org"}]},
        }}]},
    }  # fmt: skip
    assert "modified" in refused(world, "mergePullRequest", {**which, "expectedHeadOid": world.base})["message"]
    merge = {**which, "expectedHeadOid": head, "mergeMethod": "SQUASH", "commitHeadline": "Done (#1)"}
    selection = "pullRequest { state merged mergedBy { login } mergeCommit { oid message } } actor { login }"
    done = do(world, "mergePullRequest", merge, selection)
    assert done["actor"] == {"login": "owner"}
    assert (done["pullRequest"]["state"], done["pullRequest"]["mergedBy"]) == ("MERGED", {"login": "owner"})
    assert done["pullRequest"]["mergeCommit"]["oid"] == world.git.branch("main")
    assert done["pullRequest"]["mergeCommit"]["message"].startswith("Done (#1)")


@pytest.mark.req("FRG-023")
def test_reviews_and_their_threads(world: World) -> None:
    world.pull("herd/1")
    query = '{repository(owner:"owner",name:"road"){pullRequest(number:1){id}}}'
    which = {"pullRequestId": world.data(query)["repository"]["pullRequest"]["id"]}
    thread = {"path": "herd-1.txt", "line": 1, "side": "RIGHT", "body": TITLE}
    selection = """pullRequestReview { id state author { login } comments(first: 3) { nodes { body path line } }
      pullRequest { reviewDecision reviewThreads(first: 3) { nodes { id isResolved } } } }"""
    given = {**which, "event": "REQUEST_CHANGES", "body": "no", "threads": [thread]}
    made = do(world, "addPullRequestReview", given, selection)["pullRequestReview"]
    assert (made["state"], made["author"]) == ("CHANGES_REQUESTED", {"login": "owner"})
    assert made["comments"]["nodes"] == [{"body": TITLE, "path": "herd-1.txt", "line": 1}]
    assert made["pullRequest"]["reviewDecision"] == "CHANGES_REQUESTED"
    (found,) = made["pullRequest"]["reviewThreads"]["nodes"]
    assert found["isResolved"] is False
    selection = "thread { isResolved resolvedBy { login } }"
    where = {"threadId": found["id"]}
    assert do(world, "resolveReviewThread", where, selection)["thread"] == {
        "isResolved": True,
        "resolvedBy": {"login": "owner"},
    }
    assert do(world, "unresolveReviewThread", where, selection)["thread"] == {"isResolved": False, "resolvedBy": None}
    given = {"pullRequestReviewId": made["id"], "message": "stale"}
    assert do(world, "dismissPullRequestReview", given, "pullRequestReview { state }") == {
        "pullRequestReview": {"state": "DISMISSED"}
    }
    error = refused(world, "addPullRequestReview", {**which, "event": "APPROVE"}, actor=world.bot)
    assert error["type"] == "UNPROCESSABLE"
    assert "your own pull request" in error["message"]
    assert [row["state"] for row in rows(world, "reviews")] == ["DISMISSED"]


@pytest.mark.req("FRG-023")
def test_a_pending_review_is_its_authors_alone(world: World) -> None:
    row = world.pull("herd/1")
    with world.kernel.write() as tx:
        reviews.create(tx, world.owner, world.repo, row, body="draft")
    query = '{repository(owner:"owner",name:"road"){pullRequest(number:1){reviews(first:5){nodes{id state}}}}}'
    mine = world.data(query)["repository"]["pullRequest"]["reviews"]["nodes"]
    assert [each["state"] for each in mine] == ["PENDING"]
    assert world.data(query, actor=world.bot)["repository"]["pullRequest"]["reviews"]["nodes"] == []
    answer = world.ask("query($id: ID!) { node(id: $id) { id } }", actor=world.bot, id=mine[0]["id"])
    assert answer["errors"][0]["type"] == "NOT_FOUND"


@pytest.mark.req("FRG-023", "FRG-021")
def test_who_may_not_is_refused_and_nothing_is_written(world: World) -> None:
    with world.kernel.write() as tx:
        issues.create(tx, world.owner, world.repo, "One")
    ident = world.data('{repository(owner:"owner",name:"road"){issue(number:1){id}}}')["repository"]["issue"]["id"]
    before = rows(world, "issues"), rows(world, "events")
    for name, given in (
        ("closeIssue", {"issueId": ident}),
        ("updateIssue", {"id": ident, "title": "mine"}),
        ("addLabelsToLabelable", {"labelableId": ident, "labelIds": [label_id(world, "bug")]}),
    ):
        assert refused(world, name, given, actor=world.stranger)["type"] == "FORBIDDEN"
    assert refused(world, "closeIssue", {"issueId": "I_rubbish"})["type"] == "NOT_FOUND"
    assert refused(world, "createIssue", {"repositoryId": repo_id(world), "title": " "})["type"] == "UNPROCESSABLE"
    assert (rows(world, "issues"), rows(world, "events")) == before


@pytest.mark.req("FRG-023")
def test_what_is_refused_half_way_is_undone_and_the_next_mutation_still_counts(world: World) -> None:
    with world.kernel.write() as tx:
        issues.create(tx, world.owner, world.repo, "One")
    ident = world.data('{repository(owner:"owner",name:"road"){issue(number:1){id}}}')["repository"]["issue"]["id"]
    document = """mutation($bad: UpdateIssueInput!, $good: AddCommentInput!) {
      bad: updateIssue(input: $bad) { issue { title } } good: addComment(input: $good) { subject { id } } }"""
    bad = {"id": ident, "title": "Changed first", "assigneeIds": [user_id(world, "stranger")]}
    answer = world.ask(document, bad=bad, good={"subjectId": ident, "body": "kept"})
    assert answer["data"] == {"bad": None, "good": {"subject": {"id": ident}}}
    assert [error["path"] for error in answer["errors"]] == [["bad"]]
    assert [row["title"] for row in rows(world, "issues")] == ["One"]
    assert [row["body"] for row in rows(world, "comments")] == ["kept"]
