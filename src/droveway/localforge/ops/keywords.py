"""Closing keywords: ``fixes #12``, ``closes owner/name#12``, ``resolves <address>``."""

from __future__ import annotations

import re
from typing import Final

from droveway.localforge.db import Row, Tx
from droveway.localforge.views.repos import full_name

_CLOSING: Final = re.compile(
    r"(?<![\w-])(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?[ \t]+"
    r"(?:(?P<repo>[\w.-]+/[\w.-]+)?#(?P<number>\d+)|https?://[^\s/]+/(?P<page>[\w.-]+/[\w.-]+)/issues/(?P<paged>\d+))\b",
    re.IGNORECASE,
)
_CODE: Final = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|<!--.*?(?:-->|\Z)", re.DOTALL)


def closing_references(tx: Tx, repo: Row, text: str) -> list[int]:
    """Give the numbers of this repository that ``text`` says it closes, once each; code and comments say nothing."""
    own = full_name(tx, repo).lower()
    found = []
    for match in _CLOSING.finditer(_CODE.sub(" ", text)):
        where = match["repo"] or match["page"]
        if where is None or where.lower() == own:
            found.append(int(match["number"] or match["paged"]))
    return list(dict.fromkeys(found))
