"""Crash points: every place between two effects has a name at which a test can kill the process (QLT-030)."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter

CRASH_VARIABLE = "HERD_CRASH_AT"
_passed: Counter[str] = Counter()


async def point(name: str) -> None:
    """Name the place; die here by SIGKILL when ``HERD_CRASH_AT`` is ``name`` or, for the n-th passage, ``name:n``."""
    sync_point(name)


def sync_point(name: str) -> None:
    """As ``point``, for code outside a coroutine."""
    wanted = os.environ.get(CRASH_VARIABLE)
    if not wanted:
        return
    _passed[name] += 1
    at, _, nth = wanted.partition(":")
    if at == name and _passed[name] == int(nth or 1):
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGKILL)
