"""The review job: observe, ask the reviewer chunk by chunk, decide, act (one pass of one head of one PR)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from droveway.core.decisions import CreateIssue, Decision, EditIssue, SetCommitStatus
from droveway.core.keys import Key
from droveway.core.points import point
from droveway.core.repo import RepoId
from droveway.core.vocabulary import REVIEW_CONTEXT, worker_branch
from droveway.review import texts
from droveway.review.chunks import material_gaps, plan_chunks
from droveway.review.facts import batch_context, our_results, posted_result, read_diff, told
from droveway.review.findings import aggregate
from droveway.review.model import ChunkPlan, DiffSet, ReviewResult
from droveway.review.reviewer import Task, ask_all
from droveway.review.rules import (
    ReviewFacts,
    finish_decision,
    fix_decision,
    pass_key,
    result_decision,
    stale_decision,
    verdict,
    wanted_fixes,
)
from droveway.work import FrontMatter, IssueBody, make_body, parse_body, render_body

if TYPE_CHECKING:
    from droveway.engine import JobContext
    from droveway.sessions import Fleet


async def run_review(fleet: Fleet, context: JobContext) -> dict[str, Any]:
    """Review ``args: {repo, pull, batch, head}``. The end is one result comment for that head, or nothing at all.

    Gives ``{"status": …}``: a review status, or ``stale`` where the PR moved on, ``waiting`` where fixes are active.
    """
    args = context.job.args
    repo, number, head = RepoId.parse(args["repo"]), int(args["pull"]), str(args["head"])
    batch = args.get("batch")
    pull = await fleet.forge.pull(repo, number)
    if pull is None or not pull.open or pull.head_sha != head:
        return {"status": "stale"}
    comments = await fleet.forge.comments(repo, number)
    settings = await fleet.settings(repo)
    turn = _round(context.job.id, our_results(comments))
    done = posted_result(comments, pass_key("REV-049", str(repo), number, head, turn))
    if done is not None:
        await fleet.actuator.act(finish_decision(str(repo), turn, done), context.lease, loop="review")
        return {"status": done.status.value, "findings": done.findings_count}
    mine = pass_key("REV-064", str(repo), number, head, turn)
    criteria, fixes, active = await batch_context(fleet, repo, batch, number, mine) if batch else ((), (), ())
    if active:
        return {"status": "waiting", "fixes": list(active)}
    await _pending(fleet, context, repo, number, head)
    mirror = await fleet.mirror(repo)
    diff, base = await read_diff(mirror, pull, settings)
    plan = plan_chunks(diff, settings.integrator.review_diff)
    about = await told(fleet, repo, comments, criteria)
    results = await ask_all(fleet, context, Task(repo, pull, base, settings.integrator, plan, about))
    await point("review.asked")
    facts = ReviewFacts(
        repo=str(repo),
        pull=number,
        batch=batch,
        head=head,
        base=base,
        round=turn,
        now=fleet.clock.now(),
        settings=settings.integrator,
        aggregate=aggregate(results, frozenset(file.path for file in diff.files)),
        plan=plan,
        gaps=_gaps(diff, plan),
        fixes=fixes,
        files=len(diff.files),
        source=diff.source,
        warnings=diff.warnings,
    )
    again = await fleet.forge.pull(repo, number)
    if again is None or not again.open or again.head_sha != head:  # REV-054, REV-113
        if again is not None and again.open:
            await fleet.actuator.act(stale_decision(facts, again.head_sha), context.lease, loop="review")
        return {"status": "stale"}
    await _post(fleet, context, repo, facts)
    return {"status": verdict(facts).value, "findings": len(facts.aggregate.findings)}


def _round(job_id: str, results: tuple[ReviewResult, ...]) -> int:
    """Give the pass that the job's id ends with; a job from elsewhere counts the results so far."""
    last = job_id.rsplit("/", 1)[-1]
    return int(last) if last.isdigit() else len(results)


def _gaps(diff: DiffSet, plan: ChunkPlan) -> tuple[str, ...]:
    gaps = material_gaps(diff, plan)
    return gaps if diff.complete else (*gaps, "(the list of files is incomplete)")


async def _pending(fleet: Fleet, context: JobContext, repo: RepoId, number: int, head: str) -> None:
    key = Key("REV-058", str(repo), f"pr:{number}", head, "pending")
    action = SetCommitStatus(str(repo), str(key), head, REVIEW_CONTEXT, "pending", "review is running")
    decision = Decision(
        "REV-058", str(repo), f"pr:{number}", facts=("the review starts",), actions=(action,), head=head
    )
    await fleet.actuator.act(decision, context.lease, loop="review")


async def _post(fleet: Fleet, context: JobContext, repo: RepoId, facts: ReviewFacts) -> None:
    """Create the fix issue first, then the comment that names it (REV-065); each found again by its key (REV-055)."""
    fix_issue: int | None = None
    body = render_body(_fix_body(facts))
    decision = fix_decision(facts, body)
    if decision is not None:
        outcome = await fleet.actuator.act(decision, context.lease, loop="review")
        receipt = outcome.receipt(CreateIssue)
        fix_issue = receipt.number if receipt else None
        await point("review.fix-created")
        if fix_issue is not None:
            await _name_branch(fleet, context, repo, facts, fix_issue)
    await fleet.actuator.act(result_decision(facts, fix_issue), context.lease, loop="review")
    await point("review.posted")


async def _name_branch(fleet: Fleet, context: JobContext, repo: RepoId, facts: ReviewFacts, number: int) -> None:
    """Write the worker branch into the new issue's body: every later step reads it from there (BAT-025)."""
    issue = await fleet.forge.issue(repo, number)
    body = parse_body(issue.body) if issue else None
    if issue is None or not isinstance(body, IssueBody) or body.front.branch:
        return
    front = msgspec.structs.replace(body.front, branch=worker_branch(number, issue.title))
    edit = EditIssue(
        facts.repo,
        str(Key("BAT-025", facts.repo, f"issue:{number}")),
        number,
        body=render_body(msgspec.structs.replace(body, front=front, block="")),
        expected_body=issue.body,
    )
    decision = Decision(
        "BAT-025", facts.repo, f"issue:{number}", facts=("a new issue has its branch",), actions=(edit,)
    )
    await fleet.actuator.act(decision, context.lease, loop="review")


def _fix_body(facts: ReviewFacts) -> IssueBody:
    wanted = wanted_fixes(facts)
    return make_body(
        FrontMatter(batch=facts.batch, type="fix", fix_cycle=facts.cycle, batch_pr=facts.pull, pr_head_sha=facts.head),
        task=texts.fix_task(facts.pull, facts.head, facts.cycle),
        implementation_details=texts.fix_findings(wanted),
        acceptance_criteria=[
            f"Finding {number} ({finding.title or finding.severity}) is mended and tested, or answered with reasons"
            for number, finding in enumerate(wanted, 1)
        ],
        files=sorted({finding.path for finding in wanted if finding.path}),
    )
