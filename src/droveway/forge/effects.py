"""The effects of the forge: one handler per action, each looks at its own subject just before it acts (FRG-007)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from droveway.core.actuator import Done, EffectError, Handler, Look, Ready, Stale
from droveway.core.decisions import (
    AnyAction,
    CloseMilestone,
    Comment,
    CreateIssue,
    EditComment,
    EditIssue,
    MergePull,
    OpenPull,
    Receipt,
    SetCommitStatus,
    SetLabels,
    SetStatus,
    SubmitReview,
)
from droveway.core.keys import find_marker, find_markers, message_key, message_kind, message_marker
from droveway.core.repo import RepoId
from droveway.core.vocabulary import (
    LABELS,
    TYPE_FIX,
    TYPE_STANDALONE_FIX,
    Message,
    Status,
    legal,
    statuses,
)
from droveway.forge import comments
from droveway.forge.counting import Priority, prioritised
from droveway.forge.model import Issue, PullRequest
from droveway.forge.port import (
    ExistsError,
    Forge,
    ForgeError,
    IncompleteError,
    LimitedError,
    NotFoundError,
    PermissionDeniedError,
)

A = TypeVar("A", bound=AnyAction)
_SPECS = MappingProxyType({spec.name: spec for spec in LABELS})
# The two rules that may settle a failed issue whose work is contained (BAT-056).
_SETTLING_RULES = frozenset({"BAT-187", "BAT-205"})
_OWN_PULL = "own pull request"


@contextlib.contextmanager
def _effects() -> Iterator[None]:
    """Turn the port's errors into refused effects with a kind that rules match on; ask before mere observers."""
    try:
        with prioritised(Priority.REPAIR):
            yield
    except LimitedError as error:
        raise EffectError("limited", str(error)) from error
    except PermissionDeniedError as error:
        raise EffectError("forbidden", str(error)) from error
    except NotFoundError as error:
        raise EffectError("not-found", str(error)) from error
    except ExistsError as error:
        raise EffectError("exists", str(error)) from error
    except IncompleteError as error:
        raise EffectError("incomplete", str(error)) from error
    except ForgeError as error:
        kind = "unreachable" if error.status == 0 or error.status >= 500 else "rejected"
        raise EffectError(kind, str(error)) from error


class _Handler(Generic[A]):
    """What all handlers share: the forge, and errors as effects."""

    def __init__(self, forge: Forge, labels: _Labels) -> None:
        self.forge = forge
        self.labels = labels

    async def look(self, action: A) -> Look:
        """Read the subject anew."""
        with _effects():
            return await self._look(RepoId.parse(action.repo), action)

    async def apply(self, action: A) -> Receipt:
        """Make the effect."""
        with _effects():
            return await self._apply(RepoId.parse(action.repo), action)

    async def _look(self, repo: RepoId, action: A) -> Look:
        raise NotImplementedError

    async def _apply(self, repo: RepoId, action: A) -> Receipt:
        raise NotImplementedError


class _Labels:
    """Sees to it that our own labels exist, as the vocabulary describes them, before one is put on an issue."""

    def __init__(self, forge: Forge) -> None:
        self._forge = forge
        self._there: set[tuple[str, str]] = set()

    async def ensure(self, repo: RepoId, names: Sequence[str]) -> None:
        wanted = [name for name in names if name in _SPECS and (str(repo), name) not in self._there]
        if not wanted:
            return
        there = await self._forge.label_names(repo)
        for name in wanted:
            if name not in there:
                await self._forge.ensure_label(repo, name, _SPECS[name].color, _SPECS[name].description)
            self._there.add((str(repo), name))


class SetStatusHandler(_Handler[SetStatus]):
    """Changes the one status label by the table, with one whole-list set that is verified (BAT-056, BAT-057)."""

    async def _look(self, repo: RepoId, action: SetStatus) -> Look:
        issue = await self.forge.issue(repo, action.issue)
        if issue is None:
            return Stale(f"issue #{action.issue} does not exist")
        if statuses(issue.labels) == (action.to,):
            return Done(Receipt(number=action.issue))
        refusal = _refused(issue, action)
        return Stale(refusal) if refusal else Ready()

    async def _apply(self, repo: RepoId, action: SetStatus) -> Receipt:
        await self.labels.ensure(repo, [action.to.label])
        issue = await self.forge.issue(repo, action.issue)  # the list that is set is the one read just before
        if issue is None:
            raise EffectError("not-found", f"issue #{action.issue} does not exist")
        if refusal := _refused(issue, action):
            raise EffectError("lost-race", refusal)
        old = {status.label for status in statuses(issue.labels)}
        wanted = [name for name in issue.labels if name not in old] + [action.to.label]
        after = await self.forge.edit_issue(repo, action.issue, labels=wanted)
        if statuses(after.labels) != (action.to,):
            raise EffectError("not-verified", f"#{action.issue} has the labels {', '.join(after.labels)} after the set")
        return Receipt(number=action.issue, note=f"{', '.join(sorted(old)) or 'no status'} → {action.to.label}")


def _refused(issue: Issue, action: SetStatus) -> str:
    """Say why the change may not be made now, or nothing."""
    current = statuses(issue.labels)
    names = " and ".join(status.value for status in current) or "no status"
    if action.expected and not set(current) <= set(action.expected):
        wanted = ", ".join(status.value for status in action.expected)
        return f"issue #{action.issue} is {names}, expected {wanted}"
    settling = action.key.split("/", 1)[0] in _SETTLING_RULES
    if len(current) == 1:
        allowed = legal(current[0], action.to, settling=settling)
    else:  # none or two: being repaired (BAT-058), but nothing leaves cancelled
        allowed = Status.CANCELLED not in current or action.to is Status.CANCELLED
    return "" if allowed else f"illegal transition of issue #{action.issue}: {names} → {action.to.value}"


class SetLabelsHandler(_Handler[SetLabels]):
    """Adds and deletes labels one at a time; other people's labels are never in the same request (FRG-007)."""

    async def _look(self, repo: RepoId, action: SetLabels) -> Look:
        if statuses((*action.add, *action.remove)):
            return Stale("illegal: a status label changes by SetStatus alone")
        issue = await self.forge.issue(repo, action.number)
        if issue is None:
            return Stale(f"#{action.number} does not exist")
        there = set(issue.labels)
        if there.issuperset(action.add) and there.isdisjoint(action.remove):
            return Done(Receipt(number=action.number))
        return Ready()

    async def _apply(self, repo: RepoId, action: SetLabels) -> Receipt:
        await self.labels.ensure(repo, action.add)
        for name in action.add:
            await self.forge.add_labels(repo, action.number, [name])
        for name in action.remove:
            await self.forge.remove_label(repo, action.number, name)
        return Receipt(number=action.number)


class CommentHandler(_Handler[Comment]):
    """Posts a comment once."""

    async def _look(self, repo: RepoId, action: Comment) -> Look:
        found = comments.find_by_key(await self.forge.comments(repo, action.number), action.key)
        return Done(Receipt(number=found.id)) if found else Ready()

    async def _apply(self, repo: RepoId, action: Comment) -> Receipt:
        made = await comments.post(
            self.forge, repo, action.number, action.message, action.key, action.body, action.markers
        )
        return Receipt(number=made.id)


class EditCommentHandler(_Handler[EditComment]):
    """Gives our comment with the key its text, or posts it."""

    async def _look(self, repo: RepoId, action: EditComment) -> Look:
        found = comments.find_by_key(await self.forge.comments(repo, action.number), action.key)
        text = comments.render(action.body, action.message, action.key, action.markers)
        if found and found.body.replace("\r\n", "\n") == text:
            return Done(Receipt(number=found.id))
        return Ready()

    async def _apply(self, repo: RepoId, action: EditComment) -> Receipt:
        made = await comments.put(
            self.forge, repo, action.number, action.message, action.key, action.body, action.markers
        )
        return Receipt(number=made.id)


class CreateIssueHandler(_Handler[CreateIssue]):
    """Creates an issue once, its labels in the same request, what is too long in parts (BAT-030, case R02)."""

    async def _look(self, repo: RepoId, action: CreateIssue) -> Look:
        found = await self._find(repo, action)
        if found is None:
            return Ready()
        rest = self._parts(action).rest
        if rest and not comments.parts_stand(await self.forge.comments(repo, found.number), repo, found.number, rest):
            return Ready()  # a run broke off between the issue and its parts
        return Done(Receipt(number=found.number))

    async def _apply(self, repo: RepoId, action: CreateIssue) -> Receipt:
        parts = self._parts(action)
        found = await self._find(repo, action) if parts.rest else None
        if found is None:
            await self.labels.ensure(repo, action.labels)
            try:
                found = await self.forge.create_issue(
                    repo, action.title, parts.first, labels=action.labels, milestone=action.milestone
                )
            except ForgeError as error:
                if error.status and error.status < 500:
                    raise
                found = await self._find(repo, action)  # the answer was lost: was it made?
                if found is None:
                    raise
        if parts.rest:
            await comments.put_parts(self.forge, repo, found.number, parts.rest)
        return Receipt(number=found.number)

    async def _find(self, repo: RepoId, action: CreateIssue) -> Issue | None:
        listed = await self.forge.issues(repo, milestone=action.milestone, state="all", creator=self.forge.login)
        return comments.find_issue(listed, action.key, self.forge.login)

    @staticmethod
    def _parts(action: CreateIssue) -> comments.Parts:
        if message_key(action.body) == action.key:
            return comments.split_body(action.body)
        fix = TYPE_FIX in action.labels or TYPE_STANDALONE_FIX in action.labels
        kind = Message.FIX_ISSUE if fix else Message.TASK_ISSUE
        return comments.split_body(action.body, message_marker(kind, action.key))


class EditIssueHandler(_Handler[EditIssue]):
    """Edits an issue or PR; a body only where it is still the expected one."""

    async def _look(self, repo: RepoId, action: EditIssue) -> Look:
        issue = await self.forge.issue(repo, action.number)
        if issue is None:
            return Stale(f"#{action.number} does not exist")
        new = self._body(issue, action)
        same_body = new is None or _lines(issue.body) == _lines(new.first)
        same_title = action.title is None or issue.title == action.title
        same_state = action.state is None or issue.state == action.state
        if same_body and same_title and same_state and not (new and new.rest):
            return Done(Receipt(number=action.number))
        if not same_body and action.expected_body is not None and _lines(issue.body) != _lines(action.expected_body):
            return Stale(f"the body of #{action.number} has changed since")
        return Ready()

    async def _apply(self, repo: RepoId, action: EditIssue) -> Receipt:
        new = None
        if action.body is not None:
            issue = await self.forge.issue(repo, action.number)
            if issue is None:
                raise EffectError("not-found", f"#{action.number} does not exist")
            if action.expected_body is not None and _lines(issue.body) != _lines(action.expected_body):
                raise EffectError("lost-race", f"the body of #{action.number} has changed since")
            new = self._body(issue, action)
            had = bool(find_marker(issue.body, "body-continues"))
            if new and (new.rest or (had and not find_markers(new.first, "body-continues"))):
                await comments.put_parts(self.forge, repo, action.number, new.rest)
        await self.forge.edit_issue(
            repo, action.number, title=action.title, body=new.first if new else None, state=action.state
        )
        return Receipt(number=action.number)

    @staticmethod
    def _body(issue: Issue, action: EditIssue) -> comments.Parts | None:
        """Give the new body in parts; the key that the old one carries is kept, or its effect would be made again."""
        if action.body is None:
            return None
        key = message_key(issue.body)
        keep = key is not None and message_key(action.body) is None
        return comments.split_body(
            action.body, message_marker(message_kind(issue.body) or Message.TASK_ISSUE, key) if keep and key else ""
        )


class CloseMilestoneHandler(_Handler[CloseMilestone]):
    """Closes a milestone."""

    async def _look(self, repo: RepoId, action: CloseMilestone) -> Look:
        milestone = await self.forge.milestone(repo, action.milestone)
        if milestone is None:
            return Stale(f"milestone #{action.milestone} does not exist")
        return Done(Receipt(number=action.milestone)) if milestone.state == "closed" else Ready()

    async def _apply(self, repo: RepoId, action: CloseMilestone) -> Receipt:
        await self.forge.edit_milestone(repo, action.milestone, state="closed")
        return Receipt(number=action.milestone)


class OpenPullHandler(_Handler[OpenPull]):
    """Opens a PR; one that is open from that head is the answer, also after a 422 (BAT-215)."""

    async def _look(self, repo: RepoId, action: OpenPull) -> Look:
        found = await self.forge.pull_for(repo, action.head, state="open")
        if found is None or (action.milestone is not None and found.milestone is None):
            return Ready()
        return Done(_pull_receipt(found))

    async def _apply(self, repo: RepoId, action: OpenPull) -> Receipt:
        found = await self.forge.pull_for(repo, action.head, state="open")
        if found is None:
            body = comments.fit(action.body, message_marker(Message.BATCH_PULL, action.key))
            try:
                found = await self.forge.create_pull(
                    repo, title=action.title, body=body, head=action.head, base=action.base
                )
            except ForgeError as error:
                if "no commits between" in str(error).lower():
                    raise EffectError("no-commits", str(error)) from error
                if error.status and error.status < 500 and not isinstance(error, ExistsError):
                    raise
                found = await self.forge.pull_for(repo, action.head, state="open")
                if found is None:
                    raise
        if action.milestone is not None and found.milestone is None:
            await self.forge.edit_issue(repo, found.number, milestone=action.milestone)
        return _pull_receipt(found)


class SubmitReviewHandler(_Handler[SubmitReview]):
    """Submits a review of exactly one head; a refused one of our own PR is told in the receipt (REV-058)."""

    async def _look(self, repo: RepoId, action: SubmitReview) -> Look:
        pull = await self.forge.pull_live(repo, action.pull)
        if stale := _not_at(pull, action.pull, action.head_sha):
            return stale
        assert pull is not None
        if action.event != "COMMENT" and pull.author.lower() == self.forge.login.lower():
            return Done(Receipt(note=f"refused: {action.event} of our {_OWN_PULL}"))
        for review in await self.forge.reviews(repo, action.pull):
            if review.author.lower() == self.forge.login.lower() and message_key(review.body) == action.key:
                return Done(Receipt(number=review.id))
        return Ready()

    async def _apply(self, repo: RepoId, action: SubmitReview) -> Receipt:
        body = comments.render(action.body, Message.REVIEW, action.key)
        try:
            number = await self.forge.submit_review(
                repo, action.pull, sha=action.head_sha, event=action.event, body=body
            )
        except ForgeError as error:
            if error.status == 422 and _OWN_PULL in str(error).lower():
                return Receipt(note=f"refused: {error}")
            raise
        return Receipt(number=number)


class SetCommitStatusHandler(_Handler[SetCommitStatus]):
    """Sets a commit status; the newest of a context counts."""

    async def _look(self, repo: RepoId, action: SetCommitStatus) -> Look:
        try:
            statuses_there = (await self.forge.checks(repo, action.sha)).statuses
        except PermissionDeniedError:  # it may be set though it may not be read; twice does no harm
            return Ready()
        mine = [each for each in statuses_there if each.context == action.context]
        newest = mine[-1] if len(mine) == 1 else None
        if newest and newest.state == action.state and newest.description == action.description[:140]:
            return Done(Receipt(sha=action.sha))
        return Ready()

    async def _apply(self, repo: RepoId, action: SetCommitStatus) -> Receipt:
        await self.forge.set_status(
            repo, action.sha, context=action.context, state=action.state, description=action.description
        )
        return Receipt(sha=action.sha)


class MergePullHandler(_Handler[MergePull]):
    """Merges at exactly the judged head (REV-095, case M10)."""

    async def _look(self, repo: RepoId, action: MergePull) -> Look:
        with prioritised(Priority.MERGE):
            pull = await self.forge.pull_live(repo, action.pull)
        if pull is not None and pull.state == "merged":
            return Done(_merge_receipt(pull, action))
        return _not_at(pull, action.pull, action.head_sha) or Ready()

    async def _apply(self, repo: RepoId, action: MergePull) -> Receipt:
        try:
            sha = await self.forge.merge_pull(
                repo,
                action.pull,
                sha=action.head_sha,
                method=action.method,
                title=action.title,
                message=action.message,
            )
        except ForgeError as error:
            if error.status == 409:
                raise EffectError("head-moved", str(error)) from error
            if error.status and error.status < 500 and error.status != 405:
                raise
            with prioritised(Priority.MERGE):
                pull = await self.forge.pull_live(repo, action.pull)  # was it merged all the same?
            if pull is not None and pull.state == "merged":
                return _merge_receipt(pull, action)
            if error.status == 405:
                raise EffectError("not-mergeable", str(error)) from error
            raise
        return Receipt(number=action.pull, sha=sha, note=f"judged {action.head_sha}")


def _merge_receipt(pull: PullRequest, action: MergePull) -> Receipt:
    same = pull.head_sha == action.head_sha
    note = f"judged {action.head_sha}" + ("" if same else f", merged at {pull.head_sha} by someone else")
    return Receipt(number=pull.number, sha=pull.merge_sha, note=note)


def _pull_receipt(pull: PullRequest) -> Receipt:
    return Receipt(number=pull.number, sha=pull.head_sha)


def _not_at(pull: PullRequest | None, number: int, head: str) -> Stale | None:
    """Say why a PR is not open at this head, or None where it is."""
    if pull is None:
        return Stale(f"PR #{number} does not exist")
    if not pull.open:
        return Stale(f"PR #{number} is {pull.state}")
    if pull.head_sha != head:
        return Stale(f"the head of PR #{number} moved from {head[:12]} to {pull.head_sha[:12]}")
    return None


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n")


_ALL: Mapping[type[Any], type[_Handler[Any]]] = MappingProxyType(
    {
        SetStatus: SetStatusHandler,
        SetLabels: SetLabelsHandler,
        Comment: CommentHandler,
        EditComment: EditCommentHandler,
        CreateIssue: CreateIssueHandler,
        EditIssue: EditIssueHandler,
        CloseMilestone: CloseMilestoneHandler,
        OpenPull: OpenPullHandler,
        SubmitReview: SubmitReviewHandler,
        SetCommitStatus: SetCommitStatusHandler,
        MergePull: MergePullHandler,
    }
)


def handlers(forge: Forge) -> Mapping[type[Any], Handler[Any]]:
    """Give the handler of each action that the forge knows, for the Actuator."""
    labels = _Labels(forge)
    return {action: kind(forge, labels) for action, kind in _ALL.items()}
