"""The Fleet: every port, built once by ``app.py`` and handed to the rooms' loops and jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from droveway.core.actuator import Actuator
from droveway.core.clock import Clock
from droveway.core.ids import Ids
from droveway.core.repo import RepoId
from droveway.core.runner import Runner
from droveway.core.settings import Settings
from droveway.core.text import Redactor

if TYPE_CHECKING:
    from droveway.engine import Engine
    from droveway.forge.port import Forge
    from droveway.git import Git, Mirror
    from droveway.sandbox import Sandbox
    from droveway.store import Store


@dataclass(frozen=True)
class Fleet:
    """What a loop or job may use. Reading ports is free; writing to the world goes through ``actuator`` alone.

    ``settings`` reads the configuration of a repository from its base branch; ``mirror`` opens its mirror (fetched at
    the caller's wish); ``runs`` is the folder ``cache/<host>/<owner>/<repo>/runs`` of a repository; ``script`` is the
    scripted agent's file, if one was given at the start (AGT-011).
    """

    clock: Clock
    ids: Ids
    runner: Runner
    redactor: Redactor
    git: Git
    forge: Forge
    sandbox: Sandbox
    store: Store
    engine: Engine
    actuator: Actuator
    settings: Callable[[RepoId], Awaitable[Settings]]
    mirror: Callable[[RepoId], Awaitable[Mirror]]
    runs: Callable[[RepoId], Path]
    script: Path | None = None
