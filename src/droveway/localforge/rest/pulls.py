"""Pull requests."""

from __future__ import annotations

from typing import Any

import msgspec

from droveway.localforge import diffs, gitdata
from droveway.localforge.access import Refused, invalid, not_found, unprocessable
from droveway.localforge.db import Row, Tx
from droveway.localforge.ops import issues as issue_ops
from droveway.localforge.ops import merging
from droveway.localforge.ops import pulls as ops
from droveway.localforge.rest.commits import DIFF, PATCH
from droveway.localforge.routing import Answer, Call, created, empty, limit_of, paged, route
from droveway.localforge.views import commits as commit_shape
from droveway.localforge.views import pulls as shape
from droveway.localforge.views.repos import api_url

_SORTS = {
    "created": "issues.number",
    "updated": "issues.updated_at",
    "popularity": "(SELECT count(*) FROM comments WHERE issue_id = issues.id)",
    "long-running": "issues.created_at",
}


def find(tx: Tx, call: Call, repo: Row) -> Row:
    """Give the pull request of the path."""
    return issue_ops.find(tx, repo, call.number(), pull=True)


def _single(tx: Tx, repo: Row, issue: Row) -> dict[str, Any]:
    known = merging.mergeability(tx, repo, issue, tx.get("pulls", issue["id"]))
    return shape.pull(tx, repo, issue, full=True, merge=msgspec.structs.asdict(known))


@route("GET", "/repos/{owner}/{repo}/pulls", "List pull requests")
def index(tx: Tx, call: Call) -> Answer:
    """Filter by state, head (``owner:branch``) and base."""
    repo, query = call.repo(tx), call.query
    where, values = ["issues.repo_id = ?"], [repo["id"]]
    state = query.get("state", "open")
    if state not in ("open", "closed", "all"):
        raise Refused(422, "Invalid request.\n\nstate must be one of open, closed, all.")
    if state != "all":
        where.append("state = ?")
        values.append(state)
    if query.get("head"):
        where.append("head_ref = ?")
        values.append(query["head"].partition(":")[2] or query["head"])
    if query.get("base"):
        where.append("base_ref = ?")
        values.append(query["base"])
    sort = query.get("sort", "created")
    way = query.get("direction") or ("desc" if sort == "created" else "asc")
    order = f"{_SORTS.get(sort, 'issues.number')} {'DESC' if way == 'desc' else 'ASC'}, issues.number DESC"
    page, per_page, limit, offset = limit_of(call)
    source = f"FROM issues JOIN pulls ON issue_id = issues.id WHERE {' AND '.join(where)}"
    total = tx.value(f"SELECT count(*) {source}", *values)
    rows = tx.all(f"SELECT issues.* {source} ORDER BY {order} LIMIT ? OFFSET ?", *values, limit, offset)
    return Answer([shape.pull(tx, repo, row) for row in rows], page=(page, per_page, total))


@route("POST", "/repos/{owner}/{repo}/pulls", "Create a pull request")
def create(tx: Tx, call: Call) -> Answer:
    """Open a pull request."""
    repo, body = call.repo(tx), call.object()
    row = ops.create(
        tx,
        call.actor,
        repo,
        title=call.text("title", resource="PullRequest"),
        head=call.text("head", resource="PullRequest"),
        base=call.text("base", resource="PullRequest"),
        body=body.get("body"),
        draft=bool(body.get("draft")),
        maintainer_can_modify=bool(body.get("maintainer_can_modify")),
    )
    shaped = _single(tx, repo, row)
    return created(shaped, shaped["url"])


@route("GET", "/repos/{owner}/{repo}/pulls/{number:int}", "Get a pull request")
def get(tx: Tx, call: Call) -> Answer:
    """Give a pull request; asking makes its mergeability known. Diff and patch media types give text."""
    repo = call.repo(tx)
    issue = find(tx, call, repo)
    if call.media("diff") or call.media("patch"):
        old, head, base = diffs.pull_range(tx, repo, tx.get("pulls", issue["id"]))
        git = tx.kernel.git(repo["id"])
        if call.media("diff"):
            return Answer(gitdata.diff(git, old, head), media=DIFF)
        return Answer(gitdata.patch_series(git, base, head), media=PATCH)
    return Answer(_single(tx, repo, issue))


@route("PATCH", "/repos/{owner}/{repo}/pulls/{number:int}", "Update a pull request")
def edit(tx: Tx, call: Call) -> Answer:
    """Change text, state or base."""
    repo = call.repo(tx)
    values = call.given("title", "body", "state", "base", "maintainer_can_modify")
    values = {key: value for key, value in values.items() if value is not None or key == "body"}
    return Answer(_single(tx, repo, ops.edit(tx, call.actor, repo, find(tx, call, repo), **values)))


@route("GET", "/repos/{owner}/{repo}/pulls/{number:int}/commits", "List a pull request's commits")
def commits(tx: Tx, call: Call) -> Answer:
    """Give the commits, oldest first, at most 250."""
    repo = call.repo(tx)
    shas = diffs.pull_commits(tx, repo, tx.get("pulls", find(tx, call, repo)["id"]))[:250]
    answer = paged(call, shas, lambda sha: sha)
    found = gitdata.commits(tx.kernel, tx.kernel.git(repo["id"]), answer.body)
    answer.body = [commit_shape.commit(tx, repo, each) for each in found]
    return answer


@route("GET", "/repos/{owner}/{repo}/pulls/{number:int}/files", "List a pull request's files")
def files(tx: Tx, call: Call) -> Answer:
    """Give the changed files with their patches."""
    repo = call.repo(tx)
    pull = tx.get("pulls", find(tx, call, repo)["id"])
    return paged(
        call,
        diffs.pull_files(tx, repo, pull)[:3000],
        lambda each: commit_shape.file(tx, repo, pull["head_sha"], each),
    )


@route("GET", "/repos/{owner}/{repo}/pulls/{number:int}/merge", "Check whether a pull request was merged")
def merged(tx: Tx, call: Call) -> Answer:
    """204 for yes, 404 for no."""
    repo = call.repo(tx)
    if not tx.get("pulls", find(tx, call, repo)["id"])["merged"]:
        raise not_found()
    return empty()


@route("PUT", "/repos/{owner}/{repo}/pulls/{number:int}/merge", "Merge a pull request")
def merge(tx: Tx, call: Call) -> Answer:
    """Merge by ``merge_method`` merge, squash or rebase. 409 where ``sha`` is not the head, 405 where it can't be."""
    repo, body = call.repo(tx), call.object()
    sha = merging.merge(
        tx,
        call.actor,
        repo,
        find(tx, call, repo),
        method=body.get("merge_method") or "merge",
        sha=body.get("sha"),
        title=body.get("commit_title"),
        message=body.get("commit_message"),
    )
    return Answer({"sha": sha, "merged": True, "message": "Pull Request successfully merged"})


@route("PUT", "/repos/{owner}/{repo}/pulls/{number:int}/update-branch", "Update a pull request's branch")
def update_branch(tx: Tx, call: Call) -> Answer:
    """Merge the base into the head."""
    repo = call.repo(tx)
    issue = find(tx, call, repo)
    merging.update_branch(tx, call.actor, repo, issue, expected=call.object().get("expected_head_sha"))
    url = f"{api_url(tx, repo)}/pulls/{issue['number']}"
    return Answer({"message": "Updating pull request branch.", "url": url}, 202)


@route("GET", "/repos/{owner}/{repo}/pulls/{number:int}/requested_reviewers", "List who was asked for a review")
def requested(tx: Tx, call: Call) -> Answer:
    """Give users; there are no teams."""
    repo = call.repo(tx)
    return Answer({"users": shape.requested(tx, find(tx, call, repo)["id"]), "teams": []})


def _logins(call: Call) -> list[str]:
    logins = call.object().get("reviewers") or []
    if not isinstance(logins, list):
        raise invalid("PullRequest", "reviewers", "invalid")
    if call.object().get("team_reviewers"):
        raise unprocessable("Could not resolve to a node: there are no teams on this forge.")
    return logins


@route("POST", "/repos/{owner}/{repo}/pulls/{number:int}/requested_reviewers", "Ask for reviews")
def request_reviews(tx: Tx, call: Call) -> Answer:
    """Ask accounts for a review."""
    repo = call.repo(tx)
    issue = find(tx, call, repo)
    ops.request_reviews(tx, call.actor, repo, issue, _logins(call))
    return created(shape.pull(tx, repo, tx.get("issues", issue["id"])))


@route("DELETE", "/repos/{owner}/{repo}/pulls/{number:int}/requested_reviewers", "Take review requests back")
def unrequest_reviews(tx: Tx, call: Call) -> Answer:
    """Take requests back."""
    repo = call.repo(tx)
    issue = find(tx, call, repo)
    ops.request_reviews(tx, call.actor, repo, issue, _logins(call), wanted=False)
    return Answer(shape.pull(tx, repo, tx.get("issues", issue["id"])))
