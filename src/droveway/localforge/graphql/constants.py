"""What this forge does not have, answered as a repository on GitHub without it would: no projects, no releases, …"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from droveway.localforge.graphql.pages import Connection, paged
from droveway.localforge.graphql.registry import Info, field

#: Types whose sources are mappings with the fields' own names; most of them never come up.
PLAIN: Final = frozenset(
    [
        "AutoMergeRequest",
        "Organization",
        "CheckRunStateCount",
        "CodeOfConduct",
        "Comparison",
        "FundingLink",
        "GitActor",
        "IssueTemplate",
        "IssueType",
        "Language",
        "LanguageEdge",
        "License",
        "PageInfo",
        "Project",
        "ProjectCard",
        "ProjectColumn",
        "ProjectV2",
        "ProjectV2Item",
        "ProjectV2ItemFieldSingleSelectValue",
        "PullRequestTemplate",
        "RateLimit",
        "ReactionGroup",
        "Release",
        "RepositoryContactLink",
        "RepositoryTopic",
        "StatusContextStateCount",
        "SubIssuesSummary",
        "Team",
        "Topic",
        "PullRequestChangedFile",
        "Workflow",
        "WorkflowRun",
    ]
)

_NEVER: Final = {
    "Repository": "archivedAt codeOfConduct homepageUrl latestRelease licenseInfo mirrorUrl primaryLanguage"
    " securityPolicyUrl templateRepository viewerDefaultCommitEmail parent",
    "Issue": "activeLockReason issueType parent",
    "PullRequest": "activeLockReason autoMergeRequest",
    "IssueComment": "minimizedReason",
    "PullRequestReviewComment": "minimizedReason",
}
_FALSE: Final = {
    "Repository": "hasDiscussionsEnabled hasProjectsEnabled hasWikiEnabled isBlankIssuesEnabled isDisabled isFork"
    " isInOrganization isLocked isMirror isSecurityPolicyEnabled isTemplate isUserConfigurationRepository"
    " usesCustomOpenGraphImage viewerHasStarred autoMergeAllowed",
    "Issue": "isPinned",
    "PullRequest": "isInMergeQueue isMergeQueueEnabled",
    "IssueComment": "isMinimized",
    "PullRequestReviewComment": "isMinimized",
    "ReviewRequest": "asCodeOwner",
}
_EMPTY: Final = {
    "Repository": "forks languages projects projectsV2 repositoryTopics watchers",
    "Issue": "blockedBy blocking projectCards projectItems subIssues",
    "PullRequest": "projectCards projectItems",
    "PullRequestReview": "onBehalfOf",
    "Organization": "teams",
}
_VALUES: Final[dict[str, Any]] = {
    "Repository.contactLinks": [],
    "Repository.diskUsage": 0,
    "Repository.forkCount": 0,
    "Repository.fundingLinks": [],
    "Repository.issueTemplates": [],
    "Repository.pullRequestTemplates": [],
    "Repository.stargazerCount": 0,
    "Repository.viewerPossibleCommitEmails": [],
    "Repository.viewerSubscription": "UNSUBSCRIBED",
    "Issue.subIssuesSummary": {"completed": 0, "percentCompleted": 0, "total": 0},
    "SearchResultItemConnection.repositoryCount": 0,
    "SearchResultItemConnection.userCount": 0,
}


def _constant(value: Any) -> Callable[..., Any]:
    return lambda _source, _info, **_arguments: value


def _empty(_source: Any, info: Info, **arguments: Any) -> Connection:
    return paged(info, {"first": 1, **arguments}, (), lambda _keys: [])


for _table, _answer in ((_NEVER, _constant(None)), (_FALSE, _constant(False)), (_EMPTY, _empty)):
    for _kind, _names in _table.items():
        field(*(f"{_kind}.{_name}" for _name in _names.split()))(_answer)
for _name, _value in _VALUES.items():
    field(_name)(_constant(_value))
