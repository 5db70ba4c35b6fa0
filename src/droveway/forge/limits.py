"""What an answer says about the rate limits: pure reading of headers and bodies (FRG-006, case R01)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import msgspec

SMALL_WAIT = 5.0  # a reset that lies in the past by our clock: the clocks differ, so wait a little and ask again
GROWING_WAIT = 60.0  # a limit without a time: at least a minute, doubled each time
LONGEST_GROWING_WAIT = 900.0
_SECONDARY = ("secondary rate limit", "abuse detection", "exceeded a secondary")


class Refusal(enum.Enum):
    """Why an answer is no success, as far as limits go."""

    NONE = "none"
    PRIMARY = "primary"  # a bucket is empty
    SECONDARY = "secondary"  # too fast: holds for the whole token


class Verdict(msgspec.Struct, frozen=True):
    """What to do about one answer. ``wait`` in seconds; None means that the forge named no time."""

    refusal: Refusal = Refusal.NONE
    wait: float | None = None


class Bucket(msgspec.Struct, frozen=True):
    """One budget of the forge, as the newest answer told it; ``reset_at`` is UTC."""

    name: str
    limit: int
    remaining: int
    reset_at: datetime | None = None

    @property
    def reserve(self) -> int:
        """Give how much observation leaves to merges, commands and repairs: a tenth."""
        return self.limit // 10


def bucket_of(path: str) -> str:
    """Give the bucket that a path is charged to, before any answer has named it."""
    if path.endswith("/graphql"):
        return "graphql"
    return "search" if "/search/" in path else "core"


def read_bucket(headers: Mapping[str, str], path: str) -> Bucket | None:
    """Read the ledger entry of an answer; None where the forge keeps none."""
    try:
        limit = int(headers["x-ratelimit-limit"])
        remaining = int(headers["x-ratelimit-remaining"])
    except (KeyError, ValueError):
        return None
    return Bucket(headers.get("x-ratelimit-resource") or bucket_of(path), limit, remaining, _reset(headers))


def judge(status: int, headers: Mapping[str, str], body: bytes, *, now: datetime) -> Verdict:
    """Say whether an answer is a limit and how long to wait. A plain 403 is none: it is a permission (case R01 d)."""
    if status == 200 and b'"errors"' in body[:100_000] and _graphql_limited(body):
        return Verdict(Refusal.PRIMARY, _until_reset(headers, now))
    if status not in (403, 429):
        return Verdict()
    text = body[:4000].decode("utf-8", "replace").lower()
    named = _retry_after(headers, now)
    secondary = any(word in text for word in _SECONDARY)
    if named is not None:
        return Verdict(Refusal.SECONDARY, named)
    if headers.get("x-ratelimit-remaining") == "0":
        return Verdict(Refusal.SECONDARY if secondary else Refusal.PRIMARY, _until_reset(headers, now))
    if secondary or status == 429:
        return Verdict(Refusal.SECONDARY, None)
    return Verdict()


def growing_wait(strikes: int) -> float:
    """Give the wait for the n-th limit in a row (from 0) that names no time: a minute, doubled, bounded."""
    return float(min(GROWING_WAIT * 2 ** min(strikes, 10), LONGEST_GROWING_WAIT))


def server_now(headers: Mapping[str, str], now: datetime) -> datetime:
    """Give the forge's own time where it says it: our clock may be wrong, the difference counts."""
    return _http_date(headers.get("date", "")) or now


def _reset(headers: Mapping[str, str]) -> datetime | None:
    try:
        return datetime.fromtimestamp(int(headers["x-ratelimit-reset"]), UTC)
    except (KeyError, ValueError, OverflowError, OSError):
        return None


def _until_reset(headers: Mapping[str, str], now: datetime) -> float | None:
    at = _reset(headers)
    if at is None:
        return None
    wait = (at - server_now(headers, now)) / timedelta(seconds=1)
    # One second more than told: the reset is given in whole seconds.
    return wait + 1 if wait > 0 else SMALL_WAIT


def _retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    if value.isdigit():
        return float(value) or SMALL_WAIT
    at = _http_date(value)
    if at is None:
        return None
    wait = (at - server_now(headers, now)) / timedelta(seconds=1)
    return wait if wait > 0 else SMALL_WAIT


def _http_date(value: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _graphql_limited(body: bytes) -> bool:
    """Whether a GraphQL answer of 200 is a refused one: ``RATE_LIMITED`` among its errors."""
    if b"RATE_LIMIT" not in body:
        return False
    try:
        answer = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return False
    errors = answer.get("errors") if isinstance(answer, dict) else None
    return isinstance(errors, list) and any(
        isinstance(error, dict) and error.get("type") in ("RATE_LIMIT", "RATE_LIMITED") for error in errors
    )
