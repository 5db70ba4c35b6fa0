"""The client's snapshot (FRG-004), written as the tests of the server need it: wide, aliased, paged."""

from __future__ import annotations

from typing import Final

ISSUE: Final = """
fragment issue on Issue {
  id number title body state author { login __typename }
  labels(first: 30) { totalCount nodes { name } }
  milestone { number } createdAt updatedAt closedAt comments { totalCount }
}
"""

PULL: Final = """
fragment pull on PullRequest {
  id number title body isDraft state merged mergeCommit { oid } createdAt updatedAt
  headRefName headRefOid headRepository { nameWithOwner } baseRefName baseRefOid
  mergeable mergeStateStatus reviewDecision maintainerCanModify
  author { login __typename }
  labels(first: 30) { totalCount nodes { name } }
  milestone { number }
  reviewRequests(first: 20) { totalCount nodes { requestedReviewer { __typename ... on User { login } } } }
  reviews(last: 50) {
    totalCount
    nodes { databaseId author { login } state commit { oid } body submittedAt authorAssociation }
  }
  reviewThreads(first: 100) {
    totalCount
    nodes {
      id isResolved isOutdated path line
      comments(first: 50) { totalCount nodes { databaseId body author { login } } }
    }
  }
  commits(last: 1) { nodes { commit {
    oid committedDate
    statusCheckRollup { state contexts(first: 100) {
      totalCount pageInfo { hasNextPage endCursor }
      nodes {
        __typename
        ... on CheckRun {
          name status conclusion startedAt completedAt detailsUrl databaseId
          checkSuite { app { slug } workflowRun { workflow { name } } }
        }
        ... on StatusContext { context state createdAt targetUrl description }
      }
    } }
  } } }
}
"""

SNAPSHOT: Final = (
    """
query Snapshot($owner: String!, $name: String!, $issues: String, $pulls: String) {
  repository(owner: $owner, name: $name) {
    id nameWithOwner defaultBranchRef { name target { oid } } viewerPermission
    mergeCommitAllowed squashMergeAllowed rebaseMergeAllowed isArchived isPrivate
    milestones(first: 100, states: [OPEN]) {
      totalCount pageInfo { hasNextPage endCursor }
      nodes {
        number title description state
        open: issues(states: [OPEN]) { totalCount } closed: issues(states: [CLOSED]) { totalCount }
      }
    }
    open: issues(first: 100, after: $issues, states: [OPEN], orderBy: {field: UPDATED_AT, direction: DESC}) {
      totalCount pageInfo { hasNextPage endCursor } nodes { ...issue }
    }
    labelled: issues(first: 100, labels: ["bug"], states: [OPEN, CLOSED]) { totalCount nodes { ...issue } }
    pullRequests(first: 50, after: $pulls, states: [OPEN], orderBy: {field: CREATED_AT, direction: ASC}) {
      totalCount pageInfo { hasNextPage endCursor } nodes { ...pull }
    }
    refs(refPrefix: "refs/heads/herd/", first: 100) {
      totalCount pageInfo { hasNextPage endCursor } nodes { name target { oid } }
    }
  }
  rateLimit { cost remaining resetAt limit }
}
"""
    + ISSUE
    + PULL
)
