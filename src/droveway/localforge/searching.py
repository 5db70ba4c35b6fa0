"""Search of issues and pull requests by GitHub's qualifiers; REST and GraphQL share it."""

from __future__ import annotations

import re
from typing import Any, Final

from droveway.localforge.access import Actor, can, unprocessable
from droveway.localforge.db import Row, Tx, marks

_TERM: Final = re.compile(r'(-?)(?:([a-z-]+):)?(?:"([^"]*)"|(\S+))')
_LABEL: Final = (
    "issues.id IN (SELECT issue_id FROM issue_labels JOIN labels ON labels.id = label_id WHERE labels.name = ?)"
)


def search(tx: Tx, actor: Actor, query: str, *, sort: str = "", order: str = "desc") -> list[Row]:
    """Give the issues and pull requests that match, in repositories that the actor may see. 422 for a bad ``is:``.

    Qualifiers: repo, user, is, type, state, label, milestone, author, assignee, head, base, in, draft, created,
    review-requested, updated, closed, merged, no, sort; a leading minus negates; other words stand in title or body.
    """
    where, values = ["1"], []
    for minus, key, phrase, word in _TERM.findall(query):
        value = phrase or word
        if key == "sort":
            sort, _, order = value.partition("-")
            order = order or "desc"
            continue
        if key == "in":
            continue
        text, given = _condition(key, value)
        if text:
            where.append(f"NOT ({text})" if minus else f"({text})")
            values += given
    seen = [row["id"] for row in tx.all("SELECT * FROM repos") if can(tx, actor, row, "read")]
    column = {"updated": "issues.updated_at", "comments": "(SELECT count(*) FROM comments WHERE issue_id = issues.id)"}
    by = column.get(sort, "issues.created_at")
    way = "ASC" if order == "asc" else "DESC"
    return tx.all(
        "SELECT issues.* FROM issues LEFT JOIN pulls ON pulls.issue_id = issues.id"  # noqa: S608 - built from constants
        " JOIN repos ON repos.id = issues.repo_id JOIN users AS owners ON owners.id = repos.owner_id"
        f" WHERE {' AND '.join(where)}"
        f" AND issues.repo_id IN ({marks(seen)}) ORDER BY {by} {way}, issues.id {way}",
        *values,
        *seen,
    )


_IS: Final = {
    "issue": "issues.is_pull = 0",
    "pr": "issues.is_pull = 1",
    "pull-request": "issues.is_pull = 1",
    "open": "issues.state = 'open'",
    "closed": "issues.state = 'closed'",
    "merged": "pulls.merged = 1",
    "unmerged": "pulls.merged = 0",
    "draft": "pulls.draft = 1",
    "public": "repos.private = 0",
    "private": "repos.private = 1",
    "locked": "issues.locked = 1",
}
_PERSON: Final = "(SELECT id FROM users WHERE login = ?)"
_SIMPLE: Final = {
    "user": "owners.login = ?",
    "org": "owners.login = ?",
    "label": _LABEL,
    "milestone": "issues.milestone_id IN (SELECT id FROM milestones WHERE title = ?)",
    "author": f"issues.author_id = {_PERSON}",
    "assignee": f"issues.id IN (SELECT issue_id FROM assignees WHERE user_id = {_PERSON})",  # noqa: S608
    "commenter": f"issues.id IN (SELECT issue_id FROM comments WHERE author_id = {_PERSON})",  # noqa: S608
    "review-requested": f"issues.id IN (SELECT issue_id FROM review_requests WHERE user_id = {_PERSON})",  # noqa: S608
    "reviewed-by": f"issues.id IN (SELECT issue_id FROM reviews WHERE author_id = {_PERSON})",  # noqa: S608
    "head": "pulls.head_ref = ?",
    "base": "pulls.base_ref = ?",
}
_NO: Final = {
    "label": "issues.id NOT IN (SELECT issue_id FROM issue_labels)",
    "milestone": "issues.milestone_id IS NULL",
    "assignee": "issues.id NOT IN (SELECT issue_id FROM assignees)",
}
_TIMES: Final = {
    "created": "issues.created_at",
    "updated": "issues.updated_at",
    "closed": "issues.closed_at",
    "merged": "pulls.merged_at",
}


def _condition(key: str, value: str) -> tuple[str, list[Any]]:
    if key in ("is", "type", "state"):
        if value not in _IS:
            raise unprocessable("Validation Failed", {"resource": "Search", "field": "q", "code": "invalid"})
        return _IS[value], []
    if key == "repo":
        owner, _, name = value.partition("/")
        return "owners.login = ? AND repos.name = ?", [owner, name]
    if key == "draft":
        return "pulls.draft = ?", [int(value == "true")]
    if key == "no" and value in _NO:
        return _NO[value], []
    if key in _SIMPLE:
        return _SIMPLE[key], [value.removeprefix("@")]
    if key in _TIMES:
        return _time(_TIMES[key], value)
    text = f"{key}:{value}" if key else value
    if not text or text in ("AND", "OR", "(", ")"):  # gh puts words between brackets
        return "", []
    pattern = "%" + re.sub(r"([%_\\])", r"\\\1", text) + "%"
    like = "(issues.title LIKE ? ESCAPE '\\' OR coalesce(issues.body, '') LIKE ? ESCAPE '\\')"
    return like, [pattern, pattern]


def _time(column: str, value: str) -> tuple[str, list[Any]]:
    if ".." in value:
        low, high = value.split("..", 1)
        parts = [(">=", low)] if low != "*" else []
        parts += [("<=", high)] if high != "*" else []
    else:
        when = value.lstrip("<>=")
        sign = value[: len(value) - len(when)]
        parts = [(sign, when)] if sign in (">", ">=", "<", "<=") else [(">=", when), ("<=", when)]
    found, values = [column + " IS NOT NULL"], []
    for sign, when in parts:
        # A day is all of it: up to its last second for <= and after it for >.
        full = when if "T" in when else when + ("T23:59:59Z" if sign in ("<=", ">") else "T00:00:00Z")
        found.append(f"{column} {sign} ?")
        values.append(full.replace("+00:00", "Z"))
    return " AND ".join(found), values
