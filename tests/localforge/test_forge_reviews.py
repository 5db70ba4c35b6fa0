"""Reviews, threads, checks, statuses, protection (FRG-022)."""

from __future__ import annotations

from typing import Any

import pytest

from .world import World, commit, git

pytestmark = pytest.mark.req("FRG-022")


async def test_nobody_judges_their_own_pull_request(world: World) -> None:
    await world.pull()
    for event in ("APPROVE", "REQUEST_CHANGES"):
        await world.bot.repo("POST", "/pulls/1/reviews", {"event": event, "body": "x"}, want=422)
    made = await world.bot.repo("POST", "/pulls/1/reviews", {"event": "COMMENT", "body": "x"})
    assert made["state"] == "COMMENTED"
    assert made["commit_id"] == world.sha("clean")


async def test_a_review_is_pending_submitted_and_dismissed(world: World) -> None:
    await world.pull()
    pending = await world.owner.repo("POST", "/pulls/1/reviews", {"body": "hm"})
    assert pending["state"] == "PENDING"
    assert await world.bot.repo("GET", "/pulls/1/reviews") == []  # its author's alone
    path = f"/pulls/1/reviews/{pending['id']}"
    await world.bot.repo("GET", path, want=404)
    submitted = await world.owner.repo("POST", f"{path}/events", {"event": "REQUEST_CHANGES"})
    assert submitted["state"] == "CHANGES_REQUESTED"
    dismissed = await world.bot.repo("PUT", f"{path}/dismissals", {"message": "stale"})
    assert dismissed["state"] == "DISMISSED"
    await world.bot.repo("PUT", f"{path}/dismissals", {"message": "again"}, want=422)


async def test_comments_stand_on_lines_of_the_diff_and_are_answered_in_threads(world: World) -> None:
    git("checkout", "-q", "-b", "lines", "main", cwd=world.source)
    commit(world.source, "lines", code__txt="a\nb\nX\nd\ne\nf\ng\nh\n")
    world.forge.import_repo("owner", "road", world.source)
    await world.pull("lines")
    head = world.sha("lines")
    wrong = {"body": "b", "commit_id": head, "path": "code.txt", "line": 99}
    await world.owner.repo("POST", "/pulls/1/comments", wrong, want=422)
    made = await world.owner.repo("POST", "/pulls/1/comments", {**wrong, "line": 3}, want=201)
    assert (made["line"], made["side"], made["diff_hunk"].splitlines()[-1]) == (3, "RIGHT", "+X")
    reply = await world.bot.repo("POST", f"/pulls/1/comments/{made['id']}/replies", {"body": "yes"}, want=201)
    assert reply["in_reply_to_id"] == made["id"]
    review = await world.owner.repo(
        "POST", "/pulls/1/reviews",
        {"event": "REQUEST_CHANGES", "body": "see", "comments": [{"path": "code.txt", "position": 4, "body": "p"}]},
    )  # fmt: skip
    (inside,) = await world.owner.repo("GET", f"/pulls/1/reviews/{review['id']}/comments")
    assert inside["line"] == 3
    # A push that changes line 1 moves the thread's line; one that changes the line itself makes it outdated.
    commit(world.source, "above", code__txt="0\na\nb\nX\nd\ne\nf\ng\nh\n")
    world.forge.import_repo("owner", "road", world.source)
    assert (await world.bot.repo("GET", f"/pulls/comments/{made['id']}"))["line"] == 4
    commit(world.source, "there", code__txt="0\na\nb\nY\nd\ne\nf\ng\nh\n")
    world.forge.import_repo("owner", "road", world.source)
    assert (await world.bot.repo("GET", f"/pulls/comments/{made['id']}"))["line"] is None


def protection(**more: Any) -> dict[str, Any]:
    needed = ("required_status_checks", "enforce_admins", "required_pull_request_reviews", "restrictions")
    return {**dict.fromkeys(needed), **more}


async def test_protection_demands_reviews_and_dismisses_stale_ones(world: World) -> None:
    reviews = {"required_approving_review_count": 1, "dismiss_stale_reviews": True}
    await world.owner.repo("PUT", "/branches/main/protection", protection(required_pull_request_reviews=reviews))
    assert (await world.bot.repo("GET", "/branches/main"))["protected"] is True
    await world.pull()
    await world.bot.repo("PUT", "/pulls/1/merge", {}, want=405)
    await world.owner.repo("POST", "/pulls/1/reviews", {"event": "APPROVE"})
    assert (await world.settled(1))["mergeable_state"] == "clean"
    git("checkout", "-q", "clean", cwd=world.source)
    commit(world.source, "more", more__txt="x\n")
    world.forge.import_repo("owner", "road", world.source)
    assert [review["state"] for review in await world.bot.repo("GET", "/pulls/1/reviews")] == ["DISMISSED"]
    await world.bot.repo("PUT", "/pulls/1/merge", {}, want=405)
    sha = (await world.bot.repo("GET", "/git/ref/heads/main"))["object"]["sha"]
    await world.bot.repo("PATCH", "/git/refs/heads/main", {"sha": world.sha("clean"), "force": True}, want=422)
    assert (await world.bot.repo("GET", "/git/ref/heads/main"))["object"]["sha"] == sha
    await world.owner.repo("DELETE", "/branches/main/protection", want=204)
    await world.owner.repo("GET", "/branches/main/protection", want=404)


async def test_what_protection_demands_of_a_push_a_merge_has_met_by_itself(world: World) -> None:
    reviews = {"required_approving_review_count": 1}
    checks = {"strict": False, "contexts": ["ci"]}
    await world.owner.repo(
        "PUT",
        "/branches/main/protection",
        protection(required_pull_request_reviews=reviews, required_status_checks=checks, enforce_admins=True),
    )
    await world.pull()
    body = {"message": "m", "content": "eA==", "branch": "main"}
    for api in (world.bot, world.owner):
        refused = await api.repo("PUT", "/contents/x", body, want=422)
        assert "through a pull request" in refused["message"]
    await world.owner.repo("POST", "/pulls/1/reviews", {"event": "APPROVE"})
    await world.bot.repo("PUT", "/pulls/1/merge", {}, want=405)
    await world.bot.repo("POST", f"/statuses/{world.sha('clean')}", {"state": "success", "context": "ci"}, want=201)
    await world.bot.repo("PUT", "/pulls/1/merge", {"merge_method": "squash"})


async def test_protection_reads_back_as_it_was_written(world: World) -> None:
    checks = {"strict": True, "contexts": ["herd/review", "ci"]}
    await world.owner.repo(
        "PUT", "/branches/main/protection", protection(required_status_checks=checks, enforce_admins=True)
    )
    seen = await world.bot.repo("GET", "/branches/main/protection")
    assert seen["required_status_checks"]["contexts"] == ["herd/review", "ci"]
    assert seen["required_status_checks"]["strict"] is True
    assert seen["enforce_admins"]["enabled"] is True
    assert "required_pull_request_reviews" not in seen
    only = await world.bot.repo("GET", "/branches/main/protection/required_status_checks")
    assert only["contexts"] == ["herd/review", "ci"]


async def test_the_newest_status_of_a_context_counts(world: World) -> None:
    sha = world.sha("main")
    assert (await world.bot.repo("GET", "/commits/main/status"))["state"] == "pending"
    for state, context in (("pending", "a"), ("success", "a"), ("success", "b")):
        await world.bot.repo("POST", f"/statuses/{sha}", {"state": state, "context": context}, want=201)
    combined = await world.bot.repo("GET", "/commits/main/status")
    assert (combined["state"], combined["total_count"]) == ("success", 2)
    await world.bot.repo("POST", f"/statuses/{sha}", {"state": "error", "context": "b"}, want=201)
    assert (await world.bot.repo("GET", f"/commits/{sha}/status"))["state"] == "failure"
    assert len(await world.bot.repo("GET", f"/commits/{sha}/statuses")) == 4
    await world.bot.repo("POST", f"/statuses/{'1' * 40}", {"state": "success"}, want=422)


async def test_check_runs_make_their_suite_and_settle_it(world: World) -> None:
    sha = world.sha("main")
    run = await world.bot.repo(
        "POST", "/check-runs", {"name": "test", "head_sha": sha, "status": "in_progress"}, want=201
    )
    assert (run["status"], run["app"]["slug"], run["started_at"] is not None) == ("in_progress", "herd-bot", True)
    suites = await world.bot.repo("GET", f"/commits/{sha}/check-suites")
    assert (suites["total_count"], suites["check_suites"][0]["status"]) == (1, "in_progress")
    output = {"title": "t", "summary": "s", "annotations": [{"path": "a", "start_line": 1, "message": "m"}]}
    done = await world.bot.repo("PATCH", f"/check-runs/{run['id']}", {"conclusion": "failure", "output": output})
    assert (done["status"], done["conclusion"], done["output"]["annotations_count"]) == ("completed", "failure", 1)
    suite = (await world.bot.repo("GET", f"/commits/{sha}/check-suites"))["check_suites"][0]
    assert (suite["status"], suite["conclusion"]) == ("completed", "failure")
    again = await world.bot.repo(
        "POST", "/check-runs", {"name": "test", "head_sha": sha, "conclusion": "success"}, want=201
    )
    latest = await world.bot.repo("GET", "/commits/main/check-runs")
    assert [row["id"] for row in latest["check_runs"]] == [again["id"]]
    assert (await world.bot.repo("GET", "/commits/main/check-runs?filter=all"))["total_count"] == 2
    await world.bot.repo("POST", "/check-runs", {"name": "x", "head_sha": sha, "status": "completed"}, want=422)
