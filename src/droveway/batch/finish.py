"""Rules about a batch's end: landed, cancelled, or nothing to land (BAT-218, BAT-222 … BAT-226, REV-099). Pure.

The milestone is closed last: as long as it is open the next cycle completes what a broken one left.
"""

from __future__ import annotations

from collections.abc import Mapping

from droveway.batch import texts
from droveway.batch.facts import BatchFacts
from droveway.core.decisions import (
    AnyAction,
    CancelJob,
    CloseMilestone,
    Comment,
    Decision,
    EditIssue,
    MoveRefs,
    RefUpdate,
    SetStatus,
)
from droveway.core.keys import Key
from droveway.core.vocabulary import Message, Status

_HEADS = "refs/heads/"


def _key(facts: BatchFacts, rule: str, subject: str, ordinal: str = "0") -> str:
    return str(Key(rule, facts.repo, subject, "-", ordinal))


def landing_decisions(facts: BatchFacts) -> tuple[Decision, ...]:
    """Clean up after the merge, also when a person merged by hand; what is done already gives no action (BAT-226)."""
    pull = facts.pull
    number = pull.number if pull else None
    sha = (pull.merge_sha or "") if pull else ""
    told: list[AnyAction] = []
    target = number or (facts.tasks[0].number if facts.tasks else None)
    if target is not None and facts.milestone.state == "open":
        text = texts.landed(number, sha, len(facts.graph.tasks))
        told.append(Comment(facts.repo, _key(facts, "BAT-222", facts.subject), target, Message.LANDING, text))
    fact = f"#{number} is merged" if number else "there is nothing to merge"
    return _ending(facts, "BAT-226", fact, told)


def nothing_decisions(facts: BatchFacts, base: str) -> tuple[Decision, ...]:
    """End a batch whose branch has no change against the base: no PR, a comment instead (BAT-218)."""
    told: list[AnyAction] = []
    if facts.tasks:
        text = texts.nothing_to_land(facts.branch, base)
        key = _key(facts, "BAT-218", facts.subject)
        told.append(Comment(facts.repo, key, facts.tasks[0].number, Message.LANDING, text))
    return _ending(facts, "BAT-218", f"{facts.branch} has no change against {base}", told)


def cancel_decisions(facts: BatchFacts, *, rule: str = "BAT-224") -> tuple[Decision, ...]:
    """End a batch that was given up: labels, then runs, issues, PR, branches, milestone (BAT-224, BAT-225)."""
    labels: list[AnyAction] = [
        SetStatus(facts.repo, _key(facts, rule, f"issue:{task.number}", "cancel"), task.number, Status.CANCELLED)
        for task in facts.tasks
        if task.open and Status.DONE not in task.statuses and task.statuses != (Status.CANCELLED,)
    ]
    fact = "the PR was closed unmerged" if rule == "BAT-225" else "a person cancels the batch"
    pull = facts.pull
    closed: list[AnyAction] = []
    if pull is not None and pull.open:
        closed.append(EditIssue(facts.repo, _key(facts, rule, f"pr:{pull.number}"), pull.number, state="closed"))
    relabelled = (Decision(rule, facts.repo, facts.subject, (fact,), actions=tuple(labels)),) if labels else ()
    return (*relabelled, *_ending(facts, rule, fact, closed))


def _ending(facts: BatchFacts, rule: str, fact: str, more: list[AnyAction]) -> tuple[Decision, ...]:
    """Give the common end as separate decisions, so that one that fails does not hold back the others but the last."""
    jobs: list[AnyAction] = [
        CancelJob(facts.repo, _key(facts, rule, f"issue:{number}", f"job-{job.id.rsplit('/', 1)[-1]}"), job.id)
        for number, job in sorted(facts.active_jobs.items())
    ]
    issues: list[AnyAction] = [
        EditIssue(facts.repo, _key(facts, rule, f"issue:{task.number}", "close"), task.number, state="closed")
        for task in facts.tasks
        if task.open
    ]
    gone = branches(facts)
    deletions: list[AnyAction] = []
    if gone:
        updates = tuple(RefUpdate(f"{_HEADS}{name}", sha, None) for name, sha in sorted(gone.items()))
        deletions.append(MoveRefs(facts.repo, _key(facts, rule, facts.subject, "branches"), updates))
    milestone: list[AnyAction] = []
    if facts.milestone.state == "open":
        milestone.append(CloseMilestone(facts.repo, _key(facts, rule, facts.subject, "milestone"), facts.number))
    return tuple(
        Decision(rule, facts.repo, facts.subject, (fact,), actions=tuple(actions))
        for actions in (jobs, issues, deletions, more, milestone)
        if actions
    )


def branches(facts: BatchFacts) -> Mapping[str, str]:
    """Give the batch's branches that still exist, with their tips: its own and its workers'."""
    names = {facts.branch, *(task.branch for task in facts.tasks)}
    return {name: sha for name, sha in facts.refs.items() if name in names}
