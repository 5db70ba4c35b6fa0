"""Observing for a consolidation: the mirror, fetched, and the sweep of all candidates in the object database."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from droveway.batch import texts
from droveway.batch.facts import BatchFacts
from droveway.core.repo import RepoId
from droveway.core.settings import PullRequests
from droveway.core.vocabulary import Status
from droveway.git import Conflict, GitError, Identity, SweepResult, conflict_markers
from droveway.work import IssueBody, Task

if TYPE_CHECKING:
    from droveway.git import Mirror
    from droveway.sessions import Fleet

_HEADS = "refs/heads/"
_MERGE = re.compile(r"\AMerge #(\d+):")


class SweepFacts(msgspec.Struct, frozen=True):
    """What a consolidation decides from.

    ``heads`` are the branches under ``herd/`` as just fetched; ``sweep`` None: there is no candidate. ``others`` names,
    per conflicting issue, those whose merged work changed the same files; ``bad`` why a resolver's result is not taken
    (BAT-193); ``contained`` whether a failed origin's branch is in the batch branch, None where the branch is gone.
    """

    tip: str | None
    heads: Mapping[str, str]
    sweep: SweepResult | None = None
    others: Mapping[int, tuple[int, ...]] = {}
    bad: Mapping[int, str] = {}
    contained: Mapping[int, bool | None] = {}


def candidates(facts: BatchFacts, refs: Mapping[str, str]) -> tuple[tuple[Task, str], ...]:
    """Give the done issues whose branch exists, with its tip, by number (BAT-178). Nothing else is ever merged."""
    return tuple(
        (task, refs[task.branch])
        for task in facts.tasks
        if task.status is Status.DONE and not task.front.is_standalone and task.branch in refs
    )


def origins(facts: BatchFacts) -> tuple[Task, ...]:
    """Give the open failed issues that some resolver descends from: they wait to be settled (BAT-187)."""
    named = {task.front.origin for task in facts.graph.fixes.values() if task.front.is_resolver}
    return tuple(task for task in facts.tasks if task.open and task.status is Status.FAILED and task.number in named)


async def observe_sweep(fleet: Fleet, repo: RepoId, facts: BatchFacts) -> SweepFacts | None:
    """Fetch, and merge every candidate onto the tip in the object database. None where there is nothing to look at.

    Raises GitError where the forge did not answer: nothing is known then.
    """
    if facts.tip is None or not (candidates(facts, facts.refs) or origins(facts)):
        return None
    mirror = await fleet.mirror(repo)
    await mirror.fetch()
    heads = {n.removeprefix(_HEADS): sha for n, sha in (await mirror.refs(f"{_HEADS}herd/")).items()}
    tip = heads.get(facts.branch)
    if tip is None:
        return SweepFacts(None, heads)
    contained = {task.number: await _contained(mirror, heads.get(task.branch), tip) for task in origins(facts)}
    wanted, bad = [], {}
    for task, sha in candidates(facts, heads):
        problem = await _bad_resolution(mirror, task, sha, heads, facts) if task.front.is_resolver else ""
        if problem:
            bad[task.number] = problem
        else:
            wanted.append((task.number, task.branch, sha))
    if not wanted:
        return SweepFacts(tip, heads, None, {}, bad, contained)
    titles = {task.number: task.title for task in facts.tasks}
    sweep = await mirror.sweep(
        tip,
        wanted,
        message=lambda number, branch: texts.merge_message(number, titles[number], branch),
        author=integrator(facts),
        committer=integrator(facts),
        when=facts.at,
    )
    others = {
        conflict.number: await _others(mirror, conflict.sha, sweep.final, conflict.conflict, conflict.number)
        for conflict in sweep.conflicts
    }
    return SweepFacts(tip, heads, sweep, others, bad, contained)


def integrator(facts: BatchFacts) -> Identity:
    """Give the author of the framework's commits (BAT-037)."""
    return Identity(
        "Droveway Integrator", facts.settings.pull_requests.co_author_email or PullRequests().co_author_email
    )


async def _contained(mirror: Mirror, sha: str | None, tip: str) -> bool | None:
    return None if sha is None else await mirror.is_ancestor(sha, tip)


async def _bad_resolution(mirror: Mirror, task: Task, sha: str, heads: Mapping[str, str], facts: BatchFacts) -> str:
    """Say why a resolver's branch resolves nothing: it lacks the other branch, or holds conflict markers (BAT-193)."""
    for branch in task.front.conflicting_branches:
        other = heads.get(branch)
        if branch == facts.repository.default_branch:
            lacks = await _lacks_base(mirror, branch, sha, heads[facts.branch])
        else:  # a branch that is gone was merged, or given up
            lacks = other is not None and not await mirror.is_ancestor(other, sha)
        if lacks:
            return f"the history of {task.branch} does not contain {branch}"
    files = task.body.files if isinstance(task.body, IssueBody) else ()
    for path in files:
        content = await mirror.show_file(sha, path)
        if content is not None and conflict_markers(content):
            return f"{path} still holds conflict markers"
    return ""


async def _lacks_base(mirror: Mirror, base: str, sha: str, tip: str) -> bool:
    """Whether a branch brings nothing of the base that the batch branch lacks; the base may have moved on since."""
    at = (await mirror.refs(f"{_HEADS}{base}")).get(f"{_HEADS}{base}")
    if at is None or await mirror.is_ancestor(at, tip) or await mirror.is_ancestor(sha, tip):
        return False
    return await mirror.merge_base(at, sha) == await mirror.merge_base(at, tip)


async def _others(mirror: Mirror, sha: str, head: str, conflict: Conflict, number: int) -> tuple[int, ...]:
    """Give the issues whose merged work changed a file in conflict since the branch began."""
    try:
        start = await mirror.merge_base(sha, head)
        if start is None:
            return ()
        commits = await mirror.log(f"{start}..{head}", limit=2_000)
        found = []
        for commit in reversed(commits):
            merged = _MERGE.match(commit.message)
            if not merged or int(merged.group(1)) == number or len(commit.parents) != 2:
                continue
            if set(await mirror.changed_files(commit.parents[0], commit.sha)).intersection(conflict.paths):
                found.append(int(merged.group(1)))
        return tuple(dict.fromkeys(found))
    except GitError:  # who else changed a file helps people; it decides nothing
        return ()
