"""Statuses, transitions, names."""

from __future__ import annotations

import itertools

import pytest

from droveway.core.vocabulary import (
    LABELS,
    MESSAGES_WITH_NO_PREFIX,
    PREFIXES,
    Message,
    Status,
    batch_branch,
    branch_batch,
    branch_issue,
    is_herd,
    legal,
    statuses,
    worker_branch,
)

LEGAL = {
    "blocked": "ready failed cancelled",
    "ready": "in-progress blocked failed cancelled",
    "in-progress": "done failed ready cancelled",
    "failed": "ready in-progress cancelled",
    "done": "failed",
    "cancelled": "",
}


@pytest.mark.req("BAT-056")
@pytest.mark.parametrize(("old", "new"), list(itertools.permutations(Status, 2)))
def test_exactly_the_table_is_legal(old: Status, new: Status) -> None:
    assert legal(old, new) is (new.value in LEGAL[old.value].split())


@pytest.mark.req("BAT-056")
def test_failed_becomes_done_only_when_an_origin_is_settled() -> None:
    assert not legal(Status.FAILED, Status.DONE)
    assert legal(Status.FAILED, Status.DONE, settling=True)
    assert not legal(Status.CANCELLED, Status.DONE, settling=True)


@pytest.mark.req(*[f"BAT-{number:03}" for number in range(40, 56)])
@pytest.mark.parametrize(
    ("name", "color"),
    [
        ("herd/status:ready", "0E8A16"), ("herd/status:in-progress", "FBCA04"), ("herd/status:done", "6F42C1"),
        ("herd/status:failed", "D93F0B"), ("herd/status:blocked", "C5DEF5"), ("herd/status:cancelled", "B60205"),
        ("herd/type:feature", "1D76DB"), ("herd/type:bugfix", "D93F0B"), ("herd/type:fix", "E99695"),
        ("herd/type:standalone-fix", "FBCA04"), ("herd/type:manual", "BFD4F2"), ("herd/ci-fix-pending", "E4E669"),
        ("herd/rebase-pending", "FBCA04"), ("herd/retry-pending", "D4C5F9"), ("herd/stable-disagreement", "E11D48"),
        ("herd/review-nonconverging", "FBCA04"), ("herd/cascade-failed", "B60205"), ("herd/paused", "BFD4F2"),
    ],
)  # fmt: skip
def test_each_label_has_its_name_and_colour(name: str, color: str) -> None:
    assert {label.name: label.color for label in LABELS}[name] == color
    assert len(LABELS) == 18


@pytest.mark.req("BAT-033", "BAT-034", "BAT-038", "BAT-039")
def test_branch_names_and_the_issue_in_them() -> None:
    assert worker_branch(12, "Größe ändern 日本語") == "herd/worker/12-groe-andern"
    assert batch_branch(7, "日本語") == "herd/batch/7-batch"
    assert branch_issue("herd/worker/100-x") == 100
    assert branch_issue("herd/worker/10-1-x") == 10
    assert [branch_issue(name) for name in ("herd/worker/x-1", "herd/worker/1", "main", "a/herd/worker/1-x")] == [
        None
    ] * 4
    assert branch_batch("herd/batch/7-batch") == 7


@pytest.mark.req("BAT-058")
def test_all_statuses_of_an_issue_are_seen() -> None:
    assert statuses(["bug", "herd/status:done", "herd/status:failed"]) == (Status.DONE, Status.FAILED)
    assert statuses(["herd/type:fix"]) == ()
    assert is_herd(["herd/type:fix"])
    assert not is_herd(["herd/paused", "bug"])


@pytest.mark.req("BAT-115")
def test_every_kind_of_message_has_its_prefix_or_is_no_comment() -> None:
    assert set(PREFIXES) | MESSAGES_WITH_NO_PREFIX == set(Message)
    assert not set(PREFIXES) & MESSAGES_WITH_NO_PREFIX
