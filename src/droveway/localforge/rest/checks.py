"""Commit statuses, check suites and check runs."""

from __future__ import annotations

import json

from droveway.localforge.access import need, not_found
from droveway.localforge.db import Tx
from droveway.localforge.ops import checks as ops
from droveway.localforge.rest.commits import resolve
from droveway.localforge.routing import Answer, Call, created, paged, route, wrapped
from droveway.localforge.views import checks as shape


@route("POST", "/repos/{owner}/{repo}/statuses/{sha}", "Create a commit status")
def create_status(tx: Tx, call: Call) -> Answer:
    """Write a status of a context."""
    repo, body = call.repo(tx), call.object()
    row = ops.set_status(
        tx,
        call.actor,
        repo,
        call.params["sha"],
        call.text("state", resource="Status"),
        context=body.get("context") or "default",
        description=body.get("description"),
        target_url=body.get("target_url"),
    )
    shaped = shape.status(tx, repo, row)
    return created(shaped, shaped["url"])


def _statuses(tx: Tx, call: Call) -> Answer:
    repo = call.repo(tx)
    sha = resolve(tx, repo, call.params["ref"])
    rows = tx.all("SELECT * FROM statuses WHERE repo_id = ? AND sha = ? ORDER BY id DESC", repo["id"], sha)
    return paged(call, rows, lambda row: shape.status(tx, repo, row))


route("GET", "/repos/{owner}/{repo}/commits/{ref:path}/statuses", "List commit statuses")(_statuses)
route("GET", "/repos/{owner}/{repo}/statuses/{ref:path}", "List commit statuses (the old address)")(_statuses)


@route("GET", "/repos/{owner}/{repo}/commits/{ref:path}/status", "Get the combined status")
def combined(tx: Tx, call: Call) -> Answer:
    """Give the newest status of each context and what they come to."""
    repo = call.repo(tx)
    sha = resolve(tx, repo, call.params["ref"])
    rows = shape.latest_statuses(tx, repo["id"], sha)
    answer = paged(call, rows, lambda row: row)
    answer.body = shape.combined(tx, repo, sha, answer.body, rows)
    return answer


# --- check runs ---


@route("POST", "/repos/{owner}/{repo}/check-runs", "Create a check run")
def create_run(tx: Tx, call: Call) -> Answer:
    """Report a check. (On GitHub only apps may; here who may write is one.)"""
    repo = call.repo(tx)
    name, sha = call.text("name", resource="CheckRun"), call.text("head_sha", resource="CheckRun")
    shaped = shape.check_run(tx, repo, ops.create_run(tx, call.actor, repo, sha, name, call.object()))
    return created(shaped, shaped["url"])


@route("GET", "/repos/{owner}/{repo}/check-runs/{run:int}", "Get a check run")
def get_run(tx: Tx, call: Call) -> Answer:
    """Give one check run."""
    repo = call.repo(tx)
    return Answer(shape.check_run(tx, repo, ops.find_run(tx, repo, call.number("run"))))


@route("PATCH", "/repos/{owner}/{repo}/check-runs/{run:int}", "Update a check run")
def update_run(tx: Tx, call: Call) -> Answer:
    """Change a check run."""
    repo = call.repo(tx)
    row = ops.update_run(tx, call.actor, repo, ops.find_run(tx, repo, call.number("run")), call.object())
    return Answer(shape.check_run(tx, repo, row))


@route("GET", "/repos/{owner}/{repo}/check-runs/{run:int}/annotations", "List a check run's annotations")
def list_annotations(tx: Tx, call: Call) -> Answer:
    """Give the annotations as they were reported."""
    repo = call.repo(tx)
    return paged(call, json.loads(ops.find_run(tx, repo, call.number("run"))["annotations"]), lambda each: each)


@route("GET", "/repos/{owner}/{repo}/commits/{ref:path}/check-runs", "List a commit's check runs")
def runs(tx: Tx, call: Call) -> Answer:
    """Give the newest run of each app and name (``filter=all``: every one)."""
    repo, query = call.repo(tx), call.query
    sha = resolve(tx, repo, call.params["ref"])
    if query.get("filter") == "all":
        rows = tx.all("SELECT * FROM check_runs WHERE repo_id = ? AND sha = ? ORDER BY id", repo["id"], sha)
    else:
        rows = ops.latest_runs(tx, repo["id"], sha)
    for key, column in (("check_name", "name"), ("status", "status")):
        if query.get(key):
            rows = [row for row in rows if row[column] == query[key]]
    if query.get("app_id"):
        rows = [row for row in rows if str(tx.get("check_suites", row["suite_id"])["app_id"]) == query["app_id"]]
    return wrapped(call, "check_runs", rows, lambda row: shape.check_run(tx, repo, row))


# --- check suites ---


@route("POST", "/repos/{owner}/{repo}/check-suites", "Create a check suite")
def create_suite(tx: Tx, call: Call) -> Answer:
    """Make the actor's suite of a commit; 200 where it is there already."""
    repo = call.repo(tx)
    need(tx, call.actor, repo, "write")
    sha = ops.need_commit(tx, repo, call.text("head_sha", resource="CheckSuite"), "CheckSuite")
    before = tx.value("SELECT count(*) FROM check_suites")
    shaped = shape.check_suite(tx, repo, ops.ensure_suite(tx, call.actor, repo, sha))
    fresh = tx.value("SELECT count(*) FROM check_suites") > before
    return Answer(shaped, 201 if fresh else 200)


@route("GET", "/repos/{owner}/{repo}/check-suites/{suite:int}", "Get a check suite")
def get_suite(tx: Tx, call: Call) -> Answer:
    """Give one suite."""
    repo = call.repo(tx)
    row = tx.one("SELECT * FROM check_suites WHERE id = ? AND repo_id = ?", call.number("suite"), repo["id"])
    if row is None:
        raise not_found()
    return Answer(shape.check_suite(tx, repo, row))


@route("GET", "/repos/{owner}/{repo}/check-suites/{suite:int}/check-runs", "List a check suite's runs")
def suite_runs(tx: Tx, call: Call) -> Answer:
    """Give the runs of one suite."""
    repo = call.repo(tx)
    rows = tx.all(
        "SELECT * FROM check_runs WHERE suite_id = ? AND repo_id = ? ORDER BY id", call.number("suite"), repo["id"]
    )
    return wrapped(call, "check_runs", rows, lambda row: shape.check_run(tx, repo, row))


@route("GET", "/repos/{owner}/{repo}/commits/{ref:path}/check-suites", "List a commit's check suites")
def suites(tx: Tx, call: Call) -> Answer:
    """Give the suites of a commit."""
    repo = call.repo(tx)
    sha = resolve(tx, repo, call.params["ref"])
    rows = tx.all("SELECT * FROM check_suites WHERE repo_id = ? AND sha = ? ORDER BY id", repo["id"], sha)
    return wrapped(call, "check_suites", rows, lambda row: shape.check_suite(tx, repo, row))
