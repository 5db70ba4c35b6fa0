"""What a loop decides from, read once in batched pages; each section complete or unknown (FRG-004, BAT-111)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from droveway.core.facts import Complete, Fact, Unknown
from droveway.core.keys import find_marker
from droveway.core.repo import RepoId
from droveway.core.vocabulary import batch_branch, is_herd
from droveway.forge import decode, queries
from droveway.forge.counting import Counters, counting
from droveway.forge.http import GraphAnswer
from droveway.forge.model import BatchSnapshot, Issue, Milestone, PullRequest, Repository, RepoSnapshot
from droveway.forge.pages import More, collect, dig, under
from droveway.forge.port import ForgeError, IncompleteError, NotFoundError
from droveway.forge.reading import Reader, inside

_HEADS = "refs/heads/"


class Snapshots:
    """Reads both kinds of snapshot through a Reader."""

    def __init__(self, reader: Reader, counters: Counters) -> None:
        """Remember, per batch, the branch and PR of the last reading: a guess that saves requests, always checked."""
        self._reader = reader
        self._counters = counters
        self._guesses: dict[tuple[str, int], tuple[str, int]] = {}

    # --- a repository ---
    async def repo(self, repo: RepoId) -> RepoSnapshot:
        """Read a repository: open milestones, their issues and all open herd issues, open PRs, branches under herd/."""
        with counting(self._counters, "snapshot") as count:
            try:
                answer = await self._reader.ask(queries.REPO, repo)
            except ForgeError as error:
                lost = Unknown(str(error), self._reader.clock.now())
                return RepoSnapshot(lost, lost, lost, lost, lost, count.requests)
            milestones = await self._reader.fact(lambda: self._milestones(repo, answer))
            return RepoSnapshot(
                repository=await self._reader.fact(lambda: _repository(answer)),
                milestones=milestones,
                issues=await self._reader.fact(lambda: self._issues(repo, answer, milestones)),
                pulls=await self._reader.fact(lambda: self._pulls(repo, answer)),
                refs=await self._reader.fact(lambda: self._refs(repo, answer)),
                requests=count.requests,
            )

    async def _milestones(self, repo: RepoId, answer: GraphAnswer) -> tuple[Milestone, ...]:
        nodes = await self._section(
            answer, self._reader.more(queries.REPO_MILESTONES, repo, "milestones"), "milestones"
        )
        return tuple(decode.graph_milestone(node) for node in nodes)

    async def _issues(
        self, repo: RepoId, answer: GraphAnswer, milestones: Fact[tuple[Milestone, ...]]
    ) -> tuple[Issue, ...]:
        """Give all open herd issues, and all issues of open milestones: the closed ones by a second request."""
        if isinstance(milestones, Unknown):
            raise IncompleteError(f"the milestones are unknown: {milestones.reason}")
        nodes = await self._section(answer, self._reader.more(queries.REPO_ISSUES, repo, "issues"), "issues")
        opened = [decode.graph_issue(node) for node in nodes]
        numbers = [each.number for each in milestones.value]
        found = {issue.number: issue for issue in opened if is_herd(issue.labels) or issue.milestone in numbers}
        closed = [each.number for each in milestones.value if each.closed_issues]
        for start in range(0, len(closed), 20):
            some = closed[start : start + 20]
            second = await self._reader.ask(queries.closed_issues(some), repo)
            for number in some:
                _refuse(second, f"m{number}")
                first = dig(second.data, "repository", f"m{number}", "issues")
                # Further pages come with open issues among them: the milestone is then read whole.
                more = self._reader.more(queries.BATCH_ISSUES, repo, "milestone", "issues", milestone=number)
                if dig(first, "pageInfo", "hasNextPage"):
                    first = await more(None)
                for node in await collect(first, more, f"the issues of milestone {number}", _number):
                    issue = decode.graph_issue(node)
                    found[issue.number] = issue
        return tuple(found[number] for number in sorted(found))

    async def _pulls(self, repo: RepoId, answer: GraphAnswer) -> tuple[PullRequest, ...]:
        path = ("repository", "pullRequests")
        fatal = [error for error in under(answer.errors, *path) if len(error.path) < 4]  # not inside one node
        if fatal:
            raise IncompleteError(fatal[0].message)
        more = self._reader.more(queries.REPO_PULLS, repo, "pullRequests")
        first = dig(answer.data, *path)
        nodes = await collect(first, more, "the PRs", _number)
        places = {_number(node): at for at, node in enumerate(dig(first, "nodes") or ())}
        pulls = []
        for node in nodes:
            at = places.get(_number(node))
            errors = [] if at is None else inside(answer, *path, "nodes", at)
            pulls.append(await self._reader.pull_of(repo, node, errors, follow=False))
        return tuple(pulls)

    async def _refs(self, repo: RepoId, answer: GraphAnswer) -> Mapping[str, str]:
        nodes = await self._section(
            answer, self._reader.more(queries.REPO_REFS, repo, "refs"), "refs", identity=_ref_name
        )
        refs = {}
        for node in nodes:
            sha = dig(node, "target", "oid")
            if not sha:
                raise IncompleteError(f"the branch {_ref_name(node)} has no tip")
            refs[_ref_name(node)] = str(sha)
        return refs

    async def _section(
        self, answer: GraphAnswer, more: More, *path: str, identity: Callable[[dict[str, Any]], Any] | None = None
    ) -> list[dict[str, Any]]:
        """Read one section whole; any error inside it spoils it."""
        _refuse(answer, *path)
        return await collect(dig(answer.data, "repository", *path), more, f"the {path[-1]}", identity or _number)

    # --- a batch ---
    async def batch(self, repo: RepoId, number: int) -> BatchSnapshot:
        """Read a milestone with all its issues, the branches, the batch PR: one request where nothing is large."""
        with counting(self._counters, "snapshot") as count:
            head, pull = self._guesses.get((str(repo), number), ("", 0))
            try:
                answer = await self._reader.ask(
                    queries.BATCH,
                    repo,
                    milestone=number,
                    head=head or None,
                    withHead=bool(head),
                    pull=pull,
                    withPull=bool(pull),
                )
            except ForgeError as error:
                lost = Unknown(str(error), self._reader.clock.now())
                return BatchSnapshot(lost, lost, lost, lost, lost, count.requests)
            milestone = await self._reader.fact(lambda: _milestone(answer, number))
            more = self._reader.more(queries.BATCH_ISSUES, repo, "milestone", "issues", milestone=number)

            async def issues() -> tuple[Issue, ...]:
                nodes = await self._section(answer, more, "milestone", "issues")
                found = tuple(decode.graph_issue(node) for node in nodes)
                if isinstance(milestone, Complete):
                    counted = milestone.value.open_issues + milestone.value.closed_issues
                    if len(found) < counted:
                        raise IncompleteError(f"{len(found)} issues came, milestone #{number} counts {counted}")
                return found

            return BatchSnapshot(
                repository=await self._reader.fact(lambda: _repository(answer)),
                milestone=milestone,
                issues=await self._reader.fact(issues),
                refs=await self._reader.fact(lambda: self._refs(repo, answer)),
                pull=await self._reader.fact(lambda: self._batch_pull(repo, number, milestone, answer, (head, pull))),
                requests=count.requests,
            )

    async def _batch_pull(
        self,
        repo: RepoId,
        number: int,
        milestone: Fact[Milestone],
        answer: GraphAnswer,
        guess: tuple[str, int],
    ) -> PullRequest | None:
        """Give the newest PR from the batch branch, whole: from the same answer where the guess was right."""
        if isinstance(milestone, Unknown):
            raise IncompleteError(f"milestone #{number} is unknown: {milestone.reason}")
        metadata = find_marker(milestone.value.description, "batch-metadata") or {}
        named = metadata.get("batch_branch")
        branch = named if isinstance(named, str) and named else batch_branch(number, milestone.value.title)
        if branch != guess[0]:
            answer = await self._reader.ask(queries.PULL_BY_HEAD, repo, head=branch)
        _refuse(answer, "heads")
        found = newest_of(
            await collect(dig(answer.data, "repository", "heads"), None, "the PRs", _number), repo, branch
        )
        self._guesses[str(repo), number] = (branch, found or 0)
        if found is None:
            return None
        node = dig(answer.data, "repository", "pullRequest")
        if branch == guess[0] and found == guess[1] and isinstance(node, dict):
            errors = inside(answer, "repository", "pullRequest")
            return await self._reader.pull_of(repo, node, errors, follow=True)
        return await self._reader.pull(repo, found)


def newest_of(nodes: list[dict[str, Any]], repo: RepoId, branch: str) -> int | None:
    """Give the number of the newest PR whose head is ``branch`` of this very repository."""
    numbers = [
        node["number"]
        for node in nodes
        if node.get("headRefName") == branch
        and decode.text(dig(node, "headRepository", "nameWithOwner")).lower() == str(repo).lower()
    ]
    return max(numbers, default=None)


async def _repository(answer: GraphAnswer) -> Repository:
    errors = [error for error in answer.errors if len(error.path) <= 1 or error.path[1] in _REPOSITORY_FIELDS]
    if errors:
        raise IncompleteError(errors[0].message)
    return decode.graph_repository(answer.data["repository"])


_REPOSITORY_FIELDS = frozenset({"defaultBranchRef", "viewerPermission", "isArchived", "isPrivate", "nameWithOwner"})


async def _milestone(answer: GraphAnswer, number: int) -> Milestone:
    node = dig(answer.data, "repository", "milestone")
    problems = [e for e in under(answer.errors, "repository", "milestone") if e.path[2:3] != ("issues",)]
    if problems and problems[0].type != "NOT_FOUND":
        raise IncompleteError(problems[0].message)
    if not isinstance(node, dict):
        raise NotFoundError(f"there is no milestone #{number}", 404)
    return decode.graph_milestone(node)


def _refuse(answer: GraphAnswer, *path: str) -> None:
    problems = under(answer.errors, "repository", *path)
    if problems:
        raise IncompleteError(problems[0].message)


def _number(node: dict[str, Any]) -> Any:
    return node.get("number")


def _ref_name(node: Mapping[str, Any]) -> str:
    """Give a branch's name; the forge may give it from the asked prefix on, or whole."""
    full = decode.text(node.get("prefix")) + decode.text(node.get("name"))
    return full.removeprefix(_HEADS)
