"""Every text about batches that people read, in one place (QLT-053)."""

from __future__ import annotations

from collections.abc import Sequence

from droveway.core.text import byte_length, cut_bytes, cut_chars, neutralise, table_cell
from droveway.core.vocabulary import PREFIXES, Message
from droveway.work import Task

PULL_BYTES = 60_000
_ROWS = 400


def inert(title: str, limit: int = 200) -> str:
    """Give a title of the forge's on one line, inert (BAT-005)."""
    return cut_chars(neutralise(" ".join(title.split())), limit)


def name_conflict(name: str) -> str:
    """Say that the batch got another name (BAT-018)."""
    return f'Note: batch name conflicted with existing milestone — using "{name}" instead.'


# --- commits ---------------------------------------------------------------------------------------------------------


def merge_message(number: int, title: str, branch: str) -> str:
    """Give the message of a worker branch's merge commit."""
    return f"Merge #{number}: {inert(title, 100)}\n\nBranch: {branch}\n"


def base_merge_message(base: str, branch: str) -> str:
    """Give the message of the base's merge into the batch branch (BAT-194)."""
    return f"Merge {base} into {branch}\n"


# --- comments on issues ----------------------------------------------------------------------------------------------


def unreadable(reason: str) -> str:
    """Say that a task's place in the graph is unknown (BAT-027)."""
    return (
        f"{PREFIXES[Message.UNREADABLE]}: {neutralise(reason)}\n\nThis task is not started, no task of a later tier "
        "starts and no pull request opens until the block at the top of the body reads again. "
        "A person can edit the body, or close the issue to go on without it."
    )


def cycle(members: Sequence[int]) -> str:
    """Say that the dependencies go round (BAT-098)."""
    way = " → ".join(f"#{number}" for number in (*members, members[0]))
    return (
        f"{PREFIXES[Message.BATCH]} Circular dependency: {way}. Nothing of this batch is started until a person takes "
        "one of these dependencies out of the block at the top of a body."
    )


def branch_gone(branch: str) -> str:
    """Say that a started batch has lost its branch (BAT-240)."""
    return (
        f"{PREFIXES[Message.BATCH]} The batch branch `{branch}` does not exist any more, though work was started "
        "on it. It is not started anew by itself. A person can push the branch again, or cancel the batch."
    )


def conflict(number: int, files: Sequence[str], kinds: Sequence[str], others: Sequence[int], then: str) -> str:
    """Say that a worker's branch does not merge (BAT-190)."""
    lines = [f"{PREFIXES[Message.CONFLICT]}: the branch of #{number} does not merge into the batch branch.", ""]
    lines += file_list(files, kinds)
    if others:
        lines += ["", "The same files were changed by " + ", ".join(f"#{other}" for other in others) + "."]
    return "\n".join([*lines, "", then])


def conflict_resolver(resolver: int) -> str:
    """Say who resolves it."""
    return f"#{resolver} resolves it; when that is merged, this task is settled by itself."


def conflict_person(branch: str, why: str) -> str:
    """Say how a person resolves it."""
    return (
        f"{why} A person can check out `{branch}`, merge the batch branch, resolve and push, and then start the task "
        "again (`herd dispatch`); or close this issue to go on without it."
    )


def resolver_paused(number: int) -> str:
    """Say that no resolver is made while the cascade label is there (BAT-203)."""
    return (
        f"{PREFIXES[Message.RESOLVER_PAUSED]}: `herd/cascade-failed` is set, so no resolver is started for #{number}. "
        "Resolve by hand, or remove the label."
    )


def cascade(chain: Sequence[int], branch: str, mentions: Sequence[str]) -> str:
    """Say that the chain of resolvers is at its cap (BAT-201, BAT-205)."""
    way = " → ".join(f"#{number}" for number in chain)
    lines = [
        f"{PREFIXES[Message.CASCADE]}: {way} (failed)",
        "",
        "What is left needs a person's judgement. In this order:",
        "",
        f"1. Look: `git fetch origin && git checkout {branch}`",
        "2. Merge or rebase onto the batch branch, resolve, force-push that worker branch, then `/herd integrate`",
        f"3. Or close #{chain[0]} and `/herd integrate`, to go on without it",
    ]
    if mentions:
        lines += ["", " ".join(f"@{name}" for name in mentions)]
    return "\n".join(lines)


def bad_resolution(reason: str) -> str:
    """Say why a resolver's result is not taken (BAT-193)."""
    return f"{PREFIXES[Message.WORKER_FAILED]} the conflict is not resolved: {neutralise(reason)}"


def not_merged(reason: str) -> str:
    """Say that a branch could not be merged for another reason than a conflict (BAT-181)."""
    return f"{PREFIXES[Message.WORKER_FAILED]} its branch could not be merged: {neutralise(cut_bytes(reason, 2000))}"


def push_rejected(branch: str, reason: str) -> str:
    """Say that the merge was fine and the push was not (BAT-183)."""
    return (
        f"{PREFIXES[Message.PUSH_REJECTED]}: the merge into `{branch}` could not be pushed: "
        f"{neutralise(cut_bytes(reason, 2000))}\n\nThe work stays on its branch; the task can be started again."
    )


def folded_names(warnings: Sequence[str]) -> str:
    """Warn of names that differ only in case (case G05)."""
    return "\n".join(
        [
            f"{PREFIXES[Message.BATCH]} The batch branch now holds names that are one file on many disks:",
            "",
            *(f"- `{warning.replace('`', '')}`" for warning in warnings[:50]),
        ]
    )


def file_list(files: Sequence[str], kinds: Sequence[str] = ()) -> list[str]:
    """Give the files in conflict as bullets, and git's names for the conflicts."""
    shown = [f"- `{path.replace('`', '')}`" for path in files[:100]]
    if len(files) > 100:
        shown.append(f"- and {len(files) - 100} more")
    if kinds:
        shown += ["", "git says: " + ", ".join(f"`{kind.replace('`', '')}`" for kind in dict.fromkeys(kinds))]
    return shown


# --- resolver issues -------------------------------------------------------------------------------------------------


def resolver_title(number: int, title: str) -> str:
    """Give the title of a worker conflict's resolver (BAT-036)."""
    return f"Resolve conflict: #{number} ({inert(title, 40)})"


def base_resolver_title(batch: str, base: str) -> str:
    """Give the title of a base conflict's resolver (BAT-036)."""
    return cut_chars(f"Resolve rebase conflict: {inert(batch)} onto {base}", 200)


def resolver_task(what: str, files: Sequence[str], kinds: Sequence[str]) -> str:
    """Name the conflict and the files (BAT-191)."""
    return "\n".join([what, "", "Files in conflict:", "", *file_list(files, kinds)])


def resolver_steps(branch: str) -> str:
    """Give the steps of BAT-192."""
    return "\n".join(
        [
            "1. `git fetch origin`",
            "2. Stay on the assigned branch; do not check out the batch branch or the base",
            f"3. `git merge origin/{branch}`",
            "4. Resolve the markers `<<<<<<<`, `=======`, `>>>>>>>` in place; do not rewrite files",
            "5. `git add <resolved files>` and `git commit` with the default message",
            "6. Do not push to any other branch; the framework pushes yours",
        ]
    )


def intent(task: Task, limit: int = 3_000) -> str:
    """Say what a worker wanted, for whoever resolves its conflict."""
    wanted = cut_bytes(neutralise(task.body.task), limit) if not task.unreadable else ""  # type: ignore[union-attr]
    return f"**#{task.number} {inert(task.title)}**\n\n{wanted}".rstrip()


RESOLVER_CRITERIA = (
    "No conflict markers are left in the files",
    "The history of the branch contains the branch that was to be merged",
    "What each of the tasks wanted holds in the result",
)


# --- the batch PR ----------------------------------------------------------------------------------------------------


def pull_title(title: str, tasks: int) -> str:
    """Give the PR's title (BAT-035)."""
    return f"[herd] {inert(title)} ({tasks} tasks)"


def pull_summary(summary: str, title: str, tasks: Sequence[Task]) -> str:
    """Give the summary: what the plan says, else made from titles and criteria (BAT-217)."""
    if summary.strip():
        return neutralise(cut_bytes(summary.strip(), 8_000))
    lines = [f"{inert(title)}:", ""]
    lines += [f"- {inert(task.title)}" for task in tasks[:5]]
    if len(tasks) > 5:
        lines.append(f"- and {len(tasks) - 5} more")
    criteria = [c.text for task in tasks for c in getattr(task.body, "criteria", ())]
    if criteria:
        lines += ["", "It is done when:", "", *(f"- {inert(text)}" for text in criteria[:5])]
        if len(criteria) > 5:
            lines.append(f"- and {len(criteria) - 5} more")
    return "\n".join(lines)


def pull_body(
    summary: str,
    rows: Sequence[tuple[Task, int | None, str]],
    branches: Sequence[str],
    validation: Sequence[str],
) -> str:
    """Give the PR's body, made without an agent (BAT-217). ``rows`` are (task, tier, status)."""
    done = [task for task, _, status in rows if status == "done"]
    lines = ["## Summary", "", summary, "", "Major changes:", ""]
    lines += [f"- {inert(task.title)}" for task in done[:5]]
    if len(done) > 5:
        lines.append(f"- and {len(done) - 5} more")
    lines += ["", "## Validation", "", *(f"- {line}" for line in validation), ""]
    lines += ["## Tasks", "", "| Issue | Title | Tier | Status |", "|---|---|---|---|"]
    for task, tier, status in rows[:_ROWS]:
        shown = "—" if tier is None else str(tier)
        title = neutralise(table_cell(cut_chars(task.title, 200)))  # in this order: a cell drops hidden characters
        lines.append(f"| #{task.number} | {title} | {shown} | {status} |")
    if len(rows) > _ROWS:
        lines.append(f"| … | and {len(rows) - _ROWS} more | | |")
    lines += ["", "## Worker branches", "", *(f"- `{branch}`" for branch in branches[:_ROWS])]
    # Case K07: only what the plan says is done is closed by a reference, in a line of our own.
    closing = ", ".join(f"closes #{task.number}" for task in done[:_ROWS])
    body = "\n".join([*lines, ""])
    if closing and byte_length(body) + byte_length(closing) < PULL_BYTES:
        body += f"\n{closing[:1].upper()}{closing[1:]}\n"
    return cut_bytes(body, PULL_BYTES)


def squash_title(title: str, number: int) -> str:
    """Give the squash or merge commit's first line."""
    return f"{inert(title)} (#{number})"


def squash_message(summary: str, tasks: Sequence[Task], co_author: str) -> str:
    """Give the squash or merge commit's text; nothing in it closes or mentions anything (case K07)."""
    lines = [cut_bytes(neutralise(summary.strip()), 4_000), ""] if summary.strip() else []
    lines += [f"* #{task.number} {inert(task.title)}" for task in tasks[:100]]
    if len(tasks) > 100:
        lines.append(f"* and {len(tasks) - 100} more")
    if co_author:
        lines += ["", f"Co-authored-by: Droveway <{co_author}>"]
    return "\n".join(lines)


# --- the end ---------------------------------------------------------------------------------------------------------


def landed(pull: int | None, sha: str, tasks: int) -> str:
    """Say that the batch has landed (BAT-222)."""
    how = f"pull request #{pull} was merged" + (f" as {sha}" if sha else "") if pull else "there was nothing to merge"
    return (
        f"{PREFIXES[Message.LANDING]}: {how}; {tasks} tasks are closed, the milestone is closed, the branches are gone."
    )


def nothing_to_land(branch: str, base: str) -> str:
    """Say that a batch ends without a PR (BAT-218)."""
    return (
        f"{PREFIXES[Message.LANDING]}: all tasks are complete and `{branch}` has no change against `{base}`, so no "
        "pull request is needed."
    )


def base_conflict(base: str, files: Sequence[str], kinds: Sequence[str], then: str) -> str:
    """Say that the batch branch conflicts with the base (BAT-194)."""
    lines = [f"{PREFIXES[Message.CONFLICT]}: the batch branch does not merge with `{base}`.", ""]
    return "\n".join([*lines, *file_list(files, kinds), "", then])


BASE_PERSON = "A person can merge the base into the batch branch, resolve and push."


def short_list(number: int, expected: int, opened: int, closed: int, got: int) -> str:
    """Say that the forge's list was short (BAT-216)."""
    return (
        f"Warning: milestone #{number} has {expected} expected issues ({opened} open + {closed} closed) but only {got} "
        "were returned by the API; skipping batch PR to avoid premature open"
    )
