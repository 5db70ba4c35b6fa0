"""Cutting, neutralising, fencing and redacting text; slugs (BAT-005, BAT-006, BAT-038, QLT-041)."""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections.abc import Callable, Iterable

# Zero-width and bidirectional controls, which people do not see and a model reads.
_HIDDEN = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\U000e0000-\U000e007f]")
_COMMENT = re.compile(r"<!--(.*?)(-->|\Z)", re.DOTALL)
_MENTION = re.compile(r"(?<![\w`/.])@(?=[A-Za-z0-9])")
_CLOSING = re.compile(
    r"\b(close[sd]?|fix(?:e[sd])?|resolve[sd]?)(\s*:?\s+)((?:[\w.-]+/[\w.-]+)?#\d+|https?://\S+/(?:issues|pull)/\d+)",
    re.IGNORECASE,
)
CUT_NOTE = "…[cut]"
_INERT = "\u200b"  # invisible, and enough that no forge and no parser of ours reads on


def cut_chars(text: str, limit: int) -> str:
    """Cut to at most ``limit`` characters, the last of them an ellipsis where anything was cut (BAT-006)."""
    if len(text) <= limit:
        return text
    head = text[: max(limit - 1, 0)]
    while head and unicodedata.combining(text[len(head)]):  # do not part a letter from its accent
        head = head[:-1]
    return head.rstrip("\u200d") + "…"


def cut_bytes(text: str, limit: int, note: str = CUT_NOTE, *, tail: bool = False) -> str:
    """Cut to at most ``limit`` UTF-8 bytes including ``note``, on a character boundary; ``tail`` keeps the end."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit:
        return raw.decode("utf-8")
    room = max(limit - len(note.encode()), 0)
    if tail:
        return note + raw[len(raw) - room :].decode("utf-8", "ignore") if room else note
    return raw[:room].decode("utf-8", "ignore") + note


def byte_length(text: str) -> int:
    """Give the length in UTF-8 bytes."""
    return len(text.encode("utf-8", "replace"))


def slug(text: str, fallback: str) -> str:
    """Give the one slug of a title: NFKD, ASCII, at most 50 characters cut at a hyphen, never empty (BAT-038)."""
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    hyphenated = re.sub(r"[ _\t\n\r]", "-", ascii_text)
    kept = re.sub(r"-+", "-", re.sub(r"[^a-z0-9-]", "", hyphenated)).strip("-")
    if len(kept) > 50:
        head = kept[:50]
        if kept[50] != "-" and "-" in head:
            head = head[: head.rindex("-")]
        kept = head.strip("-")
    return kept or fallback


def neutralise(text: str, allowed_mentions: Iterable[str] = ()) -> str:
    """Make foreign text inert before it is posted (BAT-005): no marker, no command, no mention, no closing phrase."""
    allowed = {name.lower() for name in allowed_mentions}
    text = re.sub(r"<!--(\s*/?)herd:", lambda m: f"<!-{_INERT}-{m.group(1)}herd:", text, flags=re.IGNORECASE)
    text = re.sub(r"^(\s{0,3})/herd\b", r"\1> /herd", text, flags=re.MULTILINE)

    def mention(match: re.Match[str]) -> str:
        rest = text[match.end() :]
        name = re.match(r"[A-Za-z0-9][A-Za-z0-9-]*(?:/[A-Za-z0-9._-]+)?", rest)
        return "@" if name and name.group(0).lower() in allowed else "@" + _INERT

    text = _MENTION.sub(mention, text)
    return _CLOSING.sub(lambda m: f"{m.group(1)}{m.group(2)}{_INERT}{m.group(3).replace('#', '#' + _INERT)}", text)


def show_hidden(text: str) -> str:
    """Take out what people do not see: hidden characters, and HTML comments are shown as such (case K05)."""
    text = _HIDDEN.sub("", text)
    return _COMMENT.sub(lambda m: f"[hidden comment: {m.group(1).strip()}]", text)


def fence_untrusted(
    text: str, *, source: str, limit: int = 60_000, token: Callable[[], str] = lambda: secrets.token_hex(8)
) -> str:
    """Put foreign text into one marked block whose end the content cannot produce (QLT-041, case K05).

    ``source`` names the author and permission, or the file; ``limit`` is in bytes.
    """
    clean = cut_bytes(show_hidden(text), limit)
    mark = token()
    while mark in clean:
        mark = token()
    label = re.sub(r"[\r\n<>]", " ", show_hidden(source))
    return f"<untrusted-{mark} source={label!r}>\n{clean}\n</untrusted-{mark}>"


def code_fence(text: str, info: str = "") -> str:
    """Put text into a Markdown code fence longer than any run of back-ticks in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{info}\n{text}\n{ticks}"


def table_cell(text: str) -> str:
    """Escape a text for one cell of a Markdown table (case L02)."""
    flat = re.sub(r"\s+", " ", _HIDDEN.sub("", text)).strip()
    for char in "\\|`<>[]":
        flat = flat.replace(char, "\\" + char)
    return flat


class Redactor:
    """Takes known secrets out of any text that leaves the process. All sinks pass it."""

    def __init__(self, secrets_: Iterable[str] = ()) -> None:
        """Start with the given secrets; those under eight characters are ignored: they would blank ordinary words."""
        self._secrets: set[str] = set()
        for secret in secrets_:
            self.add(secret)

    def add(self, secret: str) -> None:
        """Learn one more secret."""
        if len(secret) >= 8:
            self._secrets.add(secret)

    def __call__(self, text: str) -> str:
        """Replace every known secret, and anything with the shape of a forge token, by ``***``."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return re.sub(r"\b(gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})", "***", text)
