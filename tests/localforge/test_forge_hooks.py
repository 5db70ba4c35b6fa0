"""Webhooks: signed, after the commit, once, in order, redeliverable (FRG-026)."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from droveway.localforge import serve

from .world import World, commit, git

pytestmark = pytest.mark.req("FRG-026")
SECRET = "between us"


class Receiver:
    """A small HTTP server that keeps what it gets."""

    def __init__(self) -> None:
        self.got: asyncio.Queue[tuple[dict[str, str], bytes]] = asyncio.Queue()
        self.status = 200
        self.url = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in head.splitlines()[1:] if line)}
                body = await reader.readexactly(int(headers["content-length"]))
                self.got.put_nowait((headers, body))
                writer.write(f"HTTP/1.1 {self.status} X\r\nContent-Length: 2\r\n\r\nok".encode())
                await writer.drain()
        writer.close()

    async def next(self, event: str, action: str | None = None) -> dict[str, Any]:
        """Wait for the next delivery of this event, passing over others."""
        async with asyncio.timeout(20):
            while True:
                headers, body = await self.got.get()
                payload = json.loads(body)
                if headers["x-github-event"] == event and payload.get("action") == action:
                    expected = "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
                    assert headers["x-hub-signature-256"] == expected
                    return payload


@pytest.fixture
async def receiver(world: World) -> AsyncIterator[Receiver]:
    made = Receiver()
    server = await asyncio.start_server(made.handle, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    async with server, serve(world.forge) as url:
        world.tmp.joinpath("url").write_text(url)
        body = {"config": {"url": made.url, "secret": SECRET, "content_type": "json"}, "events": ["*"]}
        await world.owner.repo("POST", "/hooks", body, want=201)
        await made.next("ping")
        yield made
        server.close_clients() if hasattr(server, "close_clients") else None


async def test_what_happens_to_an_issue_is_told(world: World, receiver: Receiver) -> None:
    await world.bot.repo("POST", "/issues", {"title": "T", "labels": ["x"]}, want=201)
    opened = await receiver.next("issues", "opened")
    assert opened["issue"]["number"] == 1
    assert opened["sender"]["login"] == "herd-bot"
    assert opened["repository"]["full_name"] == "owner/road"
    assert (await receiver.next("issues", "labeled"))["label"]["name"] == "x"
    await world.bot.repo("POST", "/issues/1/comments", {"body": "/herd"}, want=201)
    assert (await receiver.next("issue_comment", "created"))["comment"]["body"] == "/herd"
    await world.bot.repo("PATCH", "/issues/1", {"title": "U", "state": "closed"})
    assert (await receiver.next("issues", "edited"))["changes"] == {"title": {"from": "T"}}
    await receiver.next("issues", "closed")


async def test_pushes_pull_requests_reviews_and_checks_are_told(world: World, receiver: Receiver) -> None:
    await world.pull()
    assert (await receiver.next("pull_request", "opened"))["number"] == 1
    await world.owner.repo("POST", "/pulls/1/reviews", {"event": "APPROVE"})
    assert (await receiver.next("pull_request_review", "submitted"))["review"]["state"] == "approved"
    sha = world.sha("clean")
    await world.bot.repo("POST", f"/statuses/{sha}", {"state": "success", "context": "c"}, want=201)
    assert (await receiver.next("status"))["context"] == "c"
    await world.bot.repo("POST", "/check-runs", {"name": "n", "head_sha": sha, "conclusion": "success"}, want=201)
    assert (await receiver.next("check_run", "completed"))["check_run"]["pull_requests"][0]["number"] == 1
    url = world.tmp.joinpath("url").read_text().replace("http://", f"http://x:{world.bot_token}@")
    await asyncio.to_thread(_push, world.tmp, f"{url}/owner/road.git")
    push = await receiver.next("push")
    assert (push["ref"], push["before"], len(push["commits"])) == ("refs/heads/clean", sha, 1)
    assert push["commits"][0]["added"] == ["more"]
    assert (await receiver.next("pull_request", "synchronize"))["after"] == push["after"]
    await world.bot.repo("PUT", "/pulls/1/merge", {"merge_method": "squash"})
    assert (await receiver.next("pull_request", "closed"))["pull_request"]["merged"] is True


def _push(tmp: Path, url: str) -> None:
    git("clone", "-q", "-b", "clean", url, "work", cwd=tmp)
    commit(tmp / "work", "more", more="x\n")
    git("push", "-q", "origin", "clean", cwd=tmp / "work")


async def test_a_refused_request_tells_nothing(world: World, receiver: Receiver) -> None:
    await world.bot.repo("POST", "/issues", {"title": "T", "milestone": 77}, want=422)
    await world.bot.repo("POST", "/issues", {"title": "second"}, want=201)
    assert (await receiver.next("issues", "opened"))["issue"]["title"] == "second"


async def test_a_delivery_that_failed_is_not_repeated_but_can_be_sent_again(world: World, receiver: Receiver) -> None:
    receiver.status = 500
    await world.bot.repo("POST", "/labels", {"name": "x"}, want=201)
    await receiver.next("label", "created")
    path = "/hooks/1/deliveries"
    async with asyncio.timeout(10):
        while (last := (await world.owner.repo("GET", path))[0])["status_code"] != 500:  # noqa: ASYNC110 - polled as a client does
            await asyncio.sleep(0.01)
    assert (last["event"], last["action"], last["redelivery"]) == ("label", "created", False)
    assert receiver.got.empty()
    await world.owner.repo("POST", f"{path}/{last['id']}/attempts", want=202)
    await receiver.next("label", "created")
    again = (await world.owner.repo("GET", path))[0]
    assert (again["guid"], again["redelivery"]) == (last["guid"], True)


async def test_only_administrators_see_hooks_and_no_answer_shows_the_secret(world: World) -> None:
    body = {"config": {"url": "http://127.0.0.1:1/x", "secret": SECRET}, "events": ["push"]}
    await world.bot.repo("POST", "/hooks", body, want=403)
    await world.owner.repo("POST", "/hooks", {"config": {"url": "file:///etc"}}, want=422)
    made = await world.owner.repo("POST", "/hooks", body, want=201)
    assert SECRET not in json.dumps(made)
    await world.bot.repo("GET", "/hooks", want=403)
    edited = await world.owner.repo("PATCH", "/hooks/1", {"add_events": ["issues"], "active": False})
    assert (edited["events"], edited["active"]) == (["issues", "push"], False)
    await world.owner.repo("DELETE", "/hooks/1", want=204)


async def test_a_hook_that_can_not_be_reached_is_noted(world: World) -> None:
    body = {"config": {"url": "http://127.0.0.1:1/x"}, "events": ["push"]}
    await world.owner.repo("POST", "/hooks", body, want=201)
    assert await world.forge.sender.send_queued() == 1
    (delivery,) = await world.owner.repo("GET", "/hooks/1/deliveries")
    assert (delivery["status"], delivery["status_code"]) == ("failed to connect to host", 0)
