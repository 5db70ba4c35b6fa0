"""Errors that people see: one clear line each, with the exit code of CLI-002."""

from __future__ import annotations


class HerdError(Exception):
    """A failure with one line that says what is wrong and what to do. Exit code 1."""

    exit_code = 1


class InputError(HerdError):
    """Bad input: usage, a plan, a configuration. Exit code 2; nothing was changed."""

    exit_code = 2

    def __init__(self, *problems: str) -> None:
        """Hold every problem at once, a line each."""
        super().__init__("\n".join(problems))
        self.problems = problems


class DeclinedError(HerdError):
    """Declined because a fact is unknown or a loop stands blocked. Exit code 3."""

    exit_code = 3


class BusyError(HerdError):
    """Another process holds what is needed. Exit code 75."""

    exit_code = 75
