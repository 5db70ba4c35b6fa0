"""The registry of REST operations: one decorator per route, from which the reference page is made too (FRG-022)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

import msgspec

from droveway.localforge.access import Actor, Refused, invalid, visible_repo
from droveway.localforge.db import Row, Tx

MAX_PAGE: Final = 100


class Call:
    """One request, parsed. ``params`` come from the path, ``query`` from behind it, ``body`` is JSON or None."""

    def __init__(
        self,
        actor: Actor,
        params: Mapping[str, str],
        query: Mapping[str, str],
        body: Any,
        accept: str,
    ) -> None:
        """Hold the parts."""
        self.actor = actor
        self.params = params
        self.query = query
        self.body = body
        self.accept = accept

    def repo(self, tx: Tx, role: str = "read") -> Row:
        """Give the repository of the path, on which the actor must have the role."""
        return visible_repo(tx, self.actor, self.params["owner"], self.params["repo"], role)

    def number(self, name: str = "number") -> int:
        """Give a number of the path, which its pattern guarantees."""
        return int(self.params[name])

    def object(self) -> dict[str, Any]:
        """Give the body as an object; none at all counts as an empty one."""
        if self.body is None:
            return {}
        if not isinstance(self.body, dict):
            raise Refused(422, "Invalid request.\n\nThe body is not an object.")
        return self.body

    def text(self, name: str, *, resource: str, needed: bool = True) -> Any:
        """Give a string of the body. 422 where it is missing or no string."""
        value = self.object().get(name)
        if value is None and needed:
            raise invalid(resource, name, "missing_field")
        if value is not None and not isinstance(value, str):
            raise Refused(
                422,
                f"Invalid request.\n\nFor 'properties/{name}', {msgspec.json.encode(value).decode()} is not a string.",
            )
        return value

    def given(self, *names: str) -> dict[str, Any]:
        """Give those of the names that the body has."""
        body = self.object()
        return {name: body[name] for name in names if name in body}

    def whole(self, name: str, default: int, low: int = 1, high: int = 1 << 30) -> int:
        """Give a number of the query within bounds."""
        try:
            return min(max(int(self.query.get(name) or default), low), high)
        except ValueError:
            return default

    def media(self, word: str) -> bool:
        """Whether the media type asked for has this word (``diff``, ``patch``, ``raw``, ``sha``)."""
        return re.search(rf"application/vnd\.github\.(?:v3\.)?{word}\b", self.accept) is not None


class Answer(msgspec.Struct):
    """What a handler gives. ``body`` is JSON, or bytes with their ``media`` type. ``total``: it is a page of a list."""

    body: Any = None
    status: int = 200
    media: str = "application/json; charset=utf-8"
    headers: dict[str, str] = {}
    page: tuple[int, int, int] | None = None  # page, items per page, all items
    location: str = ""


Handler: TypeAlias = Callable[[Tx, Call], Answer]


class Route(msgspec.Struct, frozen=True):
    """One operation. ``writes``: its handler gets a writing transaction. ``bucket``: whose rate it counts against."""

    method: str
    template: str
    summary: str
    handler: Handler
    pattern: re.Pattern[str]
    writes: bool
    bucket: str


_ROUTES: Final[dict[str, list[Route]]] = {}


def route(
    method: str, template: str, summary: str, *, writes: bool | None = None, bucket: str = "core"
) -> Callable[[Handler], Handler]:
    """Register an operation. ``{name}`` is one part of the path, ``{name:path}`` the rest, ``{name:int}`` a number."""
    kinds = {"path": ".+?", "int": r"\d{1,18}", "": "[^/]+?"}

    def part(match: re.Match[str]) -> str:
        return f"(?P<{match[1]}>{kinds[match[2] or '']})"

    pattern = re.compile(re.sub(r"\{(\w+)(?::(\w+))?\}", part, template.replace(".", r"\.")) + "/?")
    shown = re.sub(r":\w+\}", "}", template)

    def register(handler: Handler) -> Handler:
        found = Route(method, shown, summary, handler, pattern, method != "GET" if writes is None else writes, bucket)
        _ROUTES.setdefault(method, []).append(found)
        return handler

    return register


def operations() -> list[tuple[str, str, str]]:
    """Give every REST operation as (method, template, summary), for ``docs/reference/forge-api.md``."""
    return sorted(((each.method, each.template, each.summary) for routes in _ROUTES.values() for each in routes),
                  key=lambda entry: (entry[1], entry[0]))  # fmt: skip


def match(method: str, path: str) -> tuple[Route, dict[str, str]] | None:
    """Find the operation of a path, which is still percent-encoded: an encoded slash is no separator."""
    found = []
    for each in _ROUTES.get("GET" if method == "HEAD" else method, ()):
        parts = each.pattern.fullmatch(path)
        if parts:
            found.append((each, parts))
    if not found:
        return None
    # A name of several parts (`branches/{branch}`) also matches what stands below it: the most literal route wins.
    best, parts = max(found, key=lambda entry: len(re.sub(r"\{\w+\}", "", entry[0].template)))
    return best, {name: unquote(value) for name, value in parts.groupdict().items()}


def nearby(method: str, path: str) -> list[str]:
    """Give the routes that look most like an unknown path, and the other methods of a known one."""
    others = [
        f"{verb} {each.template}" for verb, routes in _ROUTES.items() for each in routes if each.pattern.fullmatch(path)
    ]
    templates = {f"{verb} {each.template}" for verb, routes in _ROUTES.items() for each in routes}
    parts = path.strip("/").split("/")
    if parts[0] == "repos" and len(parts) > 2:
        parts[1:3] = ["{owner}", "{repo}"]
    near = difflib.get_close_matches(f"{method} /{'/'.join(parts)}", templates, n=5, cutoff=0.5)
    return list(dict.fromkeys([*others, *near]))[:5]


def paged(call: Call, rows: list[Any], shape: Callable[[Any], Any]) -> Answer:
    """Give one page of a list that is here whole; only what is shown is shaped."""
    page, per_page = call.whole("page", 1), call.whole("per_page", 30, 1, MAX_PAGE)
    shown = rows[(page - 1) * per_page : page * per_page]
    return Answer([shape(row) for row in shown], page=(page, per_page, len(rows)))


def wrapped(call: Call, key: str, rows: list[Any], shape: Callable[[Any], Any]) -> Answer:
    """Give one page inside an object with ``total_count``, as checks and searches do."""
    answer = paged(call, rows, shape)
    answer.body = {"total_count": len(rows), key: answer.body}
    return answer


def limit_of(call: Call) -> tuple[int, int, int, int]:
    """Give (page, per_page, limit, offset) for SQL."""
    page, per_page = call.whole("page", 1), call.whole("per_page", 30, 1, MAX_PAGE)
    return page, per_page, per_page, (page - 1) * per_page


def created(body: Any, location: str = "") -> Answer:
    """Give a 201."""
    return Answer(body, 201, location=location)


def empty() -> Answer:
    """Give a 204."""
    return Answer(None, 204)
