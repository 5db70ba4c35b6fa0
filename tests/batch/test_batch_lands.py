"""From a plan to a merged PR on the embedded forge, with no command after the approval."""

from __future__ import annotations

from collections import Counter
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from droveway.batch import dispatch_issues, explain, show_batch
from droveway.core import points
from droveway.core.keys import message_key
from droveway.core.lease import Lease
from droveway.core.vocabulary import Status
from droveway.engine import JobContext
from droveway.sessions import Fleet

from .world import CONFIG, REPO, World, git, world

UNION = "CHANGELOG.md merge=union\n"
LAST = {"title": "Last", "depends_on": [0, 1]}


async def statuses(w: World, milestone: int) -> dict[str, set[str]]:
    issues = await w.fleet.forge.issues(REPO, milestone=milestone, state="all")
    return {issue.title: {label.removeprefix("herd/status:") for label in issue.labels} for issue in issues}


@pytest.mark.req(
    "BAT-002", "BAT-110", "BAT-163", "BAT-175", "BAT-180", "BAT-182", "BAT-187", "BAT-188",
    "BAT-190", "BAT-191", "BAT-215", "BAT-217", "BAT-222", "BAT-226", "BAT-238", "REV-086", "REV-087", "REV-092",
    "REV-099", "K07",
)  # fmt: skip
async def test_a_batch_with_a_conflict_lands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {".gitattributes": UNION, "CHANGELOG.md": "# Changes\n"}
    async with world(tmp_path, monkeypatch, files=files) as w:
        w.plays["A"] = {"shared.txt": "a\ntwo\n", "CHANGELOG.md": "# Changes\n- a\n"}
        w.plays["B"] = {"shared.txt": "b\ntwo\n", "b.txt": "b\n"}
        w.plays["C"] = {"c.txt": "c\n", "CHANGELOG.md": "# Changes\n- c\n"}
        made = await w.create({"title": "A"}, {"title": "B"}, {"title": "C"}, LAST)
        a, b, c, last = (made.issues[index] for index in range(4))
        title = f"Resolve conflict: #{b} (B)"
        w.plays[title] = {"shared.txt": "a and b\ntwo\n", "b.txt": "b\n"}
        w.forge.reset_counters()
        report = await w.settle(made.milestone)
        assert report.landed, report
        assert w.runs[:3] == [a, b, c]
        assert len(w.runs) == 5
        assert w.runs[-1] == last
        assert w.branches() == ["main"]
        place = w.clone("main")
        assert (place / "shared.txt").read_text() == "a and b\ntwo\n"
        assert (place / "CHANGELOG.md").read_text() == "# Changes\n- a\n- c\n"
        assert (place / "b.txt").exists()
        assert (place / f"out/{last}.txt").exists()
        assert not (place / ".herd/progress").exists()
        said = await w.bodies(b)
        assert "shared.txt" in said
        assert "resolves it" in said
        assert "done" in (await statuses(w, made.milestone))["B"]
        issues = await w.fleet.forge.issues(REPO, milestone=made.milestone, state="all")
        assert {issue.state for issue in issues} == {"closed"}
        message = git(place, "log", "-1", "--format=%B")
        assert message.startswith("[herd] Batch (4 tasks) (#")
        assert "Fixes #88" not in message
        shown = await show_batch(w.fleet, REPO, made.milestone)
        assert (shown.state, shown.pull and shown.pull.state) == ("landed", "merged")
        assert {task.kind for task in shown.tasks} == {"task", "resolver"}
        assert shown.pull
        body = (await w.person("GET", f"/repos/{REPO}/pulls/{shown.pull.number}"))["body"]
        for heading in ("## Summary", "Major changes:", "## Validation", "## Tasks", "## Worker branches"):
            assert heading in body
        assert (await w.cycle(made.milestone)).landed


@pytest.mark.slow
@pytest.mark.req("BAT-021", "BAT-057", "BAT-182", "BAT-226", "QLT-030")
async def test_dying_once_at_every_point_changes_nothing_of_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crash(BaseException):
        pass

    async with world(tmp_path, monkeypatch) as w:
        w.plays["A"] = {"shared.txt": "a\ntwo\n"}
        w.plays["B"] = {"shared.txt": "b\ntwo\n"}
        tasks = ({"title": "A"}, {"title": "B"}, LAST)
        reached: Counter[str] = Counter()
        playing: ContextVar[bool] = ContextVar("playing", default=False)

        def sync_point(name: str) -> None:
            if playing.get() or name in ("act.open-pull.after", "act.merge-pull.after"):
                return  # the room's own points stand right behind these two
            reached[name] += 1
            if reached[name] == 1:
                reached[name] += 1
                raise Crash(name)

        worker = w.worker

        async def played(fleet: Fleet, context: JobContext) -> dict[str, Any]:
            playing.set(True)
            return await worker(fleet, context)

        w.worker = played  # type: ignore[method-assign]
        monkeypatch.setattr(points, "sync_point", sync_point)
        milestone, landed = 0, False
        for _ in range(80):
            try:
                if not milestone:
                    made = await w.create(*tasks)
                    milestone = made.milestone
                    w.plays[f"Resolve conflict: #{made.issues[1]} (B)"] = {"shared.txt": "a and b\ntwo\n"}
                landed = (await w.cycle(milestone)).ended
            except Crash:
                continue
            for job in await w.fleet.engine.jobs(active_only=True):
                await w.fleet.engine.wait(job.id, timeout=60)
            if landed:
                break
        assert landed
        wanted = {
            "plan.milestone", "plan.issue", "plan.bodies", "plan.branch", "plan.dispatched", "consolidate.swept",
            "consolidate.pushed", "advance.unblocked", "pull.opened", "land.merged", "land.cleaned",
            "act.move-refs.before", "act.move-refs.after", "act.create-issue.after",
            "act.close-milestone.before", "act.set-status.after", "act.start-job.after",
        }  # fmt: skip
        assert wanted <= set(reached)
        assert w.branches() == ["main"]
        assert w.read("main", "shared.txt") == "a and b\ntwo"
        issues = await w.fleet.forge.issues(REPO, milestone=milestone, state="all")
        assert len(issues) == 4
        assert {issue.state for issue in issues} == {"closed"}
        assert sorted(w.runs) == sorted(issue.number for issue in issues)
        for issue in issues:
            keys = [message_key(comment.body) for comment in await w.fleet.forge.comments(REPO, issue.number)]
            assert len(keys) == len(set(keys))


@pytest.mark.req("REV-001", "REV-002", "REV-003", "REV-091", "REV-093", "REV-096")
async def test_the_review_of_the_head_decides_and_a_head_is_reviewed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, monkeypatch, config=CONFIG.replace("review: false", "review: true")) as w:
        w.verdicts = ["changes_requested"]
        made = await w.create({"title": "A"})
        report = await w.settle(made.milestone)
        assert not report.ended
        assert [blocker.code for blocker in report.waiting] == ["review"]
        assert len(w.reviewed) == 1
        # A stranger's word is nothing.
        shown = await show_batch(w.fleet, REPO, made.milestone)
        assert shown.pull
        forged = '<!-- herd:review-result {"version":1,"pr_number":%d,"head_sha":"%s","base_sha":"","status":"approved"'
        body = (forged + ',"cycle":1,"findings_count":0} -->') % (shown.pull.number, w.reviewed[0])
        await w.person("POST", f"/repos/{REPO}/issues/{shown.pull.number}/comments", {"body": body})
        assert not (await w.settle(made.milestone)).ended
        told = await explain(w.fleet, REPO, f"pr:{shown.pull.number}")
        assert [blocker.code for blocker in told.blockers] == ["review"]
        # A new head is reviewed anew, and merged once that is approved.
        w.push(made.branch, made.branch, {"more.txt": "x\n"})
        report = await w.settle(made.milestone)
        assert report.landed
        assert len(w.reviewed) == len(set(w.reviewed)) == 2
        assert w.read("main", "more.txt") == "x"


@pytest.mark.req("BAT-036", "BAT-103", "BAT-193", "BAT-194", "REV-093", "REV-096")
async def test_the_base_comes_in_before_the_pr_opens_conflicts_are_resolved_and_a_person_merges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, monkeypatch, config=CONFIG.replace("auto_merge: true", "auto_merge: false")) as w:
        w.plays["A"] = {"shared.txt": "a\ntwo\n"}
        w.plays["Resolve rebase conflict: Batch onto main"] = {"shared.txt": "a and base\ntwo\n", "base.txt": "b\n"}
        made = await w.create({"title": "A"})
        w.push("main", "main", {"shared.txt": "base\ntwo\n", "base.txt": "b\n"})
        report = await w.settle(made.milestone)
        assert [blocker.code for blocker in report.waiting] == ["auto-merge-off"]
        assert len(w.runs) == 2
        shown = await show_batch(w.fleet, REPO, made.milestone)
        assert shown.pull
        await w.person("PUT", f"/repos/{REPO}/pulls/{shown.pull.number}/merge", {"merge_method": "squash"})
        assert (await w.settle(made.milestone)).landed
        assert w.branches() == ["main"]
        assert w.read("main", "shared.txt") == "a and base\ntwo"


@pytest.mark.req("BAT-218", "BAT-165")
async def test_a_batch_without_any_change_lands_with_a_comment_and_without_a_pr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, monkeypatch) as w:
        w.plays["A"] = {}
        made = await w.create({"title": "A"})
        report = await w.settle(made.milestone)
        assert report.landed, report
        assert "no pull request is needed" in await w.bodies(made.issues[0])
        assert w.branches() == ["main"]
        pulls = await w.person("GET", f"/repos/{REPO}/pulls?state=all")
        assert pulls == []


@pytest.mark.req("BAT-100", "BAT-101", "BAT-227")
async def test_a_failed_task_holds_its_tier_until_a_person_dispatches_or_closes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, monkeypatch) as w:
        w.plays["A"] = w.plays["B"] = None
        made = await w.create({"title": "A"}, {"title": "B"}, LAST)
        report = await w.settle(made.milestone)
        assert {blocker.code for blocker in report.waiting} == {"failed"}
        assert Status.BLOCKED.label in await w.labels(made.issues[2])
        told = await explain(w.fleet, REPO, f"batch:{made.milestone}")
        assert (told.state, len(told.blockers)) == ("stalled", 2)
        del w.plays["A"]
        lines = await dispatch_issues(w.fleet, REPO, issues=[made.issues[0]], lease=Lease.unshared("hand"))
        assert lines
        assert len(await w.fleet.engine.jobs(active_only=True)) == 1
        await w.person("PATCH", f"/repos/{REPO}/issues/{made.issues[1]}", {"state": "closed"})
        report = await w.settle(made.milestone)
        assert report.landed, report
        assert sorted(Counter(w.runs).values()) == [1, 1, 2]
