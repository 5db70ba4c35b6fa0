"""What an attempt changes on the forge, each by a decision through the actuator."""

from __future__ import annotations

import structlog

from droveway.core.actuator import Outcome
from droveway.core.decisions import AnyAction, Comment, Decision, EditComment, EditIssue, MoveRefs, RefUpdate, SetStatus
from droveway.core.errors import HerdError
from droveway.core.keys import Key
from droveway.core.vocabulary import ATTIC_PREFIX, Message, Status
from droveway.work import texts
from droveway.work.attempts import AttemptOutcome, attempt_marker
from droveway.work.worker.model import Work, WorkerError

LOOP = "worker"


def key_of(work: Work, rule: str, suffix: str = "") -> str:
    """Give the key of an effect of this attempt."""
    return str(Key(rule, str(work.repo), f"issue:{work.number}", "-", f"{work.orders.attempt}{suffix}"))


async def act(work: Work, rule: str, fact: str, *actions: AnyAction) -> Outcome:
    """Apply actions in order, as one decision. Raises LeaseLostError."""
    decision = Decision(rule, str(work.repo), f"issue:{work.number}", (fact,), actions=actions)
    return await work.fleet.actuator.act(decision, work.context.lease, loop=LOOP)


async def must(work: Work, rule: str, fact: str, *actions: AnyAction) -> Outcome:
    """As ``act``; raise WorkerError where an effect does not hold, so that nothing later is built on it (BAT-131)."""
    outcome = await act(work, rule, fact, *actions)
    if not outcome.ok:
        bad = next(result for result in outcome.results if not result.holds)
        raise WorkerError(f"an effect on the forge failed ({fact}): {bad.detail or bad.outcome}")
    return outcome


def _progress(work: Work, checklist: str, *, final: bool) -> EditComment:
    outcome = work.record.outcome.value.replace("_", " ") if work.record.outcome else ""
    body = texts.progress(checklist, attempt=work.orders.attempt, final=final, outcome=outcome, run=work.record.run)
    return EditComment(
        repo=str(work.repo),
        key=work.key,
        number=work.number,
        message=Message.ATTEMPT,
        body=body,
        markers=(attempt_marker(work.record),),
    )


async def announce(work: Work) -> None:
    """Post the attempt's comment; without it the attempt has no record, so nothing starts (BAT-124)."""
    await must(work, "BAT-124", "the attempt begins", _progress(work, "", final=False))


async def show_progress(work: Work, checklist: str, *, final: bool = False) -> None:
    """Bring the attempt's comment up to date; a failure is only logged: the next edit says the same and more."""
    outcome = await act(work, "BAT-162", "the progress changed", _progress(work, checklist, final=final))
    if not outcome.ok:
        structlog.get_logger().warning("progress could not be shown", issue=work.number)


async def finish_attempt(work: Work, outcome: AttemptOutcome, checklist: str) -> None:
    """Write how the attempt ended."""
    work.change(outcome=outcome, ended_at=work.now())
    await must(work, "BAT-124", f"the attempt ended: {outcome.value}", _progress(work, checklist, final=True))


async def post_report(work: Work, body: str) -> None:
    """Post the report, before the label (BAT-131, BAT-155)."""
    comment = Comment(
        repo=str(work.repo),
        key=key_of(work, "BAT-155"),
        number=work.number,
        message=Message.WORKER_REPORT,
        body=body,
    )
    await must(work, "BAT-155", "the task is done", comment)


async def tell_batch_pull(work: Work, rule: str, message: Message, body: str) -> None:
    """Comment on the open batch PR, if there is one (BAT-156, BAT-157)."""
    pull = await work.fleet.forge.pull_for(work.repo, work.orders.batch_branch, state="open")
    if pull is None or not pull.open:
        return
    comment = Comment(repo=str(work.repo), key=key_of(work, rule), number=pull.number, message=message, body=body)
    await act(work, rule, "a worker found nothing to change", comment)


async def set_done(work: Work) -> None:
    """Label it done, last of all (BAT-131)."""
    await must(work, "BAT-131", "pushed, verified and reported", _status(work, "BAT-131", Status.DONE))


async def close_resolver(work: Work) -> None:
    """Close the issue of a resolver that had nothing to do, instead of labelling it (BAT-186)."""
    action = EditIssue(repo=str(work.repo), key=key_of(work, "BAT-186"), number=work.number, state="closed")
    await must(work, "BAT-186", "nothing was left to resolve", action)


async def fail(work: Work, error: WorkerError, checklist: str) -> None:
    """Say why it failed, write the outcome, set the label; a cancelled issue stays cancelled (BAT-132)."""
    comment = Comment(
        repo=str(work.repo),
        key=key_of(work, "BAT-132"),
        number=work.number,
        message=Message.WORKER_FAILED,
        body=texts.worker_failed(error.reason, error.next_step, retry=error.retry, excerpt=error.excerpt),
    )
    await act(work, "BAT-132", error.reason, comment)
    work.change(outcome=error.outcome, ended_at=work.now())
    await act(work, "BAT-124", f"the attempt ended: {error.outcome.value}", _progress(work, checklist, final=True))
    outcome = await act(work, "BAT-132", error.reason, _status(work, "BAT-132", Status.FAILED))
    if any(result.outcome == "failed" for result in outcome.results):
        raise HerdError(f"issue #{work.number} could not be labelled failed: {outcome.results[-1].detail}")


async def settle_failed(work: Work) -> None:
    """Set the label that a run which died after its comment did not set any more."""
    await act(work, "BAT-132", "the attempt failed earlier", _status(work, "BAT-132", Status.FAILED))


def _status(work: Work, rule: str, to: Status) -> SetStatus:
    return SetStatus(
        repo=str(work.repo),
        key=key_of(work, rule, ".status"),
        issue=work.number,
        to=to,
        expected=(Status.IN_PROGRESS,),
    )


async def drop_branch(work: Work, tip: str, *, keep: bool) -> None:
    """Delete the worker branch; ``keep`` leaves its tip in the attic (BAT-156, BAT-164)."""
    updates = [RefUpdate(f"refs/heads/{work.orders.branch}", tip, None)]
    if keep:
        updates.append(RefUpdate(f"{ATTIC_PREFIX}{work.number}/{work.orders.attempt}", None, tip))
    action = MoveRefs(repo=str(work.repo), key=key_of(work, "BAT-164"), updates=tuple(updates))
    await must(work, "BAT-164", "the branch can't be continued" if keep else "the branch holds nothing", action)
