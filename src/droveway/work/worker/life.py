"""One attempt at one issue, from its orders to its label (BAT-122)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import structlog

from droveway.core.errors import HerdError
from droveway.core.lease import LeaseLostError
from droveway.core.points import point
from droveway.core.repo import RepoId
from droveway.core.vocabulary import Message, Status, branch_issue
from droveway.engine import JobInterruptedError
from droveway.forge import ForgeError, MissingPartError, join_parts
from droveway.git import GateError, GitError, Place, Relay
from droveway.sessions import Fleet, Outcome, TurnResult
from droveway.work import texts
from droveway.work.attempts import SUCCEEDED, Attempt, AttemptOutcome, read_attempts, utc
from droveway.work.task import Task, read_task
from droveway.work.validation import Report, errors_text
from droveway.work.worker import effects, finish
from droveway.work.worker.agent import checklist, invoke, relay_once
from droveway.work.worker.branch import Start, find_start, validation_files
from droveway.work.worker.files import with_files
from droveway.work.worker.model import Deadlines, EndedError, Orders, Work, WorkerError
from droveway.work.worker.noop import noop_evidence
from droveway.work.worker.prompt import build_prompt, build_second_prompt, role_file

if TYPE_CHECKING:
    from droveway.engine import JobContext


async def run_worker(fleet: Fleet, context: JobContext) -> dict[str, Any]:
    """Do one attempt; give ``{"outcome", "attempt", "head"}``. ``ended``: there was nothing to do, nothing was changed.

    A run that is taken up again after a crash finds what it did by keys and goes on; an attempt that ended is not
    done twice. A lost lease or a cancelled job ends it without a further effect, as an error.
    """
    orders = msgspec.convert(context.job.args, Orders)
    log = structlog.get_logger().bind(job=context.job.id)
    try:
        work = await _prepare(fleet, context, orders)
    except EndedError as ended:
        log.info("nothing to do", reason=str(ended))
        return {"outcome": "ended", "attempt": orders.attempt, "reason": str(ended)}
    place: Place | None = None
    try:
        if isinstance(work.record.outcome, AttemptOutcome):
            return await _already_ended(work)
        await effects.announce(work)
        await point("worker.started")
        place, start = await _place(work)
        await point("worker.placed")
        relay = Relay(place, work.mirror, last_seen=start.seen)
        result = await _do(work, place, relay, start)
        await point("worker.done")
    except (LeaseLostError, JobInterruptedError):
        raise
    except Exception as error:  # whatever it is, the issue must not stay in progress (BAT-132)
        if context.cancelled.is_set():
            raise JobInterruptedError("the job was cancelled") from error
        result = await _fail(work, _as_failure(work, error), place)
    if place is not None:
        removal = await place.remove(force=True)
        if removal.state == "kept":
            log.warning("place kept", reason=removal.reason)
    return result


async def _prepare(fleet: Fleet, context: JobContext, orders: Orders) -> Work:
    """Read the issue anew; raise EndedError where nothing is to be done."""
    repo = RepoId.parse(orders.repo)
    issue = await fleet.forge.issue(repo, orders.issue)
    if issue is None:
        raise EndedError(f"issue #{orders.issue} does not exist")
    comments = await fleet.forge.comments(repo, orders.issue)
    found = read_attempts(comments)
    mine = next((item.record for item in found if item.record.attempt == orders.attempt), None)
    missing = ""
    try:
        task = read_task(issue, comments)
        text = join_parts(issue.body, comments)
    except MissingPartError as error:
        task, text, missing = read_task(issue), issue.body, str(error)
    _check_wanted(task, mine)
    started = (mine.started_at if mine else None) or utc(context.attempt_started)
    record = mine or Attempt(
        attempt=orders.attempt,
        run=context.job.id,
        branch=orders.branch,
        mode=orders.mode,
        started_at=started,
        deadline=utc(context.deadline),
        by_hand=orders.by_hand,
    )
    times = Deadlines.of(context.attempt_started, orders.timeout_minutes)
    rights = await fleet.forge.permission(repo, issue.author) if issue.author != fleet.forge.login else None
    work = Work(
        fleet=fleet,
        context=context,
        repo=repo,
        orders=orders,
        settings=await fleet.settings(repo),
        task=task,
        text=text,
        author_login=issue.author,
        author_rights="ourselves" if rights is None else rights.name.lower(),
        mirror=await fleet.mirror(repo),
        times=times,
        record=msgspec.structs.replace(record, deadline=utc(min(times.outer, context.deadline))),
        earlier=tuple(item.record for item in found),
    )
    problem = missing or _problem(task, orders)
    if problem and work.record.outcome is None:
        await effects.announce(work)
        await effects.fail(work, WorkerError(problem, next_step="edit the issue, then dispatch it again"), "")
        raise EndedError(problem)
    return work


def _check_wanted(task: Task, mine: Attempt | None) -> None:
    """Raise EndedError for an issue that needs no worker (any more)."""
    if not task.open:
        raise EndedError("the issue is closed")
    if Status.CANCELLED in task.statuses:
        raise EndedError("the issue is cancelled")
    if mine is not None and mine.outcome is not None and Status.IN_PROGRESS not in task.statuses:
        raise EndedError(f"this attempt ended with {mine.outcome.value}")
    if Status.IN_PROGRESS not in task.statuses:
        names = ", ".join(status.value for status in task.statuses) or "no status"
        raise EndedError(f"the issue is not in progress ({names})")


def _problem(task: Task, orders: Orders) -> str:
    """Give why this issue can't be worked on, in words, or nothing."""
    if orders.mode != "batch":
        return f"mode {orders.mode!r} is not known to this version"
    if task.milestone is None or orders.batch is None:
        return "it belongs to no milestone, and a batch worker needs one"
    if task.manual:
        return "it is a person's task"
    if task.unreadable:
        return f"its front matter can't be read: {task.unreadable}"
    if branch_issue(orders.branch) != task.number:
        return f"{orders.branch!r} is no worker branch of this issue"
    return ""


async def _already_ended(work: Work) -> dict[str, Any]:
    """Finish what an earlier run of this attempt left: only its label."""
    outcome = work.record.outcome
    assert outcome is not None
    if outcome in SUCCEEDED:
        await effects.set_done(work)
    else:
        await effects.settle_failed(work)
    return _result(work)


async def _place(work: Work) -> tuple[Place, Start]:
    """Make the place anew; what a killed run of this attempt left in it is pushed first (BAT-230)."""
    old = await Place.open(work.root, work.mirror)
    if old is not None:
        await _salvage(work, old)
        await old.remove(force=True)
    start = await find_start(work)
    commit = start.commit
    fast = start.validated and start.all_ticked
    stale = [] if fast else await validation_files(work, commit)
    if stale:  # the marker never survives into an invocation (BAT-152)
        commit = await with_files(work, commit, "Remove the last validation's files", add={}, remove=stale)
    place = await Place.create(
        work.root,
        work.mirror,
        branch=work.orders.branch,
        start=commit,
        readable=start.readable,
        author=work.user,
    )
    return place, start


async def _salvage(work: Work, place: Place) -> None:
    """Push what the killed run's agent had pushed into its gate and was not relayed; best effort."""
    try:
        refs = await work.mirror.remote_refs(f"refs/heads/{work.orders.branch}")
        seen = refs.get(f"refs/heads/{work.orders.branch}")
        tip = await place.take()
        if tip and (seen is None or await work.mirror.is_ancestor(seen, tip)):
            await relay_once(work, Relay(place, work.mirror, last_seen=seen))
    except (GitError, GateError, OSError) as error:
        structlog.get_logger().warning("nothing was salvaged", issue=work.number, error=str(error))


async def _do(work: Work, place: Place, relay: Relay, start: Start) -> dict[str, Any]:
    """Run the agent (unless all is done already), validate, and settle what came out."""
    await finish.run_setup(work, place)
    prompt = build_prompt(work, start, finish.checks_for(work, place))
    system = await role_file(work)
    turn: TurnResult | None = None
    if start.validated and start.all_ticked:
        work.notes.append("The checklist was complete and validation had passed, so no agent ran (BAT-166).")
    else:
        turn = await _invoke(work, place, relay, start, prompt, system)
    gathered = await finish.gather(work, place, start, marked=turn is None)
    if not gathered.changed:
        return await _noop(work, place, start, turn)
    report = await finish.validate(work, place, start, gathered)
    await _interrupted(work)
    if not finish.acceptable(work, report) and turn is not None and report.results:
        again = build_second_prompt(prompt, errors_text(report))
        turn = await _invoke(work, place, relay, start, again, system, second=True)
        gathered = await finish.gather(work, place, start)
        report = await finish.validate(work, place, start, gathered)
        await _interrupted(work)
    await point("worker.validated")
    commit = await finish.mark(work, gathered, report)
    await finish.push(work, relay, commit)
    if not finish.acceptable(work, report):
        _refuse(report)
    return await _success(work, place, gathered, report, turn, commit)


def _refuse(report: Report) -> None:
    bad = ", ".join(f"{result.name} ({result.status.value})" for result in report.results if result.bad)
    raise WorkerError(
        f"validation failed: {bad}" if bad else "validation is required, and no command proved anything",
        next_step="the next attempt gets the errors; the work so far is on its branch",
        excerpt=errors_text(report),
    )


async def _invoke(
    work: Work, place: Place, relay: Relay, start: Start, prompt: str, system: str, *, second: bool = False
) -> TurnResult:
    """Run the agent; where it did not end normally, preserve what there is and fail (BAT-171)."""
    now = work.fleet.clock.now()
    turn = await invoke(work, place, relay, prompt, system, work.times.second(now) if second else work.times.agent)
    await _interrupted(work)
    await point("worker.agent-ended")
    if turn.ok:
        return turn
    gathered = await finish.gather(work, place, start, checkpoint=True)
    saved = "no work was there to preserve"
    if gathered.changed:
        await finish.push(work, relay, gathered.commit)
        saved = f"what there is was preserved on {work.orders.branch} as a checkpoint ({len(gathered.changed)} files)"
    timed_out = turn.outcome is Outcome.TIMED_OUT
    reason = _why(turn)
    raise WorkerError(
        f"{reason}; {saved}",
        next_step="a retry goes on from there" if gathered.changed else "look at the task's size and at the agent",
        outcome=AttemptOutcome.TIMED_OUT if timed_out else AttemptOutcome.FAILED,
        excerpt=turn.text or turn.error,
    )


def _why(turn: TurnResult) -> str:
    words = {
        Outcome.TIMED_OUT: "the agent reached its deadline",
        Outcome.IDLE: "the agent was silent for too long",
        Outcome.LIMIT: "the agent reached its limit",
        Outcome.QUOTA: "the agent's quota is used up",
        Outcome.LOGIN_LOST: "the agent is not logged in",
        Outcome.SUSPICIOUS: "the agent said next to nothing, twice",
        Outcome.NEEDS_INPUT: "the agent asked for input that nobody can give",
        Outcome.KILLED: "the agent was ended from outside",
    }
    reason = words.get(turn.outcome, f"the agent failed (exit code {turn.code})")
    return f"{reason}: {turn.error}" if turn.error else reason


async def _interrupted(work: Work) -> None:
    """Stop without a further effect where the job was cancelled or is no longer ours."""
    if work.context.cancelled.is_set():
        raise JobInterruptedError("the job was cancelled")
    await work.context.lease.check()


async def _success(
    work: Work, place: Place, gathered: finish.Gathered, report: Report, turn: TurnResult | None, commit: str
) -> dict[str, Any]:
    output = turn.text if turn else ""
    body = texts.report(
        summary=texts.first_paragraph(output),
        stat=await finish.stat(work, gathered),
        validation=report.rows,
        validation_outcome=report.outcome.value,
        output=output or "(no agent ran)",
        notes=work.notes,
        changed=True,
    )
    await effects.post_report(work, body)
    await point("worker.reported")
    await effects.finish_attempt(work, AttemptOutcome.SUCCESS, checklist(work, place))
    await point("worker.recorded")
    await effects.set_done(work)
    return _result(work, commit)


async def _noop(work: Work, place: Place, start: Start, turn: TurnResult | None) -> dict[str, Any]:
    """Settle an attempt that changed nothing: with evidence it is done, without it failed (BAT-156 … BAT-158)."""
    output = turn.text if turn else ""
    contained = await finish.already_contained(work, start)
    evidence = noop_evidence(output) or ("all branches are contained already" if contained else None)
    if evidence is None:
        raise WorkerError(
            "the agent ended without a change and without saying why none is needed",
            next_step="look at what it said; it may have been blocked",
            excerpt=output,
        )
    ref = f"refs/heads/{work.orders.branch}"
    tip = (await work.mirror.remote_refs(ref)).get(ref)
    if tip is not None:
        await effects.drop_branch(work, tip, keep=False)
    body = texts.report(
        summary=texts.first_paragraph(evidence),
        stat="",
        validation=(),
        validation_outcome="none",
        output=output,
        notes=work.notes,
        changed=False,
    )
    await effects.post_report(work, body)
    await effects.tell_batch_pull(
        work, "BAT-156", Message.NOOP_SUMMARY, texts.noop_summary(work.number, texts.first_paragraph(evidence))
    )
    if work.task.front.is_fix_type and not work.task.front.is_resolver:
        verdict = texts.noop_verdict(work.number, evidence)
        await effects.tell_batch_pull(work, "BAT-157", Message.NOOP_VERDICT, verdict)
    await point("worker.reported")
    await effects.finish_attempt(work, AttemptOutcome.NOOP, checklist(work, place))
    await point("worker.recorded")
    if work.task.front.is_resolver:
        await effects.close_resolver(work)
    else:
        await effects.set_done(work)
    return _result(work, start.batch)


async def _fail(work: Work, error: WorkerError, place: Place | None) -> dict[str, Any]:
    await effects.fail(work, error, checklist(work, place))
    await point("worker.failed")
    return {**_result(work), "reason": error.reason}


def _as_failure(work: Work, error: Exception) -> WorkerError:
    """Give any error as the attempt's failure; the log of this machine has the rest."""
    if isinstance(error, WorkerError):
        return error
    expected = isinstance(error, HerdError | ForgeError | OSError)
    structlog.get_logger().warning(
        "worker failed", issue=work.number, error=work.fleet.redactor(str(error)), exc_info=not expected
    )
    reason = str(error) if isinstance(error, HerdError | ForgeError) else f"{type(error).__name__}: {error}"
    return WorkerError(work.fleet.redactor(reason), next_step="see the log of the machine that ran it")


def _result(work: Work, head: str = "") -> dict[str, Any]:
    outcome = work.record.outcome
    return {
        "outcome": outcome.value if outcome else "failed",
        "attempt": work.orders.attempt,
        "issue": work.number,
        "head": head,
    }
