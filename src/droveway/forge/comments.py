"""The one place where texts are posted and read: key, size, parts (BAT-004, BAT-005, BAT-030, BAT-031, case L01).

Text of others is made inert by whoever builds the message (``neutralise``); secrets are taken out on the way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from droveway.core.keys import Key, find_marker, find_markers, marker, message_key, message_marker
from droveway.core.repo import RepoId
from droveway.core.text import byte_length, neutralise
from droveway.core.vocabulary import Message
from droveway.forge.model import Comment, Issue
from droveway.forge.port import Forge, ForgeError

LIMIT = 65_000  # bytes; the forge's own limit is 65,536 characters, which is never less
PART = 64_920
_SLACK = 200
_RESERVE = 300  # for the visible note and the marker that announces the parts
_MARKERS = re.compile(r"(?:\s*<!-- herd:[^\n]*? -->)+\s*\Z")
_CONTINUES = "\n\n_The text continues in the comments below: {of} part{s}._\n\n"
_CONTINUED = re.compile(r"\n\n_The text continues in the comments below: \d+ parts?\._\s*\Z")
_HEADING = re.compile(r"\A_Part \d+ of \d+ \(continued from issue body\)\._\n\n")

__all__ = [
    "LIMIT",
    "PART",
    "MissingPartError",
    "Parts",
    "find_by_key",
    "find_issue",
    "fit",
    "join_parts",
    "neutralise",
    "post",
    "put",
    "put_parts",
    "render",
    "split_body",
]


class MissingPartError(ValueError):
    """A part of a long body is not there; the message says which (BAT-031)."""


class Parts(msgspec.Struct, frozen=True):
    """A body as it is posted: the first text with all markers, and what follows in comments."""

    first: str
    rest: tuple[str, ...] = ()


def render(body: str, message: Message | str, key: str, markers: Sequence[str] = ()) -> str:
    """Make a comment: the body, cut where it is too long, the markers, and ours with the key at the end."""
    tail = "\n".join([*markers, message_marker(str(message), key)])
    return fit(body, tail)


def fit(body: str, tail: str = "") -> str:
    """Cut a body so that it and ``tail`` fit; fences are closed, the cut is told, the tail stays whole."""
    body, own = _without_markers(body)
    tail = "\n".join(part for part in (own, tail) if part)
    end = f"\n\n{tail}" if tail else ""
    if byte_length(body) + byte_length(end) <= LIMIT:
        return body + end
    note = f"\n\n_…[cut: {len(body):,} characters in all, the rest is left out]_"
    head, _ = cut_at(body, LIMIT - byte_length(end) - byte_length(note) - 20)
    return head.rstrip() + _fence_end(head) + note + end


def split_body(body: str, tail: str = "") -> Parts:
    """Give a body of an issue as it is posted: what is over the limit goes into parts, markers stay in the first."""
    body, own = _without_markers(body)
    tail = "\n".join(part for part in (own, tail) if part)
    end = f"\n\n{tail}" if tail else ""
    if byte_length(body) + byte_length(end) <= LIMIT:
        return Parts(body + end)
    head, rest = cut_at(body, LIMIT - byte_length(end) - _RESERVE)
    texts: list[str] = []
    while byte_length(rest) > (LIMIT if not texts else PART):
        part, rest = cut_at(rest, PART)
        texts.append(part)
    if rest:
        texts.append(rest)
    of = len(texts)
    note = _CONTINUES.format(of=of, s="" if of == 1 else "s")
    return Parts(head + note + marker("body-continues", {"of": of}) + (f"\n{tail}" if tail else ""), tuple(texts))


def part_text(repo: RepoId | str, number: int, text: str, n: int, of: int) -> str:
    """Make the comment of one part."""
    key = Key("BAT-031", str(repo), f"issue:{number}", "-", str(n))
    marks = f"{marker('body-part', {'n': n, 'of': of})}\n{message_marker(Message.BODY_PART, key)}"
    return f"_Part {n} of {of} (continued from issue body)._\n\n{text}\n\n{marks}"


def join_parts(body: str, comments: Iterable[Comment]) -> str:
    """Give the whole text of a body that was posted in parts, exactly as it was, with its markers at the end.

    Only parts of our own identity count. Raises MissingPartError where one is missing.
    """
    announced = find_marker(body, "body-continues")
    of = announced.get("of") if announced else None
    if not isinstance(of, int):
        return body
    texts: dict[int, str] = {}
    for comment in comments:
        part = find_marker(comment.body, "body-part") if comment.ours else None
        if part and part.get("of") == of and isinstance(part.get("n"), int):
            plain, _, _ = _lines(comment.body).rpartition("\n\n<!-- herd:body-part")
            texts.setdefault(part["n"], _HEADING.sub("", plain))
    missing = [str(n) for n in range(1, of + 1) if n not in texts]
    if missing:
        raise MissingPartError(
            f"part {', '.join(missing)} of {of} of the issue's body is missing; restore the comment or the text"
        )
    head, own = _without_markers(body)
    own = "\n".join(line for line in own.splitlines() if "<!-- herd:body-continues " not in line)
    whole = _CONTINUED.sub("", head) + "".join(texts[n] for n in range(1, of + 1))
    return whole + (f"\n\n{own}" if own else "")


def cut_at(text: str, limit: int) -> tuple[str, str]:
    """Cut within ``limit`` bytes: in the last 200 after a blank line, else after a newline, else anywhere.

    Nothing is lost: both parts together are the text.
    """
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit:
        return text, ""
    head = raw[:limit].decode("utf-8", "ignore")
    window = len(raw[: max(limit - _SLACK, 0)].decode("utf-8", "ignore"))
    for mark in ("\n\n", "\n"):
        at = head.rfind(mark, window)
        if at >= 0:
            head = head[: at + len(mark)]
            break
    return head, text[len(head) :]


def find_by_key(comments: Iterable[Comment], key: str) -> Comment | None:
    """Give the first comment of ours that carries the key."""
    return next((each for each in comments if each.ours and message_key(each.body) == key), None)


def find_issue(issues: Iterable[Issue], key: str, login: str) -> Issue | None:
    """Give the oldest issue of ours that carries the key."""
    mine = [each for each in issues if each.author.lower() == login.lower() and message_key(each.body) == key]
    return min(mine, key=lambda each: each.number, default=None)


async def post(
    forge: Forge,
    repo: RepoId,
    number: int,
    message: Message,
    key: str,
    body: str,
    markers: Sequence[str] = (),
    *,
    seen: Sequence[Comment] | None = None,
) -> Comment:
    """Post a comment once: one of ours with this key is the answer. A lost answer is followed by another look.

    ``seen`` are the comments where they were read just now.
    """
    found = find_by_key(await forge.comments(repo, number) if seen is None else seen, key)
    if found:
        return found
    try:
        return await forge.create_comment(repo, number, render(body, message, key, markers))
    except ForgeError as error:
        if error.status and error.status < 500:
            raise
        found = find_by_key(await forge.comments(repo, number), key)
        if found is None:
            raise
        return found


async def put(
    forge: Forge,
    repo: RepoId,
    number: int,
    message: Message,
    key: str,
    body: str,
    markers: Sequence[str] = (),
    *,
    seen: Sequence[Comment] | None = None,
) -> Comment:
    """Give the comment of ours with this key this text; post it where there is none. ``seen``: as for ``post``."""
    there = await forge.comments(repo, number) if seen is None else seen
    found = find_by_key(there, key)
    if found is None:
        return await post(forge, repo, number, message, key, body, markers, seen=there)
    text = render(body, message, key, markers)
    return found if _lines(found.body) == text else await forge.edit_comment(repo, found.id, text)


def parts_stand(comments: Sequence[Comment], repo: RepoId, number: int, parts: Sequence[str]) -> bool:
    """Whether the comments hold exactly these parts."""
    wanted = {part_text(repo, number, text, n, len(parts)) for n, text in enumerate(parts, 1)}
    there = {_lines(each.body) for each in comments if each.ours and find_markers(each.body, "body-part")}
    return wanted == there


async def put_parts(forge: Forge, repo: RepoId, number: int, parts: Sequence[str]) -> None:
    """Make the parts of an issue's body these: missing ones posted, others edited, surplus ones made void."""
    old: dict[int, Comment] = {}
    for comment in await forge.comments(repo, number):
        found = find_marker(comment.body, "body-part") if comment.ours else None
        if found and isinstance(found.get("n"), int):
            old.setdefault(found["n"], comment)
    for n, text in enumerate(parts, 1):
        wanted = part_text(repo, number, text, n, len(parts))
        there = old.pop(n, None)
        if there is None:
            await forge.create_comment(repo, number, wanted)
        elif _lines(there.body) != wanted:
            await forge.edit_comment(repo, there.id, wanted)
    for n, comment in old.items():
        key = Key("BAT-031", str(repo), f"issue:{number}", "-", str(n))
        await forge.edit_comment(
            repo, comment.id, f"_This part is no longer used._\n\n{message_marker(Message.BODY_PART, key)}"
        )


def _without_markers(body: str) -> tuple[str, str]:
    """Take the markers at the end off a body: a cut must not lose them."""
    found = _MARKERS.search(body)
    if not found:
        return body, ""
    return body[: found.start()], "\n".join(re.findall(r"<!-- herd:[^\n]*? -->", found.group(0)))


def _lines(text: str) -> str:
    """Give a text with plain newlines: an edit on the web pages turns them into CRLF."""
    return text.replace("\r\n", "\n")


def _fence_end(text: str) -> str:
    """Give what closes a code fence that the text leaves open."""
    fence = ""
    for line in text.splitlines():
        found = re.match(r"\s{0,3}(`{3,}|~{3,})", line)
        if not found:
            continue
        if not fence:
            fence = found.group(1)
        elif line.strip().startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
    return f"\n{fence}" if fence else ""
