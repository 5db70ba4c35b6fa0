"""Splits Markdown at its level-2 headings as Markdown means them (BAT-028)."""

from __future__ import annotations

import itertools
import re

import msgspec
from markdown_it import MarkdownIt
from markdown_it.token import Token

from droveway.core.text import code_fence

_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+\Z")
_HEADING = re.compile(r"^ {0,3}##(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_DETAILS = re.compile(r"<(/?)details\b", re.IGNORECASE)
_BULLET = re.compile(r"^[-*+][ \t]+(.*)$")
_CHECKBOX = re.compile(r"^[-*+][ \t]+\[([ xX])\][ \t]+(.*)$")
_CLOSERS = ("-->", "?>", "]]>", ">", "</script>", "</style>", "</textarea>", "</pre>")
_SENTINEL = "droveway-sentinel"
_MARKDOWN = MarkdownIt("commonmark")


class Section(msgspec.Struct, frozen=True):
    """A level-2 section. ``raw`` is its exact source with the heading; the preamble's title is empty."""

    title: str
    raw: str

    @property
    def text(self) -> str:
        """Give the content without the heading."""
        lines = _LINE.findall(self.raw)
        return "".join(lines[1:] if self.title else lines).strip()


class Criterion(msgspec.Struct, frozen=True):
    """One checkbox: its text and whether it is ticked."""

    text: str
    done: bool = False


def split_sections(text: str) -> tuple[Section, ...]:
    """Split at level-2 headings that stand at the top level; joining the ``raw`` gives ``text`` again.

    A ``## `` inside a code fence, an HTML comment, a details block, a quote or a list starts no section.
    """
    lines = _LINE.findall(text)
    starts = _heading_lines(text)
    bounds = [0, *starts, len(lines)]
    found = []
    for begin, end in itertools.pairwise(bounds):
        raw = "".join(lines[begin:end])
        heading = _HEADING.match(lines[begin].rstrip("\r\n")) if begin in starts else None
        title = (heading.group(1) or "").strip() if heading else ""
        if raw:
            found.append(Section(title, raw))
    return tuple(found)


def _heading_lines(text: str) -> list[int]:
    tokens = _MARKDOWN.parse(text)
    hidden = _details(tokens).ranges
    lines = _LINE.findall(text)
    found = []
    for token in tokens:
        if token.type != "heading_open" or token.markup != "##" or token.level != 0 or not token.map:
            continue
        line = token.map[0]
        heading = _HEADING.match(lines[line].rstrip("\r\n"))
        if heading and heading.group(1) and not any(a <= line < b for a, b in hidden):
            found.append(line)
    return found


class _Details(msgspec.Struct, frozen=True):
    """The details blocks of a text: line ranges of those that are closed, and what is left over."""

    ranges: tuple[tuple[int, int], ...] = ()
    unclosed: int = 0
    stray: int = 0


def _details(tokens: list[Token]) -> _Details:
    open_at: list[int] = []
    ranges = []
    stray = 0
    for token in tokens:
        if token.type not in ("html_block", "inline") or not token.map:
            continue
        inline = [child.content for child in token.children or () if child.type == "html_inline"]
        for part in [token.content] if token.type == "html_block" else inline:
            bare = re.sub(r"<!--.*?-->", "", part, flags=re.DOTALL)
            for slash in _DETAILS.findall(bare):
                if not slash:
                    open_at.append(token.map[0])
                elif open_at:
                    ranges.append((open_at.pop(), token.map[1]))
                else:
                    stray += 1
    return _Details(tuple(ranges), len(open_at), stray)


def contained(text: str) -> str:
    """Give ``text`` so that it neither starts a section of its own nor swallows the one that follows it.

    Level-2 headings become level 3; an open fence or comment is closed; what can't be closed goes into a fence whole.
    """
    text = text.strip()
    lines = _LINE.findall(text)
    for line in _heading_lines(text):
        lines[line] = lines[line].replace("##", "###", 1)
    text = "".join(lines).rstrip()
    for _ in range(8):
        if _ends(text):
            return text
        closed = next((text + "\n" + closer for closer in _closers(text) if _ends(text + "\n" + closer)), None)
        if closed:
            return closed
        break
    return code_fence(text)


def _ends(text: str) -> bool:
    """Whether a heading right after ``text`` starts a section."""
    left = _details(_MARKDOWN.parse(text))
    if left.unclosed or left.stray:  # it would pair with one in another section
        return False
    found = split_sections(f"{text}\n\n## {_SENTINEL}\n")
    return len(found) <= 2 and bool(found) and found[-1].title == _SENTINEL and (len(found) == 1 or not found[0].title)


def _closers(text: str) -> list[str]:
    tokens = _MARKDOWN.parse(text)
    fences = [token.markup for token in tokens if token.type == "fence" and token.level == 0]
    closers = [*fences[-1:], *_CLOSERS]
    depth = _details(tokens).unclosed
    if depth:
        closers = ["\n" + "\n".join(["</details>"] * depth), *closers]
    return closers


def bullets(text: str) -> tuple[str, ...]:
    """Give the top-level bullets of a section; a continued line belongs to its bullet."""
    found: list[str] = []
    for line in text.splitlines():
        bullet = _BULLET.match(line)
        if bullet:
            found.append(bullet.group(1).strip())
        elif found and line[:1] in (" ", "\t") and line.strip():
            found[-1] += "\n" + line.strip()
    return tuple(found)


def checkboxes(text: str) -> tuple[Criterion, ...]:
    """Give the checkboxes of a section: ``- [ ]``, and ``- [x]`` or ``- [X]`` as done."""
    return tuple(
        Criterion(box.group(2).strip(), box.group(1) != " ")
        for line in text.splitlines()
        if (box := _CHECKBOX.match(line.strip()))
    )


def unticked(code: str) -> str:
    """Take the back-ticks off a bullet that is code."""
    return code[1:-1].strip() if len(code) > 1 and code[0] == code[-1] == "`" else code
