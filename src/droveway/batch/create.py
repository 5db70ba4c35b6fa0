"""From a plan to a batch on the forge, in steps that a rerun of the same plan completes (BAT-018 … BAT-022)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from droveway.batch import texts
from droveway.batch.issues import first_body, with_links
from droveway.batch.metadata import CreatedBy, Metadata, read_metadata, render_metadata
from droveway.batch.metadata import created_by as read_created_by
from droveway.batch.plan import Plan, plan_tiers
from droveway.batch.start import start_batch
from droveway.core.decisions import CreateIssue, Decision, EditIssue
from droveway.core.errors import HerdError, InputError
from droveway.core.keys import Key, find_marker, find_plan, message_key
from droveway.core.lease import Lease
from droveway.core.points import point
from droveway.core.repo import RepoId
from droveway.core.text import byte_length
from droveway.core.vocabulary import (
    TYPE_BUGFIX,
    TYPE_FEATURE,
    TYPE_MANUAL,
    Status,
    batch_branch,
    worker_branch,
)
from droveway.forge import ExistsError, ForgeError
from droveway.forge.model import Issue, Milestone
from droveway.work import IssueBody, parse_body

if TYPE_CHECKING:
    from droveway.sessions import Fleet

_PLAN_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")
_NAMES = 10
_DIRECT_BYTES = 60_000  # well under the forge's limit, as the second pass writes numbers into the body


class CreatedBatch(msgspec.Struct, frozen=True):
    """What creation gave. ``issues`` maps a task's 0-based index to its issue; ``note`` says if the name was taken."""

    milestone: int
    title: str
    branch: str
    issues: Mapping[int, int]
    note: str = ""
    started: tuple[str, ...] = ()


async def create_batch(
    fleet: Fleet,
    repo: RepoId,
    plan: Plan,
    plan_id: str,
    *,
    created_by: Mapping[str, str] | CreatedBy,
    lease: Lease,
    name_override: str | None = None,
    dispatch: bool = True,
) -> CreatedBatch:
    """Create milestone, issues, bodies, and with ``dispatch`` the branch and the first workers.

    Each step first looks for what an earlier, broken run of the same ``plan_id`` left. Raises InputError for what the
    caller must change, HerdError where the forge refuses. In a dry run nothing is read or written, the number is 0.
    """
    if not _PLAN_ID.fullmatch(plan_id):
        raise InputError(f"{plan_id!r} is no plan id: letters, digits, dot, underscore and hyphen, at most 100")
    title = " ".join((name_override or plan.batch_name).split())
    if not title:
        raise InputError("the batch's name is blank")
    if fleet.actuator.dry_run:
        return CreatedBatch(0, title, batch_branch(0, title), {})
    maker = read_created_by(created_by)
    await _preflight(fleet, repo)
    milestone = await _milestone(fleet, repo, title, Metadata(plan_id, plan.pr_summary, created_by=maker), lease)
    note = texts.name_conflict(milestone.title) if milestone.title != title else ""
    await point("plan.milestone")
    issues = await _issues(fleet, repo, plan, plan_id, milestone, lease)
    await _bodies(fleet, repo, plan, issues, lease)
    await point("plan.bodies")
    branch = read_metadata(milestone.description).batch_branch
    numbers = {index: issue.number for index, issue in issues.items()}
    started: tuple[str, ...] = ()
    if dispatch:
        started = await start_batch(fleet, repo, milestone.number, lease)
    return CreatedBatch(milestone.number, milestone.title, branch, numbers, note, started)


async def _preflight(fleet: Fleet, repo: RepoId) -> None:
    """Refuse before anything exists what could not work later."""
    repository = await fleet.forge.repository(repo)
    if repository.archived:
        raise InputError(f"{repo} is archived: nothing can be changed in it")
    if not repository.default_sha and not await fleet.forge.ref(repo, f"heads/{repository.default_branch}"):
        raise InputError(f"{repo} has no commit on {repository.default_branch}: push something first")


async def _milestone(fleet: Fleet, repo: RepoId, title: str, wanted: Metadata, lease: Lease) -> Milestone:
    """Find the plan's own milestone or create one under the first free name; then store the branch's name in it."""
    own = None
    for milestone in await fleet.forge.milestones(repo, state="all"):
        if read_metadata(milestone.description).plan == wanted.plan:
            own = milestone
    if own is None:
        await lease.check()
        own = await _create_milestone(fleet, repo, title, wanted)
    elif own.state != "open":
        raise InputError(f"plan {wanted.plan} is batch #{own.number}, which has ended: give the plan file another name")
    if not read_metadata(own.description).batch_branch:
        branch = await _free_branch(fleet, repo, batch_branch(own.number, own.title))
        description = render_metadata(msgspec.structs.replace(wanted, batch_branch=branch))
        await lease.check()
        own = await fleet.forge.edit_milestone(repo, own.number, description=fleet.redactor(description))
    return own


async def _create_milestone(fleet: Fleet, repo: RepoId, title: str, wanted: Metadata) -> Milestone:
    """Only "already exists" leads to the next name; after the tenth the first error is reported (BAT-019)."""
    first: ExistsError | None = None
    description = fleet.redactor(render_metadata(wanted))
    for count in range(1, _NAMES + 1):
        name = title if count == 1 else f"{title} ({count})"
        try:
            return await fleet.forge.create_milestone(repo, fleet.redactor(name), description)
        except ExistsError as error:
            first = first or error
        except ForgeError as error:
            raise HerdError(f"creating milestone: {error}") from error
    raise HerdError(f"creating milestone: {first}")


async def _free_branch(fleet: Fleet, repo: RepoId, name: str) -> str:
    """Give ``name``, or with a number after it where a ref is in the way (case B01)."""
    from droveway.git import clashing_ref

    refs = {ref.removeprefix("refs/heads/"): sha for ref, sha in (await fleet.forge.refs(repo, "heads/herd")).items()}
    refs = {ref.removeprefix("heads/"): sha for ref, sha in refs.items()}
    for count in range(1, 100):
        candidate = name if count == 1 else f"{name}-{count}"
        clash = candidate if candidate in refs else clashing_ref(candidate, refs)
        if clash is None:
            return candidate
        if not clash.startswith(f"{name}"):
            raise InputError(f"the branch {clash} of {repo} is in the way of {name}: rename it")
    raise InputError(f"every name from {name} to {name}-99 is taken in {repo}")


async def _issues(
    fleet: Fleet, repo: RepoId, plan: Plan, plan_id: str, milestone: Milestone, lease: Lease
) -> dict[int, Issue]:
    """Create the issues in plan order; those that carry the plan's marker and are ours exist already (BAT-021)."""
    found: dict[int, Issue] = {}
    for issue in await fleet.forge.issues(repo, milestone=milestone.number, state="all"):
        mark = find_plan(issue.body)
        if mark and mark[0] == plan_id and issue.author.lower() == fleet.forge.login.lower():
            found.setdefault(mark[1], issue)
    tier = plan_tiers(plan)
    for index, task in enumerate(plan.tasks):
        if index not in found:
            status = Status.READY if tier[index] == 0 else Status.BLOCKED
            kind = TYPE_BUGFIX if task.type == "bugfix" else TYPE_FEATURE
            labels = [status.label, kind, *([TYPE_MANUAL] if task.manual else [])]
            body = fleet.redactor(first_body(str(repo), plan, plan_id, index, milestone.number))
            found[index] = await _issue(fleet, repo, task.title, body, labels, milestone.number, lease)
        await point("plan.issue")
    return found


async def _issue(
    fleet: Fleet, repo: RepoId, title: str, body: str, labels: Sequence[str], milestone: int, lease: Lease
) -> Issue:
    """Create one issue. A body over the limit goes through the action, whose handler posts the rest (BAT-030)."""
    if byte_length(body) <= _DIRECT_BYTES:
        await lease.check()
        return await fleet.forge.create_issue(repo, fleet.redactor(title), body, labels=labels, milestone=milestone)
    key = message_key(body) or ""
    action = CreateIssue(str(repo), key, title=title, body=body, labels=tuple(labels), milestone=milestone)
    decision = Decision("BAT-021", str(repo), f"batch:{milestone}", ("the plan names this task",), actions=(action,))
    outcome = await fleet.actuator.act(decision, lease, loop="plan")
    receipt = outcome.receipt(CreateIssue)
    issue = await fleet.forge.issue(repo, receipt.number) if receipt and receipt.number else None
    if issue is None:
        raise HerdError(f"creating the issue {title!r}: {'; '.join(result.detail for result in outcome.results)}")
    return issue


async def _bodies(fleet: Fleet, repo: RepoId, plan: Plan, issues: Mapping[int, Issue], lease: Lease) -> None:
    """Write the real numbers and the branch into each body (BAT-021, BAT-025)."""
    for index, task in enumerate(plan.tasks):
        issue = issues[index]
        body = parse_body(issue.body)
        # A body that has its branch was finished by an earlier run, and may have been edited by a person since.
        if isinstance(body, IssueBody) and not body.front.branch:
            needs = tuple(issues[other].number for other in task.depends_on)
            await _link(fleet, repo, plan, index, issue, needs, lease)
        await point("plan.body")


async def _link(
    fleet: Fleet, repo: RepoId, plan: Plan, index: int, issue: Issue, needs: tuple[int, ...], lease: Lease
) -> None:
    """Write one body's links. One that was posted in parts is edited as a whole, so that the parts stay right."""
    branch = worker_branch(issue.number, issue.title)
    mark = find_plan(issue.body)
    if mark is None or find_marker(issue.body, "body-continues") is None:
        await lease.check()
        await fleet.forge.edit_issue(repo, issue.number, body=with_links(issue.body, needs, branch))
        return
    whole = first_body(str(repo), plan, mark[0], index, issue.milestone or 0)
    key = Key("BAT-021", str(repo), f"issue:{issue.number}", "-", "links")
    edit = EditIssue(str(repo), str(key), issue.number, body=with_links(whole, needs, branch))
    decision = Decision("BAT-021", str(repo), f"issue:{issue.number}", ("it was posted in parts",), actions=(edit,))
    outcome = await fleet.actuator.act(decision, lease, loop="plan")
    if not outcome.ok:
        raise HerdError(f"writing the body of #{issue.number}: {outcome.results[0].detail}")
