"""What becomes of an agent's work: harvested, cleaned, validated, marked, pushed, and the push verified (BAT-131)."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Sequence

import msgspec

from droveway.agents import agent_environment
from droveway.core.points import point
from droveway.core.vocabulary import PROGRESS_DIR
from droveway.git import Conflict, Place, Relay, RelayOutcome, conflict_markers
from droveway.work.validation import (
    Check,
    CheckStatus,
    DiskTree,
    Report,
    Result,
    ValidationOutcome,
    errors_text,
    plan,
    run_checks,
)
from droveway.work.worker.agent import harvest, run_command
from droveway.work.worker.branch import Start, errors_path, marker_path, validation_files
from droveway.work.worker.files import with_files, without_progress
from droveway.work.worker.model import Work, WorkerError, trailer

_JSON_LOCKS = ("package-lock.json", "npm-shrinkwrap.json", "composer.lock", "Pipfile.lock")
_TOML_LOCKS = ("Cargo.lock", "poetry.lock", "uv.lock", "pdm.lock")


class Gathered(msgspec.Struct, frozen=True):
    """All that the agent left, as commits in the mirror. ``changed`` are paths, against the batch branch."""

    commit: str
    base: str
    changed: tuple[str, ...]
    removed: tuple[str, ...] = ()


async def gather(work: Work, place: Place, start: Start, *, checkpoint: bool = False, marked: bool = False) -> Gathered:
    """Take what the agent committed and commit what it did not; no file of ours is left in it (BAT-128, BAT-138).

    A ``checkpoint`` preserves, it completes nothing (BAT-172); ``marked``: no agent ran, the marker is our own.
    """
    await harvest(work, place)
    tip = await place.take() or place.start
    subject = "Checkpoint of unfinished work" if checkpoint else work.task.title.strip() or "Work"
    message = f"{subject}\n\nWhat the agent of issue #{work.number} left uncommitted.{trailer(work)}"
    left = await place.commit_leftovers(tip, message, work.user, work.framework, work.now())
    commit = left or tip
    removed = await place.rm_paths_commit(
        commit, "Remove the framework's own files", work.framework, work.framework, work.now()
    )
    commit = removed.commit if removed else commit
    # What an agent says of its own validation is discarded, whatever it says (BAT-154).
    own = [] if marked else await validation_files(work, commit)
    if own:
        commit = await with_files(work, commit, "Remove validation files", add={}, remove=own)
    base = await work.mirror.merge_base(start.batch, commit) or start.batch
    changed = [path for path in await work.mirror.changed_files(base, commit) if not _ours(path)]
    tried = await place.attempted_refs()
    if tried:
        work.notes.append("The agent tried to push other refs, and nothing of it left the gate: " + ", ".join(tried))
    if removed:
        work.notes.append("Removed before the push: " + ", ".join(removed.paths))
    return Gathered(commit, base, tuple(changed), removed.paths if removed else ())


def _ours(path: str) -> bool:
    return path.startswith(f"{PROGRESS_DIR}/") or path == "WORKER_PROGRESS.md"


async def stat(work: Work, gathered: Gathered) -> str:
    """Give the diff stat of the task's work, without the progress files."""
    found: str = await work.mirror.diff_stat(gathered.base, gathered.commit, without=[PROGRESS_DIR])
    return found


def checks_for(work: Work, place: Place, changed: Sequence[str] = ()) -> tuple[Check, ...]:
    """Give the commands for this tree, declared or detected."""
    return plan(work.settings.validation, DiskTree(place.tree), changed)


async def run_setup(work: Work, place: Place) -> None:
    """Run the commands of kind ``setup`` once, before the agent; a failing one fails the attempt as setup (BAT-239)."""
    checks = [check for check in checks_for(work, place) if check.kind == "setup"]
    if not checks:
        return
    report = await _run(work, place, checks, (work.times.agent - work.fleet.clock.now()).total_seconds(), setup=True)
    if report.outcome is ValidationOutcome.SETUP_FAILED:
        names = ", ".join(result.name for result in report.results if result.bad)
        raise WorkerError(
            f"setup failed: {names}",
            next_step="mend the setup command in .herd/config.yml, or what it needs on this machine",
            excerpt=errors_text(report),
        )


async def validate(work: Work, place: Place, start: Start, gathered: Gathered) -> Report:
    """Run the project's checks on the agent's tree, in its sandbox (BAT-139, BAT-151); a resolver's result first."""
    checks = [check for check in checks_for(work, place, gathered.changed) if check.kind != "setup"]
    budget = (work.times.validation - work.fleet.clock.now()).total_seconds()
    report = await _run(work, place, checks, budget)
    if not work.task.front.is_resolver:
        return report
    return Report((*await _resolved(work, start, gathered), *report.results))


async def _run(work: Work, place: Place, checks: Sequence[Check], budget: float, *, setup: bool = False) -> Report:
    path = agent_environment(os.environ, place.root / "home")["PATH"]
    return await run_checks(
        checks,
        place.tree,
        lambda argv, cwd, env, timeout: run_command(work, place, argv, cwd, env, timeout),
        clock=work.fleet.clock,
        budget=budget,
        path=path,
        setup=setup,
    )


def acceptable(work: Work, report: Report) -> bool:
    """Whether the task may finish with this outcome: passed, or none where validation is not required (BAT-150)."""
    if report.outcome is ValidationOutcome.NONE:
        return not work.settings.validation.required
    return report.outcome is ValidationOutcome.PASSED


async def mark(work: Work, gathered: Gathered, report: Report) -> str:
    """Commit the marker after a pass, the errors after a failure, neither after none (BAT-152, BAT-154)."""
    marker, errors = marker_path(work.number), errors_path(work.number)
    if report.outcome is ValidationOutcome.PASSED:
        work.change(validated_tree=await without_progress(work.mirror, gathered.commit))
        return await with_files(work, gathered.commit, "Validation passed", add={marker: b""}, remove=[errors])
    if report.outcome is ValidationOutcome.FAILED:
        text = work.fleet.redactor(errors_text(report)).encode("utf-8", "replace")
        return await with_files(work, gathered.commit, "Validation failed", add={errors: text}, remove=[marker])
    return gathered.commit


async def push(work: Work, relay: Relay, commit: str) -> None:
    """Push, and read back that the forge has it; nothing is reported of a push that was not accepted (BAT-131)."""
    await work.context.lease.check()
    ref = f"refs/heads/{work.orders.branch}"
    result = await relay.push(commit)
    await point("worker.pushed")
    if result.outcome is RelayOutcome.LOST_LEASE:
        raise WorkerError(
            f"somebody else moved the branch {work.orders.branch}: {result.reason}",
            next_step="look at the branch; a retry continues from what is on it now",
        )
    if result.outcome is RelayOutcome.REJECTED:
        raise WorkerError(f"the forge refused the push: {result.reason}", next_step="mend what the forge says")
    found = (await work.mirror.remote_refs(ref)).get(ref)
    if found != commit:
        raise WorkerError(f"the push could not be verified: {ref} is at {found or 'nothing'}, not at {commit}")


async def _resolved(work: Work, start: Start, gathered: Gathered) -> tuple[Result, ...]:
    """Give a failed result where a conflict is not resolved (BAT-193, case G03), and nothing where it is.

    The history must contain the branches to merge, no file that conflicted may hold markers, known lock files parse.
    """
    mirror = work.mirror
    problems: list[str] = []
    for name in work.task.front.conflicting_branches:
        sha = start.readable.get(name)
        if sha is None:
            continue
        if not await mirror.is_ancestor(sha, gathered.commit):
            problems.append(f"the history does not contain {name}: merge it with git merge origin/{name}")
        outcome = await mirror.merge(
            start.batch, sha, message="probe", author=work.framework, committer=work.framework, when=work.now()
        )
        for path in outcome.paths if isinstance(outcome, Conflict) else ():
            content = await mirror.show_file(gathered.commit, path)
            if content is not None and conflict_markers(content):
                problems.append(f"conflict markers are left in {path}")
    for path in gathered.changed:
        problem = _broken_lock(path, await mirror.show_file(gathered.commit, path))
        if problem:
            problems.append(f"{path} does not parse: {problem}; make it anew by its own tool")
    if not problems:
        return ()
    return (Result("conflict resolution", CheckStatus.FAILED, detail=problems[0], output="\n".join(problems)),)


def _broken_lock(path: str, content: bytes | None) -> str:
    name = path.rsplit("/", 1)[-1]
    if content is None or name not in _JSON_LOCKS + _TOML_LOCKS:
        return ""

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        if len({key for key, _ in pairs}) != len(pairs):
            raise ValueError("a key stands twice in one object")
        return dict(pairs)

    try:
        text = content.decode("utf-8")
        if name in _JSON_LOCKS:
            json.loads(text, object_pairs_hook=unique)
        else:
            tomllib.loads(text)
    except ValueError as error:
        return " ".join(str(error).split())[:200]
    return ""


async def already_contained(work: Work, start: Start) -> bool:
    """Whether all that a resolver should merge is gone or in the batch branch already (BAT-158, BAT-185)."""
    if not work.task.front.is_resolver or not work.task.front.conflicting_branches:
        return False
    for name in work.task.front.conflicting_branches:
        sha = start.readable.get(name)
        if sha is not None and not await work.mirror.is_ancestor(sha, start.batch):
            return False
    return True
