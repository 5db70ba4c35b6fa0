"""The script that the ``scripted`` agent plays: its file, its checks, and which entry answers a call (AGT-011).

Read in process by the inline agent and the stub model server, and in the agent's own process. That one starts for every
call, so this module keeps to the standard library and YAML: its data are named tuples, not msgspec structs.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import yaml

from droveway.agents.roles import Role
from droveway.core.errors import HerdError, InputError

STEPS: dict[str, tuple[str, ...]] = {
    "write": ("path", "text"),
    "append": ("path", "text"),
    "replace": ("path", "old", "new"),
    "run": (),
    "commit": (),
    "push": (),
    "sleep": (),
    "crash": (),
}
_CONDITIONS = ("role", "issue_title", "attempt", "prompt_has")
_KEYS = frozenset({*_CONDITIONS, "steps", "say"})


class Step(NamedTuple):
    """One step. ``kind`` is a key of STEPS; the fields that the kind does not use are empty."""

    kind: str
    path: str = ""
    text: str = ""
    old: str = ""
    new: str = ""
    argv: tuple[str, ...] = ()
    message: str = ""
    seconds: float = 0.0
    code: int = 0

    def __str__(self) -> str:
        """Say it in a few words."""
        return " ".join(filter(None, (self.kind, self.path, *self.argv, self.message)))


class Entry(NamedTuple):
    """One entry; a condition that is None holds for every call. ``number`` counts from 1."""

    number: int
    role: str | None
    issue_title: str | None
    attempt: int | None
    prompt_has: tuple[str, ...]
    steps: tuple[Step, ...]
    say: str


class Call(NamedTuple):
    """What an agent was called with."""

    role: str
    issue_title: str
    attempt: int
    prompt: str


class NoEntryError(HerdError):
    """No entry of the script matches a call; the message names the nearest."""


def load_script(path: Path) -> tuple[Entry, ...]:
    """Read a script file. Raises InputError with one line per problem."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the script {path} can't be read: {error}") from error
    return parse_script(text, source=str(path))


def parse_script(text: str, *, source: str = "script") -> tuple[Entry, ...]:
    """Read a script. ``source`` names it in messages. Raises InputError with one line per problem."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        raw = yaml.load(text, Loader=loader)  # noqa: S506 - it is a safe loader, the fast one where it exists
    except yaml.YAMLError as error:
        raise InputError(f"{source}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(raw, list):
        raise InputError(f"{source}: a list of entries is expected")
    problems: list[str] = []
    entries = tuple(_entry(item, number, problems) for number, item in enumerate(raw, 1))
    if problems:
        raise InputError(*(f"{source}: {problem}" for problem in problems))
    return entries


def find(script: Sequence[Entry], call: Call) -> Entry:
    """Give the first entry whose conditions all hold. Raises NoEntryError that names the nearest."""
    nearest: tuple[int, Entry, list[str]] | None = None
    for entry in script:
        missed = _missed(entry, call)
        if not missed:
            return entry
        if nearest is None or len(missed) < nearest[0]:
            nearest = (len(missed), entry, missed)
    what = f"role {call.role}, issue title {call.issue_title!r}, attempt {call.attempt}"
    if nearest is None:
        raise NoEntryError(f"the script is empty; it was asked for {what}")
    raise NoEntryError(
        f"no entry of the script matches {what}; the nearest, entry {nearest[1].number}, wants {', '.join(nearest[2])}"
    )


def call_of_prompt(prompt: str) -> Call:
    """Read the header lines ``Role:``, ``Issue: #12 title`` and ``Attempt:`` of a prompt; the first of each counts."""

    def header(name: str) -> str:
        found = re.search(rf"^{name}:[ \t]*(.*?)[ \t]*$", prompt, re.MULTILINE)
        return found.group(1) if found else ""

    title = re.sub(r"^#\d+\s*", "", header("Issue"))
    attempt = header("Attempt")
    return Call(header("Role"), title, int(attempt) if attempt.isdigit() else 1, prompt)


def _missed(entry: Entry, call: Call) -> list[str]:
    missed = []
    if entry.role is not None and entry.role != call.role:
        missed.append(f"role {entry.role}")
    if entry.issue_title is not None and not fnmatch.fnmatchcase(call.issue_title, entry.issue_title):
        missed.append(f"issue title {entry.issue_title!r}")
    if entry.attempt is not None and entry.attempt != call.attempt:
        missed.append(f"attempt {entry.attempt}")
    missed.extend(f"a prompt with {part!r}" for part in entry.prompt_has if part not in call.prompt)
    return missed


def _entry(raw: Any, number: int, problems: list[str]) -> Entry:
    where = f"entry {number}"
    if not isinstance(raw, dict):
        problems.append(f"{where}: a mapping is expected")
        raw = {}
    problems.extend(f"{where}: unknown key {key!r}" for key in raw if key not in _KEYS)
    role, title, attempt = raw.get("role"), raw.get("issue_title"), raw.get("attempt")
    if role is not None and role not in {known.value for known in Role}:
        problems.append(f"{where}: unknown role {role!r}")
    if title is not None and not isinstance(title, str):
        problems.append(f"{where}: issue_title must be a text")
    if attempt is not None and not _whole(attempt):
        problems.append(f"{where}: attempt must be a whole number")
    has = raw.get("prompt_has", [])
    has = [has] if isinstance(has, str) else has
    if not isinstance(has, list) or not all(isinstance(part, str) for part in has):
        problems.append(f"{where}: prompt_has must be a text or a list of texts")
        has = []
    steps = raw.get("steps", [])
    if not isinstance(steps, list):
        problems.append(f"{where}: steps must be a list")
        steps = []
    parsed = tuple(_step(item, f"{where}, step {index}", problems) for index, item in enumerate(steps, 1))
    say = raw.get("say", f"Played entry {number} of the script with {len(parsed)} steps.")
    say = say if isinstance(say, str) else json.dumps(say, indent=1, ensure_ascii=False)
    return Entry(number, role, title, attempt, tuple(has), parsed, say)


def _step(raw: Any, where: str, problems: list[str]) -> Step:
    if not isinstance(raw, dict) or len(raw) != 1 or next(iter(raw)) not in STEPS:
        problems.append(f"{where}: one of {', '.join(STEPS)} is expected")
        return Step("")
    kind, value = next(iter(raw.items()))
    if fields := STEPS[kind]:
        if (
            not isinstance(value, dict)
            or set(value) != set(fields)
            or not all(isinstance(part, str) for part in value.values())
        ):
            problems.append(f"{where}: {kind} wants the texts {', '.join(fields)}")
            return Step(kind)
        if not _stays_inside(value["path"]):
            problems.append(f"{where}: the path {value['path']!r} leaves the work place")
        return Step(kind, **value)
    if kind == "run" and isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        return Step(kind, argv=tuple(value))
    if kind == "commit" and isinstance(value, str) and value.strip():
        return Step(kind, message=value)
    if kind == "push" and value is True:
        return Step(kind)
    if kind == "sleep" and isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return Step(kind, seconds=float(value))
    if kind == "crash" and _whole(value) and value <= 255:
        return Step(kind, code=value)
    wants = {"run": "a list of texts", "commit": "a message", "push": "true", "sleep": "seconds", "crash": "a code"}
    problems.append(f"{where}: {kind} wants {wants[kind]}")
    return Step(kind)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _stays_inside(path: str) -> bool:
    pure = PurePosixPath(path)
    return bool(pure.parts) and not pure.is_absolute() and ".." not in pure.parts and pure.parts[0] != ".git"
