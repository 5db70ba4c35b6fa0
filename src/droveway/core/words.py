"""What an action does, in a few words for people who follow a loop; None for what is not worth a line."""

from __future__ import annotations

from droveway.core.decisions import (
    AnyAction,
    CancelJob,
    CloseMilestone,
    CreateIssue,
    EditIssue,
    MergePull,
    MoveRefs,
    OpenPull,
    Receipt,
    SetStatus,
    StartJob,
)


def in_words(action: AnyAction, receipt: Receipt) -> str | None:
    """Give the words. Comments, labels and edits of bodies tell nothing that the other actions do not."""
    match action:
        case SetStatus(issue=issue, to=to):
            return f"#{issue} is {to.value}"
        case StartJob(job=job):
            attempt = job.args.get("attempt")
            more = f", attempt {attempt}" if isinstance(attempt, int) and attempt > 1 else ""
            return f"{job.kind} of {job.subject.replace('issue:', '#').replace('pr:', '#')} starts{more}"
        case CancelJob(job_id=name):
            return f"{name} is cancelled"
        case CreateIssue(title=title):
            return f"created #{receipt.number} {title}" if receipt.number else f"create {title}"
        case OpenPull(title=title):
            return f"opened pull request #{receipt.number} {title}" if receipt.number else f"open {title}"
        case MergePull(pull=pull, method=method):
            return f"merged #{pull} by {method}" + (f" as {receipt.sha[:12]}" if receipt.sha else "")
        case MoveRefs(updates=updates):
            moved = [update.ref.removeprefix("refs/heads/") for update in updates if update.new]
            gone = sum(update.new is None for update in updates)
            parts = [f"moved {name}" for name in moved] + ([f"deleted {gone} branches"] if gone else [])
            return ", ".join(parts)
        case EditIssue(number=number, state=str(state)):
            return f"#{number} is {state}"
        case CloseMilestone(milestone=milestone):
            return f"batch #{milestone} is closed"
        case _:
            return None
