"""PRs, checks and review threads read by GraphQL, each part complete or unknown (FRG-004, BAT-195, BAT-206)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from droveway.core.clock import Clock
from droveway.core.facts import Complete, Fact, Unknown
from droveway.core.repo import RepoId
from droveway.forge import decode, queries
from droveway.forge.http import GraphAnswer, GraphError, Http
from droveway.forge.model import HeadChecks, PullRequest, Review, ReviewThread
from droveway.forge.pages import More, collect, dig, under
from droveway.forge.port import ForgeError, IncompleteError, NotFoundError, PermissionDeniedError

T = TypeVar("T")
_QUEUED = frozenset({"QUEUED", "REQUESTED", "WAITING", "PENDING"})
_PARTS = ("commits", "reviews", "reviewThreads")  # what may be unknown without the PR being so


class Reader:
    """Reads by GraphQL. ``login`` is set once we know who we are."""

    def __init__(self, http: Http, clock: Clock) -> None:
        """Ask through ``http``."""
        self.http = http
        self.clock = clock
        self.login = ""

    async def ask(self, query: str, repo: RepoId | None, **variables: Any) -> GraphAnswer:
        """Ask a query about a repository. Raises NotFoundError where the repository is definitely not there."""
        names = {"owner": repo.owner, "name": repo.name} if repo else {}
        answer = await self.http.graphql(query, {**names, **variables})
        if repo and not isinstance(answer.data.get("repository"), dict):
            words = "; ".join(error.message for error in answer.errors) or "no data"
            if any(error.type == "NOT_FOUND" for error in answer.errors):
                raise NotFoundError(f"{repo}: {words}", 404)
            raise IncompleteError(f"{repo}: {words}")
        return answer

    def more(self, query: str, repo: RepoId, *path: str, **variables: Any) -> More:
        """Give the function that asks for the next page of the connection at ``repository.<path>``."""

        async def next_page(cursor: str | None) -> Any:
            answer = await self.ask(query, repo, after=cursor, **variables)
            if answer.errors:
                raise IncompleteError("; ".join(error.message for error in answer.errors))
            return dig(answer.data, "repository", *path)

        return next_page

    async def fact(self, read: Callable[[], Awaitable[T]]) -> Fact[T]:
        """Make a fact of a reading: what fails is unknown, never empty."""
        try:
            value = await read()
        except ForgeError as error:
            return Unknown(str(error), self.clock.now())
        return Complete(value, self.clock.now())

    # --- PRs ---
    async def pull_of(
        self, repo: RepoId, node: Mapping[str, Any], errors: Sequence[GraphError], *, follow: bool
    ) -> PullRequest:
        """Make a PR of its node. ``errors`` are those inside the node, with paths from it; ``follow``: all pages.

        Raises IncompleteError where the PR's own fields are spoiled.
        """
        own = [error for error in errors if not error.path or error.path[0] not in _PARTS]
        if own:
            raise IncompleteError(f"{repo}: {own[0].message}")
        pull = decode.graph_pull(node)

        def problem(part: str) -> str:
            return next((error.message for error in errors if error.path and error.path[0] == part), "")

        async def checks() -> HeadChecks:
            commit = dig((dig(node, "commits", "nodes") or [None])[-1], "commit")
            if follow and (problem("commits") or not isinstance(commit, dict)):
                return await self.checks_by_rest(repo, pull.head_sha)
            _refuse(problem("commits"))
            if not isinstance(commit, dict) or commit.get("oid") != pull.head_sha:
                raise IncompleteError(f"PR #{pull.number}: the checks are not those of its head")
            return await self.checks_of(repo, commit, follow=follow)

        async def reviews() -> tuple[Review, ...]:
            _refuse(problem("reviews"))
            more = self.more(queries.PULL_REVIEWS, repo, "pullRequest", "reviews", number=pull.number)
            found = await collect(
                node.get("reviews"), more if follow else None, "the reviews", lambda each: each.get("databaseId")
            )
            return tuple(decode.graph_review(each) for each in found)

        async def unresolved() -> int:
            _refuse(problem("reviewThreads"))
            more = self.more(queries.PULL_THREADS, repo, "pullRequest", "reviewThreads", number=pull.number)
            found = await collect(
                node.get("reviewThreads"), more if follow else None, "the review threads", lambda each: each.get("id")
            )
            return sum(each.get("isResolved") is not True for each in found)

        return msgspec.structs.replace(
            pull,
            checks=await self.fact(checks),
            reviews=await self.fact(reviews),
            unresolved_threads=await self.fact(unresolved),
        )

    async def pull(self, repo: RepoId, number: int) -> PullRequest | None:
        """Read one PR whole; None where it is definitely not there."""
        answer = await self.ask(queries.PULL, repo, number=number)
        node = dig(answer.data, "repository", "pullRequest")
        if not isinstance(node, dict):
            if not answer.errors or any(error.type == "NOT_FOUND" for error in answer.errors):
                return None
            raise IncompleteError(f"PR #{number}: {answer.errors[0].message}")
        return await self.pull_of(repo, node, inside(answer, "repository", "pullRequest"), follow=True)

    # --- checks ---
    async def checks_of(self, repo: RepoId, commit: Mapping[str, Any], *, follow: bool) -> HeadChecks:
        """Make the checks of a commit's node. No roll-up at all means no check at all."""
        sha = decode.text(commit.get("oid"))
        contexts: list[dict[str, Any]] = []
        if commit.get("statusCheckRollup") is not None:
            more = self.more(queries.COMMIT_CONTEXTS, repo, "object", "statusCheckRollup", "contexts", sha=sha)
            contexts = await collect(
                dig(commit, "statusCheckRollup", "contexts"), more if follow else None, "the checks", _context_identity
            )
        suites: list[dict[str, Any]] = []
        if commit.get("checkSuites") is not None:
            more = self.more(queries.COMMIT_SUITES, repo, "object", "checkSuites", sha=sha)
            suites = await collect(
                commit.get("checkSuites"), more if follow else None, "the check suites", lambda each: each.get("id")
            )
        runs = [each for each in contexts if each.get("__typename") == "CheckRun"]
        used = {dig(each, "checkSuite", "id") for each in runs}
        return HeadChecks(
            sha=sha,
            runs=tuple(decode.graph_check_run(each) for each in runs),
            statuses=tuple(decode.graph_status(each) for each in contexts if each.get("__typename") != "CheckRun"),
            queued_suites=tuple(
                (decode.text(dig(each, "app", "slug")), decode.moment(each.get("createdAt")))
                for each in suites
                if each.get("id") not in used and each.get("status") in _QUEUED
            ),
            committed_at=decode.moment(commit.get("committedDate")),
        )

    async def checks(self, repo: RepoId, sha: str) -> HeadChecks:
        """Read the checks of a commit; each source by REST where GraphQL may not be asked."""
        try:
            answer = await self.ask(queries.COMMIT, repo, sha=sha)
        except PermissionDeniedError:
            return await self.checks_by_rest(repo, sha)
        node = dig(answer.data, "repository", "object")
        if answer.errors:
            return await self.checks_by_rest(repo, sha)
        if not isinstance(node, dict) or not node:
            raise NotFoundError(f"{repo}: no commit {sha}", 404)
        return await self.checks_of(repo, node, follow=True)

    async def checks_by_rest(self, repo: RepoId, sha: str) -> HeadChecks:
        """Read both sources by REST: one that is refused is absent if the other answers (BAT-207)."""
        base = f"/repos/{repo}/commits/{sha}"
        absent: list[str] = []

        async def source(name: str, path: str, key: str) -> list[dict[str, Any]]:
            try:
                return await self.http.pages(base + path, key=key)
            except (PermissionDeniedError, NotFoundError):
                absent.append(name)
                return []

        runs = await source("check runs", "/check-runs", "check_runs")
        statuses = await source("statuses", "/status", "statuses")
        if len(absent) == 2:
            raise ForgeError(f"{repo}: neither check runs nor statuses of {sha} may be read", 403)
        suites = [] if absent else await source("check suites", "/check-suites", "check_suites")
        commit = await self.http.json(f"/repos/{repo}/git/commits/{sha}")
        return HeadChecks(
            sha=sha,
            runs=tuple(decode.rest_check_run(each) for each in runs),
            statuses=tuple(decode.rest_status(each) for each in statuses),
            queued_suites=tuple(
                (decode.text(dig(each, "app", "slug")), decode.moment(each.get("created_at")))
                for each in suites
                if not each.get("latest_check_runs_count") and decode.text(each.get("status")).upper() in _QUEUED
            ),
            committed_at=decode.moment(dig(commit, "committer", "date")),
            absent=tuple(name for name in absent if name != "check suites"),
        )

    # --- threads ---
    async def threads(self, repo: RepoId, number: int) -> tuple[ReviewThread, ...]:
        """Read all review threads with all their comments (case M13)."""
        more = self.more(queries.THREADS, repo, "pullRequest", "reviewThreads", number=number)
        answer = await self.ask(queries.THREADS, repo, number=number)
        if answer.errors:
            raise IncompleteError(f"the review threads of #{number}: {answer.errors[0].message}")
        first = dig(answer.data, "repository", "pullRequest", "reviewThreads")
        nodes = await collect(first, more, f"the review threads of #{number}", lambda each: each.get("id"))
        return tuple([await self._thread(node) for node in nodes])

    async def _thread(self, node: Mapping[str, Any]) -> ReviewThread:
        async def more(cursor: str | None) -> Any:
            answer = await self.ask(queries.THREAD_COMMENTS, None, id=node.get("id"), after=cursor)
            _refuse(answer.errors[0].message if answer.errors else "")
            return dig(answer.data, "node", "comments")

        comments = await collect(node.get("comments"), more, "a thread's comments", lambda each: each.get("databaseId"))
        line = node.get("line")
        return ReviewThread(
            id=decode.text(node.get("id")),
            resolved=node.get("isResolved") is True,
            outdated=node.get("isOutdated") is True,
            path=decode.text(node.get("path")),
            line=line if isinstance(line, int) else None,
            comments=tuple(decode.graph_comment(each, self.login) for each in comments),
        )


def inside(answer: GraphAnswer, *prefix: str | int) -> list[GraphError]:
    """Give the errors that concern the value at ``prefix``, with paths from there."""
    return [GraphError(error.message, error.type, error.path[len(prefix) :]) for error in under(answer.errors, *prefix)]


def _context_identity(node: dict[str, Any]) -> tuple[Any, ...]:
    if node.get("__typename") == "CheckRun":
        return ("run", node.get("databaseId"))
    return ("status", node.get("context"), node.get("createdAt"), node.get("state"))


def _refuse(problem: str) -> None:
    if problem:
        raise IncompleteError(problem)
