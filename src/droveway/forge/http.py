"""HTTP with JSON over the gate: errors in our own words, pages, ETags, GraphQL. Plain httpx (see docs/decisions)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import msgspec

from droveway.core.text import Redactor
from droveway.forge.gate import IDEMPOTENT, READ, Gate, LimitStandsError
from droveway.forge.port import (
    ConflictError,
    EtagStore,
    ExistsError,
    ForgeError,
    IncompleteError,
    LimitedError,
    NotFoundError,
    PermissionDeniedError,
)

JSON = "application/vnd.github+json"
RAW = "application/vnd.github.raw+json"
DIFF = "application/vnd.github.diff"
_MAX_PAGES = 1000
_NEXT = re.compile(r'<([^>]+)>;\s*rel="next"')


class GraphError(msgspec.Struct, frozen=True):
    """One entry of GraphQL's ``errors``."""

    message: str
    type: str = ""
    path: tuple[str | int, ...] = ()


class GraphAnswer(msgspec.Struct, frozen=True):
    """A GraphQL answer: the data, which may be partial, and what went wrong."""

    data: dict[str, Any]
    errors: tuple[GraphError, ...] = ()


class Answer(msgspec.Struct, frozen=True):
    """A REST answer as it is needed: body and the address of the next page."""

    body: bytes
    next: str = ""


class Http:
    """One forge's address with one token. Methods raise ForgeError and its kinds, never httpx's errors."""

    def __init__(
        self, api_url: str, token: str, gate: Gate, *, etags: EtagStore | None = None, redactor: Redactor
    ) -> None:
        """``api_url`` is the REST root, without a slash at its end."""
        self.api_url = api_url.rstrip("/")
        self.graphql_url = re.sub(r"/api/v3$", "/api", self.api_url) + "/graphql"
        self.gate = gate
        self._etags = etags
        self._redactor = redactor
        self.identity = ""  # part of an ETag's key: another account may see something else at the same address
        self._client = httpx.AsyncClient(
            transport=gate,
            timeout=httpx.Timeout(30.0, connect=10.0),
            headers={
                "Authorization": f"Bearer {token}",
                "Accept": JSON,
                "User-Agent": "droveway",
                "X-GitHub-Api-Version": "2022-11-28",
            },
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    # --- reads ---
    async def get(
        self, path: str, *, params: Mapping[str, Any] | None = None, accept: str = JSON, conditional: bool = False
    ) -> Answer:
        """Read one address; ``conditional``: keep the answer with its ETag, and ask by it the next time."""
        url = path if "://" in path else self.api_url + path
        if httpx.URL(url).host != httpx.URL(self.api_url).host:  # the token goes to no other host
            raise IncompleteError(f"{path}: the next page lies on another host")
        request = self._client.build_request(
            "GET", url, params=params or None, headers={"Accept": accept}, extensions={READ: True}
        )
        key = f"{self.identity} {accept} {request.url}"
        etags = self._etags if conditional else None
        kept = await etags.etag(key) if etags else None
        if kept:
            request.headers["If-None-Match"] = kept[0]
        response = await self._send(request, follow=True)
        if response.status_code == 304 and kept:
            link, _, body = kept[1].partition(b"\n")
            return Answer(body, link.decode())
        self._check(response)
        found = _NEXT.search(response.headers.get("link", ""))
        answer = Answer(response.content, found.group(1) if found else "")
        etag = response.headers.get("etag")
        if etags and etag:
            await etags.put_etag(key, etag, answer.next.encode() + b"\n" + answer.body)
        return answer

    async def json(self, path: str, *, params: Mapping[str, Any] | None = None) -> Any:
        """Read one JSON value."""
        return _decode((await self.get(path, params=params)).body, path)

    async def maybe(self, path: str, *, params: Mapping[str, Any] | None = None) -> Any | None:
        """Read one JSON value; None for a definite "not found"."""
        try:
            return await self.json(path, params=params)
        except NotFoundError:
            return None

    async def pages(
        self, path: str, *, params: Mapping[str, Any] | None = None, key: str = "", conditional: bool = False
    ) -> list[dict[str, Any]]:
        """Read every page of a list (``key``: the list's name where it is wrapped), all or nothing (case R04).

        Raises IncompleteError where a page is no list, comes again, or holds a null.
        """
        items: list[dict[str, Any]] = []
        seen: set[str] = set()
        answer = await self.get(path, params={"per_page": 100, **(params or {})}, conditional=conditional)
        for _ in range(_MAX_PAGES):
            value = _decode(answer.body, path)
            page = value.get(key) if key and isinstance(value, dict) else value
            if not isinstance(page, list) or not all(isinstance(item, dict) for item in page):
                raise IncompleteError(f"{path}: a page is no list of objects")
            items += page
            if not answer.next:
                return items
            if answer.next in seen:
                raise IncompleteError(f"{path}: the same page came again")
            seen.add(answer.next)
            answer = await self.get(answer.next, conditional=conditional)
        raise IncompleteError(f"{path}: more than {_MAX_PAGES} pages")

    async def graphql(self, query: str, variables: Mapping[str, Any]) -> GraphAnswer:
        """Ask a query (never a mutation). Raises ForgeError where no data came at all."""
        request = self._client.build_request(
            "POST", self.graphql_url, json={"query": query, "variables": dict(variables)}, extensions={READ: True}
        )
        response = await self._send(request)
        self._check(response)
        value = _decode(response.content, "graphql")
        errors = tuple(_graph_error(each) for each in _list(value.get("errors"))) if isinstance(value, dict) else ()
        data = value.get("data") if isinstance(value, dict) else None
        if not isinstance(data, dict):
            words = "; ".join(error.message for error in errors) or "no data"
            if any(error.type == "NOT_FOUND" for error in errors):
                raise NotFoundError(self._redactor(f"graphql: {words}"), 404)
            raise ForgeError(self._redactor(f"graphql: {words}"), response.status_code)
        return GraphAnswer(data, errors)

    # --- writes ---
    async def write(self, method: str, path: str, body: Any = None, *, idempotent: bool = False) -> Any:
        """Send a change; give the answer's JSON, or None where it has no body.

        Only an ``idempotent`` one is sent again after a lost connection or a 5xx.
        """
        request = self._client.build_request(
            method,
            self.api_url + path,
            json=self._redacted(body) if body is not None else None,
            extensions={IDEMPOTENT: idempotent},
        )
        response = await self._send(request)
        self._check(response)
        return _decode(response.content, path) if response.content.strip() else None

    def _redacted(self, value: Any) -> Any:
        """Take secrets out of every text that leaves (QLT-040)."""
        if isinstance(value, str):
            return self._redactor(value)
        if isinstance(value, dict):
            return {name: self._redacted(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._redacted(item) for item in value]
        return value

    async def _send(self, request: httpx.Request, *, follow: bool = False) -> httpx.Response:
        what = f"{request.method} {request.url.path}"
        try:
            response = await self._client.send(request, follow_redirects=follow)
            # A write follows only what keeps its method (a moved repository, case X07): 301 would make it a GET that
            # looks like success.
            moved = response.next_request if response.status_code in (307, 308) else None
            if moved is not None and not follow and moved.url.host == request.url.host:
                response = await self._client.send(moved, follow_redirects=False)
            return response
        except LimitStandsError as error:
            raise LimitedError(f"{what}: {error}", 429) from error
        except (httpx.TransportError, httpx.TooManyRedirects, httpx.DecodingError) as error:
            raise ForgeError(self._redactor(f"{what}: {type(error).__name__}: {error}"), 0) from error

    def _check(self, response: httpx.Response) -> None:
        if response.is_success:
            return
        status = response.status_code
        request = response.request
        words = self._redactor(f"{request.method} {request.url.path}: {status} {_message(response)}")
        if status in (404, 410):
            raise NotFoundError(words, status)
        if status == 401:
            raise PermissionDeniedError(f"{words} (the token is not valid)", status)
        if status == 403:
            raise PermissionDeniedError(f"{words}{_needed(response)}", status)
        if status in (405, 409):
            raise ConflictError(words, status)
        if status == 422:
            low = words.lower()
            if "already exists" in low or "already_exists" in low:
                raise ExistsError(words, status)
            if "reference does not exist" in low:
                raise NotFoundError(words, status)
        raise ForgeError(words, status)


def _needed(response: httpx.Response) -> str:
    """Name the permission that a refused request needs, as far as the forge tells (case R01 d)."""
    fine = response.headers.get("x-accepted-github-permissions")
    if fine:
        return f" (needs the permission {fine})"
    coarse = response.headers.get("x-accepted-oauth-scopes")
    if coarse:
        has = response.headers.get("x-oauth-scopes") or "none"
        return f" (needs one of the scopes {coarse}; the token has {has})"
    return ""


def _message(response: httpx.Response) -> str:
    try:
        value = msgspec.json.decode(response.content)
    except msgspec.DecodeError:
        return response.reason_phrase or response.text[:200]
    if not isinstance(value, dict):
        return response.reason_phrase
    words = [str(value.get("message") or response.reason_phrase)]
    for error in _list(value.get("errors")):
        if isinstance(error, dict):
            text = error.get("message") or " ".join(str(error.get(k)) for k in ("field", "code") if error.get(k))
        else:
            text = str(error)
        if text:
            words.append(str(text))
    return "; ".join(words)


def _decode(body: bytes, what: str) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise IncompleteError(f"{what}: the answer is no JSON") from error


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _graph_error(value: Any) -> GraphError:
    if not isinstance(value, dict):
        return GraphError(str(value))
    path = tuple(part for part in _list(value.get("path")) if isinstance(part, str | int))
    return GraphError(str(value.get("message") or "error"), str(value.get("type") or ""), path)
