"""Where our schema differs from GitHub's published file, on purpose, each with its reason (FRG-023, FRG-031)."""

from __future__ import annotations

from typing import Final

_GH = "gh 2.103 asks for it and github.com answers it; the published file is older"

#: ``Type``, ``Type.field`` or ``Type.field(argument)`` → reason.
EXCEPTIONS: Final = {
    "Issue.assignedActors": _GH,
    "Issue.issueType": _GH,
    "Issue.blockedBy": _GH,
    "Issue.blocking": _GH,
    "PullRequest.assignedActors": _GH,
    "Mutation.replaceActorsForAssignable": _GH,
    "Mutation.requestReviewsByLogin": _GH,
    "AssigneeConnection": _GH,
    "IssueType": _GH,
    "ReplaceActorsForAssignableInput": _GH,
    "ReplaceActorsForAssignablePayload": _GH,
    "RequestReviewsByLoginInput": _GH,
    "RequestReviewsByLoginPayload": _GH,
}
