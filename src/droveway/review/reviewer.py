"""Asking the reviewer: one run for each chunk, in an empty place that it must leave as it was (REV-029, REV-030)."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import structlog

from droveway.core.repo import RepoId
from droveway.core.settings import Integrator
from droveway.core.text import fence_untrusted
from droveway.review.facts import Context
from droveway.review.model import Chunk, ChunkPlan, ChunkResult, Finding, ReviewerOutput

if TYPE_CHECKING:
    from droveway.engine import JobContext
    from droveway.forge.model import PullRequest
    from droveway.sessions import Fleet, TurnResult

_CHUNK_SECONDS = 600.0  # REV-110
_STRICTNESS = {
    "standard": "Flag bugs, security problems and missing error handling; no style.",
    "strict": "Flag bugs, security problems, missing error handling, style, missing edge cases and code quality.",
    "lenient": "Flag critical bugs and vulnerabilities only.",
}


class Task(msgspec.Struct, frozen=True):
    """What all chunks of one pass share. ``base`` is the merge base."""

    repo: RepoId
    pull: PullRequest
    base: str
    settings: Integrator
    plan: ChunkPlan
    about: Context


class _RawReview(msgspec.Struct):
    """The contract as it is read: ``comments`` is the legacy list of HIGH findings (REV-031)."""

    approved: bool
    summary: str
    findings: list[Finding]
    comments: list[Finding] = []


async def ask_all(fleet: Fleet, context: JobContext, task: Task) -> list[ChunkResult]:
    """Run the reviewer on every chunk, ``review_diff.parallel`` at a time. Raises JobInterruptedError."""
    slots = asyncio.Semaphore(task.settings.review_diff.parallel)

    async def one(chunk: Chunk) -> ChunkResult:
        async with slots:
            return await _ask(fleet, context, task, chunk)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(chunk)) for chunk in task.plan.chunks]
    except* Exception as errors:
        raise errors.exceptions[0] from None
    return [done.result() for done in tasks]


async def _ask(fleet: Fleet, context: JobContext, task: Task, chunk: Chunk) -> ChunkResult:
    """Run the reviewer on one chunk, once more where its run broke (REV-110); read its answer and its traces."""
    from droveway.agents import OutputError
    from droveway.engine import JobInterruptedError

    name = f"review-{task.pull.number}-{task.pull.head_sha[:12]}-{chunk.number}"
    root = fleet.runs(task.repo) / name
    logs = root.with_name(f"{name}.log")
    logs.mkdir(parents=True, exist_ok=True, mode=0o700)
    turn, error = None, ""
    for _ in range(2):
        shutil.rmtree(root, ignore_errors=True)  # what a killed run left of the same chunk
        work = root / "tree"
        work.mkdir(parents=True)
        try:
            turn = await _run(fleet, context, task, chunk, root, logs)
            error = turn.error or str(turn.outcome)
        except OutputError as problem:
            turn, error = None, str(problem)
        finally:
            traces = _traces(work)
            shutil.rmtree(root, ignore_errors=True)
        if traces or (turn is not None and "Read-only file system" in turn.error):
            what = ", ".join(traces) or "its work tree, which is read-only"
            return ChunkResult(chunk.number, error="the reviewer wrote files", breach=f"The reviewer wrote to {what}")
        if context.cancelled.is_set() and (turn is None or not turn.ok):
            raise JobInterruptedError("the job was cancelled")
        if turn is None or not _broke(turn):
            break
    raw = turn.output if turn else None
    if not isinstance(raw, _RawReview):
        structlog.get_logger().warning("reviewer gave no review", chunk=chunk.number, error=error)
        return ChunkResult(chunk.number, error=error)
    legacy = [msgspec.structs.replace(finding, severity="HIGH") for finding in raw.comments]
    findings = tuple(msgspec.convert(msgspec.to_builtins([*raw.findings, *legacy]), tuple[Finding, ...]))
    return ChunkResult(chunk.number, ReviewerOutput(raw.approved, raw.summary, findings))


def _broke(turn: TurnResult) -> bool:
    """Whether the run itself broke, so that a second one may do better; poor output was tried again already."""
    from droveway.sessions import Outcome

    return turn.outcome in (Outcome.TIMED_OUT, Outcome.IDLE, Outcome.FAILED, Outcome.KILLED)


def _traces(work: Path) -> list[str]:
    """Give what a run left in its folder, which was empty: names only, nothing is opened or followed."""
    try:
        names = sorted(os.listdir(work))
    except OSError:
        return ["its work tree, which is gone"]
    return ["`" + "".join(char if char.isprintable() and char != "`" else "?" for char in name) + "`" for name in names]


async def _run(fleet: Fleet, context: JobContext, task: Task, chunk: Chunk, root: Path, logs: Path) -> TurnResult:
    from droveway.agents import Role
    from droveway.sessions import AgentRequest, run_agent

    prompt = _prompt(task, chunk)
    (logs / "prompt.md").write_text(fleet.redactor(prompt), encoding="utf-8", errors="replace")
    request = AgentRequest(
        repo=task.repo,
        role=Role.REVIEWER,
        subject=f"pr:{task.pull.number}",
        title=task.pull.title,
        pull=task.pull.number,
        batch=context.job.args.get("batch"),
        attempt=1,
        job=context.job.id,
        prompt=prompt,
        place=root,
        work_dir=root / "tree",
        deadline=_CHUNK_SECONDS,
        transcript=logs / "transcript.jsonl",
        output_type=_RawReview,
        exactly_one=True,
        read_only=True,
    )
    return await run_agent(fleet, request, context)


def _prompt(task: Task, chunk: Chunk) -> str:
    from droveway.sessions import render_prompt

    about = task.about
    return render_prompt(
        "droveway.review",
        "reviewer",
        pull=task.pull.number,
        title=task.pull.title,
        attempt=1,
        chunk=chunk.number,
        chunks=max(task.plan.needed, len(task.plan.chunks)),
        paths=fence_untrusted(f"{chunk.paths[0]} … {chunk.paths[-1]}", source="the range of paths", limit=4000),
        strictness=_STRICTNESS[task.settings.review_strictness],
        head=task.pull.head_sha,
        base=task.base,
        criteria=about.criteria,
        prior=about.prior,
        verdicts=about.verdicts,
        feedback=about.feedback,
        remarks=about.remarks,
        house=about.house,
        diff="\n\n".join(_shown(piece.path, piece.part, piece.parts, piece.text) for piece in chunk.pieces),
    )


def _shown(path: str, part: int, parts: int, text: str) -> str:
    """Fence one piece of the diff, so that it can't close its own block (REV-011)."""
    named = f"diff of {path}" + (f" (part {part} of {parts})" if parts > 1 else "")
    return fence_untrusted(text, source=named, limit=10_000_000)
