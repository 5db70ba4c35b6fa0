"""The one gate that all calls pass: ledger, priorities, shared waiting, deadlines, retries of reads (FRG-006)."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import re
from collections.abc import AsyncIterator
from datetime import timedelta

import httpx

from droveway.core.clock import Clock
from droveway.forge.counting import Counters, Priority, count, current_priority
from droveway.forge.limits import Bucket, Refusal, Verdict, bucket_of, growing_wait, judge, read_bucket, server_now

# What a request says of itself, in httpx's ``extensions``: whether it only reads, and whether it may be sent twice.
READ = "herd.read"
IDEMPOTENT = "herd.idempotent"
RETRY_DELAYS = (1.0, 2.0, 4.0)
ATTEMPT_SECONDS = 60.0
PATIENCE_SECONDS = 900.0
SLOTS = 8
_ALL = "*"
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)  # safe to try again, whatever it is


class LimitStandsError(httpx.TransportError):
    """The rate limit lasts longer than the request's patience; nothing was sent, or the forge refused it."""

    def __init__(self, seconds: float, bucket: str) -> None:
        """Say for how long."""
        super().__init__(f"rate limit of {bucket}: free again in {seconds:.0f} s")
        self.seconds = seconds


class Turnstile:
    """At most ``slots`` at once; who waits enters by priority, then in order of arrival."""

    def __init__(self, slots: int) -> None:
        """Open with all slots free."""
        self._free = slots
        self._order = itertools.count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    @contextlib.asynccontextmanager
    async def turn(self, priority: int) -> AsyncIterator[None]:
        """Hold a slot."""
        await self._enter(priority)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, priority: int) -> None:
        if self._free and not self._waiting:
            self._free -= 1
            return
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (priority, next(self._order), mine))
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():  # the slot was handed over just before the cancellation
                self._leave()
            raise

    def _leave(self) -> None:
        while self._waiting:
            _, _, next_one = heapq.heappop(self._waiting)
            if not next_one.done():
                next_one.set_result(None)
                return
        self._free += 1


class Gate(httpx.AsyncBaseTransport):
    """An httpx transport over another one. All time is the clock's; the answer's body is read inside the deadline.

    Raises what the inner transport raises, ``httpx.ReadTimeout`` at the deadline of one attempt, and LimitStandsError.
    """

    def __init__(
        self,
        inner: httpx.AsyncBaseTransport,
        clock: Clock,
        *,
        attempt_seconds: float = ATTEMPT_SECONDS,
        patience_seconds: float = PATIENCE_SECONDS,
        slots: int = SLOTS,
    ) -> None:
        """``patience_seconds`` bounds what one request waits for limits, all waits together."""
        self._inner = inner
        self._clock = clock
        self._attempt_seconds = attempt_seconds
        self._patience = patience_seconds
        self._turnstile = Turnstile(slots)
        self._resume: dict[str, float] = {}  # bucket → monotonic moment; shared by all callers of the token
        self._strikes = 0
        self.buckets: dict[str, Bucket] = {}
        self.counters = Counters()

    async def aclose(self) -> None:
        """Close the transport below."""
        await self._inner.aclose()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send when it is its turn and the limits allow, again where that is safe."""
        bucket = bucket_of(request.url.path)
        priority = current_priority()
        if not request.extensions.get(READ):
            priority = min(priority, Priority.REPAIR)
        safe = bool(request.extensions.get(READ) or request.extensions.get(IDEMPOTENT))
        delays = iter(RETRY_DELAYS)
        waited = 0.0
        while True:
            waited += await self._until_free(bucket, priority, waited)
            response: httpx.Response | None = None
            failure: httpx.TransportError | None = None
            async with self._turnstile.turn(priority):
                if self._wait_for(bucket, priority) > 0:
                    continue  # a limit came up while this one stood in the queue
                try:
                    response = await self._attempt(request)
                except httpx.TransportError as error:
                    failure = error
            if response is not None:
                if self._learn(response, bucket, request.url.path).refusal is not Refusal.NONE:
                    continue  # refused, so nothing was done: also a write may be sent again after the wait
                if response.status_code < 500:
                    return response
            delay = next(delays, None) if safe or isinstance(failure, _NEVER_SENT) else None
            if delay is not None:
                await self._clock.sleep(delay)
            elif response is not None:
                return response
            elif failure is not None:
                raise failure

    async def _attempt(self, request: httpx.Request) -> httpx.Response:
        """Send once, and read the whole answer, within one deadline."""
        read = bool(request.extensions.get(READ))
        graphql = bucket_of(request.url.path) == "graphql"
        free = False
        try:
            async with asyncio.timeout(self._attempt_seconds):
                with self._clock.hold():
                    response = await self._inner.handle_async_request(request)
                    try:
                        await response.aread()
                    finally:
                        await response.aclose()
            free = response.status_code == 304
            return response
        except TimeoutError as error:
            raise httpx.ReadTimeout(f"no answer within {self._attempt_seconds:g} s", request=request) from error
        finally:
            count(self.counters, route(request), write=not read, graphql=graphql, free=free)

    def _learn(self, response: httpx.Response, bucket: str, path: str) -> Verdict:
        """Book what an answer says of the limits."""
        now = self._clock.now()
        entry = read_bucket(response.headers, path)
        if entry is not None:
            if entry.reset_at is not None:  # kept in our own time, whatever the clocks say
                entry = Bucket(
                    entry.name,
                    entry.limit,
                    entry.remaining,
                    now + (entry.reset_at - server_now(response.headers, now)),
                )
            self.buckets[entry.name] = entry
        verdict = judge(response.status_code, response.headers, response.content, now=now)
        if verdict.refusal is Refusal.NONE:
            if response.status_code < 400:
                self._strikes = 0
            return verdict
        wait = verdict.wait
        if wait is None:
            wait = growing_wait(self._strikes)
            self._strikes += 1
        key = _ALL if verdict.refusal is Refusal.SECONDARY else bucket
        self._resume[key] = max(self._resume.get(key, 0.0), self._clock.monotonic() + wait)
        return verdict

    def _wait_for(self, bucket: str, priority: Priority) -> float:
        """Give the seconds until this bucket may be asked at this priority."""
        now = self._clock.monotonic()
        wait = max(self._resume.get(_ALL, now), self._resume.get(bucket, now)) - now
        entry = self.buckets.get(bucket)
        if entry is not None and entry.reset_at is not None:
            short = entry.remaining <= (entry.reserve if priority >= Priority.OBSERVE else 0)
            if short:
                wait = max(wait, (entry.reset_at - self._clock.now()) / timedelta(seconds=1))
        return max(wait, 0.0)

    async def _until_free(self, bucket: str, priority: Priority, waited: float) -> float:
        """Wait for the limits; give the seconds that it took. Raises LimitStandsError beyond the patience."""
        spent = 0.0
        while (wait := self._wait_for(bucket, priority)) > 0:
            if waited + spent + wait > self._patience:
                raise LimitStandsError(wait, bucket)
            await self._clock.sleep(wait)
            spent += wait
        return spent


def route(request: httpx.Request) -> str:
    """Name a request's route without its numbers, for the table of ``herd status --api``."""
    path = re.sub(r"/(\d+|[0-9a-f]{40})(?=/|$)", "/N", request.url.path)
    path = re.sub(r"/repos/[^/]+/[^/]+", "/repos", path)
    return f"{request.method} {path}"
