"""Every text about work that people read, in one place (QLT-053)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from droveway.core.jobs import JobInfo, JobState
from droveway.core.text import byte_length, code_fence, cut_bytes, neutralise, table_cell
from droveway.core.vocabulary import PREFIXES, Message, Status

if TYPE_CHECKING:
    from droveway.work.task import Task

REPORT_OUTPUT_BYTES = 60_000
VERDICT_BYTES = 8_000
EXCERPT_BYTES = 2_000
SUMMARY_CHARS = 500


# --- blockers --------------------------------------------------------------------------------------------------------


def status_because(task: Task) -> str:
    """Say which status keeps it from starting."""
    if task.status is None:
        found = " and ".join(status.value for status in task.statuses) or "no status"
        return f"it has {found}; exactly one is expected"
    return {
        Status.READY: "it is ready",
        Status.IN_PROGRESS: "a worker is queued or running",
        Status.DONE: "it is done",
        Status.FAILED: "it failed",
        Status.BLOCKED: "a dependency is open",
        Status.CANCELLED: "it was cancelled, which is final",
    }[task.status]


def status_clears(status: Status | None) -> tuple[str, str]:
    """Say what would clear it, and who can."""
    match status:
        case Status.FAILED:
            return "herd dispatch: nothing retries it by itself", "a person"
        case Status.BLOCKED:
            return "the end of what it depends on", "the Integrator"
        case Status.CANCELLED | Status.DONE:
            return "nothing: it needs no worker", "nobody"
        case Status.IN_PROGRESS:
            return "the worker's end", "the worker"
        case _:
            return "a repair from the facts", "the Integrator"


def waits_for(numbers: Sequence[int]) -> str:
    """Name the open dependencies."""
    return "it waits for " + ", ".join(f"#{number}" for number in numbers)


def has_run(job: JobInfo | None) -> str:
    """Name the active run."""
    if job is None:
        return "a run is active"
    state = "is queued" if job.state is JobState.QUEUED else "is running"
    return f"its run {job.id} {state}"


# --- comments --------------------------------------------------------------------------------------------------------


def worker_failed(reason: str, next_step: str, *, retry: str | None, excerpt: str = "") -> str:
    """Say why a worker failed, what can be done, and whether a retry follows (BAT-132)."""
    follows = retry or "it is not retried by itself: `herd dispatch` with the number of this issue does it"
    text = f"{PREFIXES[Message.WORKER_FAILED]} {neutralise(reason)}\n\nNext: {neutralise(next_step)}; {follows}."
    if excerpt.strip():
        text += "\n\n" + code_fence(neutralise(cut_bytes(excerpt, EXCERPT_BYTES, "…[cut]\n", tail=True)), "text")
    return text


def progress(checklist: str, *, attempt: int, final: bool, outcome: str = "", run: str = "") -> str:
    """Give the progress comment of an attempt (BAT-162)."""
    state = "_(final)_" if final else "_(live)_"
    lines = [f"{PREFIXES[Message.ATTEMPT]} {state}", "", f"Attempt {attempt}" + (f": {outcome}" if outcome else "")]
    if run:
        lines[-1] += f" · run `{run}`"
    if checklist.strip():
        lines += ["", neutralise(cut_bytes(checklist.strip(), 20_000))]
    elif not final:
        lines += ["", "The worker has not written a checklist yet."]
    return "\n".join(lines)


def report(
    *,
    summary: str,
    stat: str,
    validation: Sequence[tuple[str, str, str]],
    validation_outcome: str,
    output: str,
    notes: Sequence[str],
    changed: bool,
) -> str:
    """Give the report of a task (BAT-155, BAT-156). ``validation`` rows are (name, status, detail)."""
    lines = [PREFIXES[Message.WORKER_REPORT], ""]
    if not changed:
        lines += ["No changes were needed.", ""]
    if summary:
        lines += [neutralise(summary), ""]
    if changed:
        lines += ["### Files changed", "", code_fence(neutralise(cut_bytes(stat.rstrip(), 4_000)), "text"), ""]
    lines += ["### Validation", ""]
    if validation:
        lines += ["| command | result | |", "|---|---|---|"]
        lines += [f"| {table_cell(name)} | {status} | {table_cell(detail)} |" for name, status, detail in validation]
    else:
        lines += ["Nothing was validated: no command is declared (`validation.commands`) and none was detected."]
    if validation and validation_outcome == "none":
        lines += ["", "No command ran to a result, so nothing was validated."]
    lines.append("")
    if notes:
        lines += ["### Notes", "", *(f"- {neutralise(note)}" for note in notes), ""]
    lines += [details("Agent output", output)]
    return "\n".join(lines)


def details(title: str, output: str, limit: int = REPORT_OUTPUT_BYTES) -> str:
    """Give a collapsible block with an agent's output, cut to its tail where it is too long, and labelled so."""
    cut = byte_length(output) > limit
    shown = cut_bytes(output, limit, "…[cut]\n", tail=True)
    label = f"{title} (the last {limit:,} bytes)" if cut else title
    return f"<details>\n<summary>{label}</summary>\n\n{code_fence(neutralise(shown), 'text')}\n\n</details>"


def noop_summary(number: int, reason: str) -> str:
    """Say on the batch PR that a worker found nothing to change (BAT-156)."""
    return f"{PREFIXES[Message.NOOP_SUMMARY]}{number} (no-op): No changes needed.\n\n{neutralise(reason)}"


def noop_verdict(number: int, verdict: str) -> str:
    """Give a fix worker's reasoning on the batch PR (BAT-157)."""
    text = neutralise(cut_bytes(verdict, VERDICT_BYTES))
    return f"{PREFIXES[Message.NOOP_VERDICT]}{number} — no-op verdict**\n\n{text}"


def first_paragraph(output: str) -> str:
    """Give the first paragraph of an agent's answer, at most 500 characters (BAT-032)."""
    for part in output.replace("\r\n", "\n").split("\n\n"):
        text = " ".join(part.split())
        if text and not text.startswith(("{", "```")):
            return text[: SUMMARY_CHARS - 1] + "…" if len(text) > SUMMARY_CHARS else text
    return ""
