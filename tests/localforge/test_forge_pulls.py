"""Pull requests: opening, mergeability, the three merges, closing keywords, update of branches (FRG-022, FRG-025)."""

from __future__ import annotations

from typing import Any

import pytest

from .world import World, git


@pytest.mark.req("FRG-022")
async def test_a_pull_request_says_what_it_changes(world: World) -> None:
    made = await world.pull(body="text", draft=True)
    assert (made["number"], made["draft"], made["head"]["ref"], made["base"]["ref"]) == (1, True, "clean", "main")
    assert made["head"]["sha"] == world.sha("clean")
    assert made["base"]["sha"] == world.sha("main")
    assert (made["commits"], made["additions"], made["changed_files"]) == (1, 1, 1)
    (file,) = await world.bot.repo("GET", "/pulls/1/files")
    assert (file["filename"], file["status"], file["patch"]) == ("new.txt", "added", "@@ -0,0 +1 @@\n+new")
    (commit,) = await world.bot.repo("GET", "/pulls/1/commits")
    assert commit["commit"]["message"] == "work on clean"
    diff = await world.bot.repo("GET", "/pulls/1", Accept="application/vnd.github.v3.diff")
    assert diff.startswith("diff --git a/new.txt b/new.txt")
    patch = await world.bot.repo("GET", "/pulls/1", Accept="application/vnd.github.patch")
    assert "Subject: [PATCH] work on clean" in patch


@pytest.mark.req("FRG-022")
async def test_pull_requests_that_can_not_be_are_422(world: World) -> None:
    await world.pull()
    again = await world.pull(want=422)
    assert again["errors"][0]["message"] == "A pull request already exists for owner:clean."
    assert (await world.pull("nowhere", want=422))["errors"][0]["field"] == "head"
    assert (await world.pull("other", base="nowhere", want=422))["errors"][0]["field"] == "base"
    nothing = await world.bot.repo("POST", "/pulls", {"title": "t", "head": "main", "base": "main"}, want=422)
    assert nothing["errors"][0]["message"] == "No commits between main and main"


@pytest.mark.req("FRG-022")
async def test_lists_filter_by_head_base_and_state(world: World) -> None:
    await world.pull("clean")
    await world.pull("other")
    await world.bot.repo("PATCH", "/pulls/1", {"state": "closed"})
    for query, numbers in (
        ("", [2]), ("?state=all", [2, 1]), ("?head=owner:clean&state=all", [1]),
        ("?head=owner:clean", []), ("?base=other", []),
    ):  # fmt: skip
        assert [row["number"] for row in await world.bot.repo("GET", f"/pulls{query}")] == numbers, query


@pytest.mark.req("FRG-025")
async def test_mergeability_is_null_first_and_then_true_or_false(world: World) -> None:
    assert (await world.pull("clean"))["mergeable"] is None  # the first look
    seen = await world.bot.repo("GET", "/pulls/1")
    assert (seen["mergeable"], seen["mergeable_state"]) == (True, "clean")
    assert seen["merge_commit_sha"] is not None
    assert (await world.pull("conflict"))["mergeable"] is None
    seen = await world.bot.repo("GET", "/pulls/2")
    assert (seen["mergeable"], seen["mergeable_state"]) == (False, "dirty")
    await world.bot.repo("PUT", "/pulls/1/merge", {"merge_method": "merge"})
    assert (await world.bot.repo("GET", "/pulls/2"))["mergeable"] is None  # the base has moved: asked anew


@pytest.mark.req("FRG-025")
async def test_mergeable_state_tells_draft_blocked_behind_and_unstable(world: World) -> None:
    await world.pull("clean", draft=True)
    assert (await world.settled(1))["mergeable_state"] == "draft"
    await world.pull("other")
    await world.bot.repo("POST", f"/statuses/{world.sha('other')}", {"state": "failure", "context": "ci"}, want=201)
    assert (await world.settled(2))["mergeable_state"] == "unstable"
    protection: dict[str, Any] = {
        "required_status_checks": {"strict": True, "contexts": ["ci"]}, "enforce_admins": True,
        "required_pull_request_reviews": None, "restrictions": None,
    }  # fmt: skip
    await world.owner.repo("PUT", "/branches/main/protection", protection)
    assert (await world.settled(2))["mergeable_state"] == "blocked"
    refused = await world.owner.repo("PUT", "/pulls/2/merge", {}, want=405)
    assert refused["message"] == 'Required status check "ci" is failing.'
    await world.bot.repo("POST", f"/statuses/{world.sha('other')}", {"state": "success", "context": "ci"}, want=201)
    assert (await world.settled(2))["mergeable_state"] == "behind"
    await world.bot.repo("PUT", "/pulls/2/update-branch", {}, want=202)
    head = (await world.settled(2))["head"]["sha"]
    await world.bot.repo("POST", f"/statuses/{head}", {"state": "success", "context": "ci"}, want=201)
    assert (await world.settled(2))["mergeable_state"] == "clean"
    await world.bot.repo("PUT", "/pulls/2/merge", {"merge_method": "squash"})


def log(world: World) -> list[str]:
    repo = world.tmp / "forge" / "repositories" / "1.git"
    return git("log", "--format=%s", "main", cwd=repo).stdout.splitlines()


@pytest.mark.req("FRG-022")
@pytest.mark.parametrize(
    ("method", "history"),
    [
        ("squash", ["Pull clean (#1)", "two", "one"]),
        ("rebase", ["work on clean", "two", "one"]),
        ("merge", ["Merge pull request #1 from owner/clean", "two", "work on clean", "one"]),
    ],
)
async def test_each_method_makes_its_history(world: World, method: str, history: list[str]) -> None:
    await world.pull()
    sha = world.sha("clean")
    merged = await world.bot.repo("PUT", "/pulls/1/merge", {"merge_method": method, "sha": sha})
    assert merged["merged"] is True
    assert sorted(log(world)) == sorted(history)
    assert log(world)[0] == history[0]
    pull = await world.bot.repo("GET", "/pulls/1")
    assert (pull["state"], pull["merged"], pull["merge_commit_sha"]) == ("closed", True, merged["sha"])
    assert pull["merged_by"]["login"] == "herd-bot"
    assert pull["changed_files"] == 1  # its diff can still be shown
    ref = await world.bot.repo("GET", "/git/ref/heads/main")
    assert ref["object"]["sha"] == merged["sha"]
    await world.bot.repo("GET", "/pulls/1/merge", want=204)
    tree = await world.bot.repo("GET", "/git/trees/main")
    assert [entry["path"] for entry in tree["tree"]] == ["README.md", "code.txt", "new.txt"]


@pytest.mark.req("FRG-022")
async def test_a_merge_with_another_head_is_409_and_one_that_can_not_be_405(world: World) -> None:
    await world.pull("conflict")
    await world.bot.repo("PUT", "/pulls/1/merge", {"sha": "0" * 40}, want=409)
    for method in ("merge", "squash", "rebase"):
        await world.bot.repo("PUT", "/pulls/1/merge", {"merge_method": method}, want=405)
    await world.bot.repo("PATCH", "/pulls/1", {"state": "closed"})
    await world.bot.repo("PUT", "/pulls/1/merge", {}, want=405)
    await world.pull("clean", draft=True)
    assert "draft" in (await world.bot.repo("PUT", "/pulls/2/merge", {}, want=405))["message"]
    await world.owner.repo("PATCH", "", {"allow_rebase_merge": False})
    await world.pull("other")
    await world.bot.repo("PUT", "/pulls/3/merge", {"merge_method": "rebase"}, want=405)


@pytest.mark.req("FRG-022")
async def test_keywords_close_issues_when_the_default_branch_gets_them(world: World) -> None:
    for title in ("a", "b", "c", "d"):
        await world.bot.repo("POST", "/issues", {"title": title}, want=201)
    await world.pull(body="Fixes #1, closes owner/road#2; `fixes #3` and resolves other/repo#4")
    await world.bot.repo("PUT", "/pulls/5/merge", {"merge_method": "squash"})
    states = {row["number"]: row["state"] for row in await world.bot.repo("GET", "/issues?state=all")}
    assert states == {1: "closed", 2: "closed", 3: "open", 4: "open", 5: "closed"}


@pytest.mark.req("FRG-022")
async def test_a_merge_deletes_the_head_where_the_setting_says_so(world: World) -> None:
    await world.owner.repo("PATCH", "", {"delete_branch_on_merge": True})
    await world.pull()
    await world.bot.repo("PUT", "/pulls/1/merge", {"merge_method": "squash"})
    await world.bot.repo("GET", "/git/ref/heads/clean", want=404)
    assert (await world.bot.repo("GET", "/git/ref/pull/1/head"))["object"]["sha"] == world.sha("clean")
    assert "head_ref_deleted" in [event["event"] for event in await world.bot.repo("GET", "/issues/1/events")]


@pytest.mark.req("FRG-022")
async def test_a_branch_that_is_deleted_closes_its_pull_request(world: World) -> None:
    await world.pull()
    await world.bot.repo("DELETE", "/git/refs/heads/clean", want=204)
    closed = await world.bot.repo("GET", "/pulls/1")
    assert (closed["state"], closed["merged"]) == ("closed", False)
    await world.bot.repo("PATCH", "/pulls/1", {"state": "open"}, want=422)
    await world.bot.repo("POST", "/git/refs", {"ref": "refs/heads/clean", "sha": world.sha("clean")}, want=201)
    assert (await world.bot.repo("PATCH", "/pulls/1", {"state": "open"}))["state"] == "open"


@pytest.mark.req("FRG-022")
async def test_review_requests_come_and_go_and_never_name_the_author(world: World) -> None:
    await world.pull()
    asked = await world.bot.repo("POST", "/pulls/1/requested_reviewers", {"reviewers": ["owner"]}, want=201)
    assert [each["login"] for each in asked["requested_reviewers"]] == ["owner"]
    await world.bot.repo("POST", "/pulls/1/requested_reviewers", {"reviewers": ["herd-bot"]}, want=422)
    await world.bot.repo("POST", "/pulls/1/requested_reviewers", {"reviewers": ["stranger"]}, want=422)
    await world.bot.repo("DELETE", "/pulls/1/requested_reviewers", {"reviewers": ["owner"]})
    assert (await world.bot.repo("GET", "/pulls/1/requested_reviewers"))["users"] == []


@pytest.mark.req("FRG-022")
async def test_the_base_can_be_changed(world: World) -> None:
    await world.pull("clean")
    moved = await world.bot.repo("PATCH", "/pulls/1", {"base": "other"})
    assert moved["base"]["ref"] == "other"
    await world.bot.repo("PATCH", "/pulls/1", {"base": "clean"}, want=422)
