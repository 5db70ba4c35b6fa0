"""The agent that needs no model: plays a script file, as a program or in process (AGT-011).

``python -m droveway.agents.scripted --script FILE [--role R] [--issue-title T] [--attempt N]`` reads the prompt from
standard input; what is not given is read from the prompt's header lines. Steps are told on standard error, ``say`` is
printed. Exit codes: 0, a ``crash`` step's code, 1 a step failed, 2 a bad script, 3 no entry matches.

The program is an agent, so it starts its git and its commands itself; our ``Runner`` supervises it from outside.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from droveway.agents.script import Call, Entry, NoEntryError, Step, call_of_prompt, find, load_script
from droveway.core.errors import InputError


class Crash(Exception):  # noqa: N818 - it is no error: the script asks for it
    """A ``crash`` step was reached; a negative ``code`` is a signal, as in ``subprocess``."""

    def __init__(self, code: int) -> None:
        """Hold the code."""
        super().__init__(f"the script crashes with {code}")
        self.code = code


class StepError(Exception):
    """A step could not be done."""


class Played(NamedTuple):
    """What playing an entry gave: what the agent says, and its exit code (``crash`` ends it early and says nothing)."""

    text: str
    code: int
    entry: Entry


async def play(script: Sequence[Entry], call: Call, do: Callable[[Step], Awaitable[None]]) -> Played:
    """Play the entry that answers ``call`` in process; ``do`` does a step, or raises StepError.

    ``crash`` is handled here. A step that fails ends the run with code 1 and the cause as its text. Raises
    NoEntryError.
    """
    entry = find(script, call)
    for step in entry.steps:
        if step.kind == "crash":
            return Played("", step.code, entry)
        try:
            await do(step)
        except StepError as error:
            return Played(str(error), 1, entry)
    return Played(entry.say, 0, entry)


def perform(step: Step, place: Path) -> None:
    """Do one step in ``place``, a git work tree. Raises StepError, or Crash."""
    path = place / step.path
    match step.kind:
        case "write" | "append":
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("w" if step.kind == "write" else "a", encoding="utf-8", newline="") as handle:
                handle.write(step.text)
        case "replace":
            before = path.read_bytes().decode("utf-8") if path.is_file() else ""
            if step.old not in before:
                if step.new and step.new in before:  # an attempt that goes on from what a killed one had pushed
                    return
                raise StepError(f"replace: {step.path} does not hold {step.old!r}")
            path.write_bytes(before.replace(step.old, step.new, 1).encode())
        case "run":
            _command(list(step.argv), place)
        case "commit":
            _command(["git", "add", "-A"], place)
            if subprocess.run(["git", "diff", "--cached", "--quiet"], cwd=place, check=False).returncode == 0:
                sys.stderr.write("nothing to commit\n")  # an attempt that goes on finds the earlier one's work
            else:
                _command(["git", "commit", "-q", "-m", step.message], place)
        case "push":
            _command(["git", "push", "-q", "origin", "HEAD"], place)
        case "sleep":
            time.sleep(step.seconds)
        case "crash":
            raise Crash(step.code)
        case _:
            raise StepError(f"unknown step {step.kind!r}")


def _command(argv: list[str], place: Path) -> None:
    try:
        done = subprocess.run(argv, cwd=place, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno(), check=False)
    except OSError as error:
        raise StepError(f"{argv[0]}: {error.strerror}") from error
    if done.returncode:
        raise StepError(f"{' '.join(argv)} ended with {done.returncode}")


def _options(arguments: Sequence[str]) -> dict[str, str]:
    """Read ``--name=value`` and ``--name value`` (by hand: argparse would be half of the start-up time)."""
    known = ("script", "role", "issue-title", "attempt")
    options: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        name, equals, value = rest.pop(0).removeprefix("--").partition("=")
        if name not in known or (not equals and not rest):
            raise InputError(f"usage: --script FILE, and any of {', '.join('--' + other for other in known[1:])}")
        options[name] = value if equals else rest.pop(0)
    if "script" not in options:
        raise InputError("--script FILE is missing")
    return options


def main(arguments: Sequence[str]) -> int:
    """Play one call and give the exit code."""
    try:
        options = _options(arguments)
        script = load_script(Path(options["script"]))
        call = call_of_prompt(sys.stdin.buffer.read().decode("utf-8", "replace"))
        call = call._replace(
            role=options.get("role", call.role),
            issue_title=options.get("issue-title", call.issue_title),
            attempt=int(options.get("attempt", call.attempt)),
        )
        entry = find(script, call)
    except (InputError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except NoEntryError as error:
        sys.stderr.write(f"{error}\n")
        return 3
    for step in entry.steps:
        sys.stderr.write(f"step: {step}\n")
        sys.stderr.flush()
        try:
            perform(step, Path.cwd())
        except Crash as crash:
            if crash.code < 0:
                os.kill(os.getpid(), -crash.code)
                signal.pause()
            return crash.code
        except StepError as error:
            sys.stderr.write(f"{error}\n")
            return 1
    sys.stdout.write(entry.say + "\n" if entry.say else "")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
