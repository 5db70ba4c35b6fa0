"""The store: tasks, sessions, turns, messages, decisions, ETags and settings, on SQLite or PostgreSQL."""

from droveway.store.database import make_engine
from droveway.store.records import MessageInfo, SessionInfo, TaskInfo, TurnInfo, UsageTotals
from droveway.store.store import Store

__all__ = ["MessageInfo", "SessionInfo", "Store", "TaskInfo", "TurnInfo", "UsageTotals", "make_engine"]
