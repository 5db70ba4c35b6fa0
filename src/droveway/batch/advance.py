"""Rules that move a batch on: what is due, what is unblocked, what starts (BAT-098 … BAT-112, BAT-240). Pure."""

from __future__ import annotations

import hashlib

import msgspec

from droveway.batch import texts
from droveway.batch.facts import BatchFacts
from droveway.batch.graph import Graph
from droveway.batch.issues import with_branch
from droveway.core.decisions import Blocker, Comment, Decision, EditIssue, SetStatus
from droveway.core.keys import Key, find_marker
from droveway.core.vocabulary import Message, Status
from droveway.work import (
    BatchView,
    DispatchFacts,
    RepairFacts,
    Task,
    dispatch_decisions,
    repair_decisions,
)


def gates(facts: BatchFacts) -> tuple[Blocker, ...]:
    """Give why nothing of this batch is touched at all: it is closed, or not started (BAT-112, BAT-240)."""
    if facts.milestone.state != "open":
        return (Blocker("closed", "the milestone is closed", "reopen the milestone", "a person"),)
    if facts.tip is None:
        if _was_started(facts):
            because = f"the batch branch {facts.branch} is gone, though work was started on it"
            return (Blocker("branch-gone", because, "push the branch again, or herd batch cancel", "a person"),)
        because = f"the batch is not started: {facts.branch} does not exist"
        return (Blocker("not-started", because, f"herd dispatch --batch {facts.number}", "a person"),)
    return ()


def _was_started(facts: BatchFacts) -> bool:
    """Whether any attempt was made: only that tells a lost branch from a batch that nobody has dispatched."""
    touched = {Status.IN_PROGRESS, Status.DONE, Status.FAILED}
    numbers = {task.number for task in facts.tasks}
    ran = any(int(job.args.get("issue", 0)) in numbers for job in facts.jobs)
    return ran or any(not task.manual and touched.intersection(task.statuses) for task in facts.tasks)


def lost_branch_decision(facts: BatchFacts) -> Decision | None:
    """Escalate once that a started batch has lost its branch (BAT-240)."""
    if not any(blocker.code == "branch-gone" for blocker in gates(facts)) or not facts.tasks:
        return None
    number = facts.tasks[0].number
    key = Key("BAT-240", facts.repo, facts.subject)
    comment = Comment(facts.repo, str(key), number, Message.BATCH, texts.branch_gone(facts.branch))
    return Decision("BAT-240", facts.repo, facts.subject, ("the batch branch is gone",), gates(facts), (comment,))


def report_decisions(facts: BatchFacts) -> tuple[Decision, ...]:
    """Tell people, once each, of a circle and of bodies that can't be read (BAT-027, BAT-098, BAT-099)."""
    graph = facts.graph
    decisions = []
    for number, reason in graph.unreadable.items():
        digest = hashlib.sha256(reason.encode()).hexdigest()[:12]
        key = Key("BAT-027", facts.repo, f"issue:{number}", digest)
        comment = Comment(facts.repo, str(key), number, Message.UNREADABLE, texts.unreadable(reason))
        decisions.append(Decision("BAT-027", facts.repo, f"issue:{number}", (reason,), actions=(comment,)))
    if graph.cycle:
        digest = hashlib.sha256(repr(graph.cycle).encode()).hexdigest()[:12]
        key = Key("BAT-098", facts.repo, f"issue:{graph.cycle[0]}", digest)
        comment = Comment(facts.repo, str(key), graph.cycle[0], Message.BATCH, texts.cycle(graph.cycle))
        fact = "circular dependency: " + " → ".join(f"#{n}" for n in (*graph.cycle, graph.cycle[0]))
        decisions.append(Decision("BAT-098", facts.repo, facts.subject, (fact,), actions=(comment,)))
    return tuple(decisions)


def naming_decisions(facts: BatchFacts) -> tuple[Decision, ...]:
    """Write the worker branch into fix-type issues that have none yet: later steps read it there (BAT-025)."""
    decisions = []
    bodies = {issue.number: issue.body for issue in facts.issues}
    for task in facts.graph.fixes.values():
        if task.complete or task.front.branch or task.front.is_standalone:
            continue
        key = Key("BAT-025", facts.repo, f"issue:{task.number}")
        old = bodies[task.number]
        if find_marker(old, "body-continues"):  # only a whole body may be edited; the name rule gives the branch
            continue
        edit = EditIssue(facts.repo, str(key), task.number, body=with_branch(old, task.branch), expected_body=old)
        fact = f"#{task.number} names no branch"
        decisions.append(Decision("BAT-025", facts.repo, f"issue:{task.number}", (fact,), actions=(edit,)))
    return tuple(decisions)


def unblock_decisions(facts: BatchFacts) -> tuple[Decision, ...]:
    """Give blocked → ready for the tasks whose tier is due, manual ones too (BAT-110, MON-011)."""
    graph = facts.graph
    decisions = []
    for task in due_tasks(graph):
        if task.status is Status.BLOCKED:
            key = Key("BAT-110", facts.repo, f"issue:{task.number}", "-", "unblock")
            ready = SetStatus(facts.repo, str(key), task.number, Status.READY, (Status.BLOCKED,))
            fact = f"#{task.number} is blocked and every tier before tier {graph.tier_of(task.number)} is complete"
            decisions.append(Decision("BAT-110", facts.repo, f"issue:{task.number}", (fact,), actions=(ready,)))
    return tuple(decisions)


def due_tasks(graph: Graph) -> tuple[Task, ...]:
    """Give the incomplete, readable tasks of the current tier; none while dependencies go round (BAT-098, BAT-100)."""
    current = graph.current
    if graph.cycle or current is None:
        return ()
    return tuple(
        task
        for number, task in graph.tasks.items()
        if graph.tier[number] == current and not task.complete and number not in graph.unreadable
    )


def candidates(facts: BatchFacts) -> tuple[Task, ...]:
    """Give the issues that want a worker now: ready ones of the current tier, and ready fix-type issues."""
    graph = facts.graph
    if graph.cycle:
        return ()
    due = [task for task in due_tasks(graph) if task.status is Status.READY and not task.manual]
    fixes = [
        task
        for task in graph.fixes.values()
        if task.open and task.status is Status.READY and not task.front.is_standalone
    ]
    return (*due, *fixes)


def dispatch_facts(facts: BatchFacts, tasks: tuple[Task, ...]) -> DispatchFacts:
    """Give what the dispatch rules of the work room decide from."""
    graph = facts.graph
    view = BatchView(
        facts.number,
        facts.branch,
        facts.author,
        open=facts.milestone.state == "open",
        paused=facts.paused,
        started=facts.tip is not None,
    )
    return DispatchFacts(
        repo=facts.repo,
        settings=facts.settings,
        batches=(view,),
        tasks=tasks,
        jobs=facts.jobs,
        attempts=facts.attempts,
        blocked_by={task.number: graph.waits_for(task.number) for task in tasks},
    )


def start_decisions(facts: BatchFacts) -> tuple[Decision, ...]:
    """Start what is due, within the slots, in order; each that waits says why (BAT-104 … BAT-110)."""
    return dispatch_decisions(dispatch_facts(facts, candidates(facts)))


def orphan_decisions(facts: BatchFacts) -> tuple[Decision, ...]:
    """Settle issues in progress that have no run: the label was written and the start, or the end, was not."""
    graph = facts.graph
    changed = {issue.number: issue.updated_at for issue in facts.issues if issue.updated_at}
    tasks = tuple(task for task in facts.tasks if task.number not in graph.unreadable and not task.front.is_standalone)
    return repair_decisions(RepairFacts(dispatch_facts(facts, tasks), facts.at, changed))


def with_statuses(facts: BatchFacts, changed: dict[int, Status]) -> BatchFacts:
    """Give the facts as they are after status changes that were just made."""
    if not changed:
        return facts
    graph = facts.graph

    def fresh(task: Task) -> Task:
        to = changed.get(task.number)
        return task if to is None else msgspec.structs.replace(task, statuses=(to,))

    tasks = {number: fresh(task) for number, task in graph.tasks.items()}
    fixes = {number: fresh(task) for number, task in graph.fixes.items()}
    known = msgspec.structs.replace(facts.graph_fact, value=msgspec.structs.replace(graph, tasks=tasks, fixes=fixes))
    return msgspec.structs.replace(facts, graph_fact=known)


def waiting(facts: BatchFacts) -> tuple[Blocker, ...]:
    """Give every reason why the batch is not ready for its PR, task by task of the current tier (BAT-100 … BAT-102)."""
    graph = facts.graph
    found: list[Blocker] = []
    if graph.cycle:
        way = " → ".join(f"#{n}" for n in (*graph.cycle, graph.cycle[0]))
        found.append(Blocker("cycle", f"circular dependency: {way}", "take one dependency out of a body", "a person"))
    for number, reason in graph.unreadable.items():
        found.append(Blocker("unreadable", f"#{number}: {reason}", "mend the block of its body", "a person"))
    found.extend(_because(facts, task) for task in (*due_tasks(graph), *graph.active_fixes))
    if not graph.tasks:
        found.append(Blocker("empty", "the batch has no task", "herd batch cancel", "a person"))
    if facts.paused:
        found.append(Blocker("paused", "the batch is paused", f"herd batch resume {facts.number}", "a person"))
    return tuple(found)


def _because(facts: BatchFacts, task: Task) -> Blocker:
    """Say what one issue of the current tier waits for, and who can change it."""
    number = task.number
    mine = [fix for fix in facts.graph.fixes.values() if fix.front.origin == number and fix.open]
    resolver = mine[-1] if mine else None
    match task.status:
        case _ if task.manual:
            return Blocker(
                "manual", f"#{number} is a person's task", "close it, or give it herd/status:done", "a person"
            )
        case Status.IN_PROGRESS:
            return Blocker("working", f"#{number} is in progress", "its worker's end", "the worker")
        case Status.READY:
            return Blocker("ready", f"#{number} is ready and not started", "a free worker slot", "the Integrator")
        case Status.BLOCKED:
            return Blocker("blocked", f"#{number} is blocked", "the next cycle", "the Integrator")
        case Status.FAILED if resolver is not None and resolver.status in (Status.READY, Status.IN_PROGRESS):
            because = f"#{number} conflicts; #{resolver.number} resolves it"
            return Blocker("conflict", because, f"the end of #{resolver.number}", "the worker")
        case Status.FAILED if resolver is not None and resolver.status is Status.FAILED:
            because = f"#{number} conflicts, and its resolver #{resolver.number} failed"
            clears = f"herd dispatch {resolver.number}, or close #{number} to go on without it"
            return Blocker("conflict", because, clears, "a person")
        case Status.FAILED:
            return Blocker(
                "failed",
                f"#{number} failed",
                f"herd dispatch {number}, or close #{number} to go on without it",
                "a person",
            )
        case Status.CANCELLED:
            return Blocker("cancelled", f"#{number} is cancelled", f"close #{number}", "a person")
        case _:
            states = " and ".join(status.value for status in task.statuses) or "no status"
            return Blocker("status", f"#{number} has {states}", "give it exactly one status label", "a person")
