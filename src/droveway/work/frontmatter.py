"""The ``---`` block at the top of an issue's body: one key ``herd:`` with the fields of BAT-024, in their order."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import yaml

_BLOCK = re.compile(r"\A\ufeff?---[ \t]*(?:\r\n?|\n)(.*?)^---[ \t]*(?:(?:\r\n?|\n)|\Z)", re.MULTILINE | re.DOTALL)
_OPEN = re.compile(r"\A\ufeff?---[ \t]*(?:\r\n?|\n)")
_HERD = re.compile(r"^herd[ \t]*:", re.MULTILINE)
_FAST = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FLOW = ("depends_on", "conflicting_branches")


class FrontMatter(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a body says of its task. A field that equals its default is absent (BAT-024).

    ``depends_on``, ``target_pr``, ``batch_pr`` and ``origin`` are numbers on the forge; ``priority`` higher is sooner;
    ``timeout_minutes`` and ``model`` override the settings for this task (BAT-014).
    """

    version: int = 1
    batch: int | None = None
    depends_on: tuple[int, ...] = ()
    scope: tuple[str, ...] = ()
    estimated_complexity: str = ""
    runner_label: str = ""
    type: str = ""
    fix_cycle: int = 0
    target_pr: int | None = None
    target_branch: str = ""
    batch_pr: int | None = None
    pr_head_sha: str = ""
    pr_base_sha: str = ""
    ci_fix_cycle: int = 0
    conflict_resolution: bool = False
    conflicting_branches: tuple[str, ...] = ()
    branch: str = ""
    origin: int | None = None
    priority: int = 0
    timeout_minutes: int | None = None
    model: str = ""

    @property
    def is_resolver(self) -> bool:
        """Whether the issue resolves a conflict (BAT-029)."""
        return self.conflict_resolution

    @property
    def is_ci_fix(self) -> bool:
        """Whether the issue repairs CI (BAT-029)."""
        return self.ci_fix_cycle > 0

    @property
    def is_review_fix(self) -> bool:
        """Whether the issue repairs review findings (BAT-029)."""
        return self.type == "fix" and not self.is_ci_fix and not self.is_resolver

    @property
    def is_fix_type(self) -> bool:
        """Whether it is any of the three: such an issue is no part of the tier graph (BAT-102)."""
        return self.is_resolver or self.is_ci_fix or self.type == "fix"

    @property
    def is_standalone(self) -> bool:
        """Whether the issue is a fix on a PR that is no batch PR."""
        return self.type == "standalone-fix"


class BlockError(ValueError):
    """The block is there and does not parse (BAT-027)."""


def split_block(text: str) -> tuple[str, str]:
    """Give ``(block, rest)``; ``block + rest == text``. The block is empty where the body has none.

    A rule of dashes at the top that is followed by no ``herd:`` key is ordinary Markdown. Raises BlockError where the
    block is not closed.
    """
    found = _BLOCK.match(text)
    if found and _HERD.search(found.group(1).replace("\r", "\n")):
        return text[: found.end()], text[found.end() :]
    if not found and _OPEN.match(text) and _HERD.search(text.replace("\r", "\n")):
        raise BlockError("the block that starts with --- is not closed by a line ---")
    return "", text


def _load(text: str) -> Any:
    """Read YAML by the fast safe loader, where there is one; what it refuses the plain one tells in better words."""
    try:
        return yaml.load(text, Loader=_FAST)  # noqa: S506 - it is a safe loader
    except yaml.YAMLError:
        return yaml.safe_load(text)


def parse_block(block: str) -> FrontMatter:
    """Read a block. Raises BlockError with one line that says what is wrong."""
    found = _BLOCK.match(block)
    if not found:
        raise BlockError("the block is not closed")
    try:
        raw = _load(found.group(1))
    except yaml.YAMLError as error:
        raise BlockError(" ".join(str(error).split())) from None
    except ValueError as error:  # a date or number that YAML takes for one, and Python does not
        raise BlockError(str(error)) from None
    if not isinstance(raw, dict) or set(raw) != {"herd"}:
        raise BlockError("the block must hold exactly one key, herd")
    fields = raw["herd"] if raw["herd"] is not None else {}
    if not isinstance(fields, dict):
        raise BlockError("herd must be a mapping of fields")
    try:
        front = msgspec.convert(fields, FrontMatter)
    except (msgspec.ValidationError, TypeError) as error:
        raise BlockError(str(error)) from None
    if front.version != 1:
        raise BlockError(f"version {front.version} is not known; this program reads version 1")
    if any(number < 1 for number in front.depends_on):
        raise BlockError("depends_on holds a number below 1")
    return front


def render_block(front: FrontMatter) -> str:
    """Give the block's text, every string quoted (BAT-026)."""
    fields: dict[str, Any] = {"version": front.version, **msgspec.to_builtins(front)}
    lines = ["---", "herd:"]
    for name, value in fields.items():
        if isinstance(value, list | tuple) and name not in _FLOW:
            lines.append(f"  {name}:")
            lines += [f"    - {_scalar(item)}" for item in value]
        elif isinstance(value, list | tuple):
            lines.append(f"  {name}: [{', '.join(_scalar(item) for item in value)}]")
        else:
            lines.append(f"  {name}: {_scalar(value)}")
    return "\n".join([*lines, "---", ""])


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    text: str = yaml.dump(str(value), Dumper=yaml.SafeDumper, default_style='"', allow_unicode=True, width=1 << 30)
    return text.rstrip("\n")
