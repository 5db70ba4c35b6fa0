"""Files of a tree."""

from __future__ import annotations

import base64
import binascii
from typing import Any
from urllib.parse import quote

from droveway.localforge import gitdata
from droveway.localforge.access import Refused, invalid, need, not_found, unprocessable
from droveway.localforge.db import Row, Tx
from droveway.localforge.gitrepo import ZERO
from droveway.localforge.ops.moves import move
from droveway.localforge.rest.commits import people
from droveway.localforge.routing import Answer, Call, route
from droveway.localforge.views import commits as commit_shape
from droveway.localforge.views.repos import api_url, web_url

MAX_INLINE = 1_000_000  # bytes: larger files are given by the raw media type alone


@route("GET", "/repos/{owner}/{repo}/contents", "Get the contents of the root folder")
def top(tx: Tx, call: Call) -> Answer:
    """List the root."""
    return _contents(tx, call, "")


@route("GET", "/repos/{owner}/{repo}/contents/{path:path}", "Get the contents of a file or folder")
def get(tx: Tx, call: Call) -> Answer:
    """Give a file in base64 (raw: as it is), or a folder's entries."""
    return _contents(tx, call, call.params["path"].strip("/"))


@route("GET", "/repos/{owner}/{repo}/readme", "Get the readme")
def readme(tx: Tx, call: Call) -> Answer:
    """Give the first file of the root that is one."""
    repo = call.repo(tx)
    git = tx.kernel.git(repo["id"])
    ref = call.query.get("ref") or repo["default_branch"]
    commit = git.resolve(ref)
    names = git.text("ls-tree", "--name-only", commit).splitlines() if commit else []
    name = next((each for each in names if each.lower().split(".")[0] == "readme"), None)
    if name is None:
        raise not_found()
    return _contents(tx, call, name)


def _contents(tx: Tx, call: Call, path: str) -> Answer:
    repo = call.repo(tx)
    git = tx.kernel.git(repo["id"])
    ref = call.query.get("ref") or repo["default_branch"]
    commit = git.resolve(ref)
    if commit is None:
        raise Refused(
            404, f"No commit found for the ref {ref}" if call.query.get("ref") else "This repository is empty."
        )
    found = git.run("ls-tree", "-z", "-l", "--full-tree", commit, *([path] if path else [])).decode("utf-8", "replace")
    entries = [line for line in found.split("\0") if line]
    if path and entries:
        kind, sha = entries[0].split()[1:3]
        if kind != "tree":
            return _file(tx, call, repo, ref, entries[0])
        entries = [line for line in git.run("ls-tree", "-z", "-l", sha).decode("utf-8", "replace").split("\0") if line]
    elif path:
        raise not_found()
    prefix = f"{path}/" if path else ""
    shaped = [_entry(tx, repo, ref, line, prefix) for line in entries]
    return Answer(sorted(shaped, key=lambda entry: entry["path"]))


def _entry(tx: Tx, repo: Row, ref: str, line: str, prefix: str = "") -> dict[str, Any]:
    meta, _, name = line.partition("\t")
    mode, kind, sha, size = meta.split()
    path = prefix + name
    word = "dir" if kind == "tree" else "submodule" if kind == "commit" else "symlink" if mode == "120000" else "file"
    url = f"{api_url(tx, repo)}/contents/{quote(path)}?ref={quote(ref)}"
    git_url = f"{api_url(tx, repo)}/git/{'trees' if word == 'dir' else 'blobs'}/{sha}"
    page = f"{web_url(tx, repo)}/{'tree' if word == 'dir' else 'blob'}/{quote(ref)}/{quote(path)}"
    return {
        "name": path.rpartition("/")[2],
        "path": path,
        "sha": sha,
        "size": int(size) if size.isdigit() else 0,
        "url": url,
        "html_url": page,
        "git_url": git_url,
        "download_url": f"{web_url(tx, repo)}/raw/{quote(ref)}/{quote(path)}" if word == "file" else None,
        "type": word,
        "_links": {"self": url, "git": git_url, "html": page},
    }


def _file(tx: Tx, call: Call, repo: Row, ref: str, line: str) -> Answer:
    entry = _entry(tx, repo, ref, line)
    if entry["type"] == "submodule":
        return Answer({**entry, "submodule_git_url": None})
    data = tx.kernel.git(repo["id"]).run("cat-file", "blob", entry["sha"])
    if call.media("raw"):
        return Answer(data, media="application/vnd.github.raw; charset=utf-8")
    if len(data) > MAX_INLINE:
        return Answer({**entry, "content": "", "encoding": "none"})
    return Answer({**entry, "content": base64.encodebytes(data).decode(), "encoding": "base64"})


@route("PUT", "/repos/{owner}/{repo}/contents/{path:path}", "Create or update a file")
def put(tx: Tx, call: Call) -> Answer:
    """Commit one file to a branch; ``sha`` must be the blob that it replaces."""
    repo = call.repo(tx)
    try:
        data = base64.b64decode(call.text("content", resource="Content"))
    except binascii.Error:
        raise invalid("Content", "content", "invalid") from None
    git = tx.kernel.git(repo["id"])
    sha = git.run("hash-object", "-w", "--stdin", stdin=data).decode().strip()
    old, commit = _commit(tx, call, repo, sha)
    line = git.text("ls-tree", "-l", "--full-tree", commit.sha, call.params["path"])
    entry = _entry(tx, repo, call.object().get("branch") or repo["default_branch"], line)
    return Answer({"content": entry, "commit": commit_shape.git_commit(tx, repo, commit)}, 200 if old else 201)


@route("DELETE", "/repos/{owner}/{repo}/contents/{path:path}", "Delete a file")
def delete(tx: Tx, call: Call) -> Answer:
    """Commit the removal of one file; ``sha`` must be its blob."""
    repo = call.repo(tx)
    call.text("sha", resource="Content")
    _, commit = _commit(tx, call, repo, None)
    return Answer({"content": None, "commit": commit_shape.git_commit(tx, repo, commit)})


def _commit(tx: Tx, call: Call, repo: Row, blob: str | None) -> tuple[str | None, gitdata.Commit]:
    need(tx, call.actor, repo, "write")
    body, path = call.object(), call.params["path"].strip("/")
    git = tx.kernel.git(repo["id"])
    branch = body.get("branch") or repo["default_branch"]
    tip = git.branch(branch)
    if tip is None and (git.refs("refs/heads/") or blob is None):
        raise Refused(404, f"Branch {branch} not found")
    old = git.ref(f"{tip}:{path}") if tip else None
    given = body.get("sha")
    if old and not given:
        raise unprocessable('Invalid request.\n\n"sha" wasn\'t supplied.')
    if given and given != old:
        raise Refused(409, f"{path} does not match {given}")
    index = tx.kernel.data / "tmp" / f"index-{tx.kernel.ids.new()}"
    index.parent.mkdir(exist_ok=True)
    env = {"GIT_INDEX_FILE": str(index)}
    try:
        if tip:
            git.run("read-tree", tip, env=env)
        line = f"100644 {blob}\t{path}\0" if blob else f"0 {ZERO}\t{path}\0"
        git.run("update-index", "-z", "--index-info", stdin=line.encode(), env=env)
        tree = git.run("write-tree", env=env).decode().strip()
    finally:
        index.unlink(missing_ok=True)
    message = call.text("message", resource="Content")
    new = git.commit_tree(tree, [tip] if tip else [], message, people(tx, call))
    move(tx, call.actor, repo, [(f"refs/heads/{branch}", tip or ZERO, new)])
    commit = gitdata.commit(tx.kernel, git, new)
    assert commit is not None
    return old, commit
