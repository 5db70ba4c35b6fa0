"""The port's one implementation: GitHub's protocol, to GitHub, Enterprise, or the embedded forge (FRG-001)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import msgspec

from droveway.core.clock import Clock
from droveway.core.errors import InputError
from droveway.core.repo import RepoId
from droveway.core.text import Redactor
from droveway.forge import decode
from droveway.forge.counting import Count, Counters, Priority, counting, prioritised
from droveway.forge.gate import Gate
from droveway.forge.http import DIFF, RAW, Http
from droveway.forge.limits import Bucket
from droveway.forge.model import (
    BatchSnapshot,
    CheckRunChange,
    Comment,
    HeadChecks,
    Issue,
    Milestone,
    Permission,
    Protection,
    PullRequest,
    Repository,
    RepoSnapshot,
    Review,
    ReviewThread,
)
from droveway.forge.port import EtagStore, ExistsError, ForgeError, NotFoundError, PermissionDeniedError
from droveway.forge.reading import Reader
from droveway.forge.snapshots import Snapshots


class GitHubForge:
    """One forge as one identity; see ``port.Forge`` for what each method promises.

    ``api_url``: ``https://api.github.com``, ``https://host/api/v3``, or the embedded forge's own address.
    """

    def __init__(
        self,
        api_url: str,
        token: str,
        *,
        clock: Clock,
        store_etags: EtagStore | None,
        redactor: Redactor,
        transport: httpx.AsyncBaseTransport | None = None,
        git_url: str | None = None,
    ) -> None:
        """Connect to nothing yet; InputError where ``api_url`` is no address. ``transport`` None: the network."""
        parts = urlsplit(api_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"{api_url!r} is no address of a forge: write http(s)://HOST[:PORT][/api/v3]")
        self.host = "github.com" if parts.hostname == "api.github.com" else parts.hostname
        web = "github.com" if parts.hostname == "api.github.com" else parts.netloc
        self.git_url = (git_url or f"{parts.scheme}://{web}").rstrip("/")
        self.token = token
        self.login = ""
        redactor.add(token)
        self.redactor = redactor
        self.clock = clock
        self._gate = Gate(transport or httpx.AsyncHTTPTransport(), clock)
        self._http = Http(api_url, token, self._gate, etags=store_etags, redactor=redactor)
        self._reader = Reader(self._http, clock)
        self._snapshots = Snapshots(self._reader, self._gate.counters)

    async def connect(self) -> None:
        """Learn who we are. An App's token may not read ``/user``; GraphQL tells its name."""
        try:
            user = await self._http.json("/user")
            self.login = decode.login(user)
        except PermissionDeniedError as error:
            if error.status != 403:
                raise
            answer = await self._http.graphql("query Viewer { viewer { __typename login resourcePath } }", {})
            self.login = decode.login(answer.data.get("viewer"))
        self._reader.login = self.login
        self._http.identity = self.login

    async def close(self) -> None:
        """Let go of connections."""
        await self._http.close()

    # --- the budget ---
    def requests(self) -> int:
        """Give the number of requests sent so far."""
        return self._gate.counters.total.requests

    @property
    def counters(self) -> Counters:
        """Give all counts, for ``herd status --api``."""
        return self._gate.counters

    @property
    def ledger(self) -> Mapping[str, Bucket]:
        """Give what is left of each of the forge's budgets, as the newest answers told it."""
        return self._gate.buckets

    @contextlib.contextmanager
    def counting(self, loop: str) -> Iterator[Count]:
        """Count what is asked inside for ``loop``; tasks that start inside count too."""
        with counting(self._gate.counters, loop) as count:
            yield count

    @contextlib.contextmanager
    def priority(self, priority: Priority) -> Iterator[None]:
        """Ask at this priority inside."""
        with prioritised(priority):
            yield

    # --- reads ---
    async def repository(self, repo: RepoId) -> Repository:
        """Read a repository; ``default_sha`` is empty where it has no commit yet."""
        value = await self._http.json(f"/repos/{repo}")
        default = decode.text(value.get("default_branch"))
        tip = await self.ref(repo, f"refs/heads/{default}") if default else None
        return decode.rest_repository(value, tip or "")

    async def repositories(self) -> tuple[Repository, ...]:
        """Give every repository that our identity may write to."""
        found = [decode.rest_repository(each) for each in await self._http.pages("/user/repos", conditional=True)]
        return tuple(each for each in found if each.permission.trusted and not each.archived)

    async def repo_snapshot(self, repo: RepoId) -> RepoSnapshot:
        """Read what repository loops decide from (FRG-004)."""
        return await self._snapshots.repo(repo)

    async def batch_snapshot(self, repo: RepoId, milestone: int) -> BatchSnapshot:
        """Read what a batch's loop decides from (BAT-111)."""
        return await self._snapshots.batch(repo, milestone)

    async def milestones(self, repo: RepoId, *, state: str = "all") -> tuple[Milestone, ...]:
        """Give the milestones."""
        found = await self._http.pages(f"/repos/{repo}/milestones", params={"state": state}, conditional=True)
        return tuple(decode.rest_milestone(each) for each in found)

    async def milestone(self, repo: RepoId, number: int) -> Milestone | None:
        """Give one milestone."""
        value = await self._http.maybe(f"/repos/{repo}/milestones/{number}")
        return decode.rest_milestone(value) if value is not None else None

    async def issue(self, repo: RepoId, number: int) -> Issue | None:
        """Give one issue (or the issue side of a PR)."""
        value = await self._http.maybe(f"/repos/{repo}/issues/{number}")
        return decode.rest_issue(value) if value is not None else None

    async def issues(
        self, repo: RepoId, *, milestone: int | None = None, state: str = "open", creator: str | None = None
    ) -> tuple[Issue, ...]:
        """Give the issues, PRs left out, by the consistent list and never by search (case R02)."""
        params: dict[str, Any] = {"state": state, "sort": "created", "direction": "asc"}
        if milestone is not None:
            params["milestone"] = milestone
        if creator:
            params["creator"] = creator
        found = await self._http.pages(f"/repos/{repo}/issues", params=params)
        return tuple(decode.rest_issue(each) for each in found if "pull_request" not in each)

    async def comments(self, repo: RepoId, number: int) -> tuple[Comment, ...]:
        """Give all comments of an issue or PR, oldest first."""
        found = await self._http.pages(f"/repos/{repo}/issues/{number}/comments", conditional=True)
        return tuple(decode.rest_comment(each, self.login) for each in found)

    async def pull(self, repo: RepoId, number: int) -> PullRequest | None:
        """Read the live single PR; REST alone knows whether it can be rebased (BAT-195, REV-095)."""
        live = await self.pull_live(repo, number)
        if live is None:
            return None
        whole = await self._reader.pull(repo, number)
        if whole is None:
            return None
        if whole.head_sha != live.head_sha:  # it moved between the two reads: the second is newer
            return whole
        mergeable = live.mergeable if live.mergeable is not None else whole.mergeable
        return msgspec.structs.replace(whole, rebaseable=live.rebaseable, mergeable=mergeable)

    async def pull_live(self, repo: RepoId, number: int) -> PullRequest | None:
        """Read the live single PR in one request, without checks, reviews and threads."""
        value = await self._http.maybe(f"/repos/{repo}/pulls/{number}")
        return decode.rest_pull(value) if value is not None else None

    async def pull_for(self, repo: RepoId, head: str, *, state: str = "all") -> PullRequest | None:
        """Give the newest PR from a branch of this repository, from the list: its mergeability is unknown (BAT-195)."""
        params = {"head": f"{repo.owner}:{head}", "state": state, "sort": "created", "direction": "desc"}
        found = [decode.rest_pull(each) for each in await self._http.pages(f"/repos/{repo}/pulls", params=params)]
        mine = [each for each in found if each.head == head and each.head_repo.lower() == str(repo).lower()]
        return max(mine, key=lambda each: each.number, default=None)

    async def threads(self, repo: RepoId, number: int) -> tuple[ReviewThread, ...]:
        """Give all review threads with all comments."""
        return await self._reader.threads(repo, number)

    async def reviews(self, repo: RepoId, number: int) -> tuple[Review, ...]:
        """Give all reviews, oldest first."""
        return tuple(
            decode.rest_review(each) for each in await self._http.pages(f"/repos/{repo}/pulls/{number}/reviews")
        )

    async def checks(self, repo: RepoId, sha: str) -> HeadChecks:
        """Give all checks and statuses of a commit."""
        return await self._reader.checks(repo, sha)

    async def protection(self, repo: RepoId, branch: str) -> Protection:
        """Give what a branch demands, by classic protection and by rule sets.

        The full answer is for administrators; the branch itself tells anyone its required checks.
        """
        name = quote(branch, safe="")
        try:
            value = await self._http.maybe(f"/repos/{repo}/branches/{name}/protection") or {}
        except PermissionDeniedError:
            value = {}
        if not value:
            summary = await self._http.maybe(f"/repos/{repo}/branches/{name}") or {}
            value = summary.get("protection") or {} if summary.get("protected") else {}
        checks = value.get("required_status_checks") or {}
        contexts = {decode.text(each) for each in checks.get("contexts") or ()}
        contexts |= {decode.text(each.get("context")) for each in checks.get("checks") or ()}
        approvals = (value.get("required_pull_request_reviews") or {}).get("required_approving_review_count") or 0
        strict = bool(checks.get("strict"))
        try:
            rules = await self._http.pages(f"/repos/{repo}/rules/branches/{name}")
        except (NotFoundError, PermissionDeniedError):  # an older server, or a plan without rule sets
            rules = []
        for rule in rules:
            parameters = rule.get("parameters") or {}
            if rule.get("type") == "required_status_checks":
                contexts |= {decode.text(c.get("context")) for c in parameters.get("required_status_checks") or ()}
                strict = strict or bool(parameters.get("strict_required_status_checks_policy"))
            elif rule.get("type") == "pull_request":
                approvals = max(approvals, decode.number(parameters.get("required_approving_review_count")))
        return Protection(tuple(sorted(contexts - {""})), strict, approvals)

    async def permission(self, repo: RepoId, login: str) -> Permission:
        """Give what an account may do; whatever is not a clear answer is UNKNOWN, a no."""
        try:
            value = await self._http.maybe(f"/repos/{repo}/collaborators/{quote(login, safe='')}/permission")
        except ForgeError:
            return Permission.UNKNOWN
        if not isinstance(value, dict):
            return Permission.NONE
        role = decode.permission(value.get("role_name"))
        # A custom role has a name of its own; ``permission`` says which plain one it amounts to.
        return role if role is not Permission.UNKNOWN else decode.permission(value.get("permission"))

    async def ref(self, repo: RepoId, ref: str) -> str | None:
        """Give the tip of a ref (``refs/heads/x`` or ``heads/x``); None only for a definite "not found" (BAT-165)."""
        try:
            value = await self._http.json(f"/repos/{repo}/git/ref/{quote(ref.removeprefix('refs/'))}")
        except NotFoundError:
            return None
        except ForgeError as error:
            if error.status == 409:  # "Git Repository is empty": there is no ref at all
                return None
            raise
        return decode.text((value.get("object") or {}).get("sha")) or None

    async def refs(self, repo: RepoId, prefix: str) -> dict[str, str]:
        """Give all refs that start with ``prefix`` (``refs/heads/herd/``), by full name."""
        found = await self._http.pages(f"/repos/{repo}/git/matching-refs/{quote(prefix.removeprefix('refs/'))}")
        return {decode.text(each.get("ref")): decode.text((each.get("object") or {}).get("sha")) for each in found}

    async def file(self, repo: RepoId, path: str, *, ref: str | None = None) -> bytes | None:
        """Give a file's content at ``ref``, or on the default branch."""
        try:
            answer = await self._http.get(
                f"/repos/{repo}/contents/{quote(path)}",
                params={"ref": ref} if ref else None,
                accept=RAW,
                conditional=True,
            )
        except NotFoundError:
            return None
        return answer.body

    async def label_names(self, repo: RepoId) -> frozenset[str]:
        """Give the names of all labels."""
        found = await self._http.pages(f"/repos/{repo}/labels", conditional=True)
        return frozenset(decode.text(each.get("name")) for each in found)

    async def diff(self, repo: RepoId, number: int) -> bytes:
        """Give a PR's diff; ForgeError with status 406 where it is too large."""
        return (await self._http.get(f"/repos/{repo}/pulls/{number}", accept=DIFF)).body

    # --- writes ---
    async def create_repository(self, name: str, *, default_branch: str = "main") -> bool:
        """Create an empty private repository of our own account; False where it exists already."""
        plain = name.rpartition("/")[2]
        body = {"name": plain, "private": True, "auto_init": False, "default_branch": default_branch}
        try:
            await self._http.write("POST", "/user/repos", body)
        except ExistsError:
            return False
        return True

    async def create_milestone(self, repo: RepoId, title: str, description: str) -> Milestone:
        """Create a milestone; ExistsError where the title is taken."""
        body = {"title": title, "description": description}
        return decode.rest_milestone(await self._http.write("POST", f"/repos/{repo}/milestones", body))

    async def edit_milestone(
        self, repo: RepoId, number: int, *, description: str | None = None, state: str | None = None
    ) -> Milestone:
        """Edit a milestone; None leaves a field as it is."""
        body = _given(description=description, state=state)
        value = await self._http.write("PATCH", f"/repos/{repo}/milestones/{number}", body, idempotent=True)
        return decode.rest_milestone(value)

    async def create_issue(
        self, repo: RepoId, title: str, body: str, *, labels: Sequence[str] = (), milestone: int | None = None
    ) -> Issue:
        """Create an issue with its labels in the same request."""
        given = {"title": title, "body": body, "labels": list(labels), **_given(milestone=milestone)}
        return decode.rest_issue(await self._http.write("POST", f"/repos/{repo}/issues", given))

    async def edit_issue(
        self,
        repo: RepoId,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        state: str | None = None,
        labels: Sequence[str] | None = None,
        milestone: int | None = None,
    ) -> Issue:
        """Edit; ``labels`` replaces the whole list in the same request (BAT-057)."""
        given = _given(
            title=title, body=body, state=state, labels=None if labels is None else list(labels), milestone=milestone
        )
        value = await self._http.write("PATCH", f"/repos/{repo}/issues/{number}", given, idempotent=True)
        return decode.rest_issue(value)

    async def add_labels(self, repo: RepoId, number: int, names: Sequence[str]) -> None:
        """Add labels; those that are there stay."""
        await self._http.write(
            "POST", f"/repos/{repo}/issues/{number}/labels", {"labels": list(names)}, idempotent=True
        )

    async def remove_label(self, repo: RepoId, number: int, name: str) -> None:
        """Take a label off; one that is not there is no error."""
        with contextlib.suppress(NotFoundError):
            await self._http.write(
                "DELETE", f"/repos/{repo}/issues/{number}/labels/{quote(name, safe='')}", idempotent=True
            )

    async def ensure_label(self, repo: RepoId, name: str, color: str, description: str) -> bool:
        """Create the label or mend its colour and description; False where it was right already."""
        path = f"/repos/{repo}/labels/{quote(name, safe='')}"
        value = await self._http.maybe(path)
        wanted = {"color": color, "description": description}
        if value is None:
            with contextlib.suppress(ExistsError):
                await self._http.write("POST", f"/repos/{repo}/labels", {"name": name, **wanted})
            return True
        same_color = decode.text(value.get("color")).lower() == color.lower()
        if same_color and decode.text(value.get("description")) == description:
            return False
        await self._http.write("PATCH", path, wanted, idempotent=True)
        return True

    async def create_comment(self, repo: RepoId, number: int, body: str) -> Comment:
        """Post a comment as it stands; rooms post through ``comments.post``."""
        value = await self._http.write("POST", f"/repos/{repo}/issues/{number}/comments", {"body": body})
        return decode.rest_comment(value, self.login)

    async def edit_comment(self, repo: RepoId, comment_id: int, body: str) -> Comment:
        """Replace a comment's text."""
        path = f"/repos/{repo}/issues/comments/{comment_id}"
        return decode.rest_comment(await self._http.write("PATCH", path, {"body": body}, idempotent=True), self.login)

    async def create_pull(self, repo: RepoId, *, title: str, body: str, head: str, base: str) -> PullRequest:
        """Open a PR; ExistsError where one is open from that head."""
        given = {"title": title, "body": body, "head": head, "base": base}
        return decode.rest_pull(await self._http.write("POST", f"/repos/{repo}/pulls", given))

    async def merge_pull(
        self, repo: RepoId, number: int, *, sha: str, method: str, title: str = "", message: str = ""
    ) -> str:
        """Merge at exactly ``sha``; give the merge's SHA. ConflictError: 409 the head moved, 405 not mergeable."""
        given = {"sha": sha, "merge_method": method}
        if title or message:
            given |= {"commit_title": title, "commit_message": message} if title else {"commit_message": message}
        with prioritised(Priority.MERGE):
            value = await self._http.write("PUT", f"/repos/{repo}/pulls/{number}/merge", given)
        return decode.text(value.get("sha"))

    async def submit_review(self, repo: RepoId, number: int, *, sha: str, event: str, body: str) -> int:
        """Submit a review of ``sha``; give its id."""
        given = {"commit_id": sha, "event": event, **({"body": body} if body else {})}
        value = await self._http.write("POST", f"/repos/{repo}/pulls/{number}/reviews", given)
        return decode.number(value.get("id"))

    async def dismiss_review(self, repo: RepoId, number: int, review_id: int, message: str) -> None:
        """Dismiss a review."""
        path = f"/repos/{repo}/pulls/{number}/reviews/{review_id}/dismissals"
        await self._http.write("PUT", path, {"message": message}, idempotent=True)

    async def set_status(self, repo: RepoId, sha: str, *, context: str, state: str, description: str = "") -> None:
        """Set a commit status; of a context the newest counts, so a second one does no harm."""
        given = {"context": context, "state": state, "description": description[:140]}
        await self._http.write("POST", f"/repos/{repo}/statuses/{sha}", given, idempotent=True)

    async def create_check_run(self, repo: RepoId, sha: str, name: str, *, external_id: str) -> int:
        """Report a check as queued; give its id."""
        given = {"name": name, "head_sha": sha, "status": "queued", "external_id": external_id}
        return decode.number((await self._http.write("POST", f"/repos/{repo}/check-runs", given)).get("id"))

    async def update_check_run(self, repo: RepoId, run_id: int, change: CheckRunChange) -> None:
        """Say how far a check is. Annotations are added to those that are there: such a change is not sent twice."""
        path = f"/repos/{repo}/check-runs/{run_id}"
        await self._http.write("PATCH", path, change.body(), idempotent=not change.annotations)

    async def add_reaction(self, repo: RepoId, comment_id: int, content: str) -> None:
        """React to a comment; the same reaction twice is one."""
        path = f"/repos/{repo}/issues/comments/{comment_id}/reactions"
        await self._http.write("POST", path, {"content": content}, idempotent=True)

    async def create_ref(self, repo: RepoId, ref: str, sha: str) -> None:
        """Create a ref; ExistsError where it is there."""
        await self._http.write("POST", f"/repos/{repo}/git/refs", {"ref": ref, "sha": sha})

    async def delete_ref(self, repo: RepoId, ref: str) -> None:
        """Delete a ref; NotFoundError where it is not there."""
        await self._http.write("DELETE", f"/repos/{repo}/git/refs/{quote(ref.removeprefix('refs/'))}")


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
