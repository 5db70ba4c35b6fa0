"""Builds batch facts for tables of rules, from few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from droveway.batch.facts import BatchFacts, is_ours
from droveway.batch.graph import build_graph
from droveway.batch.metadata import CreatedBy, Metadata, render_metadata
from droveway.core.facts import Complete, Fact, Unknown
from droveway.core.jobs import JobInfo, JobState
from droveway.core.settings import Settings
from droveway.core.vocabulary import TYPE_FIX, TYPE_MANUAL, Status, worker_branch
from droveway.forge.model import Issue, Milestone, PullRequest, Repository
from droveway.work import FrontMatter, make_body, read_task, render_body

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
REPO = "o/r"
BRANCH = "herd/batch/7-b"
TIP = "a" * 40


def sha(number: int) -> str:
    return f"{number:040x}"


def issue(
    number: int,
    status: Status | Sequence[str] | None = Status.READY,
    *,
    needs: Sequence[int] = (),
    open: bool = True,  # noqa: A002
    manual: bool = False,
    labels: Sequence[str] = (),
    body: str | None = None,
    title: str = "",
    created: datetime = NOW - timedelta(hours=2),
    comments: int = 0,
    **front: Any,
) -> Issue:
    title = title or f"task {number}"
    if body is None:
        matter = FrontMatter(batch=7, depends_on=tuple(needs), **{"branch": worker_branch(number, title), **front})
        body = render_body(make_body(matter, task=f"do {title}", acceptance_criteria=["it works"]))
    marks = [status.label] if isinstance(status, Status) else list(status or ())
    kind = TYPE_FIX if front.get("type") == "fix" or front.get("conflict_resolution") else "herd/type:feature"
    return Issue(
        number=number,
        node_id=f"I{number}",
        title=title,
        body=body,
        state="open" if open else "closed",
        author="herd",
        labels=(*marks, kind, *([TYPE_MANUAL] if manual else []), *labels),
        milestone=7,
        created_at=created,
        updated_at=created,
        comments=comments,
    )


def resolver(number: int, origin: int | None, status: Status = Status.READY, **more: Any) -> Issue:
    merge = worker_branch(origin, f"task {origin}") if origin else "main"
    return issue(
        number, status, type="fix", conflict_resolution=True, conflicting_branches=(merge,), origin=origin, **more
    )


def pull(number: int = 90, **more: Any) -> PullRequest:
    values = {
        "node_id": "P",
        "title": "[herd] b (1 tasks)",
        "body": "",
        "state": "open",
        "author": "herd",
        "head": BRANCH,
        "head_sha": TIP,
        "head_repo": REPO,
        "base": "main",
        "mergeable": True,
    }
    return PullRequest(number=number, **{**values, **more})


def run(number: int, attempt: int = 1, state: JobState = JobState.RUNNING, **more: Any) -> JobInfo:
    args = {"repo": REPO, "issue": number, "batch": 7}
    return JobInfo(f"worker/{REPO}/{number}/{attempt}", "worker", state, args, created_at=NOW, **more)


def unknown() -> Unknown:
    return Unknown("the forge answered 502", NOW)


def facts(
    issues: Sequence[Issue] | Unknown,
    *,
    branches: Sequence[int] = (),
    refs: Mapping[str, str] | Unknown | None = None,
    started: bool = True,
    pr: PullRequest | Unknown | None = None,
    jobs: Sequence[JobInfo] | Unknown = (),
    settings: Settings = Settings(),  # noqa: B008
    state: str = "open",
    summary: str = "",
) -> BatchFacts:
    def whole(value: Any) -> Fact[Any]:
        return value if isinstance(value, Unknown) else Complete(value, NOW)

    description = render_metadata(Metadata("plan", summary, BRANCH, CreatedBy("ann", "Ann", "ann@example.org")))
    graph: Fact[Any] = (
        issues
        if isinstance(issues, Unknown)
        else Complete(build_graph(read_task(one) for one in issues if is_ours(one)), NOW)
    )
    if refs is None:
        refs = {BRANCH: TIP} if started else {}
        refs |= {worker_branch(n, f"task {n}"): sha(n) for n in branches}
    return BatchFacts(
        repo=REPO,
        number=7,
        at=NOW,
        host="forge.example",
        login="herd",
        settings=settings,
        repository_fact=Complete(Repository("r", "R", "main", sha(1)), NOW),
        milestone_fact=Complete(Milestone(7, "b", description, state), NOW),
        issues_fact=whole(issues if isinstance(issues, Unknown) else tuple(issues)),
        refs_fact=whole(refs),
        pull_fact=whole(pr),
        jobs_fact=whole(jobs if isinstance(jobs, Unknown) else tuple(jobs)),
        graph_fact=graph,
    )


def setting(**changes: Any) -> Settings:
    """``setting(integrator__on_conflict="notify")``."""
    settings = Settings()
    for name, value in changes.items():
        group, _, key = name.partition("__")
        part = msgspec.structs.replace(getattr(settings, group), **{key: value})
        settings = msgspec.structs.replace(settings, **{group: part})
    return settings
