"""Driving the real command in processes of its own, killing it, and looking at what stands on the forge."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from droveway.core.clock import SystemClock
from droveway.core.ids import RandomIds
from droveway.core.keys import find_markers, message_key

CANARY = "canary-9f1c7e0d-never-shown"
OWNER = "owner"
REPO = "demo"


def environment(home: Path | None = None, **more: str) -> dict[str, str]:
    """Give the environment of the command: with a canary credential of another forge planted in it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DROVEWAY_", "HERD_", "GIT_"))}
    planted = {"GITHUB_TOKEN": CANARY, "GH_TOKEN": CANARY, "AWS_SECRET_ACCESS_KEY": CANARY}
    return {**kept, **planted, **({"DROVEWAY_HOME": str(home)} if home else {}), **more}


@dataclass
class Process:
    """A command under way; its output goes to a file."""

    popen: subprocess.Popen[bytes]
    out: Path
    started: float = field(default_factory=time.monotonic)

    def wait(self, timeout: float) -> int:
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"not ended after {timeout} s:\n{self.text()[-4000:]}") from None

    def kill(self) -> None:
        """Kill -9 the whole command: its own process only, as a crash would; children are its own affair."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.popen.pid, signal.SIGKILL)
        self.popen.wait(20)

    def stop(self) -> int:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.popen.pid, signal.SIGTERM)
        return self.popen.wait(40)

    def text(self) -> str:
        return self.out.read_text(encoding="utf-8", errors="replace")


def herd(*args: str, out: Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> Process:
    """Start ``herd``."""
    with open(out, "ab") as handle:
        popen = subprocess.Popen(
            [sys.executable, "-m", "droveway", *args],
            cwd=cwd or out.parent,
            env=env or environment(),
            stdin=subprocess.DEVNULL,
            stdout=handle,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Process(popen, out)


def last_json(text: str) -> dict[str, Any]:
    """Give the last line that is a JSON object."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            found: dict[str, Any] = json.loads(line)
            return found
    raise AssertionError(f"no JSON in:\n{text[-3000:]}")


def until(condition: Any, seconds: float, what: str) -> Any:
    """Poll a condition that another process makes true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within {seconds} s")


@contextlib.contextmanager
def served(data: Path) -> Iterator[tuple[str, str]]:
    """Serve a forge's data again, and give its address and the owner's token."""
    from droveway.localforge import LocalForge, serve_in_thread

    forge = LocalForge.open(data, clock=SystemClock(), ids=RandomIds())
    try:
        with serve_in_thread(forge) as url:
            yield url, forge.issue_token(OWNER)
    finally:
        forge.close()


@dataclass(frozen=True)
class Landed:
    """What stands on the forge at the end."""

    tree: str
    issues: dict[int, str]
    pulls: list[dict[str, Any]]
    keys: Counter[str]
    successes: dict[int, int]
    texts: list[str]
    branches: list[str]


def look(url: str, token: str, repo: str = f"{OWNER}/{REPO}") -> Landed:
    """Read everything over REST, as anyone could."""
    client = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=30)

    def pages(path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        following: str | None = path
        while following:
            answer = client.get(following)
            answer.raise_for_status()
            found += answer.json()
            following = answer.links.get("next", {}).get("url")
        return found

    with client:
        items = pages(f"/repos/{repo}/issues?state=all&per_page=100")
        pulls = [client.get(f"/repos/{repo}/pulls/{item['number']}").json() for item in items if "pull_request" in item]
        keys: Counter[str] = Counter()
        texts: list[str] = []
        successes: dict[int, int] = {}
        for item in items:
            comments = pages(f"/repos/{repo}/issues/{item['number']}/comments?per_page=100")
            for body in [item["body"] or "", *(comment["body"] for comment in comments)]:
                texts.append(body)
                key = message_key(body)
                if key:
                    keys[key] += 1
                for attempt in find_markers(body, "attempt"):
                    if attempt.get("outcome") in ("success", "noop"):
                        successes[item["number"]] = successes.get(item["number"], 0) + 1
        tree = client.get(f"/repos/{repo}/commits/main").json()["commit"]["tree"]["sha"]
        branches = [branch["name"] for branch in pages(f"/repos/{repo}/branches?per_page=100")]
    issues = {item["number"]: item["title"] for item in items if "pull_request" not in item}
    return Landed(tree, issues, pulls, keys, successes, texts, branches)


def without_chance(titles: Iterable[str]) -> list[str]:
    """Which of two conflicting branches came first, and so whose conflict is resolved, is chance."""
    return sorted(re.sub(r"^(Resolve conflict): #\d+ \(.*\)$", r"\1", title) for title in titles)


def assert_sound(landed: Landed, tree: str, titles: Sequence[str]) -> None:
    """The invariants after any number of crashes: the same tree, and nothing twice."""
    assert landed.tree == tree
    assert without_chance(landed.issues.values()) == without_chance(titles)
    assert [pull["merged"] for pull in landed.pulls] == [True]
    assert {key: count for key, count in landed.keys.items() if count > 1} == {}
    assert {number: count for number, count in landed.successes.items() if count > 1} == {}
    assert [name for name in landed.branches if name.startswith("herd/")] == []


def canaries(folder: Path, texts: Sequence[str], *secrets: str) -> list[str]:
    """Give the places where a secret stands, but for the files whose purpose it is to hold one."""
    found = [f"a comment: {secret[:12]}…" for secret in secrets for text in texts if secret in text]
    for path in folder.rglob("*"):
        if not path.is_file() or path.is_symlink() or re.fullmatch(r"(owner|bot)\.token", path.name):
            continue
        content = path.read_bytes()
        found += [f"{path.relative_to(folder)}: {secret[:12]}…" for secret in secrets if secret.encode() in content]
    return found
