"""Search."""

from __future__ import annotations

from droveway.localforge.access import unprocessable
from droveway.localforge.db import Row, Tx
from droveway.localforge.routing import Answer, Call, paged, route
from droveway.localforge.searching import search
from droveway.localforge.views import issues as shape
from droveway.localforge.views.repos import repository


@route("GET", "/search/issues", "Search issues and pull requests", bucket="search")
def issues(tx: Tx, call: Call) -> Answer:
    """Search by qualifiers; at most 1,000 results can be paged through."""
    query = call.query.get("q", "")
    if not query:
        raise unprocessable("Validation Failed", {"resource": "Search", "field": "q", "code": "missing"})
    rows = search(tx, call.actor, query, sort=call.query.get("sort", ""), order=call.query.get("order", "desc"))

    def one(row: Row) -> dict[str, object]:
        repo = tx.get("repos", row["repo_id"])
        return {**shape.issue(tx, repo, row), "score": 1.0}

    answer = paged(call, rows[:1000], one)
    answer.body = {"total_count": len(rows), "incomplete_results": False, "items": answer.body}
    return answer


@route("GET", "/search/repositories", "Search repositories", bucket="search")
def repositories(tx: Tx, call: Call) -> Answer:
    """Search by a part of the name, among those that the actor may see."""
    words = [word for word in call.query.get("q", "").split() if ":" not in word]
    rows = tx.all("SELECT * FROM repos ORDER BY id")
    found = [row for row in rows if all(word.lower() in row["name"].lower() for word in words)]
    seen = [row for row in found if repository(tx, row, call.actor)["permissions"]["pull"]]
    answer = paged(call, seen, lambda row: {**repository(tx, row, call.actor), "score": 1.0})
    answer.body = {"total_count": len(seen), "incomplete_results": False, "items": answer.body}
    return answer
