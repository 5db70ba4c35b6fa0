"""Rules about opening the batch PR: the base first, then the PR, or no PR where there is no change (BAT-194 … 218)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from droveway.batch import texts
from droveway.batch.consolidate.facts import candidates, integrator
from droveway.batch.facts import BatchFacts
from droveway.batch.resolvers import ConflictFacts, conflict_decision
from droveway.core.decisions import Blocker, Comment, Decision, MoveRefs, OpenPull, RefUpdate
from droveway.core.keys import Key
from droveway.core.repo import RepoId
from droveway.core.vocabulary import Message, Status
from droveway.git import Conflict, Merged, Replayed
from droveway.work import Task

if TYPE_CHECKING:
    from droveway.sessions import Fleet

_HEADS = "refs/heads/"
BaseMerge: TypeAlias = Merged | Replayed | Conflict | None


class BaseFacts(msgspec.Struct, frozen=True):
    """The batch branch beside its base, both as just fetched. ``merge`` None: the base is contained already."""

    tip: str
    base: str
    base_sha: str
    merge: BaseMerge = None
    changed: bool = True


def ready_for_pull(facts: BatchFacts) -> tuple[Blocker, ...]:
    """Give why no PR opens yet, besides what ``advance.waiting`` says (BAT-102, BAT-215)."""
    found: list[Blocker] = []
    left = [task.number for task, _ in candidates(facts, facts.refs)]
    if left:
        named = ", ".join(f"#{number}" for number in left)
        found.append(Blocker("unmerged", f"{named} is done and not merged yet", "the next cycle", "the Integrator"))
    return tuple(found)


async def observe_base(fleet: Fleet, repo: RepoId, facts: BatchFacts) -> BaseFacts | None:
    """Fetch, and try to bring the base into the batch branch in the object database; None where a branch is gone.

    The base's name comes from the forge, each time (case X04).
    """
    mirror = await fleet.mirror(repo)
    await mirror.fetch()
    base = facts.repository.default_branch
    refs = await mirror.refs(_HEADS)
    tip, base_sha = refs.get(f"{_HEADS}{facts.branch}"), refs.get(f"{_HEADS}{base}")
    if tip is None or base_sha is None:
        return None
    merge: BaseMerge = None
    if not await mirror.is_ancestor(base_sha, tip):
        who = integrator(facts)
        if facts.settings.integrator.strategy == "rebase":
            commits = [c.sha for c in await mirror.log(f"{base_sha}..{tip}") if len(c.parents) == 1]
            merge = await mirror.replay(base_sha, commits[::-1], committer=who, when=facts.at)
        else:
            message = texts.base_merge_message(base, facts.branch)
            found = await mirror.merge(tip, base_sha, message=message, author=who, committer=who, when=facts.at)
            merge = found if isinstance(found, Merged | Conflict) else None
    changed = await mirror.tree_of(tip) != await mirror.tree_of(base_sha)
    if isinstance(merge, Merged):
        changed = merge.tree != await mirror.tree_of(base_sha)
    elif isinstance(merge, Replayed):
        changed = await mirror.tree_of(merge.tip) != await mirror.tree_of(base_sha)
    return BaseFacts(tip, base, base_sha, merge, changed)


def base_decision(facts: BatchFacts, found: BaseFacts) -> Decision | None:
    """Bring the base in before the PR opens, or hand a conflict to a resolver; None: nothing to do (BAT-194)."""
    if isinstance(found.merge, Conflict):
        if not found.changed:
            return None
        conflict = ConflictFacts(found.base, found.base_sha, found.merge.paths, found.merge.kinds)
        return conflict_decision(facts, conflict)
    new = found.merge.commit if isinstance(found.merge, Merged) else found.merge.tip if found.merge else None
    if new is None or not found.changed:
        return None
    key = Key("BAT-194", facts.repo, facts.subject, new)
    update = RefUpdate(f"{_HEADS}{facts.branch}", found.tip, new)
    fact = f"{facts.branch} lacks {found.base} at {found.base_sha}"
    move = MoveRefs(facts.repo, str(key), (update,))
    return Decision("BAT-194", facts.repo, facts.subject, (fact,), actions=(move,), head=new)


def open_decision(facts: BatchFacts, found: BaseFacts) -> Decision:
    """Open the PR, one for the batch, its body made without an agent (BAT-215, BAT-217)."""
    graph = facts.graph
    tasks = tuple(graph.tasks.values())
    summary = texts.pull_summary(facts.metadata.pr_summary, facts.milestone.title, tasks)
    rows = [(task, graph.tier_of(task.number), state_of(task)) for task in facts.tasks]
    workers = [task.branch for task in facts.tasks if not task.manual]
    commands = facts.settings.validation.commands
    done = sum(1 for task in tasks if task.complete)
    checks = [f"{done} of {len(tasks)} tasks are complete; what a worker reported stands on its issue"]
    checks += [f"before each push: `{' '.join(c.run) if isinstance(c.run, tuple) else c.run}`" for c in commands[:20]]
    key = Key("BAT-215", facts.repo, facts.subject)
    action = OpenPull(
        facts.repo,
        str(key),
        title=texts.pull_title(facts.milestone.title, len(tasks)),
        body=texts.pull_body(summary, rows, workers, checks),
        head=facts.branch,
        base=found.base,
        milestone=None,
    )
    fact = f"all {len(tasks)} tasks are complete"
    return Decision("BAT-215", facts.repo, facts.subject, (fact,), actions=(action,), head=found.tip)


def state_of(task: Task) -> str:
    """Give a task's state in one word: done, closed, its status, or unclear where it has none or two."""
    if task.status is Status.DONE:
        return "done"
    return "closed" if not task.open else (task.status.value if task.status else "unclear")


def notice_decision(facts: BatchFacts, pull: int, found: BaseFacts) -> Decision | None:
    """Say on a PR that opened in conflict where a person has to act (BAT-194)."""
    if not isinstance(found.merge, Conflict):
        return None
    key = Key("BAT-194", facts.repo, f"pr:{pull}", found.base_sha)
    text = texts.base_conflict(found.base, found.merge.paths, found.merge.kinds, texts.BASE_PERSON)
    comment = Comment(facts.repo, str(key), pull, Message.CONFLICT, text)
    return Decision("BAT-194", facts.repo, f"pr:{pull}", ("it opened in conflict",), actions=(comment,))
