"""The forge as a process: first start, tokens, kill -9 at every point of a push, recovery (FRG-020, FRG-033)."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from .world import commit, git, source


class Process:
    """``python -m droveway.localforge`` on one folder."""

    def __init__(self, tmp: Path, *flags: str, crash: str = "") -> None:
        self.ready = tmp / "ready"
        self.ready.unlink(missing_ok=True)
        self.token_file = tmp / "tokens.json"
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp)}
        if crash:
            env["HERD_CRASH_AT"] = crash
        argv = ["--data", str(tmp / "forge"), "--ready-file", str(self.ready), "--token-file", str(self.token_file)]
        self.child = subprocess.Popen([sys.executable, "-m", "droveway.localforge", *argv, *flags], env=env)
        deadline = time.monotonic() + 60
        while not self.ready.exists():
            assert self.child.poll() is None, "the forge did not start"
            assert time.monotonic() < deadline
            time.sleep(0.02)  # a file is the only sign that the process gives
        self.url = self.ready.read_text().strip()
        self.token = json.loads(self.token_file.read_text())["herd-bot"]

    def api(self, method: str, path: str, body: object = None) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.request(method, f"{self.url}/repos/owner/road{path}", json=body, headers=headers, trust_env=False)

    def remote(self) -> str:
        return self.url.replace("http://", f"http://x:{self.token}@") + "/owner/road.git"

    def died(self) -> int:
        return self.child.wait(timeout=30)

    def stop(self) -> int:
        self.child.send_signal(signal.SIGTERM)
        return self.child.wait(timeout=30)


@pytest.mark.req("FRG-020")
def test_the_first_start_makes_two_accounts_and_keeps_their_tokens_private(tmp_path: Path) -> None:
    forge = Process(tmp_path, "--repo", "empty")
    try:
        assert stat.S_IMODE(forge.token_file.stat().st_mode) == 0o600
        tokens = json.loads(forge.token_file.read_text())
        assert sorted(tokens) == ["herd-bot", "owner"]
        for login, token in tokens.items():
            answer = httpx.get(f"{forge.url}/user", headers={"Authorization": f"token {token}"}, trust_env=False)
            assert answer.json()["login"] == login
        found = httpx.get(
            f"{forge.url}/repos/owner/empty", headers={"Authorization": f"token {forge.token}"}, trust_env=False
        )
        assert found.json()["permissions"]["push"] is True
    finally:
        assert forge.stop() == 0
    again = Process(tmp_path)
    try:
        assert json.loads(again.token_file.read_text()) == tokens  # the old ones hold
        assert (
            httpx.get(
                f"{again.url}/user", headers={"Authorization": f"token {again.token}"}, trust_env=False
            ).status_code
            == 200
        )
    finally:
        assert again.stop() == 0


#: Where the server dies, and whether the push holds afterwards.
POINTS = [
    ("localforge.push.journaled", False),
    ("localforge.push.refs", True),
    ("localforge.push.applied", True),
    ("localforge.push.sent", True),
]


@pytest.mark.req("FRG-033", "FRG-020")
@pytest.mark.parametrize(("point", "holds"), POINTS)
def test_a_server_killed_in_a_push_agrees_with_its_refs_after_the_next_start(
    tmp_path: Path, point: str, holds: bool
) -> None:
    source(tmp_path / "source")
    first = Process(tmp_path, "--repo", "road", "--import", str(tmp_path / "source"))
    made = first.api("POST", "/pulls", {"title": "t", "head": "clean", "base": "main"})
    assert made.status_code == 201
    old = made.json()["head"]["sha"]
    assert first.stop() == 0

    doomed = Process(tmp_path, crash=point)
    git("clone", "-q", "-b", "clean", doomed.remote(), "work", cwd=tmp_path)
    new = commit(tmp_path / "work", "more", more="x\n")
    pushed = git("push", "origin", "clean", cwd=tmp_path / "work", ok=False)
    assert doomed.died() == -signal.SIGKILL
    if point != "localforge.push.sent":
        assert pushed.returncode != 0  # nobody was told that it holds

    after = Process(tmp_path)
    try:
        expected = new if holds else old
        assert after.api("GET", "/git/ref/heads/clean").json()["object"]["sha"] == expected
        assert after.api("GET", "/pulls/1").json()["head"]["sha"] == expected
        assert after.api("GET", "/git/ref/pull/1/head").json()["object"]["sha"] == expected
        # The same push again ends the matter, whatever happened.
        git("push", "-q", after.remote(), "clean", cwd=tmp_path / "work")
        assert after.api("GET", "/pulls/1").json()["head"]["sha"] == new
    finally:
        after.stop()


@pytest.mark.req("FRG-033")
@pytest.mark.parametrize(("point", "holds"), POINTS[:2])
def test_a_server_killed_in_a_merge_has_merged_or_not(tmp_path: Path, point: str, holds: bool) -> None:
    source(tmp_path / "source")
    doomed = Process(tmp_path, "--repo", "road", "--import", str(tmp_path / "source"), crash=point)
    assert doomed.api("POST", "/pulls", {"title": "t", "head": "clean", "base": "main"}).status_code == 201
    with pytest.raises(httpx.HTTPError):
        doomed.api("PUT", "/pulls/1/merge", {"merge_method": "squash"})
    assert doomed.died() == -signal.SIGKILL
    after = Process(tmp_path)
    try:
        tip = after.api("GET", "/commits/main").json()["commit"]["message"]
        assert after.api("GET", "/pulls/1").json()["merged"] is holds
        assert tip == ("t (#1)" if holds else "two")
        if not holds:
            assert after.api("PUT", "/pulls/1/merge", {"merge_method": "squash"}).status_code == 200
    finally:
        after.stop()


@pytest.mark.req("FRG-020")
def test_what_was_answered_is_there_after_a_kill(tmp_path: Path) -> None:
    forge = Process(tmp_path, "--repo", "road")
    for number in range(1, 21):
        assert forge.api("POST", "/issues", {"title": f"issue {number}", "labels": ["a"]}).status_code == 201
    forge.child.kill()
    assert forge.died() == -signal.SIGKILL
    after = Process(tmp_path)
    try:
        assert [row["number"] for row in after.api("GET", "/issues?per_page=100&direction=asc").json()] == [
            *range(1, 21)
        ]
        assert after.api("POST", "/issues", {"title": "next"}).json()["number"] == 21
    finally:
        after.stop()
