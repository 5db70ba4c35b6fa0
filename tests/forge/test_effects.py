"""Effects through the actuator, against the embedded forge: once, legal, at the judged head (FRG-007, BAT-056, …)."""

from __future__ import annotations

import asyncio
from typing import Any, get_args

import httpx
import pytest

from droveway.core.actuator import ActionResult, Actuator, AuditRecord
from droveway.core.clock import SystemClock
from droveway.core.decisions import (
    AnyAction,
    CancelJob,
    CloseMilestone,
    Comment,
    CreateIssue,
    Decision,
    EditComment,
    EditIssue,
    MergePull,
    MoveRefs,
    OpenPull,
    SetCommitStatus,
    SetLabels,
    SetStatus,
    StartJob,
    SubmitReview,
)
from droveway.core.ids import RandomIds
from droveway.core.keys import Key, message_key, message_kind
from droveway.core.lease import Lease
from droveway.core.text import Redactor
from droveway.core.vocabulary import LABELS, PAUSED, TYPE_FEATURE, TYPE_FIX, Message, Status
from droveway.forge import GitHubForge, ReviewState, handlers, join_parts

from .conftest import Road

REPO = "owner/road"
S = Status


class Silent:
    async def record(self, record: AuditRecord) -> None:
        pass


def key(rule: str, subject: str = "issue:1", ordinal: str = "0") -> str:
    return str(Key(rule, REPO, subject, "-", ordinal))


async def act(forge: GitHubForge, action: AnyAction) -> ActionResult:
    actuator = Actuator(handlers(forge), audit=Silent(), clock=SystemClock(), ids=RandomIds(), redactor=Redactor())
    decision = Decision("TEST", REPO, "issue:1", actions=(action,))
    (result,) = (await actuator.act(decision, Lease.unshared("x"), loop="test")).results
    return result


class Lost(httpx.AsyncBaseTransport):
    """A line to the embedded forge that drops some answers: the effect is made, nobody hears of it."""

    def __init__(self, inner: httpx.AsyncBaseTransport, method: str, end: str, *, before: bool = False) -> None:
        self.inner = inner
        self.method = method
        self.end = end
        self.before = before
        self.sent = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == self.method and request.url.path.endswith(self.end):
            self.sent += 1
            if not self.before:
                await self.inner.handle_async_request(request)
            raise httpx.ReadError("the line is dead")
        return await self.inner.handle_async_request(request)


async def issue_with(road: Road, *labels: str) -> int:
    return (await road.bot.create_issue(road.repo, "t", "b", labels=list(labels))).number


async def labels_of(road: Road, number: int) -> set[str]:
    issue = await road.bot.issue(road.repo, number)
    assert issue is not None
    return set(issue.labels)


# --- statuses --------------------------------------------------------------------------------------------------------
LEGAL = {
    S.BLOCKED: {S.READY, S.FAILED, S.CANCELLED},
    S.READY: {S.IN_PROGRESS, S.BLOCKED, S.FAILED, S.CANCELLED},
    S.IN_PROGRESS: {S.DONE, S.FAILED, S.READY, S.CANCELLED},
    S.FAILED: {S.READY, S.IN_PROGRESS, S.CANCELLED},
    S.DONE: {S.FAILED},
    S.CANCELLED: set(),
}


@pytest.mark.req("BAT-056", "BAT-057", "FRG-007")
async def test_every_legal_change_is_made_and_every_other_refused_with_the_other_labels_untouched(road: Road) -> None:
    for old in S:
        for new in S:
            number = await issue_with(road, "a person's", old.label, TYPE_FEATURE)
            result = await act(road.bot, SetStatus(REPO, key("MON-1"), number, new))
            if new is old:
                assert result.outcome == "existed"
            elif new in LEGAL[old]:
                assert result.outcome == "applied", (old, new, result.detail)
                assert await labels_of(road, number) == {"a person's", new.label, TYPE_FEATURE}
            else:
                assert (result.outcome, result.detail.split()[0]) == ("stale", "illegal"), (old, new)
                assert await labels_of(road, number) == {"a person's", old.label, TYPE_FEATURE}


@pytest.mark.req("BAT-056")
@pytest.mark.parametrize(
    ("rule", "outcome"), [("BAT-187", "applied"), ("BAT-205", "applied"), ("BAT-110", "stale"), ("BAT-1870", "stale")]
)
async def test_only_two_rules_may_settle_a_failed_issue(road: Road, rule: str, outcome: str) -> None:
    number = await issue_with(road, S.FAILED.label)
    assert (await act(road.bot, SetStatus(REPO, key(rule), number, S.DONE))).outcome == outcome


@pytest.mark.req("BAT-056")
async def test_a_change_meant_for_another_state_is_stale(road: Road) -> None:
    number = await issue_with(road, S.IN_PROGRESS.label)
    result = await act(road.bot, SetStatus(REPO, key("X"), number, S.FAILED, expected=(S.READY,)))
    assert (result.outcome, result.detail) == ("stale", f"issue #{number} is in-progress, expected ready")
    assert (await act(road.bot, SetStatus(REPO, key("X"), 999, S.FAILED))).outcome == "stale"


@pytest.mark.req("BAT-057", "BAT-058")
@pytest.mark.parametrize(
    ("labels", "to", "outcome"),
    [
        ([], S.READY, "applied"),
        ([S.DONE.label, S.BLOCKED.label], S.DONE, "applied"),
        ([S.CANCELLED.label, S.READY.label], S.READY, "stale"),
        ([S.CANCELLED.label, S.READY.label], S.CANCELLED, "applied"),
    ],
)
async def test_an_issue_with_no_status_or_two_gets_one(road: Road, labels: list[str], to: Status, outcome: str) -> None:
    number = await issue_with(road, "x", *labels)
    assert (await act(road.bot, SetStatus(REPO, key("BAT-058"), number, to))).outcome == outcome
    if outcome == "applied":
        assert await labels_of(road, number) == {"x", to.label}


@pytest.mark.req("BAT-057")
async def test_a_status_change_is_one_write(road: Road) -> None:
    number = await issue_with(road, S.READY.label)
    await act(road.bot, SetStatus(REPO, key("X"), number, S.IN_PROGRESS))
    before = road.bot.counters.total.writes
    await act(road.bot, SetStatus(REPO, key("X"), number, S.READY))
    assert road.bot.counters.total.writes - before == 1


@pytest.mark.req("BAT-057")
async def test_a_set_that_did_not_take_is_told(road: Road) -> None:
    class Deaf(httpx.AsyncBaseTransport):
        """Drops the labels of an edit, as a forge does for a token that may not set them."""

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if request.method == "PATCH":
                headers = {n: v for n, v in request.headers.items() if n != "content-length"}
                request = httpx.Request("PATCH", request.url, headers=headers, json={})
            return await road.transport.handle_async_request(request)

    number = await issue_with(road, S.READY.label)
    result = await act(road.client(road.bot_token, Deaf()), SetStatus(REPO, key("X"), number, S.IN_PROGRESS))
    assert (result.outcome, result.kind) == ("failed", "not-verified")


# --- labels ----------------------------------------------------------------------------------------------------------
@pytest.mark.req("FRG-007", "BAT-055")
async def test_labels_are_added_and_deleted_and_ours_are_described(road: Road) -> None:
    number = await issue_with(road, "x", "y")
    action = SetLabels(REPO, key("X"), number, add=(PAUSED, "z"), remove=("x", "not there"))
    assert (await act(road.bot, action)).outcome == "applied"
    assert await labels_of(road, number) == {"y", "z", PAUSED}
    assert (await act(road.bot, action)).outcome == "existed"
    spec = next(spec for spec in LABELS if spec.name == PAUSED)
    assert await road.bot.ensure_label(road.repo, PAUSED, spec.color, spec.description) is False
    wrong = await act(road.bot, SetLabels(REPO, key("X"), number, add=(S.DONE.label,)))
    assert (wrong.outcome, wrong.detail.split(":")[0]) == ("stale", "illegal")


# --- comments --------------------------------------------------------------------------------------------------------
@pytest.mark.req("BAT-004", "FRG-007")
async def test_a_comment_is_posted_once_however_often_it_is_asked_for(road: Road) -> None:
    number = await issue_with(road)
    action = Comment(REPO, key("X"), number, Message.ALERT, "hello", ("<!-- herd:extra {} -->",))
    first, second = await act(road.bot, action), await act(road.bot, action)
    assert (first.outcome, second.outcome) == ("applied", "existed")
    assert first.receipt.number == second.receipt.number
    (only,) = await road.bot.comments(road.repo, number)
    assert only.body.startswith("hello\n\n<!-- herd:extra {} -->\n<!-- herd:msg ")
    assert (message_key(only.body), message_kind(only.body)) == (action.key, "alert")


@pytest.mark.req("FRG-006", "FRG-007")
async def test_a_comment_whose_answer_was_lost_is_found_and_not_posted_again(road: Road) -> None:
    number = await issue_with(road)
    line = Lost(road.transport, "POST", "/comments")
    forge = road.client(road.bot_token, line)
    await forge.connect()
    result = await act(forge, Comment(REPO, key("X"), number, Message.ALERT, "hello"))
    assert (result.outcome, line.sent) == ("applied", 1)
    assert len(await road.bot.comments(road.repo, number)) == 1
    await forge.close()


@pytest.mark.req("FRG-006")
async def test_a_comment_that_was_never_made_has_failed(road: Road) -> None:
    number = await issue_with(road)
    forge = road.client(road.bot_token, Lost(road.transport, "POST", "/comments", before=True))
    await forge.connect()
    result = await act(forge, Comment(REPO, key("X"), number, Message.ALERT, "hello"))
    assert (result.outcome, result.kind) == ("failed", "unreachable")
    await forge.close()


@pytest.mark.req("BAT-124")
async def test_a_comment_is_edited_in_place(road: Road) -> None:
    number = await issue_with(road)
    for text, outcome in (("one", "applied"), ("two", "applied"), ("two", "existed")):
        action = EditComment(REPO, key("BAT-124"), number, Message.ATTEMPT, text)
        assert (await act(road.bot, action)).outcome == outcome
    assert [each.body.split("\n")[0] for each in await road.bot.comments(road.repo, number)] == ["two"]


# --- issues ----------------------------------------------------------------------------------------------------------
@pytest.mark.req("FRG-007", "BAT-021")
async def test_an_issue_is_created_once_with_its_labels_and_a_forged_key_does_not_stop_it(road: Road) -> None:
    batch = (await road.bot.create_milestone(road.repo, "B", "")).number
    action = CreateIssue(REPO, key("BAT-021", "batch:1"), "T", "body", (S.READY.label, TYPE_FIX), batch)
    forged = await road.person.create_issue(road.repo, "T", f"x\n\n{_marked(action.key)}", milestone=batch)
    first, second = await act(road.bot, action), await act(road.bot, action)
    assert (first.outcome, second.outcome) == ("applied", "existed")
    assert first.receipt.number == second.receipt.number != forged.number
    made = await road.bot.issue(road.repo, first.receipt.number or 0)
    assert made is not None
    assert (set(made.labels), made.milestone) == ({S.READY.label, TYPE_FIX}, batch)
    assert (message_key(made.body), message_kind(made.body)) == (action.key, "fix-issue")


def _marked(text: str) -> str:
    return f'<!-- herd:msg {{"v":1,"kind":"task-issue","key":"{text}"}} -->'


@pytest.mark.req("FRG-006", "FRG-007")
@pytest.mark.parametrize("milestone", [True, False])
async def test_an_issue_whose_answer_was_lost_is_not_created_again(road: Road, milestone: bool) -> None:
    batch = (await road.bot.create_milestone(road.repo, "B", "")).number if milestone else None
    line = Lost(road.transport, "POST", "/issues")
    forge = road.client(road.bot_token, line)
    await forge.connect()
    result = await act(forge, CreateIssue(REPO, key("X"), "T", "body", (), batch))
    assert (result.outcome, line.sent) == ("applied", 1)
    assert len(await road.bot.issues(road.repo)) == 1
    await forge.close()


@pytest.mark.req("BAT-030", "BAT-031")
async def test_a_body_of_150_kilobytes_is_posted_in_parts_also_after_a_crash_between_them(road: Road) -> None:
    body = "\n".join(f"line {at} of a long body" for at in range(6500)) + "\nTHE LAST LINE"
    action = CreateIssue(REPO, key("BAT-030"), "T", body)
    broken = road.client(road.bot_token, Lost(road.transport, "POST", "/comments", before=True))
    await broken.connect()
    assert (await act(broken, action)).outcome == "failed"
    await broken.close()
    again, once_more = await act(road.bot, action), await act(road.bot, action)
    assert (again.outcome, once_more.outcome) == ("applied", "existed")
    (issue,) = await road.bot.issues(road.repo)
    comments = await road.bot.comments(road.repo, issue.number)
    assert len(comments) == 2
    assert join_parts(issue.body, comments).startswith(body)


@pytest.mark.req("BAT-031")
async def test_a_long_body_that_is_edited_has_just_its_new_parts(road: Road) -> None:
    long = "a line\n" * 40_000
    made = await act(road.bot, CreateIssue(REPO, key("BAT-030"), "T", long))
    number = made.receipt.number or 0
    for text in ("another\n" * 20_000, "short", "once more\n" * 10_000):
        assert (await act(road.bot, EditIssue(REPO, key("E"), number, body=text))).outcome == "applied"
        issue = await road.bot.issue(road.repo, number)
        assert issue is not None
        whole = join_parts(issue.body, await road.bot.comments(road.repo, number))
        assert whole.startswith(text)
        assert whole.count("<!--") == 1  # the key of its creation is kept
        assert message_key(issue.body) == key("BAT-030")


@pytest.mark.req("FRG-007")
async def test_an_edit_is_guarded_by_the_body_that_was_seen(road: Road) -> None:
    number = await issue_with(road)
    guarded = EditIssue(REPO, key("X"), number, body="mine", expected_body="b")
    assert (await act(road.bot, guarded)).outcome == "applied"
    assert (await act(road.bot, guarded)).outcome == "existed"
    await road.person.edit_issue(road.repo, number, body="a person's")
    assert (await act(road.bot, guarded)).outcome == "stale"
    for outcome in ("applied", "existed"):
        assert (await act(road.bot, EditIssue(REPO, key("X"), number, title="T", state="closed"))).outcome == outcome
    issue = await road.bot.issue(road.repo, number)
    assert issue is not None
    assert (issue.title, issue.state, issue.body) == ("T", "closed", "a person's")


async def test_a_milestone_is_closed_once(road: Road) -> None:
    number = (await road.bot.create_milestone(road.repo, "B", "")).number
    assert [(await act(road.bot, CloseMilestone(REPO, key("X"), n))).outcome for n in (number, number, 99)] == [
        "applied",
        "existed",
        "stale",
    ]


# --- pull requests ---------------------------------------------------------------------------------------------------
OPEN = OpenPull(REPO, key("BAT-215", "batch:1"), "P", "B", "herd/batch/1-x", "main", None)


@pytest.mark.req("BAT-215")
async def test_two_advances_that_race_open_one_pull_request(road: Road) -> None:
    road.branch("herd/batch/1-x", {"new.txt": "1\n"})
    results = await asyncio.gather(act(road.bot, OPEN), act(road.bot, OPEN))
    assert {each.outcome for each in results} <= {"applied", "existed"}
    assert len({each.receipt.number for each in results}) == 1
    pull = await road.bot.pull_live(road.repo, results[0].receipt.number or 0)
    assert pull is not None
    assert (message_key(pull.body), message_kind(pull.body)) == (OPEN.key, "batch-pull")


@pytest.mark.req("BAT-215")
async def test_a_422_that_says_already_exists_is_answered_by_the_existing_one(road: Road) -> None:
    road.branch("herd/batch/1-x", {"new.txt": "1\n"})
    there = await road.person.create_pull(road.repo, title="P", body="", head="herd/batch/1-x", base="main")
    handler = handlers(road.bot)[OpenPull]
    hidden = road.bot.pull_for
    answers = [None]

    async def late(*args: Any, **named: Any) -> Any:  # the list lags once behind
        return answers.pop() if answers else await hidden(*args, **named)

    road.bot.pull_for = late  # type: ignore[method-assign]
    assert (await handler.apply(OPEN)).number == there.number


async def test_a_pull_request_is_attached_to_its_milestone_also_afterwards(road: Road) -> None:
    batch = (await road.bot.create_milestone(road.repo, "B", "")).number
    road.branch("herd/batch/1-x", {"new.txt": "1\n"})
    there = await road.bot.create_pull(road.repo, title="P", body="", head="herd/batch/1-x", base="main")
    action = OpenPull(REPO, key("BAT-215"), "P", "B", "herd/batch/1-x", "main", batch)
    assert [(await act(road.bot, action)).outcome for _ in range(2)] == ["applied", "existed"]
    pull = await road.bot.pull_live(road.repo, there.number)
    assert pull is not None
    assert pull.milestone == batch


async def test_a_branch_without_commits_of_its_own_gives_no_pull_request(road: Road) -> None:
    await road.bot.create_ref(road.repo, "refs/heads/herd/batch/1-x", road.git("rev-parse", "main"))
    result = await act(road.bot, OPEN)
    assert (result.outcome, result.kind) == ("failed", "no-commits")


async def opened(road: Road, forge: GitHubForge | None = None) -> tuple[int, str]:
    sha = road.branch("herd/batch/1-x", {"new.txt": "1\n"})
    forge = forge or road.bot
    made = await forge.create_pull(road.repo, title="P", body="B", head="herd/batch/1-x", base="main")
    return made.number, sha


@pytest.mark.req("REV-058")
async def test_a_review_is_submitted_once_and_only_of_the_present_head(road: Road) -> None:
    number, sha = await opened(road, road.person)
    action = SubmitReview(REPO, key("REV-057", f"pr:{number}"), number, sha, "REQUEST_CHANGES", "no")
    assert [(await act(road.bot, action)).outcome for _ in range(2)] == ["applied", "existed"]
    (review,) = await road.bot.reviews(road.repo, number)
    assert (review.state, review.commit, message_key(review.body)) == (ReviewState.CHANGES_REQUESTED, sha, action.key)
    old = await act(road.bot, SubmitReview(REPO, key("Y"), number, "0" * 40, "APPROVE", ""))
    assert (old.outcome, "moved" in old.detail) == ("stale", True)


@pytest.mark.req("REV-058")
async def test_a_review_of_our_own_pull_request_is_refused_and_told_not_swallowed(road: Road) -> None:
    number, sha = await opened(road)
    result = await act(road.bot, SubmitReview(REPO, key("REV-057"), number, sha, "APPROVE", "fine"))
    assert result.outcome == "existed"
    assert result.receipt.note.startswith("refused: APPROVE")
    assert await road.bot.reviews(road.repo, number) == ()
    direct = await handlers(road.bot)[SubmitReview].apply(
        SubmitReview(REPO, key("REV-057"), number, sha, "APPROVE", "fine")
    )
    assert direct.note.startswith("refused: ")
    remark = await act(road.bot, SubmitReview(REPO, key("REV-060"), number, sha, "COMMENT", "a remark"))
    assert remark.outcome == "applied"


@pytest.mark.req("REV-058")
async def test_a_commit_status_is_set_and_the_same_one_is_not_set_again(road: Road) -> None:
    _, sha = await opened(road)
    for state, outcome in (("pending", "applied"), ("success", "applied"), ("success", "existed")):
        action = SetCommitStatus(REPO, key("REV-058"), sha, "herd/review", state, "d" * 200)
        assert (await act(road.bot, action)).outcome == outcome
    (status,) = (await road.bot.checks(road.repo, sha)).statuses
    assert (status.context, status.state, len(status.description)) == ("herd/review", "success", 140)


@pytest.mark.req("REV-095", "FRG-007")
async def test_a_merge_names_the_judged_head_and_a_moved_one_is_not_merged(road: Road) -> None:
    number, sha = await opened(road)
    action = MergePull(REPO, key("REV-095"), number, sha, "squash", "Title", "message")
    moved = road.branch("herd/batch/1-x", {"new.txt": "2\n"}, base="herd/batch/1-x")
    stale = await act(road.bot, action)
    assert (stale.outcome, "moved" in stale.detail) == ("stale", True)
    assert await road.bot.ref(road.repo, "refs/heads/main") == road.git("rev-parse", "main")
    action = MergePull(REPO, key("REV-095"), number, moved, "squash", "Title", "message")
    merged, again = await act(road.bot, action), await act(road.bot, action)
    assert (merged.outcome, again.outcome) == ("applied", "existed")
    assert merged.receipt.sha == again.receipt.sha == await road.bot.ref(road.repo, "refs/heads/main")
    assert merged.receipt.note == f"judged {moved}"


@pytest.mark.req("REV-095")
async def test_a_head_that_moves_between_look_and_merge_fails_the_merge(road: Road) -> None:
    number, sha = await opened(road)
    road.branch("herd/batch/1-x", {"new.txt": "2\n"}, base="herd/batch/1-x")
    with pytest.raises(Exception, match="409") as caught:
        await handlers(road.bot)[MergePull].apply(MergePull(REPO, key("REV-095"), number, sha, "squash"))
    assert getattr(caught.value, "kind", "") == "head-moved"


@pytest.mark.req("REV-095", "FRG-006")
async def test_a_merge_whose_answer_was_lost_is_seen_to_be_done(road: Road) -> None:
    number, sha = await opened(road)
    line = Lost(road.transport, "PUT", "/merge")
    forge = road.client(road.bot_token, line)
    await forge.connect()
    result = await act(forge, MergePull(REPO, key("REV-095"), number, sha, "merge"))
    assert (result.outcome, line.sent) == ("applied", 1)
    assert result.receipt.sha == await road.bot.ref(road.repo, "refs/heads/main")
    await forge.close()


@pytest.mark.req("REV-095")
async def test_what_cannot_be_merged_is_a_refusal_of_its_own_kind(road: Road) -> None:
    number, _ = await opened(road)
    road.branch("main", {"new.txt": "another\n"})
    pull = await road.bot.pull_live(road.repo, number)
    assert pull is not None
    result = await act(road.bot, MergePull(REPO, key("REV-095"), number, pull.head_sha, "squash"))
    assert (result.outcome, result.kind) == ("failed", "not-mergeable")
    await road.bot.edit_issue(road.repo, number, state="closed")
    assert (await act(road.bot, MergePull(REPO, key("X"), number, pull.head_sha, "squash"))).outcome == "stale"


@pytest.mark.req("FRG-006")
async def test_an_effect_that_is_not_allowed_names_what_is_missing(road: Road) -> None:
    road.local.create_user("reader")
    road.local.set_role("owner", "road", "reader", "read")
    reader = road.client(road.local.issue_token("reader"))
    await reader.connect()
    number = await issue_with(road, S.READY.label)
    result = await act(reader, SetStatus(REPO, key("X"), number, S.IN_PROGRESS))
    assert (result.outcome, result.kind) == ("failed", "forbidden")
    await reader.close()


async def test_there_is_a_handler_for_each_action_of_the_forge(road: Road) -> None:
    assert set(handlers(road.bot)) == set(get_args(AnyAction)) - {MoveRefs, StartJob, CancelJob}
