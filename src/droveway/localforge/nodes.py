"""Global node ids: one scheme for REST's ``node_id`` and GraphQL's ``id``, readable back (FRG-023)."""

from __future__ import annotations

import base64
import binascii
from typing import Final

#: GraphQL type → prefix. Rows are named by their database id; git objects by repository id and SHA; refs by their name.
PREFIXES: Final = {
    "User": "U",
    "Bot": "BOT",
    "Repository": "R",
    "Label": "LA",
    "Milestone": "MI",
    "Issue": "I",
    "PullRequest": "PR",
    "IssueComment": "IC",
    "PullRequestReview": "PRR",
    "PullRequestReviewThread": "PRRT",
    "PullRequestReviewComment": "PRRC",
    "StatusContext": "SC",
    "Status": "S",
    "StatusCheckRollup": "SCR",
    "CheckSuite": "CS",
    "CheckRun": "CR",
    "BranchProtectionRule": "BPR",
    "App": "A",
    "Reaction": "REA",
    "Event": "EV",
    "Commit": "C",
    "Tree": "T",
    "Blob": "B",
    "Tag": "TA",
    "Ref": "REF",
}
_KINDS: Final = {prefix: kind for kind, prefix in PREFIXES.items()}


def encode(kind: str, *parts: int | str) -> str:
    """Give the node id of ``kind``; ``parts`` is the row's id, or (repository id, SHA or ref name)."""
    raw = ":".join(str(part) for part in parts).encode()
    return f"{PREFIXES[kind]}_{base64.urlsafe_b64encode(b'k:' + raw).decode().rstrip('=')}"


def decode(node_id: str) -> tuple[str, tuple[str, ...]] | None:
    """Give (type, parts) of a node id, or None where it is none of ours. A ref's name may hold colons."""
    prefix, _, rest = node_id.partition("_")
    kind = _KINDS.get(prefix)
    if kind is None:
        return None
    try:
        raw = base64.b64decode(rest + "=" * (-len(rest) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    if not raw.startswith("k:"):
        return None
    return kind, tuple(raw[2:].split(":", 1))
