"""Issues, labels, milestones, comments, reactions, timeline (FRG-022)."""

from __future__ import annotations

import pytest

from .world import World

pytestmark = pytest.mark.req("FRG-022")


async def test_an_issue_is_created_with_labels_that_did_not_exist_and_its_milestone(world: World) -> None:
    milestone = await world.bot.repo("POST", "/milestones", {"title": "Batch", "description": "d"}, want=201)
    body = {"title": "T", "body": "B", "labels": ["herd/status:ready", "BUG"], "milestone": 1, "assignees": ["owner"]}
    made = await world.bot.repo("POST", "/issues", body, want=201)
    assert made["number"] == 1
    assert [label["name"] for label in made["labels"]] == ["bug", "herd/status:ready"]
    assert made["milestone"]["number"] == milestone["number"] == 1
    assert made["user"]["login"] == "herd-bot"
    assert made["user"]["type"] == "Bot"
    assert [each["login"] for each in made["assignees"]] == ["owner"]
    assert (await world.bot.repo("GET", "/milestones/1"))["open_issues"] == 1


async def test_labels_replace_the_whole_list_and_leave_events_with_times(world: World) -> None:
    await world.bot.repo("POST", "/issues", {"title": "T", "labels": ["a", "b"]}, want=201)
    await world.bot.repo("PATCH", "/issues/1", {"labels": ["b", "c"]})
    await world.bot.repo("PUT", "/issues/1/labels", {"labels": ["c"]})
    await world.bot.repo("POST", "/issues/1/labels", {"labels": ["d", "c"]})
    left = await world.bot.repo("DELETE", "/issues/1/labels/c")
    assert [label["name"] for label in left] == ["d"]
    await world.bot.repo("DELETE", "/issues/1/labels/c", want=404)
    events = await world.bot.repo("GET", "/issues/1/events")
    seen = [(event["event"], event["label"]["name"]) for event in events]
    assert seen == [
        ("labeled", "a"), ("labeled", "b"), ("unlabeled", "a"), ("labeled", "c"), ("unlabeled", "b"), ("labeled", "d"),
        ("unlabeled", "c"),
    ]  # fmt: skip
    assert all(event["created_at"].endswith("Z") and event["actor"]["login"] == "herd-bot" for event in events)


async def test_closing_and_reopening_set_reason_and_who(world: World) -> None:
    await world.bot.repo("POST", "/issues", {"title": "T"}, want=201)
    closed = await world.owner.repo("PATCH", "/issues/1", {"state": "closed", "state_reason": "not_planned"})
    assert (closed["state"], closed["state_reason"], closed["closed_by"]["login"]) == ("closed", "not_planned", "owner")
    opened = await world.owner.repo("PATCH", "/issues/1", {"state": "open"})
    assert (opened["state"], opened["state_reason"], opened["closed_at"]) == ("open", "reopened", None)


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("", [3, 1]),
        ("?state=all", [3, 2, 1]),
        ("?state=closed", [2]),
        ("?labels=a", [1]),
        ("?labels=a,b", []),
        ("?milestone=1", [3]),
        ("?milestone=none", [1]),
        ("?milestone=*", [3]),
        ("?direction=asc", [1, 3]),
        ("?creator=owner", []),
        ("?assignee=owner", [1]),
        ("?since=2999-01-01T00:00:00Z", []),
    ],
)
async def test_lists_filter(world: World, query: str, numbers: list[int]) -> None:
    await world.bot.repo("POST", "/milestones", {"title": "M"}, want=201)
    await world.bot.repo("POST", "/issues", {"title": "1", "labels": ["a"], "assignees": ["owner"]}, want=201)
    await world.bot.repo("POST", "/issues", {"title": "2", "labels": ["b"]}, want=201)
    await world.bot.repo("PATCH", "/issues/2", {"state": "closed"})
    await world.bot.repo("POST", "/issues", {"title": "3", "milestone": 1}, want=201)
    assert [row["number"] for row in await world.bot.repo("GET", f"/issues{query}")] == numbers


async def test_pull_requests_are_in_the_list_with_their_key(world: World) -> None:
    await world.pull()
    (row,) = await world.bot.repo("GET", "/issues")
    assert row["pull_request"]["url"].endswith("/pulls/1")
    assert row["html_url"].endswith("/pull/1")


async def test_bad_input_is_422_with_github_s_errors(world: World) -> None:
    answer = await world.bot.repo("POST", "/issues", {"title": ""}, want=422)
    assert answer["message"] == "Validation Failed"
    assert answer["errors"] == [{"resource": "Issue", "field": "title", "code": "missing_field"}]
    answer = await world.bot.repo("POST", "/issues", {"title": "t", "milestone": 9}, want=422)
    assert answer["errors"][0]["field"] == "milestone"
    await world.bot.repo("POST", "/issues", {"title": "t", "body": "x" * 65_537}, want=422)
    await world.bot.repo("POST", "/labels", {"name": "x", "color": "red"}, want=422)
    twice = await world.bot.repo("POST", "/labels", {"name": "BUG", "color": "ffffff"}, want=422)
    assert twice["errors"][0]["code"] == "already_exists"
    assert (await world.bot.repo("GET", "/issues?state=all")) == []  # nothing of a refused request stays


async def test_comments_are_listed_edited_deleted_and_counted(world: World) -> None:
    await world.bot.repo("POST", "/issues", {"title": "T"}, want=201)
    one = await world.bot.repo("POST", "/issues/1/comments", {"body": "one"}, want=201)
    two = await world.owner.repo("POST", "/issues/1/comments", {"body": "two"}, want=201)
    assert (two["author_association"], one["author_association"]) == ("OWNER", "COLLABORATOR")
    edited = await world.bot.repo("PATCH", f"/issues/comments/{one['id']}", {"body": "uno"})
    assert edited["body"] == "uno"
    assert [each["body"] for each in await world.bot.repo("GET", "/issues/1/comments")] == ["uno", "two"]
    assert [each["id"] for each in await world.bot.repo("GET", "/issues/comments?sort=created&direction=desc")] == [
        2,
        1,
    ]
    await world.owner.repo("DELETE", f"/issues/comments/{one['id']}", want=204)
    assert (await world.bot.repo("GET", "/issues/1"))["comments"] == 1


async def test_a_reaction_is_made_once_and_counted(world: World) -> None:
    await world.bot.repo("POST", "/issues", {"title": "T"}, want=201)
    comment = await world.bot.repo("POST", "/issues/1/comments", {"body": "/herd go"}, want=201)
    path = f"/issues/comments/{comment['id']}/reactions"
    first = await world.bot.repo("POST", path, {"content": "eyes"}, want=201)
    assert (await world.bot.repo("POST", path, {"content": "eyes"}))["id"] == first["id"]
    await world.bot.repo("POST", path, {"content": "nonsense"}, want=422)
    assert (await world.bot.repo("GET", f"/issues/comments/{comment['id']}"))["reactions"]["eyes"] == 1
    await world.bot.repo("DELETE", f"{path}/{first['id']}", want=204)
    assert await world.bot.repo("GET", path) == []


async def test_milestones_count_close_and_go(world: World) -> None:
    await world.bot.repo("POST", "/milestones", {"title": "A"}, want=201)
    await world.bot.repo("POST", "/milestones", {"title": "A"}, want=422)
    await world.bot.repo("POST", "/issues", {"title": "T", "milestone": 1}, want=201)
    await world.bot.repo("PATCH", "/issues/1", {"state": "closed"})
    closed = await world.bot.repo("PATCH", "/milestones/1", {"state": "closed", "description": "done"})
    assert (closed["closed_issues"], closed["open_issues"], closed["state"], closed["description"]) == (
        1,
        0,
        "closed",
        "done",
    )
    assert await world.bot.repo("GET", "/milestones") == []
    assert len(await world.bot.repo("GET", "/milestones?state=all")) == 1
    await world.bot.repo("DELETE", "/milestones/1", want=204)
    assert (await world.bot.repo("GET", "/issues/1"))["milestone"] is None


async def test_the_timeline_holds_events_comments_commits_and_reviews(world: World) -> None:
    await world.pull()
    await world.bot.repo("PATCH", "/issues/1", {"title": "New", "labels": ["x"]})
    await world.bot.repo("POST", "/issues/1/comments", {"body": "c"}, want=201)
    await world.owner.repo("POST", "/pulls/1/reviews", {"event": "APPROVE"})
    kinds = [entry["event"] for entry in await world.bot.repo("GET", "/issues/1/timeline")]
    assert kinds[0] == "committed"
    assert sorted(kinds) == sorted(["committed", "renamed", "labeled", "commented", "reviewed"])


async def test_search_knows_the_usual_qualifiers(world: World) -> None:
    await world.bot.repo("POST", "/issues", {"title": "Alpha bird", "labels": ["herd/x"]}, want=201)
    await world.pull("other")
    for query, numbers in (
        ("repo:owner/road is:issue is:open", [1]),
        ("repo:owner/road is:pr head:other base:main", [2]),
        ('label:"herd/x" author:herd-bot', [1]),
        ("-label:herd/x repo:owner/road", [2]),
        ("bird in:title", [1]),
        ("is:pr is:merged", []),
    ):
        found = await world.bot("GET", f"/search/issues?q={query.replace(' ', '+')}")
        assert [row["number"] for row in found["items"]] == numbers, query
        assert found["total_count"] == len(numbers)
