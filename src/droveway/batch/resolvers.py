"""Rules about resolvers: when one is made, for what, and when the chain is at its cap (BAT-190 … BAT-203). Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from droveway.batch import texts
from droveway.batch.facts import BatchFacts
from droveway.batch.graph import is_active
from droveway.batch.issues import resolver_body
from droveway.core.decisions import AnyAction, Comment, CreateIssue, Decision, SetLabels, SetStatus
from droveway.core.keys import Key
from droveway.core.vocabulary import CASCADE_FAILED, TYPE_FIX, Message, Status
from droveway.work import Task


class ConflictFacts(msgspec.Struct, frozen=True):
    """A branch that does not merge. ``task`` None: it is the base, named by ``branch``; ``sha`` is its tip."""

    branch: str
    sha: str
    files: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    others: tuple[int, ...] = ()
    task: Task | None = None


def resolvers_of(facts: BatchFacts, origin: int | None, base: str = "") -> tuple[Task, ...]:
    """Give the resolvers made for an issue or, with ``origin`` None, for the conflict with ``base``; oldest first."""
    return tuple(
        task
        for task in facts.graph.fixes.values()
        if task.front.is_resolver
        and task.front.origin == origin
        and (origin is not None or base in task.front.conflicting_branches)
    )


def chain(facts: BatchFacts, task: Task) -> tuple[int, ...]:
    """Give the issues from the first origin down to ``task``, following ``origin`` by number (BAT-202)."""
    by_number = {found.number: found for found in facts.tasks}
    way = [task.number]
    at = task
    while at.front.is_resolver and at.front.origin is not None and at.front.origin not in way:
        way.append(at.front.origin)
        found = by_number.get(at.front.origin)
        if found is None:
            break
        at = found
    return tuple(reversed(way))


def unsolved(facts: BatchFacts, root: int | None, base: str = "") -> tuple[int, ...]:
    """Give the resolvers that descend from one conflict without success, by number.

    A closed one is given up by a person, and one that is done and whose branch is gone was merged: neither counts.
    """
    found: list[int] = []
    seen: set[int] = set()
    todo = list(resolvers_of(facts, root, base))
    while todo:
        task = todo.pop()
        if task.number in seen:
            continue
        seen.add(task.number)
        if task.open and not (task.status is Status.DONE and task.branch not in facts.refs):
            found.append(task.number)
        todo += resolvers_of(facts, task.number)
    return tuple(sorted(found))


def conflict_decision(facts: BatchFacts, found: ConflictFacts) -> Decision:
    """Decide what follows a conflict: a resolver, then the origin's failure; or a person (BAT-190, BAT-191)."""
    integrator = facts.settings.integrator
    base = found.branch if found.task is None else ""
    number = found.task.number if found.task else None
    active = next((task for task in resolvers_of(facts, number, base) if is_active(task)), None)
    if active is not None:
        return _settled(facts, found, texts.conflict_resolver(active.number), "BAT-191")
    if integrator.on_conflict == "notify":
        return _settled(facts, found, _person(found, "Conflicts are left to people here."), "BAT-190")
    if facts.cascade_failed:
        return _paused(facts, found)
    root = chain(facts, found.task)[0] if found.task else None
    tried = unsolved(facts, root, base)
    if len(tried) >= integrator.max_conflict_resolution_attempts:
        return _cascade(facts, found, tried)
    return _resolver(facts, found)


def _subject(facts: BatchFacts, found: ConflictFacts) -> str:
    return f"issue:{found.task.number}" if found.task else facts.subject


def _fact(found: ConflictFacts) -> str:
    names = ", ".join(found.files[:5]) + (" …" if len(found.files) > 5 else "")
    return f"{found.branch} conflicts in {names or 'no file that git names'}"


def _key(facts: BatchFacts, found: ConflictFacts, rule: str, ordinal: str = "0") -> Key:
    return Key(rule, facts.repo, _subject(facts, found), found.sha, ordinal)


def _resolver(facts: BatchFacts, found: ConflictFacts) -> Decision:
    """Create the resolver, ready to be dispatched. The origin fails afterwards, once it is seen (BAT-191)."""
    task = found.task
    by_number = {one.number: one for one in facts.tasks}
    intents = [by_number[n] for n in (*([task.number] if task else ()), *found.others) if n in by_number]
    batch = facts.milestone.title
    base = facts.repository.default_branch
    if task:
        title = texts.resolver_title(task.number, task.title)
        what = f"The branch `{found.branch}` of #{task.number} does not merge into the batch branch."
        before = len(resolvers_of(facts, task.number))
    else:
        title = texts.base_resolver_title(batch, base)
        what = f"The base `{base}` does not merge into the batch branch."
        before = len(resolvers_of(facts, None, base))
        intents = list(facts.graph.tasks.values())[:5]
    pull = facts.pull
    create = CreateIssue(
        facts.repo,
        str(_key(facts, found, "BAT-191", str(before))),
        title=title,
        body=resolver_body(
            facts.number,
            what=what,
            merge=found.branch,
            files=found.files,
            kinds=found.kinds,
            intents=intents,
            origin=task.number if task else None,
            batch_pr=pull.number if pull and pull.open else None,
        ),
        labels=(TYPE_FIX, Status.READY.label),
        milestone=facts.number,
    )
    return Decision("BAT-191", facts.repo, _subject(facts, found), (_fact(found),), actions=(create,), head=found.sha)


def _settled(facts: BatchFacts, found: ConflictFacts, then: str, rule: str) -> Decision:
    """Tell people, and put the origin back to failed: a done issue whose work is not in would let the batch land."""
    actions: list[AnyAction] = []
    if found.task:
        body = texts.conflict(found.task.number, found.files, found.kinds, found.others, then)
        actions.append(
            Comment(facts.repo, str(_key(facts, found, rule, "told")), found.task.number, Message.CONFLICT, body)
        )
        actions.append(_failed(facts, found, found.task, rule))
    return Decision(rule, facts.repo, _subject(facts, found), (_fact(found),), actions=tuple(actions), head=found.sha)


def _failed(facts: BatchFacts, found: ConflictFacts, task: Task, rule: str) -> SetStatus:
    key = str(_key(facts, found, rule, "failed"))
    return SetStatus(facts.repo, key, task.number, Status.FAILED, (Status.DONE,))


def _person(found: ConflictFacts, why: str) -> str:
    return texts.conflict_person(found.branch, why)


def _paused(facts: BatchFacts, found: ConflictFacts) -> Decision:
    """While ``herd/cascade-failed`` is set no resolver is made; one comment says so (BAT-203)."""
    actions: list[AnyAction] = []
    if found.task:
        number = found.task.number
        key = str(_key(facts, found, "BAT-203"))
        actions.append(Comment(facts.repo, key, number, Message.RESOLVER_PAUSED, texts.resolver_paused(number)))
        actions.append(_failed(facts, found, found.task, "BAT-203"))
    fact = "herd/cascade-failed is set"
    return Decision("BAT-203", facts.repo, _subject(facts, found), (fact, _fact(found)), actions=tuple(actions))


def _cascade(facts: BatchFacts, found: ConflictFacts, tried: Sequence[int]) -> Decision:
    """At the cap: the label, one comment with the chain, and the failing issue failed (BAT-201)."""
    way = chain(facts, found.task) if found.task else tuple(tried)
    pull = facts.pull
    open_pull = pull.number if pull and pull.open else None
    target = open_pull or (found.task.number if found.task else (tried[-1] if tried else None))
    actions: list[AnyAction] = []
    if target is not None:
        mentions = facts.settings.monitor.notify_users if facts.settings.monitor.notify_on_failure else ()
        text = texts.cascade(way, found.branch, mentions)
        key = _key(facts, found, "BAT-201")
        label = str(_key(facts, found, "BAT-201", "label"))
        actions.append(SetLabels(facts.repo, label, target, add=(CASCADE_FAILED,)))
        actions.append(Comment(facts.repo, str(key), target, Message.CASCADE, text))
    if found.task:
        actions.append(_failed(facts, found, found.task, "BAT-201"))
    fact = f"{len(tried)} resolvers of this conflict had no success"
    return Decision("BAT-201", facts.repo, _subject(facts, found), (fact, _fact(found)), actions=tuple(actions))
