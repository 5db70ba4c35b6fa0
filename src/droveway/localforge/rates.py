"""Rate limits by token and bucket, and counters of requests (FRG-027). Both live as long as the server does."""

from __future__ import annotations

import collections
import threading
from typing import Any, Final

from droveway.core.clock import Clock

#: Requests in an hour. Generous: one machine serves its own people; the headers are what clients learn from.
LIMITS: Final = {"core": 100_000, "graphql": 100_000, "search": 20_000}
_HOUR: Final = 3600


class Rates:
    """Who has used how much in this hour, and which operations were called."""

    def __init__(self, clock: Clock) -> None:
        """Begin at zero."""
        self._clock = clock
        self._guard = threading.Lock()
        self._used: collections.Counter[tuple[int, str, int]] = collections.Counter()
        self._counts: collections.Counter[str] = collections.Counter()

    def _hour(self) -> int:
        return int(self._clock.now().timestamp()) // _HOUR

    def charge(self, account: int, bucket: str, *, cost: int = 1) -> dict[str, int]:
        """Take ``cost`` off an account's bucket and give its state: limit, remaining, used, reset (epoch seconds)."""
        hour = self._hour()
        with self._guard:
            if len(self._used) > 10_000:
                self._used = collections.Counter({key: n for key, n in self._used.items() if key[2] == hour})
            self._used[account, bucket, hour] += cost
            used = self._used[account, bucket, hour]
        limit = LIMITS[bucket]
        return {"limit": limit, "remaining": max(limit - used, 0), "used": used, "reset": (hour + 1) * _HOUR}

    def count(self, operation: str, login: str) -> None:
        """Count a request: by operation (``GET /repos/{owner}/{repo}``), by ``token:<login>``, and in ``total``."""
        with self._guard:
            self._counts[operation] += 1
            self._counts[f"token:{login or 'nobody'}"] += 1
            self._counts["total"] += 1

    def counters(self) -> dict[str, int]:
        """Give the counters."""
        with self._guard:
            return dict(self._counts)

    def reset(self) -> None:
        """Begin to count anew."""
        with self._guard:
            self._counts.clear()

    def overview(self, account: int) -> dict[str, Any]:
        """Give ``GET /rate_limit``."""
        resources = {bucket: self.charge(account, bucket, cost=0) for bucket in LIMITS}
        return {"resources": resources, "rate": resources["core"]}
