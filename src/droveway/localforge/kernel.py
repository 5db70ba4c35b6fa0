"""What one running forge is made of: its folder, its rows, its repositories, its counters."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Generic, TypeVar

from droveway.core.clock import Clock
from droveway.core.ids import Ids
from droveway.localforge.db import Database, Tx
from droveway.localforge.gitrepo import GitRepo

V = TypeVar("V")


class Cache(Generic[V]):
    """A bounded memory of values that can't change (they are named by SHAs). Safe between threads."""

    def __init__(self, size: int) -> None:
        """Hold at most ``size`` values."""
        self._size = size
        self._values: collections.OrderedDict[Any, V] = collections.OrderedDict()
        self._guard = threading.Lock()

    def get(self, key: Any) -> V | None:
        """Give a value, or None."""
        with self._guard:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: Any, value: V) -> V:
        """Keep a value and give it back."""
        with self._guard:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._size:
                self._values.popitem(last=False)
        return value


class Kernel:
    """The parts that every operation of one forge may reach through its transaction."""

    def __init__(self, data: Path, clock: Clock, ids: Ids, base_url: str) -> None:
        """Open the folder ``data``; nothing is started."""
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.data = data
        self.clock = clock
        self.ids = ids
        self.base_url = base_url.rstrip("/")
        self.home = data / "home"
        self.home.mkdir(exist_ok=True)
        self.db = Database(data / "forge.sqlite3", clock)
        self.commits: Cache[Any] = Cache(20_000)
        self.tested: Cache[Any] = Cache(5_000)  # mergeability by (repository, base tip, head)
        self.diffs: Cache[Any] = Cache(200)  # files with patches by (repository, old, new)
        self.wake: Callable[[], None] = lambda: None  # tells the sender of webhooks that there is something to send
        # Told of each ref that moved, and of the head of a new PR, once that is committed: owner/name, ref, SHA.
        self.pushed: Callable[[str, str, str], None] | None = None

    def git(self, repo_id: int) -> GitRepo:
        """Give the repository of this id. The folder is named by the id, so that a new name moves nothing."""
        return GitRepo(self.data / "repositories" / f"{repo_id}.git", self.home)

    def read(self) -> AbstractContextManager[Tx]:
        """Open a reading transaction."""
        return self.db.read(self)

    def write(self) -> AbstractContextManager[Tx]:
        """Open a writing transaction."""
        return self.db.write(self)
