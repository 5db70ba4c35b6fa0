"""Attributes in a bare repository (BAT-238): the tip's ``.gitattributes``, root and nested, as one prefixed file."""

from __future__ import annotations

import os
from pathlib import Path

from droveway.git.objects import Objects, records

_BLANK = b" \t\r\n"
_FILE = b".gitattributes"


def prefixed(folder: bytes, content: bytes) -> bytes:
    """Give the lines of a ``.gitattributes`` of ``folder`` (``b""`` is the root) as they must stand at the root."""
    content = content.removeprefix(b"\xef\xbb\xbf")
    if not folder:
        return content if not content or content.endswith(b"\n") else content + b"\n"
    lines = []
    for line in content.split(b"\n"):
        bare = line.lstrip(_BLANK)
        # A macro counts only at the root, a negative pattern nowhere: git warns of both and passes on.
        if not bare or bare.startswith((b"#", b"[attr]", b"!")):
            continue
        pattern, rest = _pattern(bare)
        lines.append(_quoted(_rooted(folder, pattern)) + b" " + rest.strip(_BLANK) + b"\n")
    return b"".join(lines)


def _rooted(folder: bytes, pattern: bytes) -> bytes:
    """A pattern with a slash is tied to its folder, one without matches at any depth below."""
    prefix = b"".join(b"\\" + bytes([char]) if char in b"*?[\\" else bytes([char]) for char in folder)
    if b"/" in pattern.rstrip(b"/"):
        return prefix + b"/" + pattern.lstrip(b"/")
    return prefix + b"/**/" + pattern


def _pattern(line: bytes) -> tuple[bytes, bytes]:
    """Part a line into its pattern, unquoted, and the attributes."""
    if line.startswith(b'"'):
        quoted = _unquoted(line)
        if quoted:
            return quoted
    for at, char in enumerate(line):
        if char in _BLANK:
            return line[:at], line[at:]
    return line, b""


_ESCAPES = {b"a": 7, b"b": 8, b"f": 12, b"n": 10, b"r": 13, b"t": 9, b"v": 11, b"\\": 92, b'"': 34}


def _unquoted(line: bytes) -> tuple[bytes, bytes] | None:
    out = bytearray()
    at = 1
    while at < len(line):
        char = line[at : at + 1]
        if char == b'"':
            return bytes(out), line[at + 1 :]
        if char != b"\\":
            out += char
            at += 1
            continue
        code = line[at + 1 : at + 2]
        octal = line[at + 1 : at + 4]
        if code in _ESCAPES:
            out.append(_ESCAPES[code])
            at += 2
        elif len(octal) == 3 and octal[0] in b"0123" and all(digit in b"01234567" for digit in octal):
            out.append(int(octal, 8))
            at += 4
        else:
            return None
    return None


def _quoted(pattern: bytes) -> bytes:
    plain = not any(char <= 32 or char in b'"' or char >= 127 for char in pattern)
    if plain and not pattern.startswith((b"#", b"!", b"[")):
        return pattern
    body = b"".join(
        b"\\" + bytes([char]) if char in b'"\\' else b"\\%03o" % char if char < 32 or char >= 127 else bytes([char])
        for char in pattern
    )
    return b'"' + body + b'"'


async def attributes_of(objects: Objects, rev: str) -> bytes:
    """Read all ``.gitattributes`` of a revision into one text; deeper ones come later, because the last line wins."""
    found: list[tuple[int, bytes, str]] = []
    for row in records(await objects.call("ls-tree", "-r", "-z", "--full-tree", rev)):
        meta, _, path = row.partition(b"\t")
        folder, _, name = path.rpartition(b"/")
        if name == _FILE and meta.startswith(b"100"):  # git reads no attributes through a symlink
            found.append((path.count(b"/"), folder, meta.split(b" ")[2].decode()))
    parts = []
    for _, folder, sha in sorted(found):
        parts.append(prefixed(folder, await objects.call("cat-file", "blob", sha)))
    return b"".join(parts)


async def install_attributes(objects: Objects, rev: str) -> None:
    """Write the attributes of ``rev`` to ``info/attributes``. The caller holds the repository's lock."""
    text = await attributes_of(objects, rev)
    target = objects.path / "info" / "attributes"
    if (target.read_bytes() if target.exists() else b"") == text:
        return
    _replace(target, text)


def _replace(target: Path, data: bytes) -> None:
    target.parent.mkdir(exist_ok=True)
    fresh = target.with_name(f"{target.name}.new")
    fresh.write_bytes(data)
    os.replace(fresh, target)
