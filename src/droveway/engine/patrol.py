"""Takes over what dead executors left: DBOS's live peers do not do that by themselves (ENG-009)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec
import structlog

from droveway.engine.ledger import Executor

if TYPE_CHECKING:
    from dbos import WorkflowStatus

    from droveway.engine.dbos import DbosEngine

ROUNDS = 3  # a process that was itself stopped for a while must look this often before it calls another one dead


class _Sight(msgspec.Struct):
    """How an executor looked, since when it has looked so (our monotonic seconds), and how often we have looked."""

    executor: Executor
    since: float
    looks: int = 1


class Patrol:
    """Watches the beats of all executors by this process's own monotonic clock: no clock jump can fake a death."""

    def __init__(self, engine: DbosEngine) -> None:
        """Patrol for ``engine``, one round at a time."""
        self._engine = engine
        self._sights: dict[str, _Sight] = {}
        self._strays: Counter[str] = Counter()

    async def round(self) -> None:
        """Look once; bury who is dead, and put the jobs that nobody runs back into their queues."""
        engine = self._engine
        living = await self._look()
        pending = await engine.pending()
        orphans = [row for row in pending if row.executor_id not in living]
        strays = self._own_strays(pending)
        if not orphans and not strays:
            return
        lease = await engine.lease("engine:patrol", ttl=engine.silence)
        if lease is None:
            return
        try:
            claimed = await engine.claimed(row.workflow_id for row in orphans)
            for row in [*(row for row in orphans if row.workflow_id not in claimed), *strays]:
                await lease.check()
                structlog.get_logger().warning("job taken over", job=row.workflow_id, executor=row.executor_id)
                await engine.requeue(row.workflow_id, row.queue_name or "")
        finally:
            await engine.release(lease)

    async def _look(self) -> set[str]:
        """Give the ids of the executors that live, as far as we can tell; bury those that do not."""
        engine = self._engine
        now = engine.monotonic()
        living = set()
        for executor in await engine.executors():
            sight = self._sights.get(executor.id)
            if sight is None or sight.executor != executor:
                self._sights[executor.id] = _Sight(executor, now)
            else:
                sight.looks += 1
                if now - sight.since >= engine.silence and sight.looks > ROUNDS and await engine.bury(executor):
                    structlog.get_logger().warning("executor has died", executor=executor.id)
                    continue
            living.add(executor.id)
        return living

    def _own_strays(self, pending: list[WorkflowStatus]) -> list[WorkflowStatus]:
        """Give the jobs that DBOS has running here, and that do not: a failing database can leave some."""
        mine = {row.workflow_id: row for row in pending if self._engine.is_stray(row)}
        self._strays = Counter({job_id: self._strays[job_id] + 1 for job_id in mine})
        return [mine[job_id] for job_id, looks in self._strays.items() if looks > 2 * ROUNDS]
