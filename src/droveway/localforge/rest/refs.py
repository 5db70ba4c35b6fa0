"""Git refs by request: each move is journaled like a push."""

from __future__ import annotations

from droveway.localforge.access import Refused, need, not_found, unprocessable
from droveway.localforge.db import Row, Tx
from droveway.localforge.gitrepo import ZERO
from droveway.localforge.ops.moves import move
from droveway.localforge.routing import Answer, Call, created, empty, paged, route
from droveway.localforge.views.commits import ref as shape


def _full(call: Call) -> str:
    return "refs/" + call.params["ref"].removeprefix("refs/")


def _shape(tx: Tx, repo: Row, name: str, sha: str) -> dict[str, object]:
    return shape(tx, repo, name, sha, tx.kernel.git(repo["id"]).kind(sha) or "commit")


@route("GET", "/repos/{owner}/{repo}/git/ref/{ref:path}", "Get a ref")
def get(tx: Tx, call: Call) -> Answer:
    """Give one ref by its exact name, as ``heads/main``."""
    repo, name = call.repo(tx), _full(call)
    sha = tx.kernel.git(repo["id"]).refs(name).get(name)
    if sha is None:
        raise not_found()
    return Answer(_shape(tx, repo, name, sha))


@route("GET", "/repos/{owner}/{repo}/git/matching-refs/{ref:path}", "List refs that start with a prefix")
def matching(tx: Tx, call: Call) -> Answer:
    """Give the refs whose name starts with the prefix, which may end inside a part."""
    repo = call.repo(tx)
    git = tx.kernel.git(repo["id"])
    # One call gives names, objects and their kinds.
    prefix = _full(call)
    lines = git.text("for-each-ref", "--format=%(objectname) %(objecttype) %(refname)", prefix[: prefix.rfind("/")])
    rows = [line.split(" ", 2) for line in lines.splitlines()]
    found = [row for row in rows if row[2].startswith(prefix)]
    return paged(call, found, lambda row: shape(tx, repo, row[2], row[0], row[1]))


@route("GET", "/repos/{owner}/{repo}/git/refs", "List all refs")
def everything(tx: Tx, call: Call) -> Answer:
    """Give every ref."""
    repo = call.repo(tx)
    lines = tx.kernel.git(repo["id"]).text("for-each-ref", "--format=%(objectname) %(objecttype) %(refname)")
    rows = [line.split(" ", 2) for line in lines.splitlines()]
    return paged(call, rows, lambda row: shape(tx, repo, row[2], row[0], row[1]))


@route("GET", "/repos/{owner}/{repo}/git/refs/{ref:path}", "Get a ref (the old address)")
def old_get(tx: Tx, call: Call) -> Answer:
    """As ``git/ref``: PyGithub asks here."""
    return get(tx, call)


@route("POST", "/repos/{owner}/{repo}/git/refs", "Create a ref")
def create(tx: Tx, call: Call) -> Answer:
    """Make a branch, tag, or any other ref with two slashes in its full name."""
    repo = call.repo(tx)
    need(tx, call.actor, repo, "write")
    name, sha = call.text("ref", resource="Reference"), call.text("sha", resource="Reference")
    git = tx.kernel.git(repo["id"])
    if not name.startswith("refs/") or name.count("/") < 2 or not git.valid_ref(name):
        raise unprocessable("Reference name must start with 'refs/' and contain at least two slashes.")
    if git.refs(name).get(name):
        raise unprocessable("Reference already exists")
    if len(sha) != 40 or git.kind(sha) is None:
        raise unprocessable("Object does not exist")
    if name.startswith("refs/heads/") and git.kind(sha) != "commit":
        raise unprocessable("Reference cannot be updated: a branch must point to a commit")
    move(tx, call.actor, repo, [(name, ZERO, sha)])
    shaped = _shape(tx, repo, name, sha)
    return created(shaped, str(shaped["url"]))


@route("PATCH", "/repos/{owner}/{repo}/git/refs/{ref:path}", "Update a ref")
def update(tx: Tx, call: Call) -> Answer:
    """Move a ref; 422 where commits would be lost, unless ``force``."""
    repo, name = call.repo(tx), _full(call)
    need(tx, call.actor, repo, "write")
    sha, force = call.text("sha", resource="Reference"), bool(call.object().get("force"))
    git = tx.kernel.git(repo["id"])
    old = git.refs(name).get(name)
    if old is None:
        raise unprocessable("Reference does not exist")
    if len(sha) != 40 or git.kind(sha) is None:
        raise unprocessable("Object does not exist")
    if not force and not git.is_ancestor(old, sha):
        raise unprocessable("Update is not a fast forward")
    if old != sha:
        move(tx, call.actor, repo, [(name, old, sha)])
    return Answer(_shape(tx, repo, name, sha))


@route("DELETE", "/repos/{owner}/{repo}/git/refs/{ref:path}", "Delete a ref")
def delete(tx: Tx, call: Call) -> Answer:
    """Delete a ref."""
    repo, name = call.repo(tx), _full(call)
    need(tx, call.actor, repo, "write")
    old = tx.kernel.git(repo["id"]).refs(name).get(name)
    if old is None:
        raise Refused(422, "Reference does not exist")
    move(tx, call.actor, repo, [(name, old, ZERO)])
    return empty()
