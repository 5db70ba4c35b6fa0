"""From an HTTP request to its answer: synchronous, one transaction, on a worker thread."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

import msgspec
import structlog

from droveway.localforge import graphql, rest
from droveway.localforge.access import ANONYMOUS, Actor, Refused, actor_of_token
from droveway.localforge.db import Tx, stamp
from droveway.localforge.kernel import Kernel
from droveway.localforge.rates import Rates
from droveway.localforge.routing import Answer, Call, Route, match, nearby

JSON: Final = "application/json; charset=utf-8"
_REGISTERED: Final = rest.__all__  # importing the package is what registers the operations


class Request(msgspec.Struct, frozen=True):
    """A request as it came. ``path`` is percent-encoded, without the API's prefix; links start with ``api``."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    api: str
    graphql: bool = False


class Response(msgspec.Struct):
    """What goes back."""

    status: int
    headers: dict[str, str]
    body: bytes


def token_of(headers: Mapping[str, str]) -> str | None:
    """Give the token of a request: ``token X``, ``Bearer X``, or the password of basic authentication."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() in ("token", "bearer"):
        return value.strip()
    if scheme.lower() == "basic":
        try:
            name, _, password = base64.b64decode(value).decode().partition(":")
        except ValueError:
            return ""
        return name if password in ("", "x-oauth-basic") else password
    return None


def authenticate(tx: Tx, headers: Mapping[str, str]) -> Actor:
    """Give who asks, or refuse a token that nobody has."""
    token = token_of(headers)
    if token is None:
        return ANONYMOUS
    actor = actor_of_token(tx, token)
    if actor is None:
        raise Refused(401, "Bad credentials")
    return actor


class Exchange:
    """Answers REST and GraphQL requests of one forge."""

    def __init__(self, kernel: Kernel, rates: Rates) -> None:
        """Answer from the kernel's rows."""
        self._kernel = kernel
        self.rates = rates

    def answer(self, request: Request) -> Response:
        """Answer a request; whatever goes wrong inside becomes a 500 and a line in the log."""
        headers = {
            "X-GitHub-Request-Id": self._kernel.ids.new()[:20].upper(),
            "X-GitHub-Media-Type": "github.v3; format=json",
            "Access-Control-Allow-Origin": "*",
        }
        try:
            found = self._graphql(request, headers) if request.graphql else self._rest(request, headers)
        except Refused as refused:
            found = self._refusal(refused)
        except Exception:
            structlog.get_logger().exception("request failed", method=request.method, path=request.path)
            found = Response(500, {}, msgspec.json.encode({"message": "Server Error"}))
        found.headers = {"Content-Type": JSON, **headers, **found.headers}
        return found

    def _refusal(self, refused: Refused) -> Response:
        body: dict[str, Any] = {"message": refused.message}
        if refused.errors:
            body["errors"] = refused.errors
        body |= {"documentation_url": "https://docs.github.com/rest", "status": str(refused.status)}
        return Response(refused.status, {}, msgspec.json.encode(body))

    # --- REST ---

    def _rest(self, request: Request, headers: dict[str, str]) -> Response:
        found = match(request.method, request.path)
        if found is None:
            return self._unknown(request, headers)
        route, params = found
        body = self._json(request)
        opened = self._kernel.write if route.writes else self._kernel.read
        with opened() as tx:
            tx.api, tx.web = request.api, self._kernel.base_url
            actor = self._admit(tx, request, route, headers)
            query = dict(parse_qsl(request.query, keep_blank_values=True))
            call = Call(actor, params, query, body, request.headers.get("accept", ""))
            if route.template == "/rate_limit":
                answer = Answer(self.rates.overview(actor.id))
            else:
                answer = route.handler(tx, call)
        return self._response(request, route, actor, answer, headers)

    def _admit(self, tx: Tx, request: Request, route: Route, headers: dict[str, str]) -> Actor:
        """Say who asks, count the request, and refuse who has used up the hour."""
        try:
            actor = authenticate(tx, request.headers)
        except Refused:
            self.rates.count(f"{request.method} {route.template}", "")
            raise
        self.rates.count(f"{request.method} {route.template}", actor.login)
        if actor.id:
            headers["X-OAuth-Scopes"] = actor.scopes
            headers["X-Accepted-OAuth-Scopes"] = ""
        self._charge(actor, route.bucket, headers, cost=0 if route.template == "/rate_limit" else 1)
        return actor

    def _charge(self, actor: Actor, bucket: str, headers: dict[str, str], *, cost: int = 1) -> dict[str, int]:
        state = self.rates.charge(actor.id, bucket, cost=cost)
        headers |= {
            f"X-RateLimit-{word.capitalize()}": str(state[word]) for word in ("limit", "remaining", "used", "reset")
        }
        headers["X-RateLimit-Resource"] = bucket
        if state["used"] > state["limit"]:
            raise Refused(403, f"API rate limit exceeded for user ID {actor.id}.")
        return state

    def _json(self, request: Request) -> Any:
        if not request.body:
            return None
        try:
            return msgspec.json.decode(request.body)
        except msgspec.DecodeError:
            raise Refused(400, "Problems parsing JSON") from None

    def _unknown(self, request: Request, headers: dict[str, str]) -> Response:
        with self._kernel.read() as tx:
            actor = authenticate(tx, request.headers)
        self.rates.count(f"{request.method} (unknown)", actor.login)
        self._charge(actor, "core", headers)
        body = {
            "message": "Not Found",
            "documentation_url": "https://docs.github.com/rest",
            "status": "404",
            "nearby": nearby(request.method, request.path),
        }
        return Response(404, {}, msgspec.json.encode(body))

    def _response(
        self, request: Request, route: Route, actor: Actor, answer: Answer, headers: dict[str, str]
    ) -> Response:
        extra = {"Content-Type": answer.media, "Cache-Control": "private, max-age=60, s-maxage=60", **answer.headers}
        extra["Vary"] = "Accept, Authorization, Cookie, X-GitHub-OTP, Accept-Encoding, Accept, X-Requested-With"
        if answer.location:
            extra["Location"] = answer.location
        if answer.page:
            link = links(request, *answer.page)
            if link:
                extra["Link"] = link
        if isinstance(answer.body, bytes):
            data = answer.body
        else:
            data = b"" if answer.status == 204 else msgspec.json.encode(answer.body)
        if request.method in ("GET", "HEAD") and answer.status == 200 and route.template != "/rate_limit":
            extra["ETag"] = f'W/"{hashlib.sha256(data + extra.get("Link", "").encode()).hexdigest()}"'
            if isinstance(answer.body, dict) and isinstance(answer.body.get("updated_at"), str):
                extra["Last-Modified"] = http_date(answer.body["updated_at"])
            if _unchanged(request.headers, extra):
                self._charge(actor, route.bucket, headers, cost=-1)
                self.rates.count("304", actor.login)
                return Response(304, {key: value for key, value in extra.items() if key != "Content-Type"}, b"")
        return Response(answer.status, extra, data)

    # --- GraphQL ---

    def _graphql(self, request: Request, headers: dict[str, str]) -> Response:
        if request.method != "POST":
            raise Refused(404, "Not Found")
        body = self._json(request)
        opened = self._kernel.write if graphql.writes(body) else self._kernel.read
        with opened() as tx:
            tx.api, tx.web = request.api, self._kernel.base_url
            actor = authenticate(tx, request.headers)
            self.rates.count("POST /graphql", actor.login)
            if not actor.id:
                raise Refused(401, "This endpoint requires you to be authenticated.")
            headers["X-OAuth-Scopes"] = actor.scopes
            state = self._charge(actor, "graphql", headers)
            rate = {"cost": 1, "nodeCount": 0, "resetAt": _iso(state["reset"]), **{
                word: state[word] for word in ("limit", "remaining", "used")}}  # fmt: skip
            answer = graphql.handle(tx, actor, body, rate=rate)
        return Response(200, {}, msgspec.json.encode(answer))


def _iso(epoch: int) -> str:
    return stamp(datetime.fromtimestamp(epoch, UTC))


def http_date(text: str) -> str:
    """Give a time in the form of HTTP's headers."""
    return format_datetime(datetime.fromisoformat(text), usegmt=True)


def _unchanged(asked: Mapping[str, str], ours: Mapping[str, str]) -> bool:
    wanted = asked.get("if-none-match")
    if wanted is not None:
        bare = {each.strip().removeprefix("W/") for each in wanted.split(",")}
        return ours["ETag"].removeprefix("W/") in bare or "*" in bare
    since = asked.get("if-modified-since")
    return since is not None and since == ours.get("Last-Modified")


def links(request: Request, page: int, per_page: int, total: int) -> str:
    """Give the ``Link`` header of a page: prev, next, last, first."""
    last = max((total + per_page - 1) // per_page, 1)
    query = [(key, value) for key, value in parse_qsl(request.query, keep_blank_values=True) if key != "page"]

    def link(number: int, rel: str) -> str:
        return f'<{request.api}{request.path}?{urlencode([*query, ("page", number)])}>; rel="{rel}"'

    found = []
    if page > 1:
        found.append(link(min(page - 1, last), "prev"))
    if page < last:
        found += [link(page + 1, "next"), link(last, "last")]
    if page > 1:
        found.append(link(1, "first"))
    return ", ".join(found)


GIT_PATH: Final = re.compile(
    r"/(?P<owner>[^/]+)/(?P<repo>[^/]+?)(?:\.git)?/(?P<tail>info/refs|git-upload-pack|git-receive-pack)"
)
