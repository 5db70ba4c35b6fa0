"""From the forge's JSON to our model: tolerant of what is new or absent, never inventing (FRG-003)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from droveway.forge.model import (
    CheckRun,
    Comment,
    CommitStatus,
    Issue,
    MergeState,
    Milestone,
    Permission,
    PullRequest,
    Repository,
    Review,
    ReviewState,
)

E = TypeVar("E", bound=enum.StrEnum)
_PERMISSIONS = {
    "none": Permission.NONE,
    "read": Permission.READ,
    "pull": Permission.READ,
    "triage": Permission.TRIAGE,
    "write": Permission.WRITE,
    "push": Permission.WRITE,
    "maintain": Permission.MAINTAIN,
    "admin": Permission.ADMIN,
}
GHOST = "ghost"  # as the forge shows whoever has no account any more


def moment(value: Any) -> datetime | None:
    """Read a time in UTC; None where there is none or it does not read."""
    if not isinstance(value, str):
        return None
    try:
        read = datetime.fromisoformat(value)
    except ValueError:
        return None
    return read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)


def text(value: Any) -> str:
    """Read a text; absent is empty."""
    return value if isinstance(value, str) else ""


def number(value: Any) -> int:
    """Read a number; absent is 0."""
    return value if isinstance(value, int) else 0


def member(kind: type[E], value: Any, unknown: E) -> E:
    """Read an enum's value; a new one of the forge is ``unknown``."""
    try:
        return kind(str(value).upper())
    except ValueError:
        return unknown


def permission(value: Any) -> Permission:
    """Read a role's name; one that we do not know is UNKNOWN, which is a no."""
    return _PERMISSIONS.get(text(value).lower(), Permission.UNKNOWN)


def login(value: Any) -> str:
    """Read an account's login, in REST's form: an App's ends in ``[bot]``, which GraphQL leaves out.

    A user may have the same name without it, so the two must not be taken for one.
    """
    if not isinstance(value, Mapping):
        return GHOST
    name = text(value.get("login")) or GHOST
    app = value.get("__typename") == "Bot" and text(value.get("resourcePath")).startswith("/apps/")
    return f"{name}[bot]" if app and not name.endswith("[bot]") else name


def same_login(one: str, other: str) -> bool:
    """Whether two logins are one account."""
    return bool(one) and one.lower() == other.lower()


def _names(labels: Any) -> tuple[str, ...]:
    found = labels if isinstance(labels, list) else ()
    return tuple(each if isinstance(each, str) else text(each.get("name")) for each in found if each)


def _numbered(value: Any) -> int | None:
    return value.get("number") if isinstance(value, Mapping) else None


# --- REST ------------------------------------------------------------------------------------------------------------
def rest_repository(value: Mapping[str, Any], default_sha: str = "") -> Repository:
    """Read a repository. Its permission is the best of what the answer grants."""
    granted = value.get("permissions")
    best = Permission.UNKNOWN
    if isinstance(granted, Mapping):
        best = max([permission(name) for name, yes in granted.items() if yes], default=Permission.NONE)
    methods = tuple(
        method
        for method, key in (
            ("squash", "allow_squash_merge"),
            ("rebase", "allow_rebase_merge"),
            ("merge", "allow_merge_commit"),
        )
        if value.get(key) is not False
    )
    return Repository(
        name=text(value.get("full_name")),
        node_id=text(value.get("node_id")),
        default_branch=text(value.get("default_branch")),
        default_sha=default_sha,
        permission=best,
        merge_methods=methods,
        archived=bool(value.get("archived")),
        private=bool(value.get("private")),
    )


def rest_milestone(value: Mapping[str, Any]) -> Milestone:
    """Read a milestone. REST counts attached PRs among its issues."""
    return Milestone(
        number=number(value.get("number")),
        title=text(value.get("title")),
        description=text(value.get("description")),
        state=text(value.get("state")).lower() or "open",
        open_issues=number(value.get("open_issues")),
        closed_issues=number(value.get("closed_issues")),
    )


def rest_issue(value: Mapping[str, Any]) -> Issue:
    """Read an issue (or the issue side of a PR)."""
    return Issue(
        number=number(value.get("number")),
        node_id=text(value.get("node_id")),
        title=text(value.get("title")),
        body=text(value.get("body")),
        state=text(value.get("state")).lower(),
        author=login(value.get("user")),
        labels=_names(value.get("labels")),
        milestone=_numbered(value.get("milestone")),
        created_at=moment(value.get("created_at")),
        updated_at=moment(value.get("updated_at")),
        closed_at=moment(value.get("closed_at")),
        comments=number(value.get("comments")),
    )


def rest_comment(value: Mapping[str, Any], me: str) -> Comment:
    """Read a comment; ``me`` is our own login."""
    author = login(value.get("user"))
    return Comment(
        id=number(value.get("id")),
        author=author,
        body=text(value.get("body")),
        created_at=moment(value.get("created_at")),
        updated_at=moment(value.get("updated_at")),
        association=text(value.get("author_association")) or "NONE",
        ours=same_login(author, me),
        url=text(value.get("html_url")),
    )


def rest_review(value: Mapping[str, Any]) -> Review:
    """Read a review."""
    return Review(
        id=number(value.get("id")),
        author=login(value.get("user")),
        state=member(ReviewState, value.get("state"), ReviewState.UNKNOWN),
        commit=text(value.get("commit_id")),
        body=text(value.get("body")),
        submitted_at=moment(value.get("submitted_at")),
        association=text(value.get("author_association")) or "NONE",
    )


def rest_pull(value: Mapping[str, Any]) -> PullRequest:
    """Read a PR; ``checks``, ``reviews`` and ``unresolved_threads`` stay None: REST keeps them elsewhere."""
    head = value.get("head") or {}
    base = value.get("base") or {}
    merged = bool(value.get("merged") or value.get("merged_at"))
    mergeable = value.get("mergeable")
    reviewers = [login(each) for each in value.get("requested_reviewers") or ()]
    teams = [text(each.get("slug")) for each in value.get("requested_teams") or ()]
    return PullRequest(
        number=number(value.get("number")),
        node_id=text(value.get("node_id")),
        title=text(value.get("title")),
        body=text(value.get("body")),
        state="merged" if merged else text(value.get("state")).lower(),
        author=login(value.get("user")),
        head=text(head.get("ref")),
        head_sha=text(head.get("sha")),
        head_repo=text((head.get("repo") or {}).get("full_name")),
        base=text(base.get("ref")),
        base_sha=text(base.get("sha")),
        draft=bool(value.get("draft")),
        mergeable=mergeable if isinstance(mergeable, bool) else None,
        merge_state=member(MergeState, value.get("mergeable_state"), MergeState.UNKNOWN),
        rebaseable=value.get("rebaseable") if isinstance(value.get("rebaseable"), bool) else None,
        maintainer_can_modify=bool(value.get("maintainer_can_modify")),
        labels=_names(value.get("labels")),
        milestone=_numbered(value.get("milestone")),
        requested_reviewers=(*reviewers, *teams),
        merge_sha=text(value.get("merge_commit_sha")) or None if merged else None,
        created_at=moment(value.get("created_at")),
        updated_at=moment(value.get("updated_at")),
    )


def rest_check_run(value: Mapping[str, Any]) -> CheckRun:
    """Read a check run. REST does not name the workflow: the suite stands for it, which keeps two workflows apart."""
    return CheckRun(
        id=number(value.get("id")),
        name=text(value.get("name")),
        app=text((value.get("app") or {}).get("slug")),
        status=text(value.get("status")).lower(),
        conclusion=text(value.get("conclusion")).lower(),
        workflow=f"suite {number((value.get('check_suite') or {}).get('id'))}",
        started_at=moment(value.get("started_at")),
        completed_at=moment(value.get("completed_at")),
        summary=text((value.get("output") or {}).get("summary")),
        url=text(value.get("html_url")) or text(value.get("details_url")),
    )


def rest_status(value: Mapping[str, Any]) -> CommitStatus:
    """Read a commit status."""
    return CommitStatus(
        context=text(value.get("context")),
        state=text(value.get("state")).lower(),
        created_at=moment(value.get("created_at")),
        description=text(value.get("description")),
        url=text(value.get("target_url")),
    )


# --- GraphQL ---------------------------------------------------------------------------------------------------------
def graph_repository(value: Mapping[str, Any]) -> Repository:
    """Read a repository; an empty one has no default branch here."""
    default = value.get("defaultBranchRef") or {}
    methods = tuple(
        method
        for method, key in (
            ("squash", "squashMergeAllowed"),
            ("rebase", "rebaseMergeAllowed"),
            ("merge", "mergeCommitAllowed"),
        )
        if value.get(key) is not False
    )
    return Repository(
        name=text(value.get("nameWithOwner")),
        node_id=text(value.get("id")),
        default_branch=text(default.get("name")),
        default_sha=text((default.get("target") or {}).get("oid")),
        permission=permission(value.get("viewerPermission")),
        merge_methods=methods,
        archived=bool(value.get("isArchived")),
        private=bool(value.get("isPrivate")),
    )


def graph_milestone(value: Mapping[str, Any]) -> Milestone:
    """Read a milestone; its counts are of issues alone, without PRs."""
    return Milestone(
        number=number(value.get("number")),
        title=text(value.get("title")),
        description=text(value.get("description")),
        state=text(value.get("state")).lower() or "open",
        open_issues=number((value.get("opened") or {}).get("totalCount")),
        closed_issues=number((value.get("closed") or {}).get("totalCount")),
    )


def graph_labels(value: Mapping[str, Any]) -> tuple[str, ...]:
    """Read the label names of an issue or PR."""
    return _names((value.get("labels") or {}).get("nodes"))


def graph_issue(value: Mapping[str, Any]) -> Issue:
    """Read an issue."""
    return Issue(
        number=number(value.get("number")),
        node_id=text(value.get("id")),
        title=text(value.get("title")),
        body=text(value.get("body")),
        state=text(value.get("state")).lower(),
        author=login(value.get("author")),
        labels=graph_labels(value),
        milestone=_numbered(value.get("milestone")),
        created_at=moment(value.get("createdAt")),
        updated_at=moment(value.get("updatedAt")),
        closed_at=moment(value.get("closedAt")),
        comments=number((value.get("comments") or {}).get("totalCount")),
    )


def graph_comment(value: Mapping[str, Any], me: str) -> Comment:
    """Read a comment of a review thread."""
    author = login(value.get("author"))
    return Comment(
        id=number(value.get("databaseId")),
        author=author,
        body=text(value.get("body")),
        created_at=moment(value.get("createdAt")),
        updated_at=moment(value.get("updatedAt")),
        association=text(value.get("authorAssociation")) or "NONE",
        ours=same_login(author, me),
        url=text(value.get("url")),
    )


def graph_review(value: Mapping[str, Any]) -> Review:
    """Read a review."""
    return Review(
        id=number(value.get("databaseId")),
        author=login(value.get("author")),
        state=member(ReviewState, value.get("state"), ReviewState.UNKNOWN),
        commit=text((value.get("commit") or {}).get("oid")),
        body=text(value.get("body")),
        submitted_at=moment(value.get("submittedAt")),
        association=text(value.get("authorAssociation")) or "NONE",
    )


def graph_check_run(value: Mapping[str, Any]) -> CheckRun:
    """Read a check run."""
    suite = value.get("checkSuite") or {}
    workflow = ((suite.get("workflowRun") or {}).get("workflow") or {}).get("name")
    return CheckRun(
        id=number(value.get("databaseId")),
        name=text(value.get("name")),
        app=text((suite.get("app") or {}).get("slug")),
        status=text(value.get("status")).lower(),
        conclusion=text(value.get("conclusion")).lower(),
        workflow=text(workflow),
        started_at=moment(value.get("startedAt")),
        completed_at=moment(value.get("completedAt")),
        summary=text(value.get("summary")),
        url=text(value.get("permalink")) or text(value.get("detailsUrl")),
    )


def graph_status(value: Mapping[str, Any]) -> CommitStatus:
    """Read a commit status."""
    return CommitStatus(
        context=text(value.get("context")),
        state=text(value.get("state")).lower(),
        created_at=moment(value.get("createdAt")),
        description=text(value.get("description")),
        url=text(value.get("targetUrl")),
    )


_MERGEABLE = {"MERGEABLE": True, "CONFLICTING": False}


def graph_pull(value: Mapping[str, Any]) -> PullRequest:
    """Read a PR without its checks, reviews and threads, which have completeness of their own."""
    requested = []
    for each in (value.get("reviewRequests") or {}).get("nodes") or ():
        who = (each or {}).get("requestedReviewer") or {}
        requested.append(text(who.get("slug")) or (login(who) if who.get("login") else "someone"))
    return PullRequest(
        number=number(value.get("number")),
        node_id=text(value.get("id")),
        title=text(value.get("title")),
        body=text(value.get("body")),
        state=text(value.get("state")).lower(),
        author=login(value.get("author")),
        head=text(value.get("headRefName")),
        head_sha=text(value.get("headRefOid")),
        head_repo=text((value.get("headRepository") or {}).get("nameWithOwner")),
        base=text(value.get("baseRefName")),
        base_sha=text(value.get("baseRefOid")),
        draft=bool(value.get("isDraft")),
        mergeable=_MERGEABLE.get(text(value.get("mergeable"))),
        merge_state=member(MergeState, value.get("mergeStateStatus"), MergeState.UNKNOWN),
        maintainer_can_modify=bool(value.get("maintainerCanModify")),
        labels=graph_labels(value),
        milestone=_numbered(value.get("milestone")),
        review_decision=text(value.get("reviewDecision")),
        requested_reviewers=tuple(requested),
        merge_sha=text((value.get("mergeCommit") or {}).get("oid")) or None,
        created_at=moment(value.get("createdAt")),
        updated_at=moment(value.get("updatedAt")),
    )
