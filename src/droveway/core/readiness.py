"""Merge readiness: one pure function, one answer for all rooms, the list of all blockers (FRG-009, BAT-196)."""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from types import MappingProxyType

import msgspec

from droveway.core.checks import CheckState, CheckVerdict
from droveway.core.decisions import Blocker

_NEVER = datetime.min.replace(tzinfo=UTC)
_COUNTING = frozenset({"APPROVED", "CHANGES_REQUESTED", "DISMISSED", "UNKNOWN"})
# Who can clear a blocker.
AUTHOR = "the author"
REVIEWER = "a reviewer"
FLEET = "the fleet"
CI = "CI"
FORGE = "the forge"
ADMIN = "a repository administrator"
PERSON = "a person"


class Conflict(enum.StrEnum):
    """Whether a PR conflicts with its base (BAT-196). CLEAN says nothing of other blockers."""

    CONFLICT = "conflict"
    CLEAN = "clean"
    UNKNOWN = "unknown"


def conflict_state(mergeable: bool | None, merge_state: str) -> Conflict:
    """Read a live PR's two fields (BAT-196): a conflict is said by either; null means that nobody knows yet."""
    state = merge_state.upper()
    if mergeable is False or state in ("DIRTY", "CONFLICTING"):
        return Conflict.CONFLICT
    if mergeable is None:
        return Conflict.UNKNOWN
    return Conflict.CLEAN


class Vote(msgspec.Struct, frozen=True):
    """One submitted review. ``state`` in upper case; ``counts``: its author may write, so the forge counts it."""

    author: str
    state: str
    commit: str = ""
    at: datetime | None = None
    counts: bool = True
    id: int = 0


class PullFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What readiness stands on. ``None`` is "could not be read", except where a comment says otherwise."""

    state: str = "open"  # open, closed, merged
    draft: bool = False
    author: str = ""
    head_sha: str = ""
    judged_sha: str | None = None  # None: nothing was judged before; else the head that the approval or review is of
    mergeable: bool | None = None
    merge_state: str = "UNKNOWN"
    rebaseable: bool | None = None  # None: not known, which blocks nothing
    method: str | None = None  # None: no method is asked for
    methods: tuple[str, ...] = ("squash", "rebase", "merge")
    strict: bool = False  # the base demands that the branch is up to date
    checks: CheckVerdict | None = None
    votes: tuple[Vote, ...] | None = None
    required_approvals: int = 0
    review_decision: str = ""  # the forge's own: APPROVED, CHANGES_REQUESTED, REVIEW_REQUIRED or nothing
    requested_reviewers: tuple[str, ...] = ()
    unresolved_threads: int | None = None
    holds: tuple[str, ...] = ()  # labels or words by which somebody holds it
    fresh: bool | None = True  # whether the facts are young enough; None: their age is unknown


def blockers(facts: PullFacts) -> tuple[Blocker, ...]:
    """List every reason why this PR may not be merged now, most final first; empty means ready.

    Rules differ only in which codes they accept. Once a PR is merged or closed nothing else is of interest (case M08).
    """
    if facts.state == "merged":
        return (Blocker("merged", "the PR is merged"),)
    if facts.state == "closed":
        return (Blocker("closed", "the PR is closed", "reopen it", PERSON),)
    return tuple(found for question in _QUESTIONS for found in question(facts))


def _freshness(facts: PullFacts) -> Iterator[Blocker]:
    if facts.state != "open":
        yield Blocker("state-unknown", f"the PR's state is {facts.state!r}", "read it again", FLEET)
    if facts.fresh is not True:
        why = "the age of the facts is unknown" if facts.fresh is None else "the facts are too old"
        yield Blocker("freshness-unknown", why, "read the PR again", FLEET)
    if facts.judged_sha is not None and facts.judged_sha != facts.head_sha:
        because = f"the head is {facts.head_sha[:12]}, judged was {facts.judged_sha[:12]}"
        yield Blocker("head-moved", because, "judge the new head", FLEET)


def _draft(facts: PullFacts) -> Iterator[Blocker]:
    if facts.draft or facts.merge_state.upper() == "DRAFT":
        yield Blocker("draft", "the PR is a draft", "mark it ready for review", AUTHOR)


def _holds(facts: PullFacts) -> Iterator[Blocker]:
    for hold in sorted(set(facts.holds)):
        yield Blocker("hold", f"held: {hold}", f"take {hold} off", PERSON)


def _conflicts(facts: PullFacts) -> Iterator[Blocker]:
    match conflict_state(facts.mergeable, facts.merge_state):
        case Conflict.CONFLICT:
            yield Blocker("conflict", "the branch conflicts with its base", "resolve the conflict and push", FLEET)
        case Conflict.UNKNOWN:
            because = "the forge has not computed whether it can be merged"
            yield Blocker("mergeability-unknown", because, "ask again in a moment", FORGE)
        case Conflict.CLEAN:
            pass


def _behind(facts: PullFacts) -> Iterator[Blocker]:
    if facts.merge_state.upper() == "BEHIND":
        demand = ", and the base demands an up-to-date branch" if facts.strict else ""
        yield Blocker("behind", f"the branch is behind its base{demand}", "update the branch", FLEET)


def _checks(facts: PullFacts) -> Iterator[Blocker]:
    verdict = facts.checks
    if verdict is None:
        yield Blocker("checks-unknown", "the checks could not be read", "read them again", FLEET)
        return
    for names, code, because, clears, who in (
        (verdict.failing, "check-failed", "check {} failed", "make {} pass", AUTHOR),
        (verdict.waiting, "check-action-required", "check {} waits for a person", "act on {}", PERSON),
        (verdict.cancelled, "check-cancelled", "check {} was cancelled", "run {} again", FLEET),
        (verdict.pending, "check-pending", "check {} has not finished", "wait for {}", CI),
        (verdict.missing, "check-missing", "required check {} has not run", "run {}", CI),
        (verdict.unread, "checks-unknown", "the result of {} is not understood", "look at {}", PERSON),
    ):
        for name in names:
            kind = f"optional-{code}" if code != "checks-unknown" and verdict.optional(name) else code
            yield Blocker(kind, because.format(name), clears.format(name), who)
    if verdict.state is CheckState.UNKNOWN and not verdict.unread:
        yield Blocker("checks-unknown", "; ".join(verdict.notes) or "unknown", "let the token read checks", ADMIN)


def _reviews(facts: PullFacts) -> Iterator[Blocker]:
    if facts.votes is None:
        yield Blocker("reviews-unknown", "the reviews could not be read", "read them again", FLEET)
        return
    votes = deciding_votes(facts.votes, author=facts.author)
    for vote in votes:
        if vote.state == "UNKNOWN":
            yield Blocker("reviews-unknown", f"the review of {vote.author} is not understood", "look at it", PERSON)
    against = [vote.author for vote in votes if vote.state == "CHANGES_REQUESTED" and vote.counts]
    for name in against:
        yield Blocker("changes-requested", f"{name} requested changes", f"{name} approves, or is dismissed", REVIEWER)
    if facts.review_decision == "CHANGES_REQUESTED" and not against:
        yield Blocker("changes-requested", "the forge says that changes are requested", "a new review", REVIEWER)
    approvals = [vote for vote in votes if vote.state == "APPROVED" and vote.counts]
    current = [vote for vote in approvals if not vote.commit or vote.commit == facts.head_sha]
    needed = facts.required_approvals
    if len(approvals) < needed:
        because = f"{len(approvals)} of {needed} required approvals"
        yield Blocker("review-missing", because, "approve the PR", REVIEWER)
    elif facts.review_decision == "REVIEW_REQUIRED":
        yield Blocker("review-missing", "the forge says that a review is required", "approve the PR", REVIEWER)
    if len(current) < min(needed, len(approvals)):
        names = ", ".join(vote.author for vote in approvals if vote not in current)
        yield Blocker("review-stale", f"the approval of {names} is of an older head", "approve again", REVIEWER)


def _requests(facts: PullFacts) -> Iterator[Blocker]:
    for name in sorted(set(facts.requested_reviewers)):
        yield Blocker("review-requested", f"a review of {name} is asked for", f"{name} reviews", name)


def _threads(facts: PullFacts) -> Iterator[Blocker]:
    if facts.unresolved_threads is None:
        yield Blocker("threads-unknown", "the review threads could not be read", "read them again", FLEET)
    elif facts.unresolved_threads:
        count = facts.unresolved_threads
        because = f"{count} review thread{'' if count == 1 else 's'} unresolved"
        yield Blocker("threads-unresolved", because, "answer and resolve them", AUTHOR)


def _method(facts: PullFacts) -> Iterator[Blocker]:
    if facts.method is None:
        return
    if facts.method not in facts.methods:
        allowed = ", ".join(facts.methods) or "none"
        because = f"the repository does not allow {facts.method} (it allows {allowed})"
        yield Blocker("method-forbidden", because, "change the strategy or the repository's setting", ADMIN)
    elif facts.method == "rebase" and facts.rebaseable is False:
        yield Blocker("not-rebaseable", "the forge cannot rebase this branch", "choose another strategy", PERSON)


_Question = Callable[[PullFacts], Iterable[Blocker]]
_NAMED: tuple[_Question, ...] = (
    _freshness,
    _draft,
    _holds,
    _conflicts,
    _behind,
    _checks,
    _reviews,
    _requests,
    _threads,
    _method,
)


def _blocked(facts: PullFacts) -> Iterator[Blocker]:
    """Say that the forge blocks the merge, where nothing of what it looks at explains that."""
    known = [found.code for question in _EXPLAINING for found in question(facts)]
    if facts.merge_state.upper() == "BLOCKED" and all(code.startswith("optional-") for code in known):
        because = "the forge blocks the merge and does not say why"
        yield Blocker("forge-blocked", because, "look at the base branch's protection", ADMIN)


_EXPLAINING: tuple[_Question, ...] = (_draft, _conflicts, _behind, _checks, _reviews, _threads)
_QUESTIONS: tuple[_Question, ...] = (*_NAMED, _blocked)


def deciding_votes(votes: Iterable[Vote], *, author: str = "") -> tuple[Vote, ...]:
    """Give each reviewer's vote that counts: the newest that is no plain comment (case M12). The author has none."""
    by_author: dict[str, list[Vote]] = defaultdict(list)
    for vote in votes:
        if vote.state in _COUNTING and (not author or vote.author.lower() != author.lower()):
            by_author[vote.author.lower()].append(vote)
    newest = [max(own, key=_vote_age) for own in by_author.values()]
    return tuple(sorted(newest, key=lambda vote: vote.author.lower()))


# Of two votes at one moment the more careful one counts.
_RANK = MappingProxyType({"APPROVED": 0, "DISMISSED": 1, "UNKNOWN": 2, "CHANGES_REQUESTED": 3})


def _vote_age(vote: Vote) -> tuple[object, ...]:
    return (vote.at or _NEVER, vote.id, _RANK[vote.state], vote.counts, vote.commit)
