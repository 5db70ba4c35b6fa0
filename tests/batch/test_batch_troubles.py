"""Lost races, refusals, people who interfere, ends before the merge."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from droveway.batch import (
    batch_of,
    batches,
    cancel_batch,
    dispatch_issues,
    explain,
    integrate_step,
    pause_batch,
    show_batch,
)
from droveway.core import points
from droveway.core.errors import HerdError, InputError
from droveway.core.jobs import JobState
from droveway.core.lease import Lease
from droveway.core.vocabulary import Status

from .world import CONFIG, REPO, git, world

HAND = Lease.unshared("hand")


@pytest.mark.req("BAT-183")
async def test_a_lost_race_is_redone_on_a_fresh_fetch_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, monkeypatch) as w:
        made = await w.create({"title": "A"}, {"title": "B"})
        for job in await w.fleet.engine.jobs(active_only=True):
            await w.fleet.engine.wait(job.id)
        raced = [2]

        def sync_point(name: str) -> None:
            if name == "consolidate.swept" and raced[0]:
                raced[0] -= 1
                w.push(made.branch, made.branch, {f"race-{raced[0]}.txt": "x\n"})

        monkeypatch.setattr(points, "sync_point", sync_point)
        report = await w.settle(made.milestone)
        assert report.landed, report
        assert raced == [0]
        place = w.clone("main")
        assert {"race-0.txt", "race-1.txt", "out"} <= {path.name for path in place.iterdir()}
        assert Status.DONE.label in await w.labels(made.issues[0])


@pytest.mark.req("BAT-183", "BAT-182")
async def test_a_race_that_is_always_lost_puts_the_issues_back_to_failed_and_their_branches_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, monkeypatch) as w:
        made = await w.create({"title": "A"})
        for job in await w.fleet.engine.jobs(active_only=True):
            await w.fleet.engine.wait(job.id)

        def sync_point(name: str) -> None:
            if name == "consolidate.swept":
                w.push(made.branch, made.branch, {"race.txt": f"{w.fleet.ids.new()}\n"})

        monkeypatch.setattr(points, "sync_point", sync_point)
        report = await w.cycle(made.milestone)
        assert {blocker.code for blocker in report.waiting} == {"failed"}
        assert Status.FAILED.label in await w.labels(made.issues[0])
        assert "Push rejected" in await w.bodies(made.issues[0])
        assert any(name.startswith("herd/worker/") for name in w.branches())


@pytest.mark.req("BAT-190", "BAT-181", "BAT-184", "G01")
async def test_a_rename_to_two_names_is_told_with_all_paths_and_a_person_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = CONFIG.replace("review: false", "review: false, on_conflict: notify")
    async with world(tmp_path, monkeypatch, config=config, files={"old.txt": "1\n2\n3\n4\n"}) as w:
        w.plays["A"] = {"old.txt": None, "left.txt": "1\n2\n3\n4\n"}
        w.plays["B"] = {"old.txt": None, "right.txt": "1\n2\n3\n4\n"}
        made = await w.create({"title": "A"}, {"title": "B"})
        report = await w.settle(made.milestone)
        assert {blocker.code for blocker in report.waiting} == {"failed"}
        said = await w.bodies(made.issues[1])
        for name in ("old.txt", "left.txt", "right.txt"):
            assert name in said
        assert w.read(made.branch, "left.txt") == "1\n2\n3\n4"
        issues = await w.fleet.forge.issues(REPO, milestone=made.milestone, state="all")
        assert len(issues) == 2
        await w.person("PATCH", f"/repos/{REPO}/issues/{made.issues[1]}", {"state": "closed"})
        assert (await w.settle(made.milestone)).landed


@pytest.mark.req("BAT-224", "BAT-225", "BAT-223", "BAT-228", "CMD-033", "CMD-034")
async def test_cancelling_ends_one_batch_for_good_and_leaves_the_other_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, monkeypatch, config=CONFIG.replace("auto_merge: true", "auto_merge: false")) as w:
        w.held = asyncio.Event()
        one = await w.create({"title": "A"}, {"title": "B", "depends_on": [0]}, plan_id="one")
        two = await w.create({"title": "C"}, plan_id="two")
        assert await pause_batch(w.fleet, REPO, one.milestone, paused=True, lease=HAND)
        assert "paused" in {blocker.code for blocker in (await w.cycle(one.milestone)).waiting}
        assert await pause_batch(w.fleet, REPO, one.milestone, paused=False, lease=HAND)
        assert "paused" not in {blocker.code for blocker in (await w.cycle(one.milestone)).waiting}
        assert await cancel_batch(w.fleet, REPO, one.milestone, HAND)
        jobs = {job.args["issue"]: job.state for job in await w.fleet.engine.jobs(kind="worker")}
        assert jobs[two.issues[0]] is JobState.RUNNING
        assert await w.labels(one.issues[1]) >= {Status.CANCELLED.label}
        assert not any(name.startswith(f"herd/batch/{one.milestone}-") for name in w.branches())
        w.held.set()
        assert (await w.cycle(one.milestone)).ended
        with pytest.raises(InputError, match="ended"):
            await cancel_batch(w.fleet, REPO, one.milestone, HAND)
        with pytest.raises(HerdError, match="closed"):
            await dispatch_issues(w.fleet, REPO, batch=one.milestone, lease=HAND)

        # The other: its PR is closed unmerged.
        report = await w.settle(two.milestone)
        assert [blocker.code for blocker in report.waiting] == ["auto-merge-off"]
        shown = await show_batch(w.fleet, REPO, two.milestone)
        assert shown.pull
        assert [(b.number, b.state, b.total, b.done) for b in await batches(w.fleet, REPO)] == [
            (two.milestone, "in review", 1, 1)
        ]
        await w.person("PATCH", f"/repos/{REPO}/pulls/{shown.pull.number}", {"state": "closed"})
        assert (await w.settle(two.milestone)).cancelled
        assert w.branches() == ["main"]
        every = await batches(w.fleet, REPO, every=True)
        assert {b.number: b.state for b in every} == {one.milestone: "cancelled", two.milestone: "cancelled"}


@pytest.mark.req("X04")
async def test_the_base_may_be_renamed_while_the_batch_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(tmp_path, monkeypatch, branch="master") as w:
        made = await w.create({"title": "A"}, {"title": "B", "depends_on": [0]})
        place = w.clone("master")
        git(place, "push", "-q", "origin", "HEAD:refs/heads/main")
        await w.person("PATCH", f"/repos/{REPO}", {"default_branch": "main"})
        git(place, "push", "-q", "origin", ":refs/heads/master")
        report = await w.settle(made.milestone)
        assert report.landed, report
        assert w.branches() == ["main"]
        assert (w.clone("main") / "out").exists()


@pytest.mark.req("BAT-106", "BAT-027", "BAT-099", "CLI-005", "REV-100")
async def test_slots_unreadable_bodies_and_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = CONFIG + "\nworkers: {max_concurrent: 2}\n"
    async with world(tmp_path, monkeypatch, config=config) as w:
        w.held = asyncio.Event()
        made = await w.create(*({"title": name} for name in "ABC"))
        assert len(await w.fleet.engine.jobs(active_only=True)) == 2
        told = await explain(w.fleet, REPO, str(made.issues[2]))
        assert [blocker.code for blocker in told.blockers] == ["no-slot"]
        broken = "---\nherd: {depends_on: [999]}\n---\n## Task\nx\n"
        await w.person("PATCH", f"/repos/{REPO}/issues/{made.issues[2]}", {"body": broken})
        w.held.set()
        report = await w.settle(made.milestone)
        assert [blocker.code for blocker in report.waiting] == ["unreadable"]
        said = await w.bodies(made.issues[2])
        assert said.count("Unreadable task") == 1
        assert "#999" in said
        for subject in ("batch:99", "nonsense", "77"):
            with pytest.raises(InputError):
                await explain(w.fleet, REPO, subject)


@pytest.mark.req("BAT-180", "BAT-189", "BAT-176")
async def test_a_consolidation_costs_the_same_for_one_branch_and_for_four(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = CONFIG + "\nworkers: {max_concurrent: 9}\n"
    async with world(tmp_path, monkeypatch, config=config) as w:
        costs = []
        for count in (1, 4):
            made = await w.create(*({"title": f"T{n}"} for n in range(count)), plan_id=f"p{count}")
            for job in await w.fleet.engine.jobs(active_only=True):
                await w.fleet.engine.wait(job.id)
            w.forge.reset_counters()
            first = await w.fleet.engine.jobs(kind="worker")
            number = await batch_of(w.fleet, REPO, run_id=first[-1].id)
            assert number == made.milestone
            w.forge.reset_counters()
            report = await integrate_step(w.fleet, REPO, number, "consolidate", HAND)
            assert report.acted
            costs.append(
                {name: n for name, n in w.forge.counters().items() if "token" not in name and "304" not in name}
            )
            place = w.clone(made.branch)
            assert len(git(place, "log", "--merges", "--format=%s").splitlines()) == count
        assert costs[0] == costs[1]
        assert costs[0]["POST /graphql"] == 1
