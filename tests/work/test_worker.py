"""The worker's run against the embedded forge, with real git, in the sandbox, played by the scripted agent."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from droveway.core.lease import Lease, LeaseLostError
from droveway.core.vocabulary import Status
from droveway.engine import JobInterruptedError
from droveway.work import read_attempts

from .world import LONG, REPO, open_world, settings

FEATURE = f"""
- steps:
  - write: {{path: .herd/progress/1.md, text: "- [x] write it\\n"}}
  - write: {{path: b.txt, text: "two\\n"}}
  - commit: add b
  - push: true
  - write: {{path: c.txt, text: "three\\n"}}
  - write: {{path: .herd/tmp/scratch, text: "x\\n"}}
  - write: {{path: .herd/review-fixes-1.md, text: "x\\n"}}
  say: "{LONG}"
"""


@pytest.mark.req(
    "BAT-122", "BAT-124", "BAT-128", "BAT-131", "BAT-138", "BAT-152", "BAT-155", "BAT-161", "BAT-162", "BAT-037"
)
async def test_a_task_goes_from_in_progress_to_done_with_its_work_pushed_and_told(tmp_path: Path) -> None:
    async with open_world(tmp_path, FEATURE) as world:
        number = await world.issue("One")
        result = await world.work(number)
        branch = world.branch(number)
        assert result == {
            "outcome": "success",
            "attempt": 1,
            "issue": number,
            "head": world.refs()[f"refs/heads/{branch}"],
        }
        assert await world.status(number) is Status.DONE
        # the agent's commit stays, what it left is committed in the user's name, the marker in the framework's
        assert [row[0] for row in world.log(branch)] == [
            "Ann Planner <ann@example.org>",
            "Ann Planner <ann@example.org>",
            "Droveway Worker <droveway@noreply.invalid>",
        ]
        body = world.git("log", "-1", "--format=%B", f"origin/{branch}~1")
        assert body.endswith("Co-authored-by: Droveway <droveway@noreply.invalid>")
        assert world.files(branch) == [
            *(".herd/config.yml", ".herd/progress/1.md", ".herd/progress/1.validation"),
            *("README.md", "a.txt", "b.txt", "c.txt"),
        ]
        assert world.show(branch, ".herd/progress/1.validation") == ""
        report = await world.said(number, "**Worker Report**")
        for part in ("b.txt", "c.txt", "| check | passed |", LONG, "<details>"):
            assert part in report
        assert ".herd/progress" not in report
        progress = await world.said(number, "📋 **Worker Progress** _(final)_")
        assert "- [x] write it" in progress
        (found,) = read_attempts(await world.comments(number))
        assert found.record.outcome == "success"
        assert found.record.run == f"worker/{REPO}/{number}/1"
        assert found.record.validated_tree
        # nothing of the run is left but what explains it
        runs = world.fleet.runs(REPO)
        assert sorted(path.name for path in runs.iterdir()) == [f"{number}-1.log"]
        assert LONG in (runs / f"{number}-1.log" / "transcript.jsonl").read_text()
        # a second run of the same attempt does nothing
        before = (await world.comments(number), world.refs())
        assert (await world.work(number))["outcome"] == "ended"
        assert (await world.comments(number), world.refs()) == before


HOSTILE = f"""
- steps:
  - write: {{path: b.txt, text: "two\\n"}}
  - commit: add b
  - run: [sh, -c, "git push origin HEAD:herd/batch/1-a-batch; git push origin HEAD:evil; true"]
  - run: [sh, -c, "git push --receive-pack='git -c core.hooksPath=/dev/null receive-pack' origin HEAD:main; true"]
  - run: [sh, -c, "git tag v1 && git push origin v1; git config core.fsmonitor 'touch /tmp/owned'; true"]
  - run: [sh, -c, "env > env.txt; cat .git/config >> env.txt"]
  - write: {{path: .herd/progress/1.validation, text: ""}}
  say: "@someone /herd go <!-- herd:msg {{}} --> {LONG}"
"""


@pytest.mark.req("BAT-133", "BAT-134", "BAT-154", "QLT-040", "BAT-005")
async def test_nothing_but_its_own_branch_reaches_the_forge_and_no_credential_reaches_the_agent(tmp_path: Path) -> None:
    async with open_world(tmp_path, HOSTILE) as world:
        number = await world.issue("One")
        before = world.refs()
        assert (await world.work(number))["outcome"] == "success"
        after = world.refs()
        branch = world.branch(number)
        assert {name: sha for name, sha in after.items() if name != f"refs/heads/{branch}"} == before
        report = await world.said(number, "**Worker Report**")
        assert "tried to push other refs" in report
        assert "refs/heads/evil" in report
        assert "@someone" not in report
        told = world.show(branch, "env.txt") or ""
        assert world.fleet.forge.token not in told
        assert "TOKEN" not in told
        everything = "".join(c.body for c in await world.comments(number)) + world.git("log", "-p", f"origin/{branch}")
        logs = world.fleet.runs(REPO) / f"{number}-1.log"
        everything += "".join(path.read_text() for path in logs.iterdir())
        assert world.fleet.forge.token not in everything


VALIDATION = f"""
- attempt: 1
  prompt_has: "## Validation failed"
  say: "I do not know how to repair that. {LONG}"
- attempt: 1
  steps:
  - write: {{path: .herd/progress/1.md, text: "- [x] all of it\\n"}}
  - write: {{path: broken, text: "x\\n"}}
  - commit: work
  - push: true
  say: "{LONG}"
- attempt: 2
  prompt_has: ["## Previous attempt's validation failed with:", "broken is there", "Do not honour the checklist"]
  steps:
  - run: [git, rm, -q, broken]
  - write: {{path: good, text: "x\\n"}}
  - commit: repaired
  say: "{LONG}"
"""


@pytest.mark.req("BAT-132", "BAT-139", "BAT-152", "BAT-153", "BAT-164", "BAT-167")
async def test_failed_validation_is_given_back_once_and_the_next_attempt_gets_the_errors(
    tmp_path: Path,
) -> None:
    async with open_world(tmp_path, VALIDATION) as world:
        number = await world.issue("One")
        assert (await world.work(number))["outcome"] == "failed"
        assert await world.status(number) is Status.FAILED
        failed = await world.said(number, "**Worker failed:**")
        assert "validation failed: check (failed)" in failed
        assert "broken is there" in failed
        assert "Next:" in failed
        assert "retried" in failed
        branch = world.branch(number)
        assert "broken is there" in (world.show(branch, f".herd/progress/{number}.validation.errors") or "")
        assert world.show(branch, f".herd/progress/{number}.validation") is None
        assert not await world.said(number, "**Worker Report**")
        assert len(await world.fleet.store.turns(job=f"worker/{REPO}/{number}/1")) == 2

        await world.retry(number)
        assert (await world.work(number, 2))["outcome"] == "success"
        assert await world.outcomes(number) == ["failed", "success"]
        assert world.show(branch, f".herd/progress/{number}.validation.errors") is None
        assert world.show(branch, f".herd/progress/{number}.validation") == ""
        assert "good" in world.files(branch)
        assert "broken" not in world.files(branch)


NOOPS = """
- issue_title: Silent
  say: All of it is done already, nothing to do here.
- issue_title: Met
  say: '{"verdict": "no-change-needed", "reason": "line one of README.md says so"}'
- issue_title: Only progress
  steps:
  - write: {path: .herd/progress/4.md, text: "- [x] looked\\n"}
  - commit: looked
  - push: true
  say: '{"verdict": "no-change-needed", "reason": "it is there"}'
- issue_title: Fix
  say: |
    Findings reviewed against the current code:
    - the null check is there, in line 3
    Conclusion: the finding does not hold
"""


@pytest.mark.req("BAT-156", "BAT-157", "BAT-158", "W07")
async def test_no_change_is_done_with_evidence_and_failed_without(tmp_path: Path) -> None:
    async with open_world(tmp_path, NOOPS) as world:
        silent = await world.issue("Silent")
        assert (await world.work(silent))["outcome"] == "failed"
        assert await world.status(silent) is Status.FAILED
        world.push(world.batch, {"x": "1"})
        pull = await world.fleet.forge.create_pull(REPO, title="[herd] A batch", body="", head=world.batch, base="main")

        met = await world.issue("Met")
        assert (await world.work(met))["outcome"] == "noop"
        assert await world.status(met) is Status.DONE
        assert "No changes were needed" in await world.said(met, "**Worker Report**")
        assert f"Worker #{met} (no-op): No changes needed." in await world.said(pull.number, f"Worker #{met}")

        quiet = await world.issue("Only progress")
        world.push(f"herd/worker/{quiet}-only-progress", {f".herd/progress/{quiet}.md": "- [ ] x"}, onto=world.batch)
        assert (await world.work(quiet))["outcome"] == "noop"

        fix = await world.issue("Fix", type="fix", fix_cycle=1)
        assert (await world.work(fix))["outcome"] == "noop"
        verdict = await world.said(pull.number, f"**Worker #{fix} — no-op verdict**")
        assert "the finding does not hold" in verdict
        assert not [name for name in world.refs() if "herd/worker" in name]


SLOW = """
- attempt: 1
  steps:
  - write: {path: first.txt, text: "1\\n"}
  - commit: first
  - write: {path: half.txt, text: "2\\n"}
  - run: [sh, -c, "trap '' TERM; setsid sh -c 'sleep 300' & sleep 300"]
- attempt: 2
  steps:
  - write: {path: rest.txt, text: "3\\n"}
  - commit: rest
  say: I went on from the checkpoint and finished the rest.
"""


@pytest.mark.req("BAT-168", "BAT-169", "BAT-171", "BAT-172", "BAT-230", "BAT-231")
async def test_the_inner_deadline_leaves_a_checkpoint_from_which_a_retry_goes_on(tmp_path: Path) -> None:
    async with open_world(tmp_path, SLOW) as world:
        number = await world.issue("One")
        assert (await world.work(number, minutes=0.1))["outcome"] == "timed_out"
        assert await world.status(number) is Status.FAILED
        assert await world.outcomes(number) == ["timed_out"]
        branch = world.branch(number)
        assert {"first.txt", "half.txt"} <= set(world.files(branch))
        assert f".herd/progress/{number}.validation" not in world.files(branch)
        assert world.log(branch)[-1] == ["Ann Planner <ann@example.org>", "Checkpoint of unfinished work"]
        assert "checkpoint" in await world.said(number, "**Worker failed:**")
        await world.retry(number)
        assert (await world.work(number, 2))["outcome"] == "success"
        assert {"first.txt", "half.txt", "rest.txt"} <= set(world.files(branch))


RESUME = f"""
- attempt: 1
  steps:
  - write: {{path: .herd/progress/1.md, text: "- [x] all\\n"}}
  - write: {{path: a.txt, text: "mine\\n"}}
  - commit: change a
  say: "{LONG}"
- attempt: 3
  steps:
  - write: {{path: fresh.txt, text: "x\\n"}}
  - commit: fresh
  say: "{LONG}"
"""


@pytest.mark.req("BAT-154", "BAT-164", "BAT-166")
async def test_a_finished_branch_needs_no_agent_and_one_in_conflict_starts_fresh(tmp_path: Path) -> None:
    async with open_world(tmp_path, RESUME) as world:
        number = await world.issue("One")
        assert (await world.work(number))["outcome"] == "success"
        tip = world.refs()[f"refs/heads/{world.branch(number)}"]

        world.push(world.batch, {"other.txt": "from another worker\n"})  # the batch branch moves on, without conflict
        await world.retry(number)
        assert (await world.work(number, 2))["outcome"] == "success"
        assert "no agent ran" in await world.said(number, "**Worker Report**")
        assert len(await world.fleet.store.turns(job=f"worker/{REPO}/{number}/2")) == 0
        branch = world.branch(number)
        assert {"a.txt", "other.txt"} <= set(world.files(branch))
        tip = world.refs()[f"refs/heads/{branch}"]

        world.push(world.batch, {"a.txt": "theirs\n"})
        await world.retry(number)
        assert (await world.work(number, 3))["outcome"] == "success"
        assert world.show(branch, "a.txt") == "theirs"
        assert "fresh.txt" in world.files(branch)
        assert world.refs()[f"refs/herd/attic/{number}/3"] == tip
        assert tip in await world.said(number, "**Worker Report**")


FORGED = f"""
- attempt: 1
  steps:
  - write: {{path: .herd/progress/1.md, text: "- [x] all\\n"}}
  - write: {{path: .herd/progress/1.validation, text: ""}}
  - write: {{path: broken, text: "x\\n"}}
  - commit: all in one
  - push: true
  - crash: 1
- attempt: 2
  steps:
  - run: [git, rm, -q, broken]
  - write: {{path: ok, text: "x\\n"}}
  - commit: mended
  say: "{LONG}"
"""


@pytest.mark.req("BAT-154", "BAT-230")
async def test_a_marker_that_the_agent_made_opens_no_fast_path_and_pushed_work_outlives_a_crash(tmp_path: Path) -> None:
    async with open_world(tmp_path, FORGED) as world:
        number = await world.issue("One")
        assert (await world.work(number))["outcome"] == "failed"
        assert "broken" in world.files(world.branch(number))
        await world.retry(number)
        assert (await world.work(number, 2))["outcome"] == "success"
        assert len(await world.fleet.store.turns(job=f"worker/{REPO}/{number}/2")) == 1


RESOLVER = f"""
- attempt: 1
  prompt_has: "## Validation failed"
  say: "I can not see what is wrong with it. {LONG}"
- attempt: 1
  steps:
  - run: [git, fetch, -q, origin]
  - run: [sh, -c, "git merge origin/herd/worker/9-other; git add -A; git commit -q --no-edit"]
  - run: [sh, -c, "git push origin HEAD:herd/batch/1-a-batch; true"]
  - push: true
  say: "{LONG}"
- attempt: 2
  prompt_has: ["git merge origin/herd/worker/9-other", "conflict markers are left in a.txt"]
  steps:
  - write: {{path: a.txt, text: "both\\n"}}
  - commit: resolved
  say: "{LONG}"
- attempt: 3
  say: "{LONG}"
"""


@pytest.mark.req("BAT-135", "BAT-186", "BAT-192", "BAT-193", "G03")
async def test_a_resolver_merges_on_its_own_branch_and_leaves_no_marker(tmp_path: Path) -> None:
    async with open_world(tmp_path, RESOLVER) as world:
        world.push("herd/worker/9-other", {"a.txt": "nine\n"}, onto=world.batch)
        world.push(world.batch, {"a.txt": "batch\n"})
        batch = world.refs()[f"refs/heads/{world.batch}"]
        front = {"type": "fix", "conflict_resolution": True, "conflicting_branches": ("herd/worker/9-other",)}
        number = await world.issue("Resolve conflict", **front)
        assert (await world.work(number))["outcome"] == "failed"
        assert "conflict markers are left in a.txt" in await world.said(number, "**Worker failed:**")
        await world.retry(number)
        assert (await world.work(number, 2))["outcome"] == "success"
        branch = world.branch(number)
        assert world.show(branch, "a.txt") == "both"
        world.git("merge-base", "--is-ancestor", "origin/herd/worker/9-other", f"origin/{branch}")
        assert world.refs()[f"refs/heads/{world.batch}"] == batch
        # where all is contained already, it closes itself
        world.git("push", "-q", "origin", f"origin/{branch}:refs/heads/{world.batch}")
        late = await world.issue("Resolve conflict again", **front)
        assert (await world.work(late, 3))["outcome"] == "noop"
        issue = await world.fleet.forge.issue(REPO, late)
        assert issue
        assert issue.state == "closed"


@pytest.mark.req("BAT-125", "BAT-027", "BAT-132")
async def test_an_issue_that_can_not_be_worked_on_is_failed_in_words_and_starts_no_agent(tmp_path: Path) -> None:
    async with open_world(tmp_path, FEATURE) as world:
        loose = await world.issue("Loose", milestone=False)
        broken = await world.issue("Broken")
        await world.fleet.forge.edit_issue(REPO, broken, body="---\nherd: [\n---\n\n## Task\n\nx\n")
        for number, words in ((loose, "belongs to no milestone"), (broken, "front matter can't be read")):
            assert (await world.work(number))["outcome"] == "ended"
            assert await world.status(number) is Status.FAILED
            assert words in await world.said(number, "**Worker failed:**")
        assert await world.fleet.store.tasks(str(REPO)) == []


@pytest.mark.req("BAT-132", "P05")
@pytest.mark.parametrize("change", ["closed", "cancelled", "done"])
async def test_an_issue_that_needs_no_worker_any_more_is_left_as_it_is(tmp_path: Path, change: str) -> None:
    async with open_world(tmp_path, FEATURE) as world:
        number = await world.issue("One", status=Status(change) if change != "closed" else Status.IN_PROGRESS)
        if change == "closed":
            await world.fleet.forge.edit_issue(REPO, number, state="closed")
        before = world.refs()
        assert (await world.work(number))["outcome"] == "ended"
        assert world.refs() == before
        assert await world.comments(number) == ()


PUSHES = """
- steps:
  - write: {path: b.txt, text: "two"}
  - commit: add b
  - push: true
  - sleep: 300
"""


@pytest.mark.req("BAT-132", "BAT-137", "ENG-004")
async def test_what_is_pushed_is_relayed_at_once_and_a_lost_lease_or_cancelled_job_has_no_further_effect(
    tmp_path: Path,
) -> None:
    async with open_world(tmp_path, PUSHES) as world:
        number = await world.issue("One")
        cancelled = asyncio.Event()

        async def cancel() -> None:
            while not any("herd/worker" in name for name in await asyncio.to_thread(world.refs)):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            cancelled.set()

        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(cancel())
            with pytest.raises(JobInterruptedError):
                await world.work(number, cancelled=cancelled)
        assert await world.status(number) is Status.IN_PROGRESS
        assert await world.outcomes(number) == ["-"]

        async def lost() -> bool:
            return False

        other = await world.issue("Two")
        with pytest.raises(LeaseLostError):
            await world.work(other, lease=Lease("x", 1, lost))
        assert await world.comments(other) == ()
        assert await world.status(other) is Status.IN_PROGRESS


@pytest.mark.req("BAT-136", "BAT-131")
async def test_a_branch_that_somebody_else_moved_is_reported_and_not_overwritten(tmp_path: Path) -> None:
    async with open_world(tmp_path, f"""
- steps:
  - write: {{path: b.txt, text: "two\\n"}}
  - commit: add b
  - run: [sh, -c, "while ! test -e go; do sleep 0.05; done; rm go"]
  say: "{LONG}"
""") as world:  # fmt: skip
        number = await world.issue("One")

        async def intrude() -> str:
            tree = world.fleet.runs(REPO) / f"{number}-1" / "tree"
            while not (tree / "b.txt").exists():  # noqa: ASYNC110 - a file has no event
                await asyncio.sleep(0.02)
            sha = await asyncio.to_thread(world.push, f"herd/worker/{number}-one", {"z": "1"}, onto=world.batch)
            (tree / "go").touch()
            return sha

        async with asyncio.TaskGroup() as group:
            moved = group.create_task(intrude())
            result = await world.work(number)
        assert result["outcome"] == "failed"
        assert "somebody else moved the branch" in await world.said(number, "**Worker failed:**")
        assert world.refs()[f"refs/heads/herd/worker/{number}-one"] == moved.result()
        assert not await world.said(number, "**Worker Report**")


@pytest.mark.req("BAT-239", "BAT-150")
async def test_setup_runs_before_the_agent_and_nothing_proved_is_said_so(tmp_path: Path) -> None:
    commands = [{"name": "install", "run": ["sh", "-c", "exit $(cat rc)"], "kind": "setup"}]
    raw = settings(validation={"commands": commands})
    async with open_world(tmp_path, FEATURE, raw=raw, files={"rc": "0\n", ".gitignore": "x\n"}) as world:
        number = await world.issue("One")
        assert (await world.work(number))["outcome"] == "success"
        report = await world.said(number, "**Worker Report**")
        assert "Nothing was validated" in report
        assert f".herd/progress/{number}.validation" not in world.files(world.branch(number))
        world.push(world.batch, {"rc": "4\n"})
        bad = await world.issue("Two")
        assert (await world.work(bad))["outcome"] == "failed"
        assert "setup failed: install" in await world.said(bad, "**Worker failed:**")
        assert await world.fleet.store.turns(job=f"worker/{REPO}/{bad}/1") == []


@pytest.mark.req("BAT-174")
async def test_an_agent_that_says_nothing_twice_is_not_done(tmp_path: Path) -> None:
    async with open_world(tmp_path, '- {say: ""}') as world:
        number = await world.issue("One")
        assert (await world.work(number))["outcome"] == "failed"
        assert await world.status(number) is Status.FAILED
        assert "next to nothing" in await world.said(number, "**Worker failed:**")
        assert len(await world.fleet.store.turns(job=f"worker/{REPO}/{number}/1")) == 2


@pytest.mark.req("BAT-129", "BAT-031")
async def test_the_prompt_holds_the_whole_of_a_long_body_and_the_projects_own_advice(tmp_path: Path) -> None:
    from droveway.core.decisions import CreateIssue, Decision
    from droveway.core.vocabulary import TYPE_FEATURE
    from droveway.work import FrontMatter, make_body, render_body

    async with open_world(tmp_path, FEATURE, files={"README.md": "x", ".herd/worker.md": "Use tabs."}) as world:
        body = render_body(make_body(FrontMatter(batch=world.milestone), task="word\n" * 30_000 + "the very last line"))
        labels = (Status.IN_PROGRESS.label, TYPE_FEATURE)
        action = CreateIssue(str(REPO), f"BAT-021/{REPO}/batch:1/-/0", "One", body, labels, world.milestone)
        decision = Decision("BAT-021", str(REPO), "batch:1", actions=(action,))
        outcome = await world.fleet.actuator.act(decision, Lease.unshared("x"), loop="test")
        receipt = outcome.receipt(CreateIssue)
        assert receipt
        assert receipt.number
        assert (await world.work(receipt.number))["outcome"] == "success"
        prompt = world.prompt(receipt.number)
        assert "the very last line" in prompt
        assert prompt.startswith(f"Role: worker\nIssue: #{receipt.number} One\nAttempt: 1\n")
