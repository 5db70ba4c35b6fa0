"""Sends webhooks after their transaction has committed, signed, once (FRG-026)."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import urlencode

import httpx
import structlog

from droveway.core.tasks import background
from droveway.localforge.db import Row
from droveway.localforge.kernel import Kernel

TIMEOUT: Final = 10.0  # seconds, as GitHub waits
_BATCH: Final = 100
_KEPT: Final = 64 * 1024  # characters of an answer


def signature(secret: str, body: bytes) -> str:
    """Give the value of ``X-Hub-Signature-256``."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def request_of(row: Row) -> tuple[dict[str, str], bytes]:
    """Give headers and body of a delivery (a row of deliveries joined with its hook)."""
    body = row["payload"].encode()
    media = "application/json"
    if row["content_type"] == "form":
        body, media = urlencode({"payload": row["payload"]}).encode(), "application/x-www-form-urlencoded"
    headers = {
        "Accept": "*/*",
        "Content-Type": media,
        "User-Agent": "GitHub-Hookshot/droveway",
        "X-GitHub-Delivery": row["guid"],
        "X-GitHub-Event": row["event"],
        "X-GitHub-Hook-ID": str(row["hook_id"]),
        "X-GitHub-Hook-Installation-Target-ID": str(row["repo_id"]),
        "X-GitHub-Hook-Installation-Target-Type": "repository",
    }
    if row["secret"]:
        headers["X-Hub-Signature-256"] = signature(row["secret"], body)
    return headers, body


class Sender:
    """Takes queued deliveries from the rows. Hooks are served side by side, each in the order of its events."""

    def __init__(self, kernel: Kernel, client: httpx.AsyncClient | None = None) -> None:
        """Use ``client``, or one of its own."""
        self._kernel = kernel
        self._client = client

    def _take(self) -> list[Row]:
        sql = (
            "SELECT deliveries.*, url, secret, content_type, repo_id FROM deliveries JOIN hooks ON hooks.id = hook_id"
            " WHERE state = 'queued' ORDER BY deliveries.id LIMIT ?"
        )
        with self._kernel.read() as tx:
            if not tx.one(sql, 1):
                return []
        with self._kernel.write() as tx:
            rows = tx.all(sql, _BATCH)
            for row in rows:  # before they leave: a delivery is sent at most once
                tx.update("deliveries", row["id"], state="sending")
            return rows

    def _finish(self, delivery: int, values: dict[str, Any]) -> None:
        with self._kernel.write() as tx:
            tx.update("deliveries", delivery, delivered_at=tx.now, **values)

    async def send_queued(self) -> int:
        """Send everything that is queued now, and give how much that was."""
        sent = 0
        async with contextlib.AsyncExitStack() as stack:
            client = self._client
            if client is None:
                client = await stack.enter_async_context(httpx.AsyncClient(timeout=TIMEOUT, trust_env=False))
            while rows := await asyncio.to_thread(self._take):
                lanes: dict[int, list[Row]] = {}
                for row in rows:
                    lanes.setdefault(row["hook_id"], []).append(row)
                async with asyncio.TaskGroup() as group:
                    for lane in lanes.values():
                        group.create_task(self._lane(client, lane))
                sent += len(rows)
        return sent

    async def _lane(self, client: httpx.AsyncClient, rows: list[Row]) -> None:
        for row in rows:
            headers, body = request_of(row)
            started = self._kernel.clock.monotonic()
            try:
                answer = await client.post(row["url"], headers=headers, content=body)
                values = {"state": "sent", "status_code": answer.status_code, "response": answer.text[:_KEPT]}
            except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
                values = {"state": "failed", "response": f"{type(error).__name__}: {error}"[:_KEPT]}
            values["duration"] = round(self._kernel.clock.monotonic() - started, 3)
            await asyncio.to_thread(self._finish, row["id"], values)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send in the background of the running loop."""
        loop = asyncio.get_running_loop()
        event = asyncio.Event()
        event.set()
        before = self._kernel.wake

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has closed: the next start sends
                loop.call_soon_threadsafe(event.set)

        async def forever() -> None:
            while True:
                await event.wait()
                event.clear()
                try:
                    await self.send_queued()
                except Exception:  # what is queued stays queued; the forge goes on
                    structlog.get_logger().exception("webhooks could not be sent")

        self._kernel.wake = wake
        async with background(forever()):
            try:
                yield
            finally:
                self._kernel.wake = before
