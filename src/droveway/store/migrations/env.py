"""Alembic's environment: the migrations run on the connection, and in the transaction, of ``store.migrate``."""

from __future__ import annotations

from alembic import context

from droveway.store.migrate import ours
from droveway.store.schema import META, VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=META,
    version_table=VERSION_TABLE,
    include_object=ours,
    render_as_batch=True,
)
context.run_migrations()
