"""Branch protection."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from droveway.localforge.access import Refused, need
from droveway.localforge.db import Row, Tx
from droveway.localforge.ops import protection as ops
from droveway.localforge.routing import Answer, Call, empty, route
from droveway.localforge.views.repos import api_url

_FLAGS = {
    "required_linear_history": "linear",
    "allow_force_pushes": "allow_force",
    "allow_deletions": "allow_delete",
    "required_conversation_resolution": "conversations",
}


def _shape(tx: Tx, repo: Row, row: Row) -> dict[str, Any]:
    url = f"{api_url(tx, repo)}/branches/{quote(row['branch'], safe='')}/protection"
    shaped: dict[str, Any] = {"url": url}
    if row["checks"] is not None:
        contexts = json.loads(row["checks"])
        shaped["required_status_checks"] = {
            "url": f"{url}/required_status_checks",
            "strict": bool(row["strict"]),
            "contexts": contexts,
            "contexts_url": f"{url}/required_status_checks/contexts",
            "checks": [{"context": name, "app_id": None} for name in contexts],
        }
    if row["reviews"] is not None:
        shaped["required_pull_request_reviews"] = {
            "url": f"{url}/required_pull_request_reviews",
            "dismiss_stale_reviews": bool(row["dismiss_stale"]),
            "require_code_owner_reviews": bool(row["code_owners"]),
            "require_last_push_approval": False,
            "required_approving_review_count": row["reviews"],
        }
    shaped["required_signatures"] = {"url": f"{url}/required_signatures", "enabled": False}
    shaped["enforce_admins"] = {"url": f"{url}/enforce_admins", "enabled": bool(row["enforce_admins"])}
    shaped |= {name: {"enabled": bool(row[column])} for name, column in _FLAGS.items()}
    shaped |= {name: {"enabled": False} for name in ("block_creations", "lock_branch", "allow_fork_syncing")}
    return shaped


def _row(tx: Tx, call: Call, repo: Row) -> Row:
    need(tx, call.actor, repo, "write")
    row = ops.protection_of(tx, repo["id"], call.params["branch"])
    if row is None:
        found = tx.kernel.git(repo["id"]).branch(call.params["branch"])
        raise Refused(404, "Branch not protected" if found else "Branch not found")
    return row


@route("GET", "/repos/{owner}/{repo}/branches/{branch:path}/protection", "Get branch protection")
def get(tx: Tx, call: Call) -> Answer:
    """Give a branch's protection. (GitHub wants an administrator; here who may write may also read it.)"""
    repo = call.repo(tx)
    return Answer(_shape(tx, repo, _row(tx, call, repo)))


@route("PUT", "/repos/{owner}/{repo}/branches/{branch:path}/protection", "Update branch protection")
def put(tx: Tx, call: Call) -> Answer:
    """Set the whole protection."""
    repo, body = call.repo(tx), call.object()
    needed = ("required_status_checks", "enforce_admins", "required_pull_request_reviews", "restrictions")
    absent = [name for name in needed if name not in body]
    if absent:
        raise Refused(422, "Invalid request.\n\n" + "\n".join(f'"{name}" wasn\'t supplied.' for name in absent))
    values: dict[str, Any] = {"enforce_admins": int(bool(body["enforce_admins"]))}
    checks, reviews = body["required_status_checks"], body["required_pull_request_reviews"]
    if checks is not None:
        listed = [each["context"] for each in checks.get("checks") or ()] or list(checks.get("contexts") or ())
        values |= {"checks": json.dumps(listed), "strict": int(bool(checks.get("strict")))}
    if reviews is not None:
        values["reviews"] = int(reviews.get("required_approving_review_count", 1))
        values["dismiss_stale"] = int(bool(reviews.get("dismiss_stale_reviews")))
        values["code_owners"] = int(bool(reviews.get("require_code_owner_reviews")))
    values |= {column: int(bool(body.get(name))) for name, column in _FLAGS.items()}
    return Answer(_shape(tx, repo, ops.protect(tx, call.actor, repo, call.params["branch"], **values)))


@route("DELETE", "/repos/{owner}/{repo}/branches/{branch:path}/protection", "Delete branch protection")
def delete(tx: Tx, call: Call) -> Answer:
    """Take the protection away."""
    ops.unprotect(tx, call.actor, call.repo(tx), call.params["branch"])
    return empty()


@route(
    "GET",
    "/repos/{owner}/{repo}/branches/{branch:path}/protection/required_status_checks",
    "Get required status checks",
)
def checks(tx: Tx, call: Call) -> Answer:
    """Give the part about checks."""
    repo = call.repo(tx)
    shaped = _shape(tx, repo, _row(tx, call, repo)).get("required_status_checks")
    if shaped is None:
        raise Refused(404, "Required status checks not enabled")
    return Answer(shaped)
