"""The GraphQL texts. Every field stands in GitHub's published schema (a test validates them).

Costs count in nodes: 100 labels an issue, 100 contexts and 50 suites a PR. Pages: 50 PRs, 100 issues (FRG-004).
"""

from __future__ import annotations

from typing import Final

ISSUES_PAGE: Final = 100
PULLS_PAGE: Final = 50

_REPOSITORY: Final = """
fragment repositoryFacts on Repository {
  id nameWithOwner defaultBranchRef { name target { oid } } viewerPermission
  squashMergeAllowed rebaseMergeAllowed mergeCommitAllowed isArchived isPrivate
}
"""
_MILESTONE: Final = """
fragment milestoneFacts on Milestone {
  number title description state
  opened: issues(states: [OPEN]) { totalCount } closed: issues(states: [CLOSED]) { totalCount }
}
"""
_ISSUE: Final = """
fragment issueFacts on Issue {
  id number title body state createdAt updatedAt closedAt
  author { __typename login resourcePath } milestone { number } comments { totalCount }
  labels(first: 100) { totalCount nodes { name } }
}
"""
_ISSUES: Final = """
fragment issuePage on IssueConnection { totalCount pageInfo { hasNextPage endCursor } nodes { ...issueFacts } }
"""
_REFS: Final = """
fragment refPage on RefConnection {
  totalCount pageInfo { hasNextPage endCursor } nodes { name prefix target { oid } }
}
"""
_CHECKS: Final = """
fragment contextPage on StatusCheckRollupContextConnection {
  totalCount pageInfo { hasNextPage endCursor }
  nodes {
    __typename
    ... on CheckRun {
      databaseId name status conclusion startedAt completedAt summary permalink
      checkSuite { id app { slug } workflowRun { workflow { name } } }
    }
    ... on StatusContext { context state createdAt description targetUrl }
  }
}
fragment commitChecks on Commit {
  oid committedDate
  statusCheckRollup { contexts(first: 100) { ...contextPage } }
  checkSuites(first: 50) { totalCount pageInfo { hasNextPage endCursor } nodes { id status createdAt app { slug } } }
}
"""
_THREADS: Final = """
fragment threadPage on PullRequestReviewThreadConnection {
  totalCount pageInfo { hasNextPage endCursor } nodes { id isResolved }
}
"""
_PULL: Final = """
fragment reviewPage on PullRequestReviewConnection {
  totalCount pageInfo { hasNextPage endCursor }
  nodes { databaseId author { __typename login resourcePath } state commit { oid } body submittedAt authorAssociation }
}
fragment pullFacts on PullRequest {
  id number title body state isDraft createdAt updatedAt author { __typename login resourcePath }
  headRefName headRefOid headRepository { nameWithOwner } baseRefName baseRefOid
  mergeable mergeStateStatus maintainerCanModify reviewDecision mergeCommit { oid }
  milestone { number } labels(first: 100) { totalCount nodes { name } }
  reviewRequests(first: 50) {
    totalCount
    nodes { requestedReviewer {
      __typename ... on User { login } ... on Bot { login resourcePath } ... on Team { slug }
    } }
  }
  reviews(first: 100) { ...reviewPage }
  reviewThreads(first: 100) { ...threadPage }
  commits(last: 1) { nodes { commit { ...commitChecks } } }
}
"""
_PULL_PARTS: Final = _PULL + _CHECKS + _THREADS

REPO: Final = (
    """
query Repo($owner: String!, $name: String!) {
  repository(owner: $owner, name: $name) {
    ...repositoryFacts
    milestones(first: 100, states: [OPEN]) {
      totalCount pageInfo { hasNextPage endCursor } nodes { ...milestoneFacts }
    }
    issues(first: 100, states: [OPEN], orderBy: {field: CREATED_AT, direction: ASC}) { ...issuePage }
    pullRequests(first: 50, states: [OPEN], orderBy: {field: CREATED_AT, direction: ASC}) {
      totalCount pageInfo { hasNextPage endCursor } nodes { ...pullFacts }
    }
    refs(refPrefix: "refs/heads/herd/", first: 100) { ...refPage }
  }
}
"""
    + _REPOSITORY
    + _MILESTONE
    + _ISSUE
    + _ISSUES
    + _REFS
    + _PULL_PARTS
)
REPO_MILESTONES: Final = (
    """
query RepoMilestones($owner: String!, $name: String!, $after: String) {
  repository(owner: $owner, name: $name) {
    milestones(first: 100, after: $after, states: [OPEN]) {
      totalCount pageInfo { hasNextPage endCursor } nodes { ...milestoneFacts }
    }
  }
}
"""
    + _MILESTONE
)
REPO_ISSUES: Final = (
    """
query RepoIssues($owner: String!, $name: String!, $after: String) {
  repository(owner: $owner, name: $name) {
    issues(first: 100, after: $after, states: [OPEN], orderBy: {field: CREATED_AT, direction: ASC}) { ...issuePage }
  }
}
"""
    + _ISSUE
    + _ISSUES
)
REPO_PULLS: Final = (
    """
query RepoPulls($owner: String!, $name: String!, $after: String) {
  repository(owner: $owner, name: $name) {
    pullRequests(first: 50, after: $after, states: [OPEN], orderBy: {field: CREATED_AT, direction: ASC}) {
      totalCount pageInfo { hasNextPage endCursor } nodes { ...pullFacts }
    }
  }
}
"""
    + _PULL_PARTS
)
REPO_REFS: Final = (
    """
query RepoRefs($owner: String!, $name: String!, $after: String) {
  repository(owner: $owner, name: $name) {
    refs(refPrefix: "refs/heads/herd/", first: 100, after: $after) { ...refPage }
  }
}
"""
    + _REFS
)
BATCH: Final = (
    """
query Batch($owner: String!, $name: String!, $milestone: Int!, $head: String, $withHead: Boolean!, $pull: Int!,
  $withPull: Boolean!) {
  repository(owner: $owner, name: $name) {
    ...repositoryFacts
    milestone(number: $milestone) {
      ...milestoneFacts
      issues(first: 100, orderBy: {field: CREATED_AT, direction: ASC}) { ...issuePage }
    }
    refs(refPrefix: "refs/heads/herd/", first: 100) { ...refPage }
    heads: pullRequests(headRefName: $head, first: 50, orderBy: {field: CREATED_AT, direction: DESC})
      @include(if: $withHead) {
      totalCount nodes { number headRefName headRepository { nameWithOwner } }
    }
    pullRequest(number: $pull) @include(if: $withPull) { ...pullFacts }
  }
}
"""
    + _REPOSITORY
    + _MILESTONE
    + _ISSUE
    + _ISSUES
    + _REFS
    + _PULL_PARTS
)
BATCH_ISSUES: Final = (
    """
query BatchIssues($owner: String!, $name: String!, $milestone: Int!, $after: String) {
  repository(owner: $owner, name: $name) {
    milestone(number: $milestone) {
      issues(first: 100, after: $after, orderBy: {field: CREATED_AT, direction: ASC}) { ...issuePage }
    }
  }
}
"""
    + _ISSUE
    + _ISSUES
)
PULL_BY_HEAD: Final = """
query PullByHead($owner: String!, $name: String!, $head: String!) {
  repository(owner: $owner, name: $name) {
    heads: pullRequests(headRefName: $head, first: 50, orderBy: {field: CREATED_AT, direction: DESC}) {
      totalCount nodes { number headRefName headRepository { nameWithOwner } }
    }
  }
}
"""
PULL: Final = (
    """
query Pull($owner: String!, $name: String!, $number: Int!) {
  repository(owner: $owner, name: $name) { pullRequest(number: $number) { ...pullFacts } }
}
"""
    + _PULL_PARTS
)
PULL_REVIEWS: Final = """
query PullReviews($owner: String!, $name: String!, $number: Int!, $after: String) {
  repository(owner: $owner, name: $name) {
    pullRequest(number: $number) { reviews(first: 100, after: $after) {
      totalCount pageInfo { hasNextPage endCursor }
      nodes {
        databaseId author { __typename login resourcePath } state commit { oid } body submittedAt authorAssociation
      }
    } }
  }
}
"""
PULL_THREADS: Final = (
    """
query PullThreads($owner: String!, $name: String!, $number: Int!, $after: String) {
  repository(owner: $owner, name: $name) {
    pullRequest(number: $number) { reviewThreads(first: 100, after: $after) { ...threadPage } }
  }
}
"""
    + _THREADS
)
_THREAD_COMMENTS: Final = """
totalCount pageInfo { hasNextPage endCursor }
nodes { databaseId body createdAt updatedAt authorAssociation url author { __typename login resourcePath } }
"""
THREADS: Final = f"""
query Threads($owner: String!, $name: String!, $number: Int!, $after: String) {{
  repository(owner: $owner, name: $name) {{
    pullRequest(number: $number) {{ reviewThreads(first: 50, after: $after) {{
      totalCount pageInfo {{ hasNextPage endCursor }}
      nodes {{ id isResolved isOutdated path line comments(first: 100) {{ {_THREAD_COMMENTS} }} }}
    }} }}
  }}
}}
"""
THREAD_COMMENTS: Final = f"""
query ThreadComments($id: ID!, $after: String) {{
  node(id: $id) {{ ... on PullRequestReviewThread {{ comments(first: 100, after: $after) {{ {_THREAD_COMMENTS} }} }} }}
}}
"""
COMMIT: Final = (
    """
query CommitChecks($owner: String!, $name: String!, $sha: GitObjectID!) {
  repository(owner: $owner, name: $name) { object(oid: $sha) { ... on Commit { ...commitChecks } } }
}
"""
    + _CHECKS
)
COMMIT_CONTEXTS: Final = """
query CommitContexts($owner: String!, $name: String!, $sha: GitObjectID!, $after: String) {
  repository(owner: $owner, name: $name) {
    object(oid: $sha) { ... on Commit { statusCheckRollup { contexts(first: 100, after: $after) { ...contextPage } } } }
  }
}
""" + _CHECKS.split("fragment commitChecks", maxsplit=1)[0]
COMMIT_SUITES: Final = """
query CommitSuites($owner: String!, $name: String!, $sha: GitObjectID!, $after: String) {
  repository(owner: $owner, name: $name) {
    object(oid: $sha) { ... on Commit { checkSuites(first: 50, after: $after) {
      totalCount pageInfo { hasNextPage endCursor } nodes { id status createdAt app { slug } }
    } } }
  }
}
"""


def closed_issues(milestones: list[int]) -> str:
    """Make the query that reads the closed issues of several milestones, first page each, by aliases ``m<number>``."""
    parts = "\n".join(
        f"m{number}: milestone(number: {number}) {{ issues(first: 100, states: [CLOSED]) {{ ...issuePage }} }}"
        for number in milestones
    )
    head = f"""
query ClosedIssues($owner: String!, $name: String!) {{
  repository(owner: $owner, name: $name) {{ {parts} }}
}}
"""
    return head + _ISSUE + _ISSUES
