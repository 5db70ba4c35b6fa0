"""Checks, their results, and the outcome of all (BAT-149, BAT-150)."""

from __future__ import annotations

import enum

import msgspec


class CheckStatus(enum.StrEnum):
    """What became of one command."""

    PASSED = "passed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    SKIPPED = "skipped"


class ValidationOutcome(enum.StrEnum):
    """What all commands together say. ``none``: nothing was proved, which is no failure (BAT-150)."""

    PASSED = "passed"
    FAILED = "failed"
    NONE = "none"
    SETUP_FAILED = "setup-failed"


class Check(msgspec.Struct, frozen=True):
    """One command. ``dir`` is relative to the root; ``skip`` is a reason known beforehand.

    ``if_present``: a missing tool takes the command out, it counts for nothing. ``skip_codes`` are exit codes that
    mean "nothing to do", and so does ``skip_text`` in the output of one that ended well. ``needs`` are Python modules
    that must be importable by the command's own interpreter; where one is not, ``otherwise`` runs, or it is skipped.
    """

    name: str
    argv: tuple[str, ...]
    dir: str = "."
    kind: str = "other"
    timeout_seconds: float = 900.0
    env: dict[str, str] = {}
    optional: bool = False
    if_present: bool = False
    skip: str = ""
    skip_codes: tuple[int, ...] = ()
    skip_text: str = ""
    needs: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()
    otherwise_name: str = ""


class Result(msgspec.Struct, frozen=True):
    """What became of a check. ``detail`` is a reason or the exit code; ``output`` both streams, the tail kept."""

    name: str
    status: CheckStatus
    required: bool = True
    detail: str = ""
    code: int | None = None
    seconds: float = 0.0
    output: str = ""

    @property
    def bad(self) -> bool:
        """Whether it says that something is wrong."""
        return self.status in (CheckStatus.FAILED, CheckStatus.TIMED_OUT)


class Report(msgspec.Struct, frozen=True):
    """All results of one validation."""

    results: tuple[Result, ...] = ()
    setup: bool = False

    @property
    def outcome(self) -> ValidationOutcome:
        """Passed only if a command ran and every required one passed; skipped is never passed (BAT-150)."""
        if any(result.bad and result.required for result in self.results):
            return ValidationOutcome.SETUP_FAILED if self.setup else ValidationOutcome.FAILED
        ran = any(result.status is CheckStatus.PASSED for result in self.results)
        whole = all(result.status is CheckStatus.PASSED for result in self.results if result.required)
        return ValidationOutcome.PASSED if ran and whole else ValidationOutcome.NONE

    @property
    def rows(self) -> list[tuple[str, str, str]]:
        """Give (name, status, detail) for the report."""
        return [
            (r.name + ("" if r.required else " (optional)"), r.status.value, r.detail or f"{r.seconds:.1f} s")
            for r in self.results
        ]
