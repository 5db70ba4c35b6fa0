"""The store's tables: how they are made, and that they live beside those of others."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from droveway.core.clock import SystemClock, VirtualClock
from droveway.core.errors import HerdError
from droveway.core.ids import RandomIds
from droveway.store import Store, make_engine, migrate
from droveway.store.schema import META, VERSION_TABLE

pytestmark = pytest.mark.req("ENG-001")


def test_migrations_lead_to_the_schema_and_leave_other_tables_alone(empty_url: str) -> None:
    database = make_engine(empty_url)
    with database.begin() as db:
        db.exec_driver_sql("CREATE TABLE workflow_status (id INTEGER PRIMARY KEY)")
    migrate.upgrade(database)
    migrate.upgrade(database)
    with database.connect() as db:
        context = MigrationContext.configure(
            db, opts={"include_object": migrate.ours, "version_table": VERSION_TABLE, "compare_type": True}
        )
        assert compare_metadata(context, META) == []
        names = set(sa.inspect(db).get_table_names())
        script = ScriptDirectory.from_config(migrate.config(db))
        assert script.get_heads() == [migrate.HEAD]
    assert names == {*META.tables, VERSION_TABLE, "workflow_status"}
    database.dispose()


def test_several_processes_may_open_an_empty_database_at_once(empty_url: str) -> None:
    async def open_one() -> None:
        store = await Store.open(empty_url, clock=SystemClock(), ids=RandomIds())
        await store.put("a", 1)
        await store.close()

    with ThreadPoolExecutor(4) as threads:
        for future in [threads.submit(asyncio.run, open_one()) for _ in range(4)]:
            future.result(60)


async def test_a_database_of_a_newer_version_is_refused_in_words(empty_url: str) -> None:
    store = await Store.open(empty_url, clock=SystemClock(), ids=RandomIds())
    with store.database.begin() as db:
        db.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    await store.close()
    with pytest.raises(HerdError, match="of a newer Droveway"):
        await Store.open(empty_url, clock=SystemClock(), ids=RandomIds())


def test_the_store_works_on_virtual_time_without_moving_it_ahead(tmp_path: Path, virtually: Any) -> None:
    async def run(clock: VirtualClock) -> float:
        store = await Store.open(f"sqlite:///{tmp_path / 'x.db'}", clock=clock, ids=RandomIds())
        for number in range(20):
            await store.put("a", number)
        assert await store.get("a") == 19
        await store.close()
        return clock.monotonic()

    assert virtually(run) < 10
