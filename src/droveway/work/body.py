"""The codec of an issue's body: front matter, sections, and back; what is left alone stays as it is (BAT-024 … 029)."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import msgspec

from droveway.work.frontmatter import BlockError, FrontMatter, parse_block, render_block, split_block
from droveway.work.sections import Criterion, Section, bullets, checkboxes, contained, split_sections, unticked

TASK = "Task"
IMPLEMENTATION = "Implementation Details"
CONVENTIONS = "Conventions"
DEPENDENCIES = "Context from Dependencies"
CRITERIA = "Acceptance Criteria"
CONTEXT = "Context"
CONVERSATION = "Conversation History"
FILES = "Files to Modify"
ORDER = (TASK, IMPLEMENTATION, CONVENTIONS, DEPENDENCIES, CRITERIA, CONTEXT, CONVERSATION, FILES)
_MARKER = re.compile(r"<!--\s*/?herd:.*?-->", re.DOTALL)


class Unreadable(msgspec.Struct, frozen=True):
    """The block is there and does not parse (BAT-027); ``error`` is one line."""

    error: str


class IssueBody(msgspec.Struct, frozen=True):
    """A body that reads. ``block`` is the front matter's exact source, empty where there is none.

    Change it by ``msgspec.structs.replace(body, front=…)`` or ``with_section``; what is left alone renders unchanged.
    """

    front: FrontMatter = FrontMatter()
    sections: tuple[Section, ...] = ()
    block: str = ""

    def section(self, title: str) -> str:
        """Give the text of the first section with this title (without our markers), or nothing."""
        found = next((s for s in self.sections if s.title.casefold() == title.casefold()), None)
        return without_markers(found.text) if found else ""

    @property
    def task(self) -> str:
        """Give the task: its section, or all of a body that has none (a plain prompt)."""
        return self.section(TASK) or without_markers("".join(s.raw for s in self.sections))

    @property
    def conventions(self) -> tuple[str, ...]:
        """Give the conventions."""
        return bullets(self.section(CONVENTIONS))

    @property
    def dependencies_context(self) -> tuple[str, ...]:
        """Give what the task must know of its dependencies."""
        return bullets(self.section(DEPENDENCIES))

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """Give the acceptance criteria."""
        return checkboxes(self.section(CRITERIA))

    @property
    def files(self) -> tuple[str, ...]:
        """Give the files to modify."""
        return tuple(unticked(item) for item in bullets(self.section(FILES)))

    def with_section(self, title: str, text: str) -> IssueBody:
        """Replace a section's text, or add the section at its place in the order."""
        fresh = _section(title, text)
        if any(s.title == title for s in self.sections):
            return msgspec.structs.replace(
                self, sections=tuple(fresh if s.title == title else s for s in self.sections)
            )
        after = ORDER.index(title) if title in ORDER else len(ORDER)
        later = [i for i, s in enumerate(self.sections) if s.title in ORDER and ORDER.index(s.title) > after]
        at = later[0] if later else len(self.sections)
        before = [*self.sections[:at]]
        if before and not before[-1].raw.endswith(("\n\n", "\r\n\r\n")):
            before[-1] = Section(before[-1].title, before[-1].raw.rstrip("\r\n") + "\n\n")
        return msgspec.structs.replace(self, sections=(*before, fresh, *self.sections[at:]))


def parse_body(text: str) -> IssueBody | Unreadable:
    """Read a body; a block that does not parse gives Unreadable, a body without a block is a plain prompt."""
    return _parsed(text or "")


@functools.lru_cache(maxsize=1024)  # every snapshot brings all bodies again, and nearly all are as they were
def _parsed(text: str) -> IssueBody | Unreadable:
    try:
        block, rest = split_block(text)
        front = parse_block(block) if block else FrontMatter()
    except BlockError as error:
        return Unreadable(str(error))
    return IssueBody(front, split_sections(rest), block)


def render_body(body: IssueBody) -> str:
    """Give the body's text: exactly what was read where nothing changed."""
    rest = "".join(section.raw for section in body.sections)
    if body.block:
        block = body.block if parse_block(body.block) == body.front else render_block(body.front)
        return block + rest
    return rest if body.front == FrontMatter() else f"{render_block(body.front)}\n{rest}"


def make_body(
    front: FrontMatter,
    *,
    task: str,
    implementation_details: str = "",
    conventions: Sequence[str] = (),
    context_from_dependencies: Sequence[str] = (),
    acceptance_criteria: Sequence[str] = (),
    context: str = "",
    conversation: str = "",
    files: Sequence[str] = (),
    more: Sequence[tuple[str, str]] = (),
) -> IssueBody:
    """Build a body from its parts; ``more`` are further sections (title, text). No part breaks out of its section."""
    parts = [
        (TASK, task),
        (IMPLEMENTATION, implementation_details),
        (CONVENTIONS, _list(conventions)),
        (DEPENDENCIES, _list(context_from_dependencies)),
        (CRITERIA, _list(acceptance_criteria, "- [ ] ")),
        (CONTEXT, context),
        (CONVERSATION, conversation),
        (FILES, "\n".join(f"- `{name}`" for name in files)),
        *more,
    ]
    made = tuple(_section(title, text) for title, text in parts if text.strip() or title == TASK)
    return IssueBody(front, made)


def _section(title: str, text: str) -> Section:
    return Section(title, f"## {title}\n\n{contained(text)}\n\n")


def _list(items: Sequence[str], bullet: str = "- ") -> str:
    """Write one bullet per item; further lines are indented so that they stay in it."""
    return "\n".join(bullet + item.strip().replace("\n", "\n  ") for item in items if item.strip())


def without_markers(text: str) -> str:
    """Take our own hidden markers out of a text that goes to an agent."""
    return _MARKER.sub("", text).strip()
