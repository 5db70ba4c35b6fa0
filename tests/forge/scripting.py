"""A scripted server on virtual time, and the embedded forge in process."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC
from typing import Any

import httpx

from droveway.core.clock import VirtualClock
from droveway.core.repo import RepoId
from droveway.core.text import Redactor
from droveway.forge import GitHubForge

REPO = RepoId("owner", "road")
Answer = httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]


def reply(status: int = 200, body: Any = None, **headers: str) -> httpx.Response:
    """An answer; header names with underscores for hyphens."""
    text = body if isinstance(body, bytes) else json.dumps({} if body is None else body).encode()
    return httpx.Response(status, headers={k.replace("_", "-"): v for k, v in headers.items()}, content=text)


class Script(httpx.AsyncBaseTransport):
    """Answers from a list, the last one for ever, and notes what was asked and when."""

    def __init__(self, clock: VirtualClock, *answers: Answer) -> None:
        self.clock = clock
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.times: list[float] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        self.requests.append(request)
        self.times.append(self.clock.monotonic())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return (
            answer(request)
            if callable(answer)
            else httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)
        )

    @property
    def asked(self) -> list[str]:
        return [f"{each.method} {each.url.path}" for each in self.requests]

    def body(self, at: int = -1) -> Any:
        return json.loads(self.requests[at].content)


def scripted(clock: VirtualClock, *answers: Answer, url: str = "http://forge.invalid") -> tuple[GitHubForge, Script]:
    script = Script(clock, *answers)
    forge = GitHubForge(
        url, "ghp_0123456789012345678901234567890123456789", clock=clock, store_etags=None, redactor=Redactor(),
        transport=script,
    )  # fmt: skip
    forge.login = "herd-bot"
    return forge, script


def epoch(clock: VirtualClock, seconds: float) -> str:
    """A reset header ``seconds`` from now."""
    return str(int(clock.now().astimezone(UTC).timestamp() + seconds))
