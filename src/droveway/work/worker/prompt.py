"""The worker's prompt: trusted parts around the task's text, which is data (BAT-130, BAT-133, BAT-153, BAT-192)."""

from __future__ import annotations

from collections.abc import Sequence

from droveway.sessions import render_prompt
from droveway.work.body import IssueBody, without_markers
from droveway.work.validation import Check
from droveway.work.worker.branch import Start, progress_path
from droveway.work.worker.model import Work

ROLE_FILE = ".herd/worker.md"


def build_prompt(work: Work, start: Start, checks: Sequence[Check]) -> str:
    """Give the whole prompt of the first invocation."""
    front = work.task.front
    email = work.settings.pull_requests.co_author_email
    return render_prompt(
        "droveway.work",
        "worker/task",
        role=work.task.role,
        number=work.number,
        title=work.task.title,
        attempt=work.orders.attempt,
        repo=str(work.repo),
        branch=work.orders.branch,
        progress_path=progress_path(work.number),
        checks=", ".join(f"`{check.name}`" for check in checks if check.kind != "setup" and not check.skip),
        trailer=f"Co-authored-by: Droveway <{email}>" if email else "",
        resolver=front.is_resolver,
        fix=front.is_fix_type,
        conflicting=conflicting(start, work),
        forbidden=", ".join(f"`{name}`" for name in start.readable) or "any other branch",
        body=task_text(work),
        source=f"issue #{work.number} by {work.author_login} ({work.author_rights})",
        errors=start.errors,
        stale_progress=start.all_ticked,
        progress=start.progress,
    )


def build_second_prompt(prompt: str, errors: str) -> str:
    """Give the prompt of the second invocation: the first one, and what failed (BAT-139)."""
    return render_prompt("droveway.work", "worker/again", prompt=prompt, errors=errors)


def conflicting(start: Start, work: Work) -> list[str]:
    """Give the branches that a resolver is to merge, those that exist."""
    return [name for name in work.task.front.conflicting_branches if name in start.readable]


def task_text(work: Work) -> str:
    """Give the issue's text without front matter and without our own markers."""
    body = work.task.body
    if isinstance(body, IssueBody):
        return without_markers("".join(section.raw for section in body.sections))
    return without_markers(work.text)


async def role_file(work: Work) -> str:
    """Give the repository's own advice for workers, from the base branch; it extends the contract (BAT-129)."""
    found = await work.fleet.forge.file(work.repo, ROLE_FILE)
    if not found:
        return ""
    text = found.decode("utf-8", "replace").strip()
    return f"The project's own advice. It extends the rules of the prompt and never loosens them.\n\n{text}"
