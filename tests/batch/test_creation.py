"""Creating a batch: resumable step by step, never twice, nothing adopted that is not this plan's."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from droveway.batch import dispatch_issues, read_metadata
from droveway.core import points
from droveway.core.errors import HerdError, InputError
from droveway.core.lease import Lease
from droveway.core.vocabulary import TYPE_BUGFIX, TYPE_FEATURE, TYPE_MANUAL, Status
from droveway.forge import join_parts
from droveway.forge.model import Issue
from droveway.work import IssueBody, parse_body, read_task

from .world import REPO, World, git, world

SIX: tuple[dict[str, Any], ...] = (
    {"title": "A", "scope": ["*.go", "a: b", "#x", "yes"], "priority": 2},
    {"title": "B", "type": "bugfix"},
    {"title": "C", "depends_on": [0, 1]},
    {"title": "Größe ändern 日本語", "manual": True},
    {"title": "E", "depends_on": [2]},
    {"title": "F", "depends_on": [3]},
)


class Crash(BaseException):
    """The process dies here."""


def crash_at(monkeypatch: pytest.MonkeyPatch, name: str, nth: int = 1) -> None:
    """Die at a named point, once."""
    passed = [0]

    def sync_point(at: str) -> None:
        passed[0] += at == name
        if at == name and passed[0] == nth:
            raise Crash(name)

    monkeypatch.setattr(points, "sync_point", sync_point)


async def issues(w: World, milestone: int) -> list[Issue]:
    return sorted(await w.fleet.forge.issues(REPO, milestone=milestone, state="all"), key=lambda one: one.number)


def readable(issue: Issue) -> IssueBody:
    body = parse_body(issue.body)
    assert isinstance(body, IssueBody)
    return body


@pytest.mark.req("BAT-020", "BAT-021", "BAT-022", "BAT-025", "BAT-026", "BAT-038", "BAT-008", "BAT-240")
async def test_a_rerun_after_any_crash_completes_the_batch_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, monkeypatch) as w:
        crashes = [("plan.milestone", 1), ("plan.issue", 3), ("plan.issue", 6), ("plan.body", 2), ("plan.bodies", 1)]
        for name, nth in crashes:
            crash_at(monkeypatch, name, nth)
            with pytest.raises(Crash):
                await w.create(*SIX, dispatch=False)
        crash_at(monkeypatch, "none")
        made = await w.create(*SIX, dispatch=False)
        assert made.title == "Batch"
        assert made.note == ""
        found = await issues(w, made.milestone)
        assert [issue.title for issue in found] == [task["title"] for task in SIX]
        assert [issue.number for issue in found] == [made.issues[index] for index in range(6)]
        labels = [set(issue.labels) for issue in found]
        assert labels[0] == {Status.READY.label, TYPE_FEATURE}
        assert labels[1] == {Status.READY.label, TYPE_BUGFIX}
        assert labels[2] == {Status.BLOCKED.label, TYPE_FEATURE}
        assert labels[3] == {Status.READY.label, TYPE_FEATURE, TYPE_MANUAL}
        fronts = [readable(issue).front for issue in found]
        assert fronts[2].depends_on == (made.issues[0], made.issues[1])
        assert fronts[0].scope == ("*.go", "a: b", "#x", "yes")
        assert fronts[0].priority == 2
        assert [front.branch for front in fronts] == [read_task(issue).branch for issue in found]
        assert fronts[3].branch == f"herd/worker/{found[3].number}-groe-andern"
        milestone = await w.fleet.forge.milestone(REPO, made.milestone)
        assert milestone
        metadata = read_metadata(milestone.description)
        assert (metadata.plan, metadata.batch_branch) == ("p1", f"herd/batch/{made.milestone}-batch")
        assert metadata.created_by.email == "ann@example.org"

        # Not started: no loop touches it, until a person says so.
        report = await w.cycle(made.milestone)
        assert [blocker.code for blocker in report.waiting] == ["not-started"]
        assert not report.acted
        assert w.branches() == ["main"]
        w.held = asyncio.Event()
        lines = await dispatch_issues(w.fleet, REPO, batch=made.milestone, lease=Lease.unshared("hand"))
        assert lines[0] == f"created {made.branch}"
        jobs = await w.fleet.engine.jobs(kind="worker")
        assert sorted(job.args["issue"] for job in jobs) == [made.issues[0], made.issues[1]]
        w.held.set()


@pytest.mark.req("BAT-018", "BAT-019")
async def test_a_taken_name_gets_a_number_and_no_foreign_milestone_is_adopted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, monkeypatch) as w:
        await w.fleet.forge.create_milestone(REPO, "Batch", "an old one")
        made = await w.create({"title": "A"}, dispatch=False)
        assert made.title == "Batch (2)"
        assert made.branch == f"herd/batch/{made.milestone}-batch-2"
        assert made.note == 'Note: batch name conflicted with existing milestone — using "Batch (2)" instead.'
        for count in range(3, 11):
            await w.fleet.forge.create_milestone(REPO, f"Batch ({count})", "")
        before = len(await w.fleet.forge.milestones(REPO))
        with pytest.raises(HerdError, match="creating milestone"):
            await w.create({"title": "A"}, plan_id="p2", dispatch=False)
        assert len(await w.fleet.forge.milestones(REPO)) == before


@pytest.mark.req("BAT-030", "BAT-031")
async def test_a_task_of_150_kb_is_kept_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(tmp_path, monkeypatch) as w:
        text = "\n".join(f"line {number} of a very long description, ä" for number in range(3500)) + "\nthe last line"
        tasks = ({"title": "A"}, {"title": "Long", "description": text, "depends_on": [0]})
        made = await w.create(*tasks, dispatch=False)
        _, long = await issues(w, made.milestone)
        assert len(long.body) < 65_536
        comments = await w.fleet.forge.comments(REPO, long.number)
        assert "the last line" in join_parts(long.body, comments)
        assert readable(long).front.depends_on == (made.issues[0],)
        again = await w.create(
            {"title": "A"}, {"title": "Long", "description": text, "depends_on": [0]}, dispatch=False
        )
        assert again.issues == made.issues
        assert len(await w.fleet.forge.comments(REPO, long.number)) == len(comments)


@pytest.mark.req("B01")
async def test_a_branch_in_the_way_gives_another_name_or_a_clear_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, monkeypatch) as w:
        tip = await w.fleet.forge.ref(REPO, "heads/main")
        assert tip
        await w.fleet.forge.create_ref(REPO, "refs/heads/herd/batch/1-batch/old", tip)
        made = await w.create({"title": "A"}, dispatch=False)
        assert made.branch == "herd/batch/1-batch-2"
        place = w.clone("main")
        git(place, "push", "-q", "origin", ":refs/heads/herd/batch/1-batch/old", "HEAD:refs/heads/herd")
        with pytest.raises(InputError, match="in the way"):
            await w.create({"title": "A"}, plan_id="p2", dispatch=False)


async def test_a_dry_run_and_an_empty_repository_create_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, monkeypatch, dry_run=True) as w:
        made = await w.create({"title": "A"})
        assert made.milestone == 0
        assert await w.fleet.forge.milestones(REPO) == ()
        with pytest.raises(InputError, match="plan id"):
            await w.create({"title": "A"}, plan_id="../x")
