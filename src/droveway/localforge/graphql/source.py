"""Where resolvers get what is not simply a row: permissions, addresses, git, and the shared operations' rules."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

import msgspec

from droveway.localforge import access, diffs, gitdata, nodes, searching
from droveway.localforge.db import Row, stamp
from droveway.localforge.gitdata import Commit, Person
from droveway.localforge.gitrepo import GitRepo
from droveway.localforge.graphql.context import Context, context
from droveway.localforge.graphql.pages import Node, one
from droveway.localforge.graphql.registry import Info
from droveway.localforge.ops import merging
from droveway.localforge.ops.keywords import closing_references

encode = nodes.encode
SEARCH_LIMIT: Final = 1000  # results through which a search can be paged
_ME: Final = re.compile(r"(?<=:)@me\b")


def opaque(prefix: str, *parts: int | str) -> str:
    """Give an id for a pair that has no row; ``node(id:)`` does not know it."""
    raw = ":".join(str(part) for part in parts).encode()
    return f"{prefix}_{base64.urlsafe_b64encode(raw).decode().rstrip('=')}"


def quoted(name: str) -> str:
    """Give a name as a part of a path."""
    return quote(name, safe="")


def moment(text: str) -> str:
    """Give a time of any zone as the rows hold it."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return text
    return stamp(found if found.tzinfo else found.replace(tzinfo=UTC))


# --- who asks, and where things are ---
def viewer_id(there: Context) -> int:
    """Give the id of who asks, 0 for nobody."""
    found: int = there.actor.id
    return found


def html(there: Context) -> str:
    """Give what the addresses of pages start with."""
    return there.tx.web.rstrip("/")


def repo_row(there: Context, repo_id: int) -> Row:
    """Give a repository's row."""
    row: Row = there.memoised(("repo", repo_id), lambda: there.tx.get("repos", repo_id))
    return row


def repository(there: Context, repo_id: int) -> Node:
    """Give the repository's node: one per execution."""
    node: Node = there.memoised(("repository", repo_id), lambda: one("Repository", repo_row(there, repo_id)))
    return node


def repo_path(there: Context, repo_id: int) -> str:
    """Give ``/owner/name``."""

    def make() -> str:
        row = repo_row(there, repo_id)
        return f"/{there.users([row['owner_id']])[row['owner_id']].row['login']}/{row['name']}"

    path: str = there.memoised(("path", repo_id), make)
    return path


def repo_id(node: Node, info: Info) -> int:
    """Give the repository to which a row belongs, through its PR where it does not say."""
    found: int
    if node.type == "Repository":
        found = node.row["id"]
    elif "repo_id" in node.row.keys():  # noqa: SIM118 (a sqlite3.Row is no mapping)
        found = node.row["repo_id"]
    elif node.extra is not None:
        found = node.extra.row["repo_id"]
    else:
        there = context(info)
        issue = node.row["issue_id"]
        found = there.memoised(
            ("repo of", issue), lambda: there.tx.value("SELECT repo_id FROM issues WHERE id = ?", issue)
        )
    return found


def role(there: Context, repo: int, user: int | None = None) -> str | None:
    """Give a user's role (of who asks, where none is named); read for everybody on a public repository."""
    row = repo_row(there, repo)
    own = access.role_of(there.tx, viewer_id(there) if user is None else user, row)
    return own or (None if row["private"] else "read")


def permission(there: Context, repo: int, user: int | None = None) -> str | None:
    """Give ``RepositoryPermission``."""
    found = role(there, repo, user)
    return found.upper() if found else None


def may_write(there: Context, repo: int, user: int) -> bool:
    """Whether the user's word counts: write or better."""
    return role(there, repo, user) in ("write", "maintain", "admin")


def visible(there: Context, repo: int) -> bool:
    """Whether who asks may see the repository."""
    return role(there, repo) is not None


def association(there: Context, repo: int, user: int) -> str:
    """Give the author association."""
    key = ("association", repo, user)
    word: str = there.memoised(key, lambda: access.association(there.tx, user, repo_row(there, repo)))
    return word


# --- git ---
def git(there: Context, repo: int) -> GitRepo:
    """Give the repository in git."""
    return there.tx.kernel.git(repo)


def _objects(there: Context, repo: int, shas: Iterable[str]) -> dict[str, tuple[str, bytes]]:
    """Read objects in one process: name → (type, content). What does not exist is absent."""
    wanted = list(dict.fromkeys(shas))
    out = git(there, repo).run("cat-file", "--batch", stdin="".join(f"{sha}\n" for sha in wanted).encode())
    found: dict[str, tuple[str, bytes]] = {}
    at = 0
    for sha in wanted:
        end = out.index(b"\n", at)
        words = out[at:end].split(b" ")
        at = end + 1
        if len(words) == 3:
            size = int(words[2])
            found[sha] = (words[1].decode(), out[at : at + size])
            at += size + 1
    return found


def commits(there: Context, repo: int, shas: Sequence[str]) -> dict[str, Commit]:
    """Read commits in one process."""
    return {found.sha: found for found in gitdata.commits(there.tx.kernel, git(there, repo), list(dict.fromkeys(shas)))}


def person(who: Person) -> dict[str, Any]:
    """Give ``GitActor``."""
    return {"name": who.name, "email": who.email, "date": who.local}


def kinds(there: Context, repo: int, shas: Sequence[str]) -> dict[str, str]:
    """Give the GraphQL types of objects."""
    return {sha: kind.capitalize() for sha, (kind, _) in _objects(there, repo, shas).items()}


def tag(there: Context, repo: int, sha: str) -> tuple[str, str, str]:
    """Give (target, name, message) of an annotated tag."""
    raw = _objects(there, repo, [sha])[sha][1].decode("utf-8", "replace")
    head, _, message = raw.partition("\n\n")
    fields = dict(line.partition(" ")[::2] for line in head.split("\n"))
    return fields["object"], fields["tag"], message


def blob(there: Context, repo: int, sha: str) -> bytes:
    """Give a file's content."""
    return _objects(there, repo, [sha])[sha][1]


def refs(there: Context, repo: int) -> dict[str, str]:
    """Give all branches and tags by their whole names, in git's order."""
    found: dict[str, str] = there.memoised(("refs", repo), lambda: git(there, repo).refs("refs/heads/", "refs/tags/"))
    return found


def log(there: Context, repo: int, sha: str) -> list[str]:
    """Give the commit and all that it stands on, newest first."""
    return git(there, repo).rev_list(sha)


def pull_commits(there: Context, pull: Row) -> list[str]:
    """Give the commits of a PR, oldest first."""
    return diffs.pull_commits(there.tx, repo_row(there, pull["repo_id"]), pull)


_CHANGES: Final = {"removed": "DELETED"}


def changes(there: Context, pull: Row) -> list[dict[str, Any]]:
    """Give a PR's changed files as ``PullRequestChangedFile``; a binary file counts no lines."""
    return [
        {
            "path": each.path,
            "additions": each.additions,
            "deletions": each.deletions,
            "changeType": _CHANGES.get(each.status, each.status.upper()),
        }
        for each in diffs.pull_files(there.tx, repo_row(there, pull["repo_id"]), pull)
    ]


def compare(there: Context, repo: int, base: str, head: str) -> dict[str, Any] | None:
    """Give ``Comparison`` of a base commit with a head, or None where there is no such head."""
    other = git(there, repo).resolve(head)
    if other is None:
        return None
    ahead, behind = (git(there, repo).count(*pair) for pair in ((base, other), (other, base)))
    status = "DIVERGED" if ahead and behind else "AHEAD" if ahead else "BEHIND" if behind else "IDENTICAL"
    ident = opaque("COMP", repo, f"{base}...{other}")
    return {"id": ident, "aheadBy": ahead, "behindBy": behind, "status": status}


# --- rules shared with REST ---
def protection(there: Context, repo: int, branch: str) -> Row | None:
    """Give a branch's protection."""
    row: Row | None = there.memoised(
        ("protection", repo, branch),
        lambda: there.tx.one("SELECT * FROM protections WHERE repo_id = ? AND branch = ?", repo, branch),
    )
    return row


def required_checks(rule: Row | None) -> list[str]:
    """Give the names of the checks that a protection asks for."""
    found: list[str] = json.loads(rule["checks"] or "[]") if rule else []
    return found


def base_of(there: Context, repo: int, node_id: str | None, number: int | None) -> str:
    """Give the base branch of the PR that an id or a number names."""

    def read() -> str:
        known = nodes.decode(node_id) if node_id else None
        sql = "SELECT p.base_ref FROM pulls p JOIN issues i ON i.id = p.issue_id WHERE "
        if known and known[0] == "PullRequest":
            return there.tx.value(sql + "i.id = ?", int(known[1][0])) or ""
        return there.tx.value(sql + "i.repo_id = ? AND i.number = ?", repo, number) or ""

    found: str = there.memoised(("base of", repo, node_id, number), read)
    return found


class Mergeability(msgspec.Struct, frozen=True):
    """``MergeableState``, ``MergeStateStatus``, and the test merge."""

    mergeable: str
    state: str
    test_sha: str | None


def mergeability(there: Context, pull: Row) -> Mergeability:
    """Give what is known of a PR's mergeability, the same for all fields of one execution (FRG-025)."""

    def ask() -> Mergeability:
        found = merging.mergeability(there.tx, repo_row(there, pull["repo_id"]), pull, pull)
        word = {True: "MERGEABLE", False: "CONFLICTING", None: "UNKNOWN"}[found.mergeable]
        return Mergeability(word, found.state.upper(), found.test_sha)

    known: Mergeability = there.memoised(("mergeable", pull["id"]), ask)
    return known


def closed_issues(there: Context, pull: Row) -> list[int]:
    """Give the row ids of the issues that a PR into the default branch says it closes."""
    repo = repo_row(there, pull["repo_id"])
    if pull["base_ref"] != repo["default_branch"]:
        return []
    found = [
        there.tx.value("SELECT id FROM issues WHERE repo_id = ? AND number = ? AND is_pull = 0", repo["id"], number)
        for number in closing_references(there.tx, repo, pull["body"] or "")
    ]
    return [each for each in found if each]


def closing_pulls(there: Context, repo: int) -> dict[int, list[int]]:
    """Give for each issue's number the PRs that say they close it, open or merged."""

    def read() -> dict[int, list[int]]:
        sql = """SELECT i.id, i.body FROM issues i JOIN pulls p ON p.issue_id = i.id
                 WHERE i.repo_id = ? AND p.base_ref = ? AND (i.state = 'open' OR p.merged) ORDER BY i.id"""
        found: dict[int, list[int]] = {}
        for row in there.tx.all(sql, repo, repo_row(there, repo)["default_branch"]):
            for number in closing_references(there.tx, repo_row(there, repo), row["body"] or ""):
                found.setdefault(number, []).append(row["id"])
        return found

    known: dict[int, list[int]] = there.memoised(("closing", repo), read)
    return known


def search(there: Context, text: str) -> list[int]:
    """Give the row ids of the issues and PRs that a search finds, in its order; ``@me`` is who asks."""
    meant = _ME.sub(there.actor.login, text)
    return [row["id"] for row in searching.search(there.tx, there.actor, meant)[:SEARCH_LIMIT]]
