"""The effects on PRs and commits: open, review, status, merge; each at exactly the judged head (FRG-007, REV-095)."""

from __future__ import annotations

from typing import Any

from droveway.core.actuator import Done, EffectError, Look, Ready, Stale
from droveway.core.decisions import MergePull, OpenPull, Receipt, SetCommitStatus, SubmitReview
from droveway.core.keys import message_key, message_marker
from droveway.core.repo import RepoId
from droveway.core.vocabulary import Message
from droveway.forge import comments
from droveway.forge.counting import Priority, prioritised
from droveway.forge.effect_base import BaseHandler
from droveway.forge.model import PullRequest
from droveway.forge.port import ExistsError, ForgeError, PermissionDeniedError

_OWN_PULL = "own pull request"


class OpenPullHandler(BaseHandler[OpenPull]):
    """Opens a PR; one that is open from that head is the answer, also after a 422 (BAT-215)."""

    async def _look(self, repo: RepoId, action: OpenPull) -> Look:
        found = await self.forge.pull_for(repo, action.head, state="open")
        if found is None or (action.milestone is not None and found.milestone is None):
            return Ready((found,))
        return Done(_pull_receipt(found))

    async def _apply(self, repo: RepoId, action: OpenPull, seen: Any) -> Receipt:
        found = seen[0] if seen else await self.forge.pull_for(repo, action.head, state="open")
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


class SubmitReviewHandler(BaseHandler[SubmitReview]):
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

    async def _apply(self, repo: RepoId, action: SubmitReview, seen: Any) -> Receipt:
        del seen
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


class SetCommitStatusHandler(BaseHandler[SetCommitStatus]):
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

    async def _apply(self, repo: RepoId, action: SetCommitStatus, seen: Any) -> Receipt:
        del seen
        await self.forge.set_status(
            repo, action.sha, context=action.context, state=action.state, description=action.description
        )
        return Receipt(sha=action.sha)


class MergePullHandler(BaseHandler[MergePull]):
    """Merges at exactly the judged head (REV-095, case M10)."""

    async def _look(self, repo: RepoId, action: MergePull) -> Look:
        with prioritised(Priority.MERGE):
            pull = await self.forge.pull_live(repo, action.pull)
        if pull is not None and pull.state == "merged":
            return Done(_merge_receipt(pull, action))
        return _not_at(pull, action.pull, action.head_sha) or Ready()

    async def _apply(self, repo: RepoId, action: MergePull, seen: Any) -> Receipt:
        del seen
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
