"""What a check run of ``ci.commands`` is called and what it says (FRG-028)."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Sequence

import msgspec

from droveway.core.settings import Ci, Command, Settings, Validation
from droveway.core.text import code_fence, cut_bytes, cut_chars, neutralise
from droveway.forge import Annotation, CheckRunChange
from droveway.work.validation import CheckStatus, Report

SUMMARY_BYTES = 8 * 1024
TEXT_BYTES = 56 * 1024  # the forge takes 65,535 characters
MAX_ANNOTATIONS = 50
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_PLACE = re.compile(
    r"^[ \t]*(?:\./)?(?P<path>[^\s:][^:\n]{0,300}?):(?P<line>[1-9]\d{0,6}):(?:\d+:)?[ \t]*(?P<said>\S.*)$", re.MULTILINE
)


class Named(msgspec.Struct, frozen=True):
    """A command and the name of its check run, which no other command of the file has."""

    name: str
    command: Command

    @property
    def setup(self) -> bool:
        """Whether the others need what it makes."""
        return self.command.kind == "setup"

    def validation(self, settings: Settings) -> Validation:
        """Give it as the one command of a validation, so that both are read and run alike (BAT-237)."""
        command = msgspec.structs.replace(self.command, name=self.name)
        return Validation(commands=(command,), auto_detect=False, timeout_seconds=settings.validation.timeout_seconds)


def named(ci: Ci) -> list[Named]:
    """Give the commands in the order in which they run: those of kind ``setup`` first, else as they are written."""
    found: list[Named] = []
    used: set[str] = set()
    for command in ci.commands:
        words = command.run if isinstance(command.run, str) else shlex.join(command.run)
        name = base = cut_chars(" ".join((command.name or words).split()), 100)
        number = 1
        while name in used:
            number += 1
            name = f"{base} ({number})"
        used.add(name)
        found.append(Named(name, command))
    return sorted(found, key=lambda each: not each.setup)


def started(sandbox: str) -> CheckRunChange:
    """Say that a command runs now."""
    return CheckRunChange("in_progress", title="running", summary=f"The command runs (sandbox: {sandbox}).")


def superseded() -> CheckRunChange:
    """Say that a commit is the head of nothing any more."""
    words = "This commit is not the head of an open pull request or a batch branch any more."
    return CheckRunChange("completed", "cancelled", "superseded", words)


def not_run(reason: str) -> CheckRunChange:
    """Say that a command could not be run at all, which proves nothing."""
    return CheckRunChange("completed", "failure", "it could not be run", neutralise(cut_bytes(reason, SUMMARY_BYTES)))


def finished(report: Report, command: Command, files: Iterable[str]) -> CheckRunChange:
    """Say how a command ended. An optional one never fails the check: it is ``neutral`` (BAT-206 lets it pass)."""
    bad = [result for result in report.results if result.bad]
    title = "; ".join(f"{result.status.value}: {result.detail}" for result in bad)
    conclusion = "success"
    if bad:
        timed_out = all(result.status is CheckStatus.TIMED_OUT for result in bad)
        conclusion = "neutral" if command.optional else "timed_out" if timed_out else "failure"
    elif all(result.status is CheckStatus.SKIPPED for result in report.results):
        conclusion = "skipped"
        title = "; ".join(f"skipped: {result.detail}" for result in report.results)
    seconds = sum(result.seconds for result in report.results)
    rows = [f"- {name}: {status} ({detail})" for name, status, detail in report.rows]
    log = "\n".join(plain(result.output).rstrip() for result in bad or report.results if result.output.strip())
    head = neutralise("\n".join(rows))
    return CheckRunChange(
        "completed",
        conclusion,
        title=cut_chars(title or f"passed in {seconds:.1f} s", 200),
        summary=f"{head}\n\n{_tail(log, SUMMARY_BYTES)}" if log else head,
        text=_tail(log, TEXT_BYTES) if len(log) > SUMMARY_BYTES // 2 else "",
        annotations=places(log, files, command) if bad else (),
    )


def plain(text: str) -> str:
    """Take out what a terminal would have done with it: colours, and what a carriage return overwrote."""
    text = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return _CONTROLS.sub("", "\n".join(lines))


def _tail(log: str, limit: int) -> str:
    return code_fence(neutralise(cut_bytes(log, limit, "…[cut]\n", tail=True)), "text")


def places(log: str, files: Iterable[str], command: Command) -> tuple[Annotation, ...]:
    """Read ``path:line: words`` as most compilers and linters write it, where the commit has such a file."""
    known = frozenset(files)
    level = "warning" if command.optional else "failure"
    found: dict[tuple[str, int, str], Annotation] = {}
    for match in _PLACE.finditer(log):
        path = _known(match["path"], known, (command.dir, "."))
        if path:
            said = cut_chars(neutralise(match["said"].strip()), 500)
            found.setdefault((path, int(match["line"]), said), Annotation(path, int(match["line"]), said, level))
        if len(found) == MAX_ANNOTATIONS:
            break
    return tuple(found.values())


def _known(path: str, files: frozenset[str], folders: Sequence[str]) -> str:
    candidates = (os.path.normpath(os.path.join(folder, path)) for folder in folders)
    return next((each for each in candidates if each in files), "")
