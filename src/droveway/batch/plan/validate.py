"""The one validator of plans, for all three entries, and the reader of plan files (BAT-015 … BAT-017)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from droveway.batch.plan.dag import CycleError, tiers
from droveway.batch.plan.model import COMPLEXITIES, TYPES, Plan, PlanCheck, Task
from droveway.batch.plan.scopes import overlaps
from droveway.core.errors import InputError
from droveway.core.text import cut_chars

MAX_PLAN_BYTES = 10 * 1024 * 1024
MAX_TITLE = 200


class ReadPlan(msgspec.Struct, frozen=True):
    """A plan that passed, with its warnings and its id: the file's name without suffix (BAT-013)."""

    plan: Plan
    plan_id: str
    warnings: tuple[str, ...] = ()


def read_plan(path: Path, *, strict_scope: bool = False) -> ReadPlan:
    """Read and validate a plan file; raise InputError with every problem at once."""
    check = check_plan(path, strict_scope=strict_scope)
    if check.plan is None:
        raise InputError(*check.errors)
    return ReadPlan(check.plan, plan_id(path), check.warnings)


def plan_id(path: Path) -> str:
    """Give the id of a plan file: its name without suffix, in the characters that a marker may hold."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).strip("-.")[:100] or "plan"


def check_plan(path: Path, *, strict_scope: bool = False) -> PlanCheck:
    """Read and check a plan file; raise InputError where it is no JSON that could be checked."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_PLAN_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    return validate(decode_plan(raw, str(path)), strict_scope=strict_scope)


def decode_plan(raw: bytes, source: str) -> Any:
    """Decode a plan file's bytes; raise InputError for one that is too large, binary, or no JSON."""
    if len(raw) > MAX_PLAN_BYTES:
        raise InputError(f"{source}: the plan is larger than 10 MB")
    if b"\0" in raw:
        raise InputError(f"{source}: the plan is a binary file, not JSON")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{source}: the plan is not UTF-8 text (byte {error.start})") from None
    if not text.strip():
        raise InputError(f"{source}: the plan is empty")
    try:
        return json.loads(text, object_pairs_hook=_no_doubles)
    except json.JSONDecodeError as error:
        raise InputError(f"{source}: line {error.lineno}, column {error.colno}: not JSON: {error.msg}") from None
    except ValueError as error:
        raise InputError(f"{source}: {error}") from None
    except RecursionError:
        raise InputError(f"{source}: the JSON is nested too deeply") from None


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} stands twice in one object")
        found[key] = value
    return found


def validate(raw: Any, *, strict_scope: bool = False) -> PlanCheck:
    """Check a decoded plan and give every error and warning at once (BAT-015); tasks are numbered from 0.

    With ``strict_scope`` an overlap of scopes is an error instead of a warning (BAT-017).
    """
    found = _Findings()
    if not isinstance(raw, Mapping):
        return PlanCheck((f"the plan is {_kind(raw)}; it must be an object with batch_name and tasks",))
    found.unknown(raw, Plan.__struct_fields__, "")
    read = _Reader(found, raw, "")
    name = read.line("batch_name")
    summary = read.text("pr_summary")
    items = raw.get("tasks")
    if not isinstance(items, Sequence) or isinstance(items, str | bytes):
        found.error(f"tasks is {_kind(items)}; it must be a list" if "tasks" in raw else "tasks is missing")
        return PlanCheck(tuple(found.errors), tuple(found.warnings))
    if not items:
        found.error("tasks is empty; a plan has at least one task")
    tasks = tuple(_task(found, item, index, len(items)) for index, item in enumerate(items))
    if len(name) > MAX_TITLE:
        found.warn(f"batch_name is longer than {MAX_TITLE} characters and was cut")
        name = cut_chars(name, MAX_TITLE)
    plan = Plan(batch_name=name, tasks=tasks, pr_summary=summary)
    tier = _graph(found, plan)
    if tier is not None:
        _doubtful(found, plan, tier, strict_scope=strict_scope)
    return PlanCheck(tuple(found.errors), tuple(found.warnings), None if found.errors else plan)


class _Findings:
    """Collects errors and warnings."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.warnings: list[str] = []
        self.broken_edges = False

    def error(self, text: str) -> None:
        self.errors.append(text)

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def unknown(self, raw: Mapping[Any, Any], known: Sequence[str], where: str) -> None:
        for key in raw:
            if key not in known:
                self.warn(f"{where}unknown key {_shown(key)} is ignored")


def label(index: int, title: str) -> str:
    """Name a task in a message: ``task 3 ("X")``."""
    return f'task {index} ("{cut_chars(title, 60)}")' if title else f"task {index}"


def _task(found: _Findings, raw: Any, index: int, count: int) -> Task:
    if not isinstance(raw, Mapping):
        found.error(f"task {index} is {_kind(raw)}; it must be an object")
        return Task(title="")
    given = raw.get("title")
    where = f"{label(index, ' '.join(given.split()) if isinstance(given, str) and _clean(given) else '')}: "
    found.unknown(raw, Task.__struct_fields__, where)
    read = _Reader(found, raw, where)
    title = read.line("title")
    if len(title) > MAX_TITLE:
        found.warn(f"{where}title is longer than {MAX_TITLE} characters and was cut")
        title = cut_chars(title, MAX_TITLE)
    criteria = read.texts("acceptance_criteria")
    if criteria == ():
        read.error("acceptance_criteria is empty; a task has at least one criterion")
    task = Task(
        title=title,
        description=read.text("description"),
        implementation_details=read.text("implementation_details"),
        acceptance_criteria=criteria or (),
        scope=read.texts("scope") or (),
        conventions=read.texts("conventions") or (),
        context_from_dependencies=read.texts("context_from_dependencies") or (),
        complexity=read.text("complexity"),
        type=read.text("type"),
        runner_label=read.text("runner_label"),
        depends_on=_dependencies(found, raw, where, index, count),
        manual=read.flag("manual"),
        timeout_minutes=read.integer("timeout_minutes", 1, 7 * 24 * 60),
        model=read.text("model"),
        priority=read.integer("priority", -1_000_000, 1_000_000) or 0,
    )
    for name, choices in (("complexity", COMPLEXITIES), ("type", TYPES)):
        if (value := getattr(task, name)) not in choices:
            read.error(f"{name} is {_shown(value)}; it must be empty or one of {', '.join(choices[1:])}")
    return task


def _dependencies(found: _Findings, raw: Mapping[Any, Any], where: str, index: int, count: int) -> tuple[int, ...]:
    given = raw.get("depends_on")
    if given is None:
        return ()
    before = len(found.errors)
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        found.error(f"{where}depends_on is {_kind(given)}; it must be a list of task indices")
        given = ()
    kept: dict[int, None] = {}
    for place, value in enumerate(given):
        if not _is_integer(value):
            found.error(f"{where}depends_on[{place}] is {_shown(value)}; it must be the 0-based index of a task")
        elif not 0 <= value < count:
            found.error(f"{where}depends_on[{place}]={value} is out of range [0,{count})")
        elif value == index:
            found.error(f"{where}depends_on[{place}]={value} is the task itself")
        else:
            kept[value] = None
    found.broken_edges |= len(found.errors) > before
    return tuple(kept)


def _graph(found: _Findings, plan: Plan) -> dict[int, int] | None:
    """Give the tiers; None where the edges are broken or go round."""
    if found.broken_edges:
        return None
    try:
        return plan_tiers(plan)
    except CycleError as cycle:
        found.error(f"circular dependency: {cycle}")
        return None


def plan_tiers(plan: Plan) -> dict[int, int]:
    """Give the tier of each task by its index; raise CycleError."""
    return tiers({index: task.depends_on for index, task in enumerate(plan.tasks)})


def _doubtful(found: _Findings, plan: Plan, tier: Mapping[int, int], *, strict_scope: bool) -> None:
    """Add what is legal and probably not meant."""
    tasks = plan.tasks
    scopes = {index: task.scope for index, task in enumerate(tasks) if task.scope and not task.manual}
    say = found.error if strict_scope else found.warn
    for a, b, path, other in overlaps(scopes, tier):
        what = path if path == other else f"{path} and {other}"
        say(f"{label(a, tasks[a].title)} and {label(b, tasks[b].title)} may run at the same time and overlap: {what}")
    needed = {other for task in tasks for other in task.depends_on}
    for index, task in enumerate(tasks):
        if task.manual and tier[index] > 0 and index in needed:
            found.warn(
                f"{label(index, task.title)}: a manual task that later tasks need stands in tier {tier[index]};"
                " in tier 0 it could be done while others work"
            )
    titles: dict[str, int] = {}
    for index, task in enumerate(tasks):
        first = titles.setdefault(task.title.casefold(), index)
        if task.title and first != index:
            found.warn(f"{label(index, task.title)}: has the same title as task {first}")


# --- values ----------------------------------------------------------------------------------------------------------


class _Reader:
    """Takes typed values out of one object; a value of the wrong type is an error and reads as absent."""

    def __init__(self, found: _Findings, raw: Mapping[Any, Any], where: str) -> None:
        self._found = found
        self._raw = raw
        self._where = where

    def error(self, text: str) -> None:
        self._found.error(f"{self._where}{text}")

    def line(self, name: str) -> str:
        """Give a text that must be there, on one line."""
        before = len(self._found.errors)
        text = " ".join(self.text(name).split())
        if not text and len(self._found.errors) == before:
            self.error(f"{name} is {'missing' if self._raw.get(name) is None else 'blank'}")
        return text

    def text(self, name: str) -> str:
        value = self._raw.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            self.error(f"{name} is {_kind(value)}; it must be text")
            return ""
        if not _clean(value):
            self.error(f"{name} holds characters that are no text (NUL or half a surrogate pair)")
            return ""
        return value

    def texts(self, name: str) -> tuple[str, ...] | None:
        """Give a list of one-line texts without blank ones; None where it is wrong."""
        value = self._raw.get(name)
        if value is None:
            return ()
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            self.error(f"{name} is {_kind(value)}; it must be a list of texts")
            return None
        wrong = [place for place, item in enumerate(value) if not isinstance(item, str) or not _clean(item)]
        for place in wrong:
            self.error(f"{name}[{place}] is {_kind(value[place])}; it must be text")
        return None if wrong else tuple(line for item in value if (line := " ".join(item.split())))

    def integer(self, name: str, low: int, high: int) -> int | None:
        value = self._raw.get(name)
        if value is None:
            return None
        if not _is_integer(value) or not low <= value <= high:
            self.error(f"{name} is {_shown(value)}; it must be a whole number from {low} to {high}")
            return None
        return int(value)

    def flag(self, name: str) -> bool:
        value = self._raw.get(name)
        if value is not None and not isinstance(value, bool):
            self.error(f"{name} is {_shown(value)}; it must be true or false")
        return value is True


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _clean(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case Mapping():
            return "an object"
        case Sequence():
            return "a list"
        case _:
            return f"a {type(value).__name__}"


def _shown(value: Any) -> str:
    """Show a value in a message, cut."""
    try:
        text = json.dumps(value, ensure_ascii=True)
    except (TypeError, ValueError):
        text = repr(value)
    return cut_chars(text, 60)


def plan_as_json(plan: Plan) -> str:
    """Give the plan file's form of a plan, for keeping it and for editing it."""
    return msgspec.json.format(msgspec.json.encode(plan), indent=2).decode() + "\n"
