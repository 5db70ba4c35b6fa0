"""Commits, comparison, and git's own objects."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import Any

from droveway.localforge import gitdata, nodes
from droveway.localforge.access import Refused, invalid, need, not_found, unprocessable
from droveway.localforge.db import Row, Tx
from droveway.localforge.gitrepo import GitFailed, GitRepo
from droveway.localforge.routing import Answer, Call, created, limit_of, paged, route
from droveway.localforge.views import commits as shape
from droveway.localforge.views import pulls as pull_shape
from droveway.localforge.views.repos import api_url, web_url

TEXT = "text/plain; charset=utf-8"
DIFF, PATCH = "application/vnd.github.diff; charset=utf-8", "application/vnd.github.patch; charset=utf-8"
MAX_FILES = 300


def resolve(tx: Tx, repo: Row, rev: str) -> str:
    """Give the commit of a branch, tag or SHA, or refuse as GitHub does."""
    sha = tx.kernel.git(repo["id"]).resolve(rev)
    if sha is None:
        raise Refused(422, f"No commit found for SHA: {rev}")
    return sha


def one(tx: Tx, repo: Row, sha: str) -> gitdata.Commit:
    """Give the commit of a full SHA in this repository, or refuse."""
    git = tx.kernel.git(repo["id"])
    found = gitdata.commit(tx.kernel, git, sha) if git.kind(sha) == "commit" else None
    if found is None:
        raise not_found()
    return found


@route("GET", "/repos/{owner}/{repo}/commits", "List commits")
def index(tx: Tx, call: Call) -> Answer:
    """Give the history of ``sha`` (the default branch), newest first; filters path, author, since, until."""
    repo = call.repo(tx)
    git = tx.kernel.git(repo["id"])
    rev = call.query.get("sha") or repo["default_branch"]
    start = git.resolve(rev)
    if start is None:
        if not git.refs("refs/heads/"):
            raise Refused(409, "Git Repository is empty.")
        raise not_found()
    flags = [f"--{key}={call.query[key]}" for key in ("since", "until", "author") if call.query.get(key)]
    paths = ["--", call.query["path"]] if call.query.get("path") else []
    page, per_page, limit, offset = limit_of(call)
    total = int(git.text("rev-list", "--count", *flags, start, *paths))
    shas = git.rev_list(*flags, f"--max-count={limit}", f"--skip={offset}", start, *paths)
    found = gitdata.commits(tx.kernel, git, shas)
    return Answer([shape.commit(tx, repo, each) for each in found], page=(page, per_page, total))


@route("GET", "/repos/{owner}/{repo}/commits/{ref:path}", "Get a commit")
def get(tx: Tx, call: Call) -> Answer:
    """Give a commit with its files; the media types diff, patch and sha give text."""
    repo = call.repo(tx)
    git = tx.kernel.git(repo["id"])
    sha = resolve(tx, repo, call.params["ref"])
    if call.media("sha"):
        return Answer(sha.encode(), media="application/vnd.github.sha; charset=utf-8")
    commit = one(tx, repo, sha)
    parent = commit.parents[0] if commit.parents else gitdata.EMPTY_TREE
    if call.media("diff"):
        return Answer(gitdata.diff(git, parent, sha), media=DIFF)
    if call.media("patch"):
        text = git.run("format-patch", "--stdout", "--no-signature", "-1", "--root", sha)
        return Answer(text, media=PATCH)
    files = gitdata.changed_files(git, parent, sha)
    page, _, limit, offset = limit_of(call)
    limit = MAX_FILES if "per_page" not in call.query else limit
    return Answer(
        {
            **shape.commit(tx, repo, commit),
            "stats": {
                "total": sum(each.additions + each.deletions for each in files),
                "additions": sum(each.additions for each in files),
                "deletions": sum(each.deletions for each in files),
            },
            "files": [shape.file(tx, repo, sha, each) for each in files[offset : offset + limit]],
        },
        page=(page, limit, len(files)),
    )


@route("GET", "/repos/{owner}/{repo}/commits/{ref:path}/pulls", "List the pull requests of a commit")
def pulls(tx: Tx, call: Call) -> Answer:
    """Give the pull requests whose head it is, or that were merged as it."""
    repo = call.repo(tx)
    sha = resolve(tx, repo, call.params["ref"])
    rows = tx.all(
        "SELECT issues.* FROM pulls JOIN issues ON issues.id = issue_id WHERE repo_id = ?"
        " AND (head_sha = ? OR merge_sha = ?) ORDER BY number",
        repo["id"],
        sha,
        sha,
    )
    return paged(call, rows, lambda row: pull_shape.pull(tx, repo, row))


@route("GET", "/repos/{owner}/{repo}/compare/{basehead:path}", "Compare two commits")
def compare(tx: Tx, call: Call) -> Answer:
    """Give how ``base...head`` differ, from their merge base; diff and patch media types give text."""
    repo = call.repo(tx)
    git = tx.kernel.git(repo["id"])
    left, dots, right = call.params["basehead"].partition("...")
    if not dots:
        raise not_found()
    base, head = (git.resolve(each.rpartition(":")[2]) for each in (left, right))
    if base is None or head is None:
        raise not_found()
    merge_base = git.merge_base(base, head)
    if merge_base is None:
        raise Refused(404, f"No common ancestor between {left} and {right}.")
    if call.media("diff"):
        return Answer(gitdata.diff(git, merge_base, head), media=DIFF)
    if call.media("patch"):
        return Answer(gitdata.patch_series(git, base, head), media=PATCH)
    ahead, behind = git.count(base, head), git.count(head, base)
    status = "diverged" if ahead and behind else "ahead" if ahead else "behind" if behind else "identical"
    page, per_page = call.whole("page", 1), call.whole("per_page", 250, 1, 250)
    shas = git.rev_list("--reverse", "--topo-order", f"{base}..{head}")[(page - 1) * per_page : page * per_page]
    files = gitdata.changed_files(git, merge_base, head) if page == 1 else []
    web, api = web_url(tx, repo), f"{api_url(tx, repo)}/compare/{base}...{head}"
    return Answer(
        {
            "url": api,
            "html_url": f"{web}/compare/{left}...{right}",
            "permalink_url": f"{web}/compare/{base[:12]}...{head[:12]}",
            "diff_url": f"{web}/compare/{left}...{right}.diff",
            "patch_url": f"{web}/compare/{left}...{right}.patch",
            "base_commit": shape.commit(tx, repo, one(tx, repo, base)),
            "merge_base_commit": shape.commit(tx, repo, one(tx, repo, merge_base)),
            "status": status,
            "ahead_by": ahead,
            "behind_by": behind,
            "total_commits": ahead,
            "commits": [shape.commit(tx, repo, each) for each in gitdata.commits(tx.kernel, git, shas)],
            "files": [shape.file(tx, repo, head, each) for each in files[:MAX_FILES]],
        },
        page=(page, per_page, ahead),
    )


# --- git objects ---


@route("GET", "/repos/{owner}/{repo}/git/commits/{sha}", "Get a git commit")
def git_commit(tx: Tx, call: Call) -> Answer:
    """Give the bare commit object."""
    repo = call.repo(tx)
    return Answer(shape.git_commit(tx, repo, one(tx, repo, call.params["sha"])))


def _date(text: Any) -> str:
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        raise unprocessable("Invalid request.\n\ndate is not an ISO 8601 time.") from None
    zone = moment.strftime("%z") or "+0000"
    return f"{int(moment.timestamp())} {zone}"


def people(tx: Tx, call: Call) -> dict[str, str]:
    """Give author and committer of a new commit from the body, or from the account."""
    body, user = call.object(), tx.get("users", call.actor.id)
    env = {}
    author = body.get("author") or {}
    for who, given in (("AUTHOR", author), ("COMMITTER", body.get("committer") or author)):
        env[f"GIT_{who}_NAME"] = given.get("name") or user["name"] or user["login"]
        env[f"GIT_{who}_EMAIL"] = given.get("email") or user["email"]
        env[f"GIT_{who}_DATE"] = _date(given.get("date") or tx.now)
    return env


@route("POST", "/repos/{owner}/{repo}/git/commits", "Create a git commit")
def create_commit(tx: Tx, call: Call) -> Answer:
    """Write a commit object; no ref moves."""
    repo, body = call.repo(tx), call.object()
    need(tx, call.actor, repo, "write")
    git = tx.kernel.git(repo["id"])
    message, tree = call.text("message", resource="Commit"), call.text("tree", resource="Commit")
    if git.kind(tree) != "tree":
        raise unprocessable("Tree SHA does not exist")
    parents = body.get("parents") or []
    if any(git.kind(str(parent)) != "commit" for parent in parents):
        raise unprocessable("Parent SHA does not exist or is not a commit object")
    sha = git.commit_tree(tree, parents, message, people(tx, call))
    shaped = shape.git_commit(tx, repo, one(tx, repo, sha))
    return created(shaped, shaped["url"])


@route("GET", "/repos/{owner}/{repo}/git/trees/{tree:path}", "Get a tree")
def tree(tx: Tx, call: Call) -> Answer:
    """Give the entries of a tree (a commit's, a branch's); ``recursive`` goes down."""
    repo = call.repo(tx)
    sha = tx.kernel.git(repo["id"]).resolve(call.params["tree"], "tree")
    if sha is None:
        raise not_found()
    return Answer(_tree(tx, repo, sha, recursive="recursive" in call.query))


def _tree(tx: Tx, repo: Row, sha: str, *, recursive: bool = False) -> dict[str, Any]:
    git, api = tx.kernel.git(repo["id"]), f"{api_url(tx, repo)}/git"
    flags = ["-r", "-t"] if recursive else []
    entries = []
    for line in git.run("ls-tree", "-z", "-l", *flags, sha).decode("utf-8", "replace").split("\0"):
        if not line:
            continue
        meta, _, path = line.partition("\t")
        mode, kind, name, size = meta.split()
        entry: dict[str, Any] = {"path": path, "mode": mode, "type": kind, "sha": name}
        if kind == "blob":
            entry["size"] = int(size)
        if kind != "commit":
            entry["url"] = f"{api}/{kind}s/{name}"
        entries.append(entry)
    return {"sha": sha, "url": f"{api}/trees/{sha}", "tree": entries, "truncated": False}


@route("POST", "/repos/{owner}/{repo}/git/trees", "Create a tree")
def create_tree(tx: Tx, call: Call) -> Answer:
    """Write a tree from entries, upon ``base_tree`` where one is given; an entry with a null SHA is taken out."""
    repo, body = call.repo(tx), call.object()
    need(tx, call.actor, repo, "write")
    git = tx.kernel.git(repo["id"])
    entries = body.get("tree")
    if not isinstance(entries, list):
        raise unprocessable("Invalid request.\n\ntree is not an array.")
    index = tx.kernel.data / "tmp" / f"index-{tx.kernel.ids.new()}"
    index.parent.mkdir(exist_ok=True)
    env = {"GIT_INDEX_FILE": str(index)}
    try:
        base = body.get("base_tree")
        if base:
            found = git.resolve(base, "tree")
            if found is None:
                raise unprocessable("base_tree SHA does not exist")
            git.run("read-tree", found, env=env)
        lines = [_index_line(git, entry) for entry in entries]
        git.run("update-index", "-z", "--index-info", stdin=b"".join(lines), env=env)
        sha = git.run("write-tree", env=env).decode().strip()
    except GitFailed as error:
        raise unprocessable(f"tree is not valid: {error.output.strip()}") from error
    finally:
        index.unlink(missing_ok=True)
    shaped = _tree(tx, repo, sha)
    return created(shaped, shaped["url"])


def _index_line(git: GitRepo, entry: dict[str, Any]) -> bytes:
    path, mode = str(entry.get("path", "")), str(entry.get("mode", "100644"))
    if not path or path.startswith("/") or ".git" in path.split("/") or "\0" in path:
        raise unprocessable("tree.path contains a malformed path component")
    if entry.get("sha") is None and "content" not in entry:
        return f"0 {'0' * 40}\t{path}\0".encode()
    sha = (
        entry.get("sha")
        or git.run("hash-object", "-w", "--stdin", stdin=str(entry["content"]).encode()).decode().strip()
    )
    if git.kind(sha) is None and mode != "160000":
        raise unprocessable(f"tree.sha {sha} is not a valid object")
    return f"{mode} {sha}\t{path}\0".encode()


@route("GET", "/repos/{owner}/{repo}/git/blobs/{sha}", "Get a blob")
def blob(tx: Tx, call: Call) -> Answer:
    """Give a blob in base64, or as it is for the raw media type."""
    repo, sha = call.repo(tx), call.params["sha"]
    git = tx.kernel.git(repo["id"])
    if git.kind(sha) != "blob":
        raise not_found()
    data = git.run("cat-file", "blob", sha)
    if call.media("raw"):
        return Answer(data, media="application/vnd.github.raw; charset=utf-8")
    return Answer(
        {
            "sha": sha,
            "node_id": nodes.encode("Blob", repo["id"], sha),
            "size": len(data),
            "url": f"{api_url(tx, repo)}/git/blobs/{sha}",
            "content": base64.encodebytes(data).decode(),
            "encoding": "base64",
        }
    )


@route("POST", "/repos/{owner}/{repo}/git/blobs", "Create a blob")
def create_blob(tx: Tx, call: Call) -> Answer:
    """Write a blob from ``content`` in utf-8 or base64."""
    repo, body = call.repo(tx), call.object()
    need(tx, call.actor, repo, "write")
    content = call.text("content", resource="Blob")
    try:
        data = base64.b64decode(content) if body.get("encoding") == "base64" else content.encode()
    except binascii.Error:
        raise invalid("Blob", "content", "invalid") from None
    sha = tx.kernel.git(repo["id"]).run("hash-object", "-w", "--stdin", stdin=data).decode().strip()
    url = f"{api_url(tx, repo)}/git/blobs/{sha}"
    return created({"sha": sha, "url": url}, url)


@route("GET", "/repos/{owner}/{repo}/git/tags/{sha}", "Get an annotated tag")
def tag(tx: Tx, call: Call) -> Answer:
    """Give a tag object."""
    repo, sha = call.repo(tx), call.params["sha"]
    if tx.kernel.git(repo["id"]).kind(sha) != "tag":
        raise not_found()
    return Answer(_tag(tx, repo, sha))


def _tag(tx: Tx, repo: Row, sha: str) -> dict[str, Any]:
    head, _, message = tx.kernel.git(repo["id"]).text("cat-file", "tag", sha).partition("\n\n")
    fields = dict(line.split(" ", 1) for line in head.splitlines())
    api = f"{api_url(tx, repo)}/git"
    tagger = gitdata.person(fields.get("tagger", ""))
    return {
        "node_id": nodes.encode("Tag", repo["id"], sha),
        "sha": sha,
        "url": f"{api}/tags/{sha}",
        "tagger": shape.git_person(tagger),
        "object": {
            "sha": fields["object"],
            "type": fields["type"],
            "url": f"{api}/{fields['type']}s/{fields['object']}",
        },
        "tag": fields["tag"],
        "message": message,
        "verification": shape.UNVERIFIED,
    }


@route("POST", "/repos/{owner}/{repo}/git/tags", "Create an annotated tag")
def create_tag(tx: Tx, call: Call) -> Answer:
    """Write a tag object; the ref is made by ``git/refs``."""
    repo, body = call.repo(tx), call.object()
    need(tx, call.actor, repo, "write")
    git = tx.kernel.git(repo["id"])
    name, target = call.text("tag", resource="Tag"), call.text("object", resource="Tag")
    kind = git.kind(target)
    if kind is None or not git.valid_ref(f"refs/tags/{name}"):
        raise unprocessable("Tag is not valid")
    user, given = tx.get("users", call.actor.id), body.get("tagger") or {}
    name_, email = given.get("name") or user["login"], given.get("email") or user["email"]
    who = f"{name_} <{email}> {_date(given.get('date') or tx.now)}"
    message = call.text("message", resource="Tag")
    text = f"object {target}\ntype {kind}\ntag {name}\ntagger {who}\n\n{message}\n"
    sha = git.run("hash-object", "-t", "tag", "-w", "--stdin", stdin=text.encode()).decode().strip()
    shaped = _tag(tx, repo, sha)
    return created(shaped, shaped["url"])


@route("GET", "/repos/{owner}/{repo}/tags", "List tags")
def tags(tx: Tx, call: Call) -> Answer:
    """Give the tags, the largest name first."""
    repo = call.repo(tx)
    found = tx.kernel.git(repo["id"]).text(
        "for-each-ref", "--format=%(objectname) %(*objectname) %(refname)", "refs/tags"
    )
    rows = [line.split(" ", 2) for line in found.splitlines()]
    api = api_url(tx, repo)

    def one_tag(row: list[str]) -> dict[str, Any]:
        sha, name = row[1] or row[0], row[2].removeprefix("refs/tags/")
        return {
            "name": name,
            "zipball_url": f"{api}/zipball/refs/tags/{name}",
            "tarball_url": f"{api}/tarball/refs/tags/{name}",
            "commit": {"sha": sha, "url": f"{api}/commits/{sha}"},
            "node_id": nodes.encode("Ref", repo["id"], row[2]),
        }

    return paged(call, rows[::-1], one_tag)
