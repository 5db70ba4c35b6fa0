"""What the providers share: reading event lines, counting, finding a program."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec


def events(output: bytes) -> Iterator[dict[str, Any]]:
    """Give the JSON objects among the lines; other lines (warnings, banners) are passed over."""
    for line in output.splitlines():
        if line.lstrip().startswith(b"{"):
            try:
                event = msgspec.json.decode(line)
            except msgspec.DecodeError:
                continue
            if isinstance(event, dict):
                yield event


def dig(value: Any, *path: str) -> Any:
    """Give what stands at ``path`` in nested objects, or None."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def count(value: Any) -> int | None:
    """Give a number of tokens or turns, None if it is none."""
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def amount(value: Any) -> float | None:
    """Give a sum of money, None if it is none."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def total(*parts: int | None) -> int | None:
    """Add what is known; None if nothing is."""
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def text_of(value: Any) -> str:
    """Give a text; whatever is no text is shown as JSON, nothing is empty."""
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def missing_program(program: str, package: str, env: Mapping[str, str]) -> str:
    """Say that a program is missing and how to get it, or nothing."""
    if shutil.which(program, path=env.get("PATH")):
        return ""
    return f"{program} is not on PATH ({package})"


def missing_login(
    program: str, names: tuple[str, ...], files: tuple[str, ...], env: Mapping[str, str], home: Path
) -> str:
    """Say that there is neither a key in the environment nor a login file, or nothing."""
    if any(env.get(name) for name in names) or any((home / file).is_file() for file in files):
        return ""
    return f"{program} has no login: set one of {', '.join(names)}, or log in with it once"
