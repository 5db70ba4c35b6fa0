"""Output contracts: the one JSON object that an agent's answer must hold, read strictly (AGT-006, case D03)."""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar

import msgspec

from droveway.core.errors import HerdError

T = TypeVar("T")
_LOOKS_LIKE_JSON = re.compile(r'\{\s*(?:"[^"\n]*"\s*:|\})')


class OutputError(HerdError):
    """An agent's answer is not what its contract asks for; the message tells the agent what is wrong."""


def schema(type_: type[Any]) -> dict[str, Any]:
    """Give the JSON schema of a contract's type."""
    return msgspec.json.schema(type_)


def parse_output(text: str, type_: type[T], *, exactly_one: bool = False) -> T:
    """Give the last complete JSON object of ``text``, in a fence or not, as ``type_``.

    ``exactly_one`` (a review, REV-032): any second object makes the answer void. An object that is cut off or broken
    after the last complete one makes it void as well: what comes last is the answer. Nothing inside a broken object
    is taken for the object. Raises OutputError, which names the field of a wrong type.
    """
    if not text.strip():
        raise OutputError("the answer is empty; one JSON object is expected")
    complete: list[dict[str, Any]] = []
    problem = ""
    for source in _candidates(text):
        try:
            complete.append(_decode(source))
            problem = "" if not exactly_one else problem
        except ValueError as error:
            problem = str(error)
    if problem:
        raise OutputError(f"the answer's JSON object is broken: {problem}")
    if not complete:
        raise OutputError("the answer holds no JSON object; one is expected")
    if exactly_one and len(complete) > 1:
        raise OutputError(f"the answer holds {len(complete)} JSON objects; exactly one is expected")
    try:
        return msgspec.convert(complete[-1], type_)
    except msgspec.ValidationError as error:
        raise OutputError(f"the answer's JSON object does not fit: {error}") from error


def _candidates(text: str) -> list[str]:
    """Give the outermost stretches that look like JSON objects, whole or cut off."""
    found = []
    at = 0
    while (start := _LOOKS_LIKE_JSON.search(text, at)) is not None:
        end = _end(text, start.start())
        found.append(text[start.start() : end])
        at = end
    return found


def _end(text: str, start: int) -> int:
    """Give the end of the object that begins at ``start``: behind its closing brace, or the end of the text."""
    depth = 0
    in_string = False
    at = start
    while at < len(text):
        char = text[at]
        if in_string:
            if char == "\\":
                at += 1
            elif char == '"':
                in_string = False
        elif char == '"':
            in_string = True
        elif char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return len(text)


def _decode(source: str) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a key stands twice in one object")
        return found

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is no JSON value")

    value: dict[str, Any] = json.loads(source, object_pairs_hook=unique, parse_constant=refuse)
    return value
