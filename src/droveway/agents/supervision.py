"""Runs one agent's command line to its end: deadline, silence, a transcript within bounds, the whole tree (AGT-004)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from droveway.core.runner import Completed, Limits, Runner

TRANSCRIPT_BYTES = 20 * 1024 * 1024
OUTPUT_BYTES = 64 * 1024 * 1024
_LINE_BYTES = 1024 * 1024
GRACE_SECONDS = 10.0  # BAT-170


class Transcript:
    """Writes an agent's output into a file (0600) as it comes, line by line, within a limit."""

    def __init__(
        self,
        path: Path,
        *,
        limit: int = TRANSCRIPT_BYTES,
        redact: Callable[[str], str] | None = None,
        on_output: Callable[[str], None] | None = None,
    ) -> None:
        """Add to ``path``. ``redact`` and ``on_output`` get each line as text, without its end."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        self._room = limit
        self._redact = redact
        self._on_output = on_output
        self._rest = b""

    def feed(self, piece: bytes) -> None:
        """Take a piece of output."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            self._line(line)
        while len(self._rest) > _LINE_BYTES:
            self._line(self._rest[:_LINE_BYTES])
            self._rest = self._rest[_LINE_BYTES:]

    def close(self) -> None:
        """Write what is left."""
        if self._rest:
            self._line(self._rest)
        self._rest = b""
        os.close(self._descriptor)

    def _line(self, raw: bytes) -> None:
        text = raw.decode("utf-8", "replace")
        if self._redact:
            text = self._redact(text)
        if self._on_output:
            self._on_output(text)
        if self._room <= 0:
            return
        data = text.encode("utf-8", "replace") + b"\n"
        if len(data) > self._room:
            data, self._room = b"[the transcript's limit is reached; the rest is left out]\n", 0
        self._room -= len(data)
        os.write(self._descriptor, data)


async def supervise(
    runner: Runner,
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    stdin: bytes,
    cwd: Path,
    deadline: float,
    idle: float | None,
    transcript: Path,
    on_output: Callable[[str], None] | None = None,
    cancelled: asyncio.Event | None = None,
    redact: Callable[[str], str] | None = None,
    grace: float = GRACE_SECONDS,
) -> Completed:
    """Run a wrapped command line to its end.

    ``deadline`` and ``idle`` are in seconds from now and of silence; ``cancelled`` ends the run (``End.STOPPED``) with
    what it has said so far. Standard output goes to ``transcript`` as it comes, standard error is added at the end.
    No process of the run is left afterwards. Raises OSError where the program can't be started.
    """
    written = Transcript(transcript, redact=redact, on_output=on_output)
    try:
        completed = await runner.run(
            argv,
            cwd=cwd,
            env=env,
            stdin=stdin,
            limits=Limits(timeout=deadline, idle=idle, grace=grace, max_output=OUTPUT_BYTES),
            sink=written.feed,
            stop=cancelled,
        )
        if completed.stderr.strip():
            written.feed(b"\n[standard error]\n" + completed.stderr)
        return completed
    finally:
        written.close()
