"""Mergeability, and the three ways to merge (FRG-022, FRG-025)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from droveway.localforge import gitdata
from droveway.localforge.access import Actor, Refused, can, forbidden, need, unprocessable
from droveway.localforge.db import Row, Tx
from droveway.localforge.gitdata import Commit
from droveway.localforge.gitrepo import ZERO, GitFailed, GitRepo
from droveway.localforge.ops import issues as issue_ops
from droveway.localforge.ops.events import record
from droveway.localforge.ops.keywords import closing_references
from droveway.localforge.ops.moves import APPLIERS, move
from droveway.localforge.ops.protection import judge, protection_of
from droveway.localforge.views.accounts import login_of

METHODS = ("merge", "squash", "rebase")


class Tested(msgspec.Struct, frozen=True):
    """The answer for one pair of base tip and head. ``mergeable`` None: it was asked for and not computed yet."""

    mergeable: bool | None = None
    test_sha: str | None = None


class Mergeability(msgspec.Struct, frozen=True):
    """What a reader is told: REST's ``mergeable`` and ``mergeable_state`` (lower case), the test merge commit."""

    mergeable: bool | None
    rebaseable: bool | None
    state: str
    test_sha: str | None
    blocks: tuple[str, ...] = ()


def mergeability(tx: Tx, repo: Row, issue: Row, pull: Row) -> Mergeability:
    """Answer a reader. The first who asks about a pair of base tip and head hears None, as on GitHub."""
    if pull["merged"] or issue["state"] == "closed":
        return Mergeability(None, None, "unknown", pull["merge_sha"])
    git = tx.kernel.git(repo["id"])
    key = (repo["id"], pull["base_sha"], pull["head_sha"])
    found: Tested | None = tx.kernel.tested.get(key)
    if found is None:
        tx.kernel.tested.put(key, Tested())
        return Mergeability(None, None, "unknown", None)
    if found.mergeable is None:
        found = tx.kernel.tested.put(key, test(tx, git, issue, pull))
    if not found.mergeable:
        return Mergeability(mergeable=False, rebaseable=False, state="dirty", test_sha=None)
    verdict = judge(tx, repo, issue, pull)
    if pull["draft"]:
        state = "draft"
    elif verdict.blocks:
        state = "blocked"
    elif verdict.behind:
        state = "behind"
    else:
        state = "unstable" if verdict.unstable else "clean"
    return Mergeability(mergeable=True, rebaseable=True, state=state, test_sha=found.test_sha, blocks=verdict.blocks)


def test(tx: Tx, git: GitRepo, issue: Row, pull: Row) -> Tested:
    """Merge base tip and head in the object database; a clean result stands at ``refs/pull/N/merge``."""
    base, head = pull["base_sha"], pull["head_sha"]
    try:
        tree, clean = git.merge_tree(base, head)
    except GitFailed:  # unrelated histories, or objects that are gone
        return Tested(mergeable=False)
    if not clean:
        return Tested(mergeable=False)
    message = f"Merge {head} into {base}"
    sha = git.commit_tree(tree, [base, head], message, _identity(tx, issue["author_id"], pull_time(tx)))
    git.run("update-ref", f"refs/pull/{issue['number']}/merge", sha)
    return Tested(mergeable=True, test_sha=sha)


def pull_time(tx: Tx) -> str:
    """Give the transaction's moment in git's own notation."""
    return f"{int(datetime.fromisoformat(tx.now).timestamp())} +0000"


def _identity(tx: Tx, author_id: int, when: str, author: Commit | None = None) -> dict[str, str]:
    user = tx.get("users", author_id)
    env = {
        "GIT_AUTHOR_NAME": user["name"] or user["login"],
        "GIT_AUTHOR_EMAIL": user["email"],
        "GIT_AUTHOR_DATE": when,
        "GIT_COMMITTER_NAME": "GitHub",
        "GIT_COMMITTER_EMAIL": "noreply@github.com",
        "GIT_COMMITTER_DATE": when,
    }
    if author:
        env["GIT_AUTHOR_NAME"] = author.author.name or author.author.email or "unknown"
        env["GIT_AUTHOR_EMAIL"] = author.author.email
        env["GIT_AUTHOR_DATE"] = f"@{author.author.raw}"  # without @ git takes small numbers for something else
    return env


def merge(
    tx: Tx,
    actor: Actor,
    repo: Row,
    issue: Row,
    *,
    method: str = "merge",
    sha: str | None = None,
    title: str | None = None,
    message: str | None = None,
) -> str:
    """Merge a pull request and give the commit that is now the base's tip.

    Refused: 405 where it can't be merged, 409 where ``sha`` is not the head or the base moved meanwhile.
    """
    need(tx, actor, repo, "write")
    pull = tx.get("pulls", issue["id"])
    git = tx.kernel.git(repo["id"])
    _mergeable(tx, actor, git, repo, issue, pull, method, sha)
    base, head = pull["base_sha"], pull["head_sha"]
    if method == "rebase":
        new = _replay(tx, git, actor, base, head)
    else:
        tree, clean = git.merge_tree(base, head)
        if not clean:
            raise Refused(405, "Pull Request is not mergeable")
        text = _message(tx, git, repo, issue, pull, method, title, message)
        parents = [base, head] if method == "merge" else [base]
        author = issue["author_id"] if method == "squash" else actor.id
        new = git.commit_tree(tree, parents, text, _identity(tx, author, pull_time(tx)))
    data = {"issue": issue["id"], "sha": new, "head": head}
    move(tx, actor, repo, [(f"refs/heads/{pull['base_ref']}", base, new)], kind="merge", data=data)
    if tx.get("repos", repo["id"])["delete_branch_on_merge"]:
        _delete_head(tx, actor, repo, git, pull)
    return new


def _mergeable(
    tx: Tx, actor: Actor, git: GitRepo, repo: Row, issue: Row, pull: Row, method: str, sha: str | None
) -> None:
    if method not in METHODS:
        raise unprocessable("Invalid request.\n\nmerge_method must be one of merge, squash, rebase.")
    if pull["merged"] or issue["state"] == "closed":
        raise Refused(405, "Pull Request is not mergeable")
    if pull["draft"]:
        raise Refused(405, "Pull Request is still a draft")
    if sha is not None and sha != pull["head_sha"]:
        raise Refused(409, "Head branch was modified. Review and try the merge again.")
    allowed = {"merge": "allow_merge_commit", "squash": "allow_squash_merge", "rebase": "allow_rebase_merge"}[method]
    if not repo[allowed]:
        word = {"merge": "Merge commits", "squash": "Squash merges", "rebase": "Rebase merges"}[method]
        raise Refused(405, f"{word} are not allowed on this repository.")
    if git.branch(pull["base_ref"]) != pull["base_sha"]:
        raise Refused(409, "Base branch was modified. Review and try the merge again.")
    protection = protection_of(tx, repo["id"], pull["base_ref"])
    if protection is None or (can(tx, actor, repo, "admin") and not protection["enforce_admins"]):
        return
    verdict = judge(tx, repo, issue, pull)
    if verdict.blocks:
        raise Refused(405, "\n".join(verdict.blocks))
    if verdict.behind:
        raise Refused(405, "The head branch is not up to date with the base branch.")
    if protection["linear"] and method == "merge":
        raise Refused(405, "Merge commits are not allowed: this branch must have a linear history.")


def _message(
    tx: Tx, git: GitRepo, repo: Row, issue: Row, pull: Row, method: str, title: str | None, message: str | None
) -> str:
    if method == "merge":
        owner = login_of(tx, repo["owner_id"])
        first = title or f"Merge pull request #{issue['number']} from {owner}/{pull['head_ref']}"
        rest = issue["title"] if message is None else message
    else:
        commits = gitdata.commits(tx.kernel, git, git.rev_list("--reverse", f"{pull['base_sha']}..{pull['head_sha']}"))
        first = title or f"{issue['title']} (#{issue['number']})"
        rest = _listed(commits) if message is None else message
    return f"{first}\n\n{rest}".rstrip() + "\n"


def _listed(commits: list[Commit]) -> str:
    if len(commits) == 1:
        return commits[0].message.partition("\n")[2].strip()
    return "\n\n".join(f"* {commit.message}" for commit in commits)


def _replay(tx: Tx, git: GitRepo, actor: Actor, base: str, head: str) -> str:
    """Put the commits of ``base..head`` on top of ``base``, one by one. Merge commits can't be replayed."""
    shas = git.rev_list("--reverse", "--topo-order", f"{base}..{head}")
    if git.rev_list("--merges", "-n", "1", f"{base}..{head}"):
        raise Refused(405, "This branch can't be rebased")
    onto = base
    for commit in gitdata.commits(tx.kernel, git, shas):
        if not commit.parents:
            raise Refused(405, "This branch can't be rebased")
        tree, clean = _pick(git, commit, onto)
        if not clean:
            raise Refused(405, "This branch can't be rebased due to conflicts")
        if tree != git.tree_of(onto):
            onto = git.commit_tree(tree, [onto], commit.message + "\n", _identity(tx, actor.id, pull_time(tx), commit))
    return onto


def _pick(git: GitRepo, commit: Commit, onto: str) -> tuple[str, bool]:
    """Merge what ``commit`` changes into ``onto``: two commits say which base is meant."""
    env = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in
           (("NAME", "forge"), ("EMAIL", "forge@localhost"), ("DATE", "@0 +0000"))}  # fmt: skip
    parent = commit.parents[0]
    ours = git.commit_tree(git.tree_of(onto), [parent], "ours", env)
    theirs = git.commit_tree(commit.tree, [parent], "theirs", env)
    return git.merge_tree(ours, theirs)


def _delete_head(tx: Tx, actor: Actor, repo: Row, git: GitRepo, pull: Row) -> None:
    tip = git.branch(pull["head_ref"])
    others = tx.value(
        "SELECT count(*) FROM pulls JOIN issues ON issues.id = issue_id WHERE repo_id = ? AND state = 'open'"
        " AND (base_ref = ? OR head_ref = ?)",
        repo["id"], pull["head_ref"], pull["head_ref"],
    )  # fmt: skip
    if (
        tip
        and not others
        and pull["head_ref"] != repo["default_branch"]
        and not protection_of(tx, repo["id"], pull["head_ref"])
    ):
        move(tx, actor, repo, [(f"refs/heads/{pull['head_ref']}", tip, ZERO)])


def _apply_merge(tx: Tx, actor: Actor, repo: Row, intent: Row) -> None:
    data: dict[str, Any] = msgspec.json.decode(intent["data"])
    mark_merged(tx, actor, repo, tx.get("issues", data["issue"]), data["sha"])


APPLIERS["merge"] = _apply_merge


def mark_merged(tx: Tx, actor: Actor, repo: Row, issue: Row, sha: str) -> None:
    """Write that a pull request was merged as ``sha``; on the default branch its keywords close issues."""
    pull = tx.get("pulls", issue["id"])
    tx.update("pulls", issue["id"], merged=1, merged_at=tx.now, merged_by_id=actor.id, merge_sha=sha)
    tx.update("issues", issue["id"], state="closed", closed_at=tx.now, closed_by_id=actor.id, updated_at=tx.now)
    record(tx, issue, actor, "merged", commit=sha)
    record(tx, issue, actor, "closed")
    issue_ops.tell(tx, repo, actor, issue["id"], "closed")
    if pull["base_ref"] == repo["default_branch"]:
        close_referenced(tx, actor, repo, issue["body"] or "", sha)


def close_referenced(tx: Tx, actor: Actor, repo: Row, text: str, sha: str) -> None:
    """Close the open issues that closing keywords in ``text`` name."""
    for number in closing_references(tx, repo, text):
        row = tx.one(
            "SELECT * FROM issues WHERE repo_id = ? AND number = ? AND is_pull = 0 AND state = 'open'",
            repo["id"],
            number,
        )
        if row:
            tx.update("issues", row["id"], state="closed", state_reason="completed", closed_at=tx.now,
                      closed_by_id=actor.id,
                      updated_at=tx.now)  # fmt: skip
            record(tx, row, actor, "closed", commit=sha, state_reason="completed")
            issue_ops.tell(tx, repo, actor, row["id"], "closed")


def update_branch(tx: Tx, actor: Actor, repo: Row, issue: Row, *, expected: str | None = None) -> None:
    """Merge the base's tip into the head branch."""
    if actor.id != issue["author_id"]:
        need(tx, actor, repo, "write")
    pull = tx.get("pulls", issue["id"])
    git = tx.kernel.git(repo["id"])
    if issue["state"] == "closed":
        raise unprocessable("Cannot update a closed pull request.")
    if expected is not None and expected != pull["head_sha"]:
        raise unprocessable("expected head sha didn't match current head ref.")
    tip = git.branch(pull["base_ref"])
    if tip is None or git.branch(pull["head_ref"]) is None:
        raise unprocessable("There is no branch to update.")
    if git.is_ancestor(tip, pull["head_sha"]):
        raise unprocessable("There are no new commits on the base branch.")
    if not can(tx, actor, repo, "write"):
        raise forbidden()
    tree, clean = git.merge_tree(pull["head_sha"], tip)
    if not clean:
        raise unprocessable("merge conflict between base and head")
    text = f"Merge branch '{pull['base_ref']}' into {pull['head_ref']}\n"
    new = git.commit_tree(tree, [pull["head_sha"], tip], text, _identity(tx, actor.id, pull_time(tx)))
    move(tx, actor, repo, [(f"refs/heads/{pull['head_ref']}", pull["head_sha"], new)])
