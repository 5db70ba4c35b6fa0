"""What the handlers of the forge's effects share: errors as refused effects, labels that exist."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from droveway.core.actuator import EffectError, Look
from droveway.core.decisions import AnyAction, Receipt
from droveway.core.repo import RepoId
from droveway.core.vocabulary import LABELS
from droveway.forge.counting import Priority, prioritised
from droveway.forge.port import (
    ExistsError,
    Forge,
    ForgeError,
    IncompleteError,
    LimitedError,
    NotFoundError,
    PermissionDeniedError,
)

A = TypeVar("A", bound=AnyAction)
_SPECS = MappingProxyType({spec.name: spec for spec in LABELS})


@contextlib.contextmanager
def effects() -> Iterator[None]:
    """Turn the port's errors into refused effects with a kind that rules match on; ask before mere observers."""
    try:
        with prioritised(Priority.REPAIR):
            yield
    except LimitedError as error:
        raise EffectError("limited", str(error)) from error
    except PermissionDeniedError as error:
        raise EffectError("forbidden", str(error)) from error
    except NotFoundError as error:
        raise EffectError("not-found", str(error)) from error
    except ExistsError as error:
        raise EffectError("exists", str(error)) from error
    except IncompleteError as error:
        raise EffectError("incomplete", str(error)) from error
    except ForgeError as error:
        kind = "unreachable" if error.status == 0 or error.status >= 500 else "rejected"
        raise EffectError(kind, str(error)) from error


class BaseHandler(Generic[A]):
    """What all handlers share: the forge, and errors as effects."""

    def __init__(self, forge: Forge, labels: Labels) -> None:
        self.forge = forge
        self.labels = labels

    async def look(self, action: A) -> Look:
        """Read the subject anew."""
        with effects():
            return await self._look(RepoId.parse(action.repo), action)

    async def apply(self, action: A) -> Receipt:
        """Make the effect."""
        with effects():
            return await self._apply(RepoId.parse(action.repo), action, None)

    async def apply_seen(self, action: A, seen: Any) -> Receipt:
        """Make the effect from what the look has just read."""
        with effects():
            return await self._apply(RepoId.parse(action.repo), action, seen)

    async def _look(self, repo: RepoId, action: A) -> Look:
        raise NotImplementedError

    async def _apply(self, repo: RepoId, action: A, seen: Any) -> Receipt:
        """``seen`` is what ``_look`` gave with Ready; None: it has to be read here."""
        raise NotImplementedError


class Labels:
    """Sees to it that our own labels exist, as the vocabulary describes them, before one is put on an issue."""

    def __init__(self, forge: Forge) -> None:
        self._forge = forge
        self._there: set[tuple[str, str]] = set()

    async def ensure(self, repo: RepoId, names: Sequence[str]) -> None:
        wanted = [name for name in names if name in _SPECS and (str(repo), name) not in self._there]
        if not wanted:
            return
        there = await self._forge.label_names(repo)
        for name in wanted:
            if name not in there:
                await self._forge.ensure_label(repo, name, _SPECS[name].color, _SPECS[name].description)
            self._there.add((str(repo), name))
