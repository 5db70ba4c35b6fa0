"""The effects of the forge: one handler per action, each looks at its own subject just before it acts (FRG-007)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from droveway.core.actuator import Done, EffectError, Handler, Look, Ready, Stale
from droveway.core.decisions import (
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
    TYPE_FIX,
    TYPE_STANDALONE_FIX,
    Message,
    Status,
    legal,
    statuses,
)
from droveway.forge import comments
from droveway.forge.effect_base import BaseHandler, Labels
from droveway.forge.model import Issue
from droveway.forge.port import (
    Forge,
    ForgeError,
)
from droveway.forge.pull_effects import (
    MergePullHandler,
    OpenPullHandler,
    SetCommitStatusHandler,
    SubmitReviewHandler,
)

# The two rules that may settle a failed issue whose work is contained (BAT-056).
_SETTLING_RULES = frozenset({"BAT-187", "BAT-205"})


class SetStatusHandler(BaseHandler[SetStatus]):
    """Changes the one status label by the table, with one whole-list set that is verified (BAT-056, BAT-057)."""

    async def _look(self, repo: RepoId, action: SetStatus) -> Look:
        issue = await self.forge.issue(repo, action.issue)
        if issue is None:
            return Stale(f"issue #{action.issue} does not exist")
        if statuses(issue.labels) == (action.to,):
            return Done(Receipt(number=action.issue))
        refusal = _refused(issue, action)
        return Stale(refusal) if refusal else Ready(issue)

    async def _apply(self, repo: RepoId, action: SetStatus, seen: Any) -> Receipt:
        await self.labels.ensure(repo, [action.to.label])
        # The list that is set is the one read just before.
        issue = seen if isinstance(seen, Issue) else await self.forge.issue(repo, action.issue)
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


class SetLabelsHandler(BaseHandler[SetLabels]):
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

    async def _apply(self, repo: RepoId, action: SetLabels, seen: Any) -> Receipt:
        del seen
        await self.labels.ensure(repo, action.add)
        for name in action.add:
            await self.forge.add_labels(repo, action.number, [name])
        for name in action.remove:
            await self.forge.remove_label(repo, action.number, name)
        return Receipt(number=action.number)


class CommentHandler(BaseHandler[Comment]):
    """Posts a comment once."""

    async def _look(self, repo: RepoId, action: Comment) -> Look:
        there = await self.forge.comments(repo, action.number)
        found = comments.find_by_key(there, action.key)
        return Done(Receipt(number=found.id)) if found else Ready(there)

    async def _apply(self, repo: RepoId, action: Comment, seen: Any) -> Receipt:
        made = await comments.post(
            self.forge, repo, action.number, action.message, action.key, action.body, action.markers, seen=seen
        )
        return Receipt(number=made.id)


class EditCommentHandler(BaseHandler[EditComment]):
    """Gives our comment with the key its text, or posts it."""

    async def _look(self, repo: RepoId, action: EditComment) -> Look:
        there = await self.forge.comments(repo, action.number)
        found = comments.find_by_key(there, action.key)
        text = comments.render(action.body, action.message, action.key, action.markers)
        if found and found.body.replace("\r\n", "\n") == text:
            return Done(Receipt(number=found.id))
        return Ready(there)

    async def _apply(self, repo: RepoId, action: EditComment, seen: Any) -> Receipt:
        made = await comments.put(
            self.forge, repo, action.number, action.message, action.key, action.body, action.markers, seen=seen
        )
        return Receipt(number=made.id)


class CreateIssueHandler(BaseHandler[CreateIssue]):
    """Creates an issue once, its labels in the same request, what is too long in parts (BAT-030, case R02)."""

    async def _look(self, repo: RepoId, action: CreateIssue) -> Look:
        found = await self._find(repo, action)
        if found is None:
            return Ready()
        rest = self._parts(action).rest
        if rest and not comments.parts_stand(await self.forge.comments(repo, found.number), repo, found.number, rest):
            return Ready()  # a run broke off between the issue and its parts
        return Done(Receipt(number=found.number))

    async def _apply(self, repo: RepoId, action: CreateIssue, seen: Any) -> Receipt:
        del seen
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


class EditIssueHandler(BaseHandler[EditIssue]):
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
        return Ready(issue)

    async def _apply(self, repo: RepoId, action: EditIssue, seen: Any) -> Receipt:
        new = None
        if action.body is not None:
            issue = seen if isinstance(seen, Issue) else await self.forge.issue(repo, action.number)
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


class CloseMilestoneHandler(BaseHandler[CloseMilestone]):
    """Closes a milestone."""

    async def _look(self, repo: RepoId, action: CloseMilestone) -> Look:
        milestone = await self.forge.milestone(repo, action.milestone)
        if milestone is None:
            return Stale(f"milestone #{action.milestone} does not exist")
        return Done(Receipt(number=action.milestone)) if milestone.state == "closed" else Ready()

    async def _apply(self, repo: RepoId, action: CloseMilestone, seen: Any) -> Receipt:
        del seen
        await self.forge.edit_milestone(repo, action.milestone, state="closed")
        return Receipt(number=action.milestone)


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n")


_ALL: Mapping[type[Any], type[BaseHandler[Any]]] = MappingProxyType(
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
    labels = Labels(forge)
    return {action: kind(forge, labels) for action, kind in _ALL.items()}
