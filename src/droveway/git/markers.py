"""Whether a text still holds a merge conflict (BAT-193)."""

from __future__ import annotations


def conflict_markers(text: str | bytes) -> bool:
    """Whether a ``<<<<<<< `` line has a later ``>>>>>>> `` line; a lone ``=======`` (a title of .rst) is no marker."""
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    opened = False
    for line in raw.splitlines():
        if line.startswith(b"<<<<<<< "):
            opened = True
        elif opened and line.startswith(b">>>>>>> "):
            return True
    return False
