"""Issue bodies that the batch room writes: tasks of a plan, resolvers (BAT-021, BAT-191, BAT-192). Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from droveway.batch import texts
from droveway.batch.plan import Plan
from droveway.core.keys import Key, message_marker, plan_marker
from droveway.core.text import neutralise
from droveway.core.vocabulary import Message
from droveway.work import FrontMatter, IssueBody, Task, make_body, parse_body, render_body


def first_body(repo: str, plan: Plan, plan_id: str, index: int, milestone: int) -> str:
    """Give the body of a plan's task as it is created: everything but the numbers that exist only afterwards."""
    task = plan.tasks[index]
    front = FrontMatter(
        batch=milestone,
        scope=task.scope,
        estimated_complexity=task.complexity,
        runner_label=task.runner_label,
        priority=task.priority,
        timeout_minutes=task.timeout_minutes,
        model=task.model,
    )
    body = make_body(
        front,
        task=neutralise(task.description or task.title),
        implementation_details=neutralise(task.implementation_details),
        conventions=[neutralise(text) for text in task.conventions],
        context_from_dependencies=[neutralise(text) for text in task.context_from_dependencies],
        acceptance_criteria=[neutralise(text) for text in task.acceptance_criteria],
        files=task.scope,
    )
    key = Key("BAT-021", repo, f"batch:{milestone}", "-", f"task-{index}")
    marks = f"{plan_marker(plan_id, index)}\n{message_marker(Message.TASK_ISSUE, key)}"
    return f"{render_body(body).rstrip()}\n\n{marks}\n"


def with_links(text: str, depends_on: Sequence[int], branch: str) -> str:
    """Give a body with its dependencies' numbers and its branch written in; the rest stays as it is."""
    body = parse_body(text)
    if not isinstance(body, IssueBody):
        return text
    front = msgspec.structs.replace(body.front, depends_on=tuple(depends_on), branch=branch)
    return render_body(msgspec.structs.replace(body, front=front))


def with_branch(text: str, branch: str) -> str:
    """Give a body with its worker branch written in (BAT-025)."""
    body = parse_body(text)
    if not isinstance(body, IssueBody):
        return text
    return render_body(msgspec.structs.replace(body, front=msgspec.structs.replace(body.front, branch=branch)))


def resolver_body(
    milestone: int,
    *,
    what: str,
    merge: str,
    files: Sequence[str],
    kinds: Sequence[str],
    intents: Sequence[Task],
    origin: int | None,
    batch_pr: int | None = None,
) -> str:
    """Give a resolver's body: the conflict, the files, each worker's intent and the steps (BAT-191, BAT-192).

    ``merge`` is the branch that the resolver merges; ``origin`` the issue that could not be merged, if it is one.
    """
    front = FrontMatter(
        batch=milestone,
        type="fix",
        batch_pr=batch_pr,
        conflict_resolution=True,
        conflicting_branches=(merge,),
        origin=origin,
    )
    body = make_body(
        front,
        task=texts.resolver_task(what, files, kinds),
        acceptance_criteria=texts.RESOLVER_CRITERIA,
        context="\n\n".join(texts.intent(task) for task in intents),
        files=files[:200],
        more=[("Git Instructions", texts.resolver_steps(merge))],
    )
    return render_body(body)
