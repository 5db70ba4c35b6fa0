"""An executor for tests with real processes: URL, its name, a folder, the silence, slots, global slots.

Its one kind of job, ``work``, takes the lease named in its arguments, says that it has started, waits for a gate (a
file), asks its leases, and writes its effect.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

from droveway.core.clock import SystemClock
from droveway.core.ids import RandomIds
from droveway.core.lease import Lease, LeaseLostError
from droveway.engine import DbosEngine, JobContext, JobInterruptedError


async def main() -> None:
    url, name, folder_name, silence, slots, global_slots = sys.argv[1:]
    folder = Path(folder_name)

    def say(*words: object) -> None:
        with (folder / "log").open("a") as log:
            log.write(" ".join(map(str, words)) + "\n")

    engine = DbosEngine(
        url,
        executor_id=name,
        clock=SystemClock(),
        ids=RandomIds(),
        slots={"workers": int(slots)},
        global_slots={"workers": int(global_slots)} if int(global_slots) else None,
        poll_seconds=0.05,
        silence=float(silence),
    )

    async def work(context: JobContext) -> Any:
        job = context.job.id
        leases = [context.lease]
        if wanted := context.job.args.get("lease"):
            while (taken := await engine.lease(wanted, ttl=float(silence))) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            leases.append(taken)
        await context.lease.check()
        say("start", job, name, os.getpid(), *(lease.epoch for lease in leases))
        try:
            while not any((folder / f"gate-{gate}").exists() for gate in ("all", name)):
                if context.cancelled.is_set():
                    raise JobInterruptedError("told to end")
                await asyncio.sleep(0.02)
            await act(leases, job)
        except asyncio.CancelledError:
            await last_try(leases, job)
            raise
        return {"by": name}

    async def act(leases: list[Lease], job: str) -> None:
        for lease in leases:
            try:
                await lease.check()
            except LeaseLostError:
                say("lost", lease.key, name)
                raise
        say("effect", job, name)

    async def last_try(leases: list[Lease], job: str) -> None:
        """Be as naughty as a handler can: try the effect once more although the task is being cancelled."""
        with contextlib.suppress(LeaseLostError):
            await act(leases, job)

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    engine.register("work", "workers", work)
    await engine.start()
    say("ready", name)
    await stop.wait()
    await engine.stop(grace=5)
    say("stopped", name)


asyncio.run(main())
