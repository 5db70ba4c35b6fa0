"""Each method of the port against the embedded forge: what is written is what is read back."""

from __future__ import annotations

import pytest

from droveway.core.facts import Complete, known
from droveway.core.repo import RepoId
from droveway.forge import (
    ConflictError,
    ExistsError,
    ForgeError,
    MergeState,
    NotFoundError,
    Permission,
    PermissionDeniedError,
    ReviewState,
)

from .conftest import Road

GONE = RepoId("owner", "nowhere")


@pytest.mark.req("FRG-001", "FRG-003")
async def test_who_we_are_and_where(road: Road) -> None:
    assert (road.bot.login, road.person.login) == ("herd-bot", "owner")
    assert (road.bot.host, road.bot.git_url) == ("127.0.0.1", "http://127.0.0.1")


async def test_a_repository_is_read_with_its_tip_and_what_we_may_do(road: Road) -> None:
    seen = await road.bot.repository(road.repo)
    assert (seen.name, seen.default_branch, seen.default_sha) == ("owner/road", "main", road.git("rev-parse", "main"))
    assert seen.permission is Permission.MAINTAIN
    assert seen.merge_methods == ("squash", "rebase", "merge")
    with pytest.raises(NotFoundError):
        await road.bot.repository(GONE)


async def test_only_repositories_that_we_may_write_to_are_listed(road: Road) -> None:
    road.local.create_repo("owner", "other")
    road.local.set_role("owner", "other", "herd-bot", "read")
    assert [each.name for each in await road.bot.repositories()] == ["owner/road"]


async def test_a_repository_is_created_once(road: Road) -> None:
    assert await road.person.create_repository("fresh") is True
    assert await road.person.create_repository("fresh") is False
    seen = await road.person.repository(RepoId("owner", "fresh"))
    assert (seen.default_branch, seen.default_sha, seen.private) == ("main", "", True)


async def test_a_milestone_lives(road: Road) -> None:
    made = await road.bot.create_milestone(road.repo, "Batch", "what")
    with pytest.raises(ExistsError):
        await road.bot.create_milestone(road.repo, "Batch", "again")
    await road.bot.edit_milestone(road.repo, made.number, description="more")
    await road.bot.edit_milestone(road.repo, made.number, state="closed")
    seen = await road.bot.milestone(road.repo, made.number)
    assert seen is not None
    assert (seen.title, seen.description, seen.state) == ("Batch", "more", "closed")
    assert await road.bot.milestones(road.repo, state="open") == ()
    assert [each.number for each in await road.bot.milestones(road.repo)] == [made.number]
    assert await road.bot.milestone(road.repo, 99) is None


async def test_an_issue_lives(road: Road) -> None:
    batch = await road.bot.create_milestone(road.repo, "Batch", "")
    made = await road.bot.create_issue(road.repo, "Tïtle", "body\n", labels=["x/y: z", "b"], milestone=batch.number)
    assert (made.open, made.author, made.milestone) == (True, "herd-bot", batch.number)
    assert set(made.labels) == {"x/y: z", "b"}
    await road.bot.add_labels(road.repo, made.number, ["c"])
    await road.bot.remove_label(road.repo, made.number, "x/y: z")
    await road.bot.remove_label(road.repo, made.number, "never there")
    await road.bot.edit_issue(road.repo, made.number, title="T2", state="closed")
    seen = await road.bot.issue(road.repo, made.number)
    assert seen is not None
    assert (seen.title, seen.state, set(seen.labels), seen.body) == ("T2", "closed", {"b", "c"}, "body\n")
    assert seen.closed_at is not None
    assert await road.bot.issues(road.repo) == ()
    assert [i.number for i in await road.bot.issues(road.repo, milestone=batch.number, state="all")] == [made.number]
    assert await road.bot.issues(road.repo, state="all", creator="owner") == ()
    after = await road.bot.edit_issue(road.repo, made.number, labels=["only"])
    assert after.labels == ("only",)
    assert await road.bot.issue(road.repo, 99) is None


async def test_a_label_is_made_mended_and_left_alone(road: Road) -> None:
    assert await road.bot.ensure_label(road.repo, "herd/status:ready", "0E8A16", "may be picked up") is True
    assert await road.bot.ensure_label(road.repo, "herd/status:ready", "0e8a16", "may be picked up") is False
    assert await road.bot.ensure_label(road.repo, "herd/status:ready", "ffffff", "may be picked up") is True
    assert await road.bot.ensure_label(road.repo, "herd/status:ready", "ffffff", "may be picked up") is False
    assert "herd/status:ready" in await road.bot.label_names(road.repo)


@pytest.mark.req("BAT-004")
async def test_comments_say_who_wrote_them(road: Road) -> None:
    issue = await road.person.create_issue(road.repo, "t", "b")
    first = await road.bot.create_comment(road.repo, issue.number, "ours")
    await road.person.create_comment(road.repo, issue.number, "theirs")
    await road.bot.edit_comment(road.repo, first.id, "ours, mended")
    await road.bot.add_reaction(road.repo, first.id, "eyes")
    seen = await road.bot.comments(road.repo, issue.number)
    assert [(c.body, c.ours) for c in seen] == [("ours, mended", True), ("theirs", False)]
    assert [c.ours for c in await road.person.comments(road.repo, issue.number)] == [False, True]


async def test_more_than_one_page_is_read_whole(road: Road) -> None:
    issue = await road.bot.create_issue(road.repo, "t", "b")
    for number in range(103):
        await road.bot.create_comment(road.repo, issue.number, str(number))
    assert [c.body for c in await road.bot.comments(road.repo, issue.number)] == [str(n) for n in range(103)]


@pytest.mark.req("BAT-165")
async def test_a_ref_is_made_read_and_deleted_and_none_means_gone(road: Road) -> None:
    tip = road.git("rev-parse", "main")
    ref = "refs/heads/herd/worker/7-ü"
    assert await road.bot.ref(road.repo, ref) is None
    await road.bot.create_ref(road.repo, ref, tip)
    with pytest.raises(ExistsError):
        await road.bot.create_ref(road.repo, ref, tip)
    assert await road.bot.ref(road.repo, ref) == tip
    assert await road.bot.refs(road.repo, "refs/heads/herd/") == {ref: tip}
    await road.bot.delete_ref(road.repo, ref)
    assert await road.bot.ref(road.repo, ref) is None
    with pytest.raises(NotFoundError):
        await road.bot.delete_ref(road.repo, ref)
    assert await road.bot.refs(road.repo, "refs/heads/herd/") == {}


async def test_a_file_is_read_as_bytes(road: Road) -> None:
    assert await road.bot.file(road.repo, "README.md") == b"# road\n"
    assert await road.bot.file(road.repo, "a b/ü.txt", ref="main") == b"x\n"
    assert await road.bot.file(road.repo, "nothing") is None
    assert await road.bot.file(road.repo, "README.md", ref="nowhere") is None


@pytest.mark.req("BAT-195", "FRG-003")
async def test_a_pull_request_is_read_whole_and_merged_at_its_head(road: Road) -> None:
    sha = road.branch("herd/batch/1-x", {"new.txt": "1\n"})
    made = await road.bot.create_pull(road.repo, title="T", body="B", head="herd/batch/1-x", base="main")
    with pytest.raises(ExistsError):
        await road.bot.create_pull(road.repo, title="T", body="B", head="herd/batch/1-x", base="main")
    found = await road.bot.pull_for(road.repo, "herd/batch/1-x", state="open")
    assert found is not None
    assert found.number == made.number
    assert await road.bot.pull_for(road.repo, "herd/batch/2-y") is None
    assert b"+1" in await road.bot.diff(road.repo, made.number)
    pull = await road.bot.pull(road.repo, made.number)
    if pull is not None and pull.mergeable is None:  # computed when first asked for
        pull = await road.bot.pull(road.repo, made.number)
    assert pull is not None
    assert (pull.open, pull.head_sha, pull.base, pull.head_repo) == (True, sha, "main", "owner/road")
    assert (pull.mergeable, pull.merge_state) == (True, MergeState.CLEAN)
    assert isinstance(pull.checks, Complete)
    assert known(pull.checks, "checks").sha == sha
    assert known(pull.checks, "checks").committed_at is not None
    assert pull.reviews == Complete((), pull.reviews.at)  # type: ignore[union-attr]
    with pytest.raises(ConflictError):
        await road.bot.merge_pull(road.repo, made.number, sha="0" * 40, method="squash")
    merged = await road.bot.merge_pull(road.repo, made.number, sha=sha, method="squash", title="T (#1)", message="m")
    assert merged == await road.bot.ref(road.repo, "refs/heads/main")
    after = await road.bot.pull(road.repo, made.number)
    assert after is not None
    assert (after.state, after.merge_sha) == ("merged", merged)
    assert await road.bot.pull(road.repo, 99) is None
    assert await road.bot.issues(road.repo, state="all") == ()  # a PR is no issue here


async def test_reviews_and_threads(road: Road) -> None:
    sha = road.branch("herd/batch/1-x", {"new.txt": "1\n"})
    made = await road.bot.create_pull(road.repo, title="T", body="B", head="herd/batch/1-x", base="main")
    review = await road.person.submit_review(road.repo, made.number, sha=sha, event="REQUEST_CHANGES", body="no")
    pull = await road.bot.pull(road.repo, made.number)
    assert pull is not None
    (seen,) = known(pull.reviews, "reviews") if pull.reviews else ()
    assert (seen.id, seen.author, seen.state, seen.commit) == (review, "owner", ReviewState.CHANGES_REQUESTED, sha)
    assert seen.association == "OWNER"
    await road.person.dismiss_review(road.repo, made.number, review, "never mind")
    assert [each.state for each in await road.bot.reviews(road.repo, made.number)] == [ReviewState.DISMISSED]
    await road.person._http.write(
        "POST", f"/repos/{road.repo}/pulls/{made.number}/comments",
        {"commit_id": sha, "path": "new.txt", "line": 1, "side": "RIGHT", "body": "hm"},
    )  # fmt: skip
    (thread,) = await road.bot.threads(road.repo, made.number)
    assert (thread.resolved, thread.path, thread.line, thread.comments[0].body) == (False, "new.txt", 1, "hm")
    pull = await road.bot.pull(road.repo, made.number)
    assert pull is not None
    assert pull.unresolved_threads is not None
    assert known(pull.unresolved_threads, "threads") == 1
    with pytest.raises(ForgeError, match="own pull request"):
        await road.bot.submit_review(road.repo, made.number, sha=sha, event="APPROVE", body="me")


@pytest.mark.req("BAT-206", "BAT-207")
async def test_checks_of_both_kinds_are_read_by_either_way(road: Road) -> None:
    sha = road.branch("herd/batch/1-x", {"new.txt": "1\n"})
    await road.bot.set_status(road.repo, sha, context="deploy", state="pending", description="soon")
    await road.bot.set_status(road.repo, sha, context="deploy", state="success", description="done")
    await road.bot._http.write(
        "POST", f"/repos/{road.repo}/check-runs",
        {"name": "unit", "head_sha": sha, "status": "completed", "conclusion": "failure"},
    )  # fmt: skip
    for seen in (await road.bot.checks(road.repo, sha), await road.bot._reader.checks_by_rest(road.repo, sha)):
        assert [(r.name, r.status, r.conclusion) for r in seen.runs] == [("unit", "completed", "failure")]
        assert [(s.context, s.state) for s in seen.statuses][-1] == ("deploy", "success")
        assert (seen.sha, seen.absent, seen.committed_at is not None) == (sha, (), True)
    with pytest.raises(ForgeError):
        await road.bot.checks(road.repo, "0" * 40)


async def test_protection_is_read_by_an_administrator_and_by_the_fleet(road: Road) -> None:
    assert (await road.bot.protection(road.repo, "main")).required_checks == ()
    await road.person._http.write(
        "PUT", f"/repos/{road.repo}/branches/main/protection",
        {"required_status_checks": {"strict": True, "contexts": ["unit"]}, "enforce_admins": None,
         "required_pull_request_reviews": {"required_approving_review_count": 2}, "restrictions": None},
    )  # fmt: skip
    seen = await road.person.protection(road.repo, "main")
    assert (seen.required_checks, seen.strict, seen.required_approvals) == (("unit",), True, 2)
    assert (await road.bot.protection(road.repo, "main")).required_checks == ("unit",)


@pytest.mark.req("FRG-003")
async def test_only_a_clear_yes_is_a_permission(road: Road) -> None:
    road.local.create_user("reader")
    road.local.create_user("stranger")
    road.local.set_role("owner", "road", "reader", "triage")
    assert await road.bot.permission(road.repo, "owner") is Permission.ADMIN
    assert await road.bot.permission(road.repo, "reader") is Permission.TRIAGE
    assert not (await road.bot.permission(road.repo, "stranger")).trusted
    assert not (await road.bot.permission(road.repo, "nobody-at-all")).trusted
    assert await road.bot.permission(GONE, "owner") <= Permission.NONE


async def test_what_may_not_be_done_says_so(road: Road) -> None:
    road.local.create_user("reader")
    road.local.set_role("owner", "road", "reader", "read")
    reader = road.client(road.local.issue_token("reader"))
    await reader.connect()
    issue = await road.bot.create_issue(road.repo, "t", "b")
    with pytest.raises((PermissionDeniedError, NotFoundError)):
        await reader.edit_issue(road.repo, issue.number, labels=["x"])
    await reader.close()
    nobody = road.client("ghp_" + "0" * 40)
    with pytest.raises(PermissionDeniedError, match="token is not valid"):
        await nobody.connect()
    await nobody.close()


@pytest.mark.req("QLT-040")
async def test_no_secret_leaves_in_a_text(road: Road) -> None:
    issue = await road.bot.create_issue(road.repo, f"t {road.bot_token}", f"b {road.bot_token}")
    await road.bot.create_comment(road.repo, issue.number, f"see {road.bot_token}!")
    assert road.bot_token not in issue.title + issue.body
    assert [each.body for each in await road.bot.comments(road.repo, issue.number)] == ["see ***!"]
