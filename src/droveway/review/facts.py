"""Observing for a review: the PR, its diff, criteria, fixes, earlier results, feedback (REV-034 … REV-037)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from droveway.core.facts import known
from droveway.core.keys import find_marker, find_markers, message_key, message_kind
from droveway.core.repo import RepoId
from droveway.core.settings import Settings
from droveway.core.text import byte_length, cut_bytes, fence_untrusted
from droveway.core.vocabulary import Message, statuses
from droveway.forge.model import Comment, PullRequest
from droveway.review.diffset import ChangedFile, diff_set
from droveway.review.model import DiffSet, ReviewResult
from droveway.review.rules import FixIssue
from droveway.work import IssueBody, parse_body

if TYPE_CHECKING:
    from droveway.git import Mirror
    from droveway.sessions import Fleet

_FEEDBACK_BYTES = 20_000
_PRIOR_BYTES = 20_000


class Context(msgspec.Struct, frozen=True):
    """What the reviewer is told besides the diff; the four texts are fenced already."""

    criteria: tuple[str, ...] = ()
    prior: str = ""
    verdicts: str = ""
    feedback: str = ""
    remarks: str = ""
    house: str = ""


async def read_diff(mirror: Mirror, pull: PullRequest, settings: Settings) -> tuple[DiffSet, str]:
    """Give the three-dot diff set of the PR, and the merge base (REV-008). The mirror is fetched first."""
    await mirror.fetch()
    base = await mirror.merge_base(f"refs/heads/{pull.base}", pull.head_sha)
    if base is None:
        return DiffSet("local-git", "", pull.head_sha, (), complete=False, warnings=("no common history",)), ""
    listing = await mirror.call("diff", "--raw", "-z", "-M", "--no-color", "--no-ext-diff", base, pull.head_sha)
    changed = raw_listing(listing)
    heads = {}
    for entry in changed:
        if entry.status != "A":
            content = await mirror.show_file(base, entry.old_path or entry.path)
            heads[entry.old_path or entry.path] = (content or b"")[:4096].decode("utf-8", "replace")
    raw = await mirror.diff(base, pull.head_sha, three_dot=False)
    generated = settings.integrator.review_diff.generated_paths
    return diff_set(raw, changed, base=base, head=pull.head_sha, generated_paths=generated, base_heads=heads), base


def raw_listing(raw: bytes) -> list[ChangedFile]:
    """Read ``git diff --raw -z``: one entry a file, with whole names whatever characters they hold (REV-010)."""
    fields = [field.decode("utf-8", "surrogateescape") for field in raw.split(b"\0")]
    changed, at = [], 0
    while at < len(fields) and fields[at].startswith(":"):
        status = fields[at].rsplit(" ", 1)[-1][:1]
        if status in ("R", "C"):
            changed.append(ChangedFile(fields[at + 2], status, fields[at + 1]))
            at += 3
        else:
            changed.append(ChangedFile(fields[at + 1], status))
            at += 2
    return changed


def our_results(comments: Sequence[Comment]) -> tuple[ReviewResult, ...]:
    """Give the result markers of our own identity, oldest first; a stranger's counts for nothing (REV-049)."""
    found = []
    for comment in comments:
        payload = find_marker(comment.body, "review-result") if comment.ours else None
        if payload is None:
            continue
        try:
            found.append(msgspec.convert(payload, ReviewResult))
        except msgspec.ValidationError:
            continue
    return tuple(found)


def posted_result(comments: Sequence[Comment], key: str) -> ReviewResult | None:
    """Give the result that a pass, told by its key, has posted already."""
    found = [comment for comment in comments if comment.ours and message_key(comment.body) == key]
    return next(iter(our_results(found)), None)


async def batch_context(
    fleet: Fleet, repo: RepoId, batch: int, pull: int, pass_key: str = ""
) -> tuple[tuple[str, ...], tuple[FixIssue, ...], tuple[int, ...]]:
    """Give the batch's criteria, its review fixes of this PR, and the active fix-type issues (REV-004, REV-034).

    The fix issue with the key ``pass_key`` is left out.
    """
    snapshot = await fleet.forge.batch_snapshot(repo, batch)
    criteria: list[str] = []
    fixes: list[FixIssue] = []
    active: list[int] = []
    for issue in known(snapshot.issues, f"the issues of batch #{batch}"):
        body = parse_body(issue.body)
        if not isinstance(body, IssueBody):
            continue
        states = statuses(issue.labels)
        if body.front.is_fix_type:
            state = states[0] if states else None
            fix = FixIssue(issue.number, issue.title, issue.body, state, body.front.fix_cycle, issue.open)
            if pass_key and message_key(issue.body) == pass_key:
                continue  # this very pass made it, before it was killed: it is finished, not waited for (REV-055)
            if fix.active:
                active.append(issue.number)
            if body.front.is_review_fix and body.front.batch_pr in (None, pull):
                fixes.append(fix)
        else:
            criteria += [f"#{issue.number}: {criterion.text}" for criterion in body.criteria]
    return tuple(criteria), tuple(fixes), tuple(active)


async def told(fleet: Fleet, repo: RepoId, comments: Sequence[Comment], criteria: tuple[str, ...]) -> Context:
    """Sort the PR's comments by marker and login, and by live permission, for the reviewer (REV-068 … REV-071)."""
    prior: list[str] = []
    verdicts: list[str] = []
    feedback: list[str] = []
    remarks: list[str] = []
    trusted: dict[str, bool] = {}
    for comment in reversed(comments):  # newest first
        kind = message_kind(comment.body) if comment.ours else None
        if kind == Message.REVIEW and find_markers(comment.body, "review-result"):
            prior.append(fence_untrusted(comment.body, source="our earlier review", limit=8000))
        elif kind == Message.NOOP_VERDICT:
            verdicts.append(fence_untrusted(comment.body, source="a fix worker's verdict", limit=8000))
        elif kind is None and not comment.body.lstrip().startswith("/herd"):
            if comment.author not in trusted:
                trusted[comment.author] = (await fleet.forge.permission(repo, comment.author)).trusted
            place = feedback if trusted[comment.author] else remarks
            place.append(fence_untrusted(comment.body, source=f"@{comment.author}", limit=8000))
    house = await fleet.forge.file(repo, ".herd/integrator.md")
    return Context(
        criteria=criteria,
        prior=_bounded(prior, _PRIOR_BYTES),
        verdicts=_bounded(verdicts, _PRIOR_BYTES),
        feedback=_bounded(feedback, _FEEDBACK_BYTES),
        remarks=_bounded(remarks, _FEEDBACK_BYTES),
        house=cut_bytes((house or b"").decode("utf-8", "replace"), _FEEDBACK_BYTES),
    )


def _bounded(items: Sequence[str], limit: int) -> str:
    """Keep whole items, the first ones first, within ``limit`` bytes; say how many were left out."""
    kept: list[str] = []
    size = 0
    for item in items:
        size += byte_length(item)
        if size > limit:
            kept.append(f"[{len(items) - len(kept)} more left out]")
            break
        kept.append(item)
    return "\n\n".join(kept)
