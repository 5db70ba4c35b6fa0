"""Fresh identifiers as a port, so that a seeded run makes the same ones."""

from __future__ import annotations

import random
import uuid
from typing import Protocol


class Ids(Protocol):
    """Makes identifiers."""

    def new(self) -> str:
        """Give 32 lower-case hexadecimal digits that nobody has used."""
        ...


class RandomIds:
    """Identifiers from the system's randomness."""

    def new(self) -> str:
        """Give a fresh identifier."""
        return uuid.uuid4().hex


class SeededIds:
    """Identifiers from a seed, for simulations."""

    def __init__(self, seed: int) -> None:
        """Start the sequence of ``seed``."""
        self._random = random.Random(seed)  # noqa: S311 - a simulation wants the same ids again, not secrecy

    def new(self) -> str:
        """Give the sequence's next identifier."""
        return f"{self._random.getrandbits(128):032x}"
