"""Effect keys and the hidden markers by which an effect is found again on the forge (BAT-004)."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

_MARKER = re.compile(r"<!-- herd:([a-z][a-z0-9-]*) (\{.*?\}) -->", re.DOTALL)
_PLAN = re.compile(r"<!-- herd:plan ([A-Za-z0-9._-]+)/(\d+) -->")


class Key(msgspec.Struct, frozen=True, order=True):
    """The identity of one effect: ``<rule>/<owner>/<name>/<subject>/<head or ->/<ordinal>``.

    ``subject`` is ``issue:12``, ``pr:7``, ``batch:3`` or ``session:…``. Two effects with one key are one effect.
    """

    rule: str
    repo: str
    subject: str
    head: str = "-"
    ordinal: str = "0"

    def __str__(self) -> str:
        """Give the wire form."""
        return f"{self.rule}/{self.repo}/{self.subject}/{self.head or '-'}/{self.ordinal}"

    @classmethod
    def parse(cls, text: str) -> Key:
        """Read the wire form; raise ValueError where it is none."""
        parts = text.split("/")
        if len(parts) != 6 or not all(parts):
            raise ValueError(f"not an effect key: {text!r}")
        rule, owner, name, subject, head, ordinal = parts
        return cls(rule, f"{owner}/{name}", subject, head, ordinal)


def marker(kind: str, payload: dict[str, Any]) -> str:
    """Render ``<!-- herd:<kind> {json} -->``; the JSON can hold neither ``<`` nor ``>``, so nothing closes it early."""
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
    return f"<!-- herd:{kind} {text.replace('<', chr(92) + 'u003c').replace('>', chr(92) + 'u003e')} -->"


def find_markers(text: str, kind: str) -> list[dict[str, Any]]:
    """Give the payloads of all well-formed markers of ``kind`` in ``text``, in order; malformed ones are skipped.

    Whoever calls has checked that the text was written by our own identity: a marker of anyone else counts for nothing.
    """
    found = []
    for name, raw in _MARKER.findall(text or ""):
        if name != kind:
            continue
        try:
            payload = json.loads(raw)
        except ValueError:
            continue
        if isinstance(payload, dict):
            found.append(payload)
    return found


def find_marker(text: str, kind: str) -> dict[str, Any] | None:
    """Give the first well-formed marker of ``kind``, or None."""
    found = find_markers(text, kind)
    return found[0] if found else None


def message_marker(kind: str, key: Key | str) -> str:
    """Render the marker that ends every comment, issue and PR that we write (BAT-004)."""
    return marker("msg", {"v": 1, "kind": kind, "key": str(key)})


def message_key(text: str) -> str | None:
    """Give the effect key in a text of ours, or None."""
    found = find_markers(text, "msg")
    return str(found[-1].get("key")) if found and found[-1].get("key") else None


def message_kind(text: str) -> str | None:
    """Give the kind of a text of ours, or None."""
    found = find_markers(text, "msg")
    return str(found[-1].get("kind")) if found and found[-1].get("kind") else None


def plan_marker(plan_id: str, index: int) -> str:
    """Render the marker by which a rerun finds the issue of a plan's task (BAT-021); ``index`` counts from 0."""
    return f"<!-- herd:plan {plan_id}/{index} -->"


def find_plan(text: str) -> tuple[str, int] | None:
    """Give ``(plan id, index)`` of a body of ours, or None."""
    match = _PLAN.search(text or "")
    return (match.group(1), int(match.group(2))) if match else None
