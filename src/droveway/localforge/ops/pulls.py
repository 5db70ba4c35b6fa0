"""Pull requests: opening, editing, review requests, and what moved refs mean for them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from droveway.localforge import gitdata
from droveway.localforge.access import Actor, actor_of, can, invalid, need, role_of, unprocessable
from droveway.localforge.db import Row, Tx
from droveway.localforge.gitrepo import ZERO, GitRepo
from droveway.localforge.ops import issues as issue_ops
from droveway.localforge.ops.events import notify, record, tell_pushed, touch
from droveway.localforge.ops.labels import UNSET
from droveway.localforge.ops.merging import close_referenced, mark_merged
from droveway.localforge.ops.moves import LISTENERS, Update
from droveway.localforge.ops.protection import protection_of
from droveway.localforge.views import pushes as push_shape
from droveway.localforge.views.accounts import account, login_of


def create(
    tx: Tx,
    actor: Actor,
    repo: Row,
    *,
    title: str,
    head: str,
    base: str,
    body: str | None = None,
    draft: bool = False,
    maintainer_can_modify: bool = False,
    labels: Sequence[str] = (),
    milestone: int | None = None,
    assignees: Sequence[str] = (),
) -> Row:
    """Open a pull request from ``head`` (``branch`` or ``owner:branch`` of this repository); gives the issue's row."""
    need(tx, actor, repo, "write")
    issue_ops.check_text("PullRequest", title, body)
    owner, _, branch = head.rpartition(":")
    if not branch or (owner and owner.lower() != login_of(tx, repo["owner_id"]).lower()):
        raise invalid("PullRequest", "head", "invalid", value=head)
    git = tx.kernel.git(repo["id"])
    head_sha, base_sha = git.branch(branch), git.branch(base) if base else None
    if head_sha is None:
        raise invalid("PullRequest", "head", "invalid", value=head)
    if base_sha is None:
        raise invalid("PullRequest", "base", "invalid", value=base)
    _no_other(tx, repo, branch, base, 0)
    _some_commits(git, branch, base, head_sha, base_sha)
    number = issue_ops.next_number(tx, repo)
    issue_id = tx.insert(
        "issues",
        repo_id=repo["id"],
        number=number,
        is_pull=1,
        title=title,
        body=body,
        author_id=actor.id,
        created_at=tx.now,
        updated_at=tx.now,
    )
    tx.insert(
        "pulls",
        issue_id=issue_id,
        head_repo_id=repo["id"],
        head_ref=branch,
        head_sha=head_sha,
        base_ref=base,
        base_sha=base_sha,
        draft=int(draft),
        maintainer_can_modify=int(maintainer_can_modify),
    )
    # Should this transaction not commit, the number is given again and the ref is overwritten.
    git.run("update-ref", f"refs/pull/{number}/head", head_sha)
    issue_ops.tell(tx, repo, actor, issue_id, "opened")
    tell_pushed(tx, repo, f"refs/heads/{branch}", head_sha)
    issue_ops.decorate(tx, actor, repo, issue_id, labels=labels, milestone=milestone, assignees=assignees)
    return tx.get("issues", issue_id)


def _no_other(tx: Tx, repo: Row, branch: str, base: str, own_id: int) -> None:
    other = tx.value(
        "SELECT number FROM pulls JOIN issues ON issues.id = issue_id WHERE repo_id = ? AND head_ref = ?"
        " AND base_ref = ? AND state = 'open' AND issues.id <> ?",
        repo["id"], branch, base, own_id,
    )  # fmt: skip
    if other:
        message = f"A pull request already exists for {login_of(tx, repo['owner_id'])}:{branch}."
        raise unprocessable("Validation Failed", {"resource": "PullRequest", "code": "custom", "message": message})


def _some_commits(git: GitRepo, branch: str, base: str, head_sha: str, base_sha: str) -> None:
    if git.is_ancestor(head_sha, base_sha):
        message = f"No commits between {base} and {branch}"
    elif git.merge_base(base_sha, head_sha) is None:
        message = f"The {branch} branch has no history in common with {base}"
    else:
        return
    raise unprocessable("Validation Failed", {"resource": "PullRequest", "code": "custom", "message": message})


def edit(
    tx: Tx,
    actor: Actor,
    repo: Row,
    issue: Row,
    *,
    title: str = UNSET,
    body: str | None = UNSET,
    state: str = UNSET,
    base: str = UNSET,
    maintainer_can_modify: bool = UNSET,
) -> Row:
    """Change a pull request's text, state or base branch."""
    need(tx, actor, repo, "read" if actor.id == issue["author_id"] else "triage")
    if title is not UNSET or body is not UNSET:
        issue_ops.edit_text(tx, actor, repo, issue, title, body)
    if base is not UNSET:
        set_base(tx, actor, repo, issue, base)
    if maintainer_can_modify is not UNSET:
        tx.update("pulls", issue["id"], maintainer_can_modify=int(bool(maintainer_can_modify)))
    if state is not UNSET:
        issue_ops.set_state(tx, actor, repo, tx.get("issues", issue["id"]), state)
    return tx.get("issues", issue["id"])


def set_base(tx: Tx, actor: Actor, repo: Row, issue: Row, base: str) -> None:
    """Point a pull request at another base branch."""
    if actor.id != issue["author_id"]:
        need(tx, actor, repo, "write")
    pull = tx.get("pulls", issue["id"])
    if pull["base_ref"] == base:
        return
    git = tx.kernel.git(repo["id"])
    tip = git.branch(base)
    if issue["state"] == "closed" or tip is None:
        raise invalid("PullRequest", "base", "invalid", value=base)
    _no_other(tx, repo, pull["head_ref"], base, issue["id"])
    _some_commits(git, pull["head_ref"], base, pull["head_sha"], tip)
    tx.update("pulls", issue["id"], base_ref=base, base_sha=tip)
    record(tx, issue, actor, "base_ref_changed", base={"from": pull["base_ref"], "to": base})
    touch(tx, issue["id"])
    changes = {"base": {"ref": {"from": pull["base_ref"]}, "sha": {"from": pull["base_sha"]}}}
    issue_ops.tell(tx, repo, actor, issue["id"], "edited", lambda: {"changes": changes})


def set_draft(tx: Tx, actor: Actor, repo: Row, issue: Row, *, draft: bool) -> None:
    """Turn a pull request into a draft, or a draft into one that is ready."""
    if actor.id != issue["author_id"]:
        need(tx, actor, repo, "write")
    if bool(tx.get("pulls", issue["id"])["draft"]) is draft:
        return
    tx.update("pulls", issue["id"], draft=int(draft))
    record(tx, issue, actor, "convert_to_draft" if draft else "ready_for_review")
    touch(tx, issue["id"])
    issue_ops.tell(tx, repo, actor, issue["id"], "converted_to_draft" if draft else "ready_for_review")


def request_reviews(tx: Tx, actor: Actor, repo: Row, issue: Row, logins: Sequence[str], *, wanted: bool = True) -> None:
    """Ask accounts for a review, or take the request back. The author can't be asked."""
    need(tx, actor, repo, "triage")
    for login in logins:
        user_id = tx.value("SELECT id FROM users WHERE login = ?", str(login))
        if user_id is None or role_of(tx, user_id, repo) is None:
            raise unprocessable(
                "Reviews may only be requested from collaborators. One or more of the users or teams you specified is"
                f" not a collaborator of the {tx.get('users', repo['owner_id'])['login']}/{repo['name']} repository."
            )
        if wanted and user_id == issue["author_id"]:
            raise unprocessable("Review cannot be requested from pull request author.")
        if wanted:
            sql = "INSERT OR IGNORE INTO review_requests (issue_id, user_id, created_at) VALUES (?, ?, ?)"
            changed = tx.run(sql, issue["id"], user_id, tx.now)
        else:
            changed = tx.run("DELETE FROM review_requests WHERE issue_id = ? AND user_id = ?", issue["id"], user_id)
        if changed:
            kind = "review_requested" if wanted else "review_request_removed"
            record(tx, issue, actor, kind, requested_reviewer=user_id, review_requester=actor.id)
            touch(tx, issue["id"])
            _tell_request(tx, repo, actor, issue["id"], kind, user_id)


def _tell_request(tx: Tx, repo: Row, actor: Actor, issue_id: int, kind: str, user_id: int) -> None:
    issue_ops.tell(tx, repo, actor, issue_id, kind, lambda: {"requested_reviewer": account(tx, user_id)})


# --- what a moved ref means ---


def ref_moved(tx: Tx, actor: Actor, repo: Row, update: Update) -> None:
    """Follow a branch or tag that was created, moved or deleted: heads, merges, closing keywords, webhooks."""
    ref, old, new = update
    git = tx.kernel.git(repo["id"])
    if not ref.startswith(("refs/heads/", "refs/tags/")):
        return
    forced = ZERO not in (old, new) and not git.is_ancestor(old, new)
    _announce(tx, actor, repo, update, forced=forced)
    if ref.startswith("refs/tags/"):
        return
    branch = ref.removeprefix("refs/heads/")
    _bases(tx, actor, repo, git, branch, new)
    _heads(tx, actor, repo, git, branch, update, forced=forced)
    if branch == repo["default_branch"] and ZERO not in (old, new) and not forced:
        _close_by_commits(tx, actor, repo, git, old, new)


LISTENERS.append(ref_moved)


def reconcile(tx: Tx) -> None:
    """Make the open pull requests agree with the refs, whatever happened to the journal: at start and after imports."""
    for repo in tx.all(
        "SELECT DISTINCT repos.* FROM repos JOIN issues ON repo_id = repos.id WHERE is_pull AND state = 'open'"
    ):
        git = tx.kernel.git(repo["id"])
        tips = git.refs("refs/heads/")
        sql = "SELECT * FROM pulls JOIN issues ON issues.id = issue_id WHERE repo_id = ? AND state = 'open'"
        moved: dict[str, Update] = {}
        for row in tx.all(sql, repo["id"]):
            for branch, known in ((row["base_ref"], row["base_sha"]), (row["head_ref"], row["head_sha"])):
                ref = f"refs/heads/{branch}"
                if tips.get(ref, ZERO) != known:
                    moved[ref] = (ref, known, tips.get(ref, ZERO))
        owner = actor_of(tx, repo["owner_id"])
        for update in moved.values():
            ref_moved(tx, owner, repo, update)


def _announce(tx: Tx, actor: Actor, repo: Row, update: Update, *, forced: bool) -> None:
    ref, old, new = update
    if ZERO in (old, new):
        kind, name = ("tag", ref.removeprefix("refs/tags/")) if ref.startswith("refs/tags/") else ("branch", ref[11:])
        parts: dict[str, Any] = {"ref": name, "ref_type": kind, "pusher_type": "user"}
        if new != ZERO:
            parts |= {"master_branch": repo["default_branch"], "description": repo["description"]}
        notify(tx, repo, actor, "delete" if new == ZERO else "create", None, lambda: parts)
    notify(tx, repo, actor, "push", None, lambda: push_shape.push(tx, repo, actor, update, forced=forced))


def _open_pulls(tx: Tx, repo: Row, column: str, branch: str) -> list[Row]:
    return tx.all(
        f"SELECT issues.* FROM pulls JOIN issues ON issues.id = issue_id WHERE repo_id = ? AND {column} = ?"  # noqa: S608
        " AND state = 'open' ORDER BY number",
        repo["id"],
        branch,
    )


def _bases(tx: Tx, actor: Actor, repo: Row, git: GitRepo, branch: str, new: str) -> None:
    """The base of pull requests moved: those whose head it now contains are merged; without a base they are closed."""
    for issue in _open_pulls(tx, repo, "base_ref", branch):
        if new == ZERO:
            issue_ops.set_state(tx, _as_author(tx, issue, actor), repo, issue, "closed")
            continue
        pull = tx.get("pulls", issue["id"])
        if git.is_ancestor(pull["head_sha"], new):
            mark_merged(tx, actor, repo, issue, new)  # its base stays what it was, so that its diff can be shown
        else:
            tx.update("pulls", issue["id"], base_sha=new)


def _heads(tx: Tx, actor: Actor, repo: Row, git: GitRepo, branch: str, update: Update, *, forced: bool) -> None:
    """The head of pull requests moved."""
    _, old, new = update
    for issue in _open_pulls(tx, repo, "head_ref", branch):
        if new == ZERO:
            record(tx, issue, actor, "head_ref_deleted")
            issue_ops.set_state(tx, _as_author(tx, issue, actor), repo, issue, "closed")
            continue
        pull = tx.get("pulls", issue["id"])
        if pull["head_sha"] == new:
            continue
        git.run("update-ref", f"refs/pull/{issue['number']}/head", new)
        tx.update("pulls", issue["id"], head_sha=new)
        touch(tx, issue["id"])
        if forced:
            record(tx, issue, actor, "head_ref_force_pushed", commit=new)
        _outdate(tx, git, issue["id"], pull["head_sha"], new)
        _dismiss_stale(tx, actor, repo, issue, pull)
        more = {"before": old, "after": new}
        issue_ops.tell(tx, repo, actor, issue["id"], "synchronize", lambda more=more: more)  # type: ignore[misc]
        base = git.branch(pull["base_ref"])
        if base and git.is_ancestor(new, base):
            mark_merged(tx, actor, repo, tx.get("issues", issue["id"]), base)
    if new == ZERO:
        sql = "SELECT issues.* FROM pulls JOIN issues ON issues.id = issue_id WHERE repo_id = ? AND head_ref = ?"
        for issue in tx.all(f"{sql} AND head_sha = ? AND merged = 1", repo["id"], branch, old):
            record(tx, issue, actor, "head_ref_deleted")


def _as_author(tx: Tx, issue: Row, actor: Actor) -> Actor:
    """Who deletes a branch closes its pull requests, whatever else they may do."""
    if can(tx, actor, tx.get("repos", issue["repo_id"]), "triage"):
        return actor
    return Actor(issue["author_id"], login_of(tx, issue["author_id"]), "User")


def _outdate(tx: Tx, git: GitRepo, issue_id: int, old: str, new: str) -> None:
    """Move the lines of review threads along with the head; a thread whose line was changed is outdated."""
    if git.kind(old) is None:
        tx.run(
            "UPDATE threads SET outdated = 1, line = NULL, start_line = NULL"
            " WHERE issue_id = ? AND subject_type = 'line'",
            issue_id,
        )
        return
    for thread in tx.all("SELECT * FROM threads WHERE issue_id = ? AND line IS NOT NULL AND side = 'RIGHT'", issue_id):
        line = gitdata.moved_line(git, old, new, thread["path"], thread["line"])
        start = (
            gitdata.moved_line(git, old, new, thread["path"], thread["start_line"]) if thread["start_line"] else None
        )
        lost = line is None or (thread["start_line"] is not None and start is None)
        tx.update(
            "threads", thread["id"], line=None if lost else line, start_line=None if lost else start, outdated=int(lost)
        )


def _dismiss_stale(tx: Tx, actor: Actor, repo: Row, issue: Row, pull: Row) -> None:
    protection = protection_of(tx, repo["id"], pull["base_ref"])
    if protection is None or not protection["dismiss_stale"]:
        return
    for review in tx.all("SELECT * FROM reviews WHERE issue_id = ? AND state = 'APPROVED'", issue["id"]):
        tx.update("reviews", review["id"], state="DISMISSED", updated_at=tx.now)
        record(tx, issue, actor, "review_dismissed", dismissed_review={"state": "approved", "review_id": review["id"]})


def _close_by_commits(tx: Tx, actor: Actor, repo: Row, git: GitRepo, old: str, new: str) -> None:
    shas = git.rev_list("--reverse", "-n", "1000", f"{old}..{new}")
    for commit in gitdata.commits(tx.kernel, git, shas):
        if re.search(r"#\d|/issues/\d", commit.message):
            close_referenced(tx, actor, repo, commit.message, commit.sha)
