"""The store's tables (ENG-001, ENG-002, ENG-007). A change here is a migration in ``migrations/versions`` too.

Moments are kept as UTC seconds: SQLite has no type for them, and both databases compare numbers alike.
"""

from __future__ import annotations

import sqlalchemy as sa

META = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)
VERSION_TABLE = "store_version"

TASKS = sa.Table(
    "tasks",
    META,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("repo", sa.String(200), nullable=False),
    sa.Column("kind", sa.String(50), nullable=False),
    sa.Column("subject", sa.String(200), nullable=False),
    sa.Column("issue", sa.BigInteger),
    sa.Column("batch", sa.BigInteger),
    sa.Column("pr", sa.BigInteger),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.UniqueConstraint("repo", "kind", "subject"),
    sa.Index(None, "repo", "batch"),
    sa.Index(None, "repo", "issue"),
)
SESSIONS = sa.Table(
    "sessions",
    META,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("task", sa.ForeignKey("tasks.id"), nullable=False, index=True),
    sa.Column("role", sa.String(50), nullable=False),
    sa.Column("provider", sa.String(50), nullable=False),
    sa.Column("model", sa.String(200), nullable=False),
    sa.Column("identity", sa.String(100), nullable=False),
    sa.Column("conversation", sa.String(200), nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
)
TURNS = sa.Table(
    "turns",
    META,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("session", sa.ForeignKey("sessions.id"), nullable=False, index=True),
    sa.Column("job", sa.String(500), nullable=False, index=True),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("prompt_digest", sa.String(64), nullable=False),
    sa.Column("transcript", sa.Text, nullable=False),
    sa.Column("started_at", sa.Double, nullable=False, index=True),
    sa.Column("ended_at", sa.Double),
    sa.Column("outcome", sa.String(50), nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("tokens_in", sa.BigInteger),
    sa.Column("tokens_out", sa.BigInteger),
    sa.Column("tokens_cached", sa.BigInteger),
    sa.Column("cost_usd", sa.Double),
    sa.Column("agent_turns", sa.Integer),
    sa.Column("seconds", sa.Double, nullable=False),
)
MESSAGES = sa.Table(
    "messages",
    META,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("session", sa.ForeignKey("sessions.id"), nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("author", sa.String(100), nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("turn", sa.ForeignKey("turns.id")),
    sa.Index(None, "session", "at"),
)
DECISIONS = sa.Table(
    "decisions",
    META,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("at", sa.Double, nullable=False, index=True),
    sa.Column("loop", sa.String(50), nullable=False),
    sa.Column("rule", sa.String(50), nullable=False),
    sa.Column("repo", sa.String(200), nullable=False),
    sa.Column("subject", sa.String(200), nullable=False),
    sa.Column("head", sa.String(64), nullable=False),
    sa.Column("facts_digest", sa.String(64), nullable=False),
    sa.Column("facts", sa.Text, nullable=False),
    sa.Column("blockers", sa.Text, nullable=False),
    sa.Column("actions", sa.Text, nullable=False),
    sa.Column("outcomes", sa.Text, nullable=False),
    sa.Column("requests", sa.Integer, nullable=False),
    sa.Index(None, "repo", "subject", "rule", "at"),
)
FACTS = sa.Table(
    "facts",
    META,
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("at", sa.Double, nullable=False, index=True),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
)
ETAGS = sa.Table(
    "etags",
    META,
    sa.Column("key", sa.String(2000), primary_key=True),
    sa.Column("etag", sa.String(500), nullable=False),
    sa.Column("at", sa.Double, nullable=False, index=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
)
SETTINGS = sa.Table(
    "settings",
    META,
    sa.Column("key", sa.String(500), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
