"""A background task that belongs to a block: it ends with the block, and its failure ends the block."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any


@contextlib.asynccontextmanager
async def background(work: Coroutine[Any, Any, Any]) -> AsyncIterator[asyncio.Task[Any]]:
    """Run ``work`` beside the block.

    Unlike a task group, it is cancelled at the block's end, and the block's own exception passes as it is, not inside
    of a group. A failure of ``work`` interrupts the block and is raised there.
    """
    block = asyncio.current_task()
    assert block is not None
    task = asyncio.get_running_loop().create_task(work)
    inside = True
    interrupted = False

    def ended(done: asyncio.Task[Any]) -> None:
        nonlocal interrupted
        if inside and not done.cancelled() and done.exception() is not None:
            interrupted = True
            block.cancel()

    task.add_done_callback(ended)
    try:
        yield task
    except asyncio.CancelledError:
        if interrupted:
            block.uncancel()
            failure = task.exception()
            assert failure is not None
            raise failure from None
        raise
    finally:
        inside = False
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await task
