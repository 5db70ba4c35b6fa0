"""Rules of consolidation: one push for everything that merges, a decision for everything that does not. Pure."""

from __future__ import annotations

import msgspec

from droveway.batch import texts
from droveway.batch.consolidate.facts import SweepFacts, origins
from droveway.batch.facts import BatchFacts
from droveway.batch.resolvers import ConflictFacts, conflict_decision, resolvers_of
from droveway.core.decisions import Comment, Decision, MoveRefs, RefUpdate, SetStatus
from droveway.core.keys import Key
from droveway.core.vocabulary import Message, Status
from droveway.forge.model import PullRequest

_HEADS = "refs/heads/"


def push_decision(facts: BatchFacts, found: SweepFacts, *, deletions: bool = True) -> Decision | None:
    """Move the batch branch and delete what is in it, all in one push or nothing (BAT-179, BAT-180)."""
    sweep = found.sweep
    if sweep is None or found.tip is None:
        return None
    updates: list[RefUpdate] = []
    if sweep.changed:
        updates.append(RefUpdate(f"{_HEADS}{facts.branch}", sweep.tip, sweep.final))
    if deletions:
        gone = [(m.number, m.branch, m.sha) for m in sweep.merged]
        gone += [(c.number, c.branch, c.sha) for c in sweep.contained]
        updates += [RefUpdate(f"{_HEADS}{branch}", sha, None) for _, branch, sha in sorted(gone)]
    if not updates:
        return None
    merged = ", ".join(f"#{one.number}" for one in sweep.merged)
    contained = ", ".join(f"#{one.number}" for one in sweep.contained)
    said = (f"merged {merged}" if merged else "", f"already contained: {contained}" if contained else "")
    key = Key("BAT-180", facts.repo, facts.subject, sweep.final, "0" if deletions else "1")
    move = MoveRefs(facts.repo, str(key), tuple(updates))
    return Decision(
        "BAT-180",
        facts.repo,
        facts.subject,
        tuple(text for text in said if text) or ("progress files are removed",),
        actions=(move,),
        head=sweep.final,
    )


def conflict_decisions(facts: BatchFacts, found: SweepFacts) -> tuple[Decision, ...]:
    """Decide each conflict by itself; none of them stops the others (BAT-181)."""
    if found.sweep is None:
        return ()
    by_number = {task.number: task for task in facts.tasks}
    return tuple(
        conflict_decision(
            facts,
            ConflictFacts(
                branch=one.branch,
                sha=one.sha,
                files=one.conflict.paths,
                kinds=one.conflict.kinds,
                others=found.others.get(one.number, ()),
                task=by_number[one.number],
            ),
        )
        for one in found.sweep.conflicts
    )


def failure_decisions(facts: BatchFacts, found: SweepFacts) -> tuple[Decision, ...]:
    """Put back to failed what can't be merged at all, and resolvers that resolved nothing (BAT-181, BAT-193)."""
    heads = {task.number: found.heads.get(task.branch, "-") for task in facts.tasks}
    bad = [
        _failed(facts, "BAT-193", number, heads[number], reason, texts.bad_resolution(reason))
        for number, reason in found.bad.items()
    ]
    failed = [
        _failed(facts, "BAT-181", one.number, one.sha, one.reason, texts.not_merged(one.reason))
        for one in (found.sweep.failed if found.sweep else ())
    ]
    return (*bad, *failed)


def _failed(facts: BatchFacts, rule: str, number: int, head: str, fact: str, text: str) -> Decision:
    subject = f"issue:{number}"
    comment = Comment(facts.repo, str(Key(rule, facts.repo, subject, head)), number, Message.WORKER_FAILED, text)
    key = str(Key(rule, facts.repo, subject, head, "failed"))
    status = SetStatus(facts.repo, key, number, Status.FAILED, (Status.DONE,))
    return Decision(rule, facts.repo, subject, (fact,), actions=(comment, status), head=head)


def rejected_decisions(facts: BatchFacts, found: SweepFacts, reason: str) -> tuple[Decision, ...]:
    """After three lost races: every issue of the push goes back to failed, so that it is retried (BAT-183)."""
    merged = found.sweep.merged if found.sweep else ()
    decisions = []
    for one in merged:
        subject = f"issue:{one.number}"
        key = Key("BAT-183", facts.repo, subject, one.sha)
        text = texts.push_rejected(facts.branch, reason)
        comment = Comment(facts.repo, str(key), one.number, Message.PUSH_REJECTED, text)
        failed = str(msgspec.structs.replace(key, ordinal="failed"))
        status = SetStatus(facts.repo, failed, one.number, Status.FAILED, (Status.DONE,))
        decisions.append(Decision("BAT-183", facts.repo, subject, (reason,), actions=(comment, status), head=one.sha))
    return tuple(decisions)


def settle_decisions(facts: BatchFacts, found: SweepFacts) -> tuple[Decision, ...]:
    """Settle the origins of resolvers that are in or proved unneeded: done, or started again (BAT-187).

    A resolver settles its origin once: a run of the origin that is younger than the resolver means that it did.
    """
    decisions = []
    created = {issue.number: issue.created_at for issue in facts.issues}
    for task in origins(facts):
        finished = [one for one in resolvers_of(facts, task.number) if one.complete]
        if not finished:
            continue
        last = finished[-1]
        subject = f"issue:{task.number}"
        contained = found.contained.get(task.number)
        if contained:
            fact = f"its branch is in the batch branch since #{last.number}"
            to = Status.DONE
        elif last.branch in found.heads or any(
            one.open and not one.complete for one in resolvers_of(facts, task.number)
        ):
            continue  # the result is not in yet, or another resolver is still at it
        else:
            since = created.get(last.number)
            runs = [job for job in facts.jobs if job.args.get("issue") == task.number]
            if since is None or any(job.created_at is None or job.created_at > since for job in runs):
                continue
            fact = f"#{last.number} has ended and its branch is not in the batch branch"
            to = Status.READY
        key = Key("BAT-187", facts.repo, subject, "-", str(last.number))
        settle = SetStatus(facts.repo, str(key), task.number, to, (Status.FAILED,))
        decisions.append(Decision("BAT-187", facts.repo, subject, (fact,), actions=(settle,)))
    return tuple(decisions)


def warning_decision(facts: BatchFacts, found: SweepFacts) -> Decision | None:
    """Warn of names that fold to one (case G05), on the PR or on the last issue that was merged."""
    sweep = found.sweep
    if sweep is None or not sweep.warnings or not sweep.merged:
        return None
    pull: PullRequest | None = facts.pull
    number = pull.number if pull and pull.open else sweep.merged[-1].number
    key = Key("G05", facts.repo, facts.subject, sweep.final)
    comment = Comment(facts.repo, str(key), number, Message.BATCH, texts.folded_names(sweep.warnings))
    return Decision("G05", facts.repo, facts.subject, sweep.warnings, actions=(comment,), head=sweep.final)
