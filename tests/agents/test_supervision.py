"""Whole runs of the program agents: prepared, walled in, supervised, read (cases P01 and P04)."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shlex
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from droveway.agents import PROVIDERS, AgentResult, AgentRun, Outcome, Role, prepare, supervise
from droveway.agents.supervision import Transcript
from droveway.core.clock import SystemClock
from droveway.core.ids import RandomIds
from droveway.core.runner import Runner
from droveway.sandbox import Level, Mounts, Sandbox


@pytest.fixture(params=[Level.BUBBLEWRAP, Level.NONE])
async def box(request: pytest.FixtureRequest) -> Sandbox:
    if request.param is Level.NONE:
        return Sandbox.none()
    return await Sandbox.probe(Runner(SystemClock(), RandomIds()), required=True)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    tree = tmp_path / "run" / "tree"
    tree.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", tree], check=True)
    return tmp_path / "run"


async def play(
    box: Sandbox, place: Path, script: str, *, prompt: str = "the prompt", deadline: float = 30, **more: Any
) -> AgentResult:
    """Run a shell script as the agent."""
    run = AgentRun(
        "command", Role.WORKER, prompt, place / "tree", place / "home", binary=f"sh -c {shlex.quote(script)}"
    )
    provider = PROVIDERS["command"]
    invocation = prepare(provider, run, os.environ | {"EDITOR": "vi", "GIT_EDITOR": "vi", "SSH_ASKPASS": "/bin/cat"})
    argv, env = box.wrap(invocation.argv, cwd=run.work_dir, env=invocation.env, mounts=Mounts(writable=(place,)))
    given: dict[str, Any] = {"idle": None, "grace": 1.0, "transcript": place / "transcript", **more}
    completed = await supervise(
        Runner(SystemClock(), RandomIds()), argv, env, stdin=invocation.stdin, cwd=place, deadline=deadline, **given
    )
    return provider.read(run, completed)


def living(mark: str) -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if mark.encode() in Path(f"/proc/{name}/cmdline").read_bytes() and int(name) != os.getpid():
                found.append(int(name))
    return found


@pytest.mark.req("BAT-127")
async def test_a_two_megabyte_prompt_that_starts_with_hyphens_arrives_byte_for_byte(box: Sandbox, place: Path) -> None:
    prompt = "---\n--help\n$(touch x)\n" + "é\u202e`'\"\\\r\n" * 200_000
    result = await play(box, place, "sha256sum; echo it was read to its end", prompt=prompt)
    assert result.text.split()[0] == hashlib.sha256(prompt.encode()).hexdigest()


@pytest.mark.req("AGT-004")
async def test_a_grandchild_that_keeps_the_pipe_does_not_keep_the_run(box: Sandbox, place: Path) -> None:
    """Case P01."""
    mark = f"9{uuid.uuid4().int % 10**9:09d}"
    result = await play(box, place, f"sleep {mark} & setsid sleep {mark} & echo this is the result so far")
    assert (result.outcome, result.text) == (Outcome.OK, "this is the result so far")
    assert result.seconds < 10
    assert living(mark) == []


@pytest.fixture
def refusing() -> Iterator[int]:
    """A git server that wants a password."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)
                    head = b"HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=x\r\n"
                    connection.sendall(head + b"Content-Length: 0\r\nConnection: close\r\n\r\n")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield server.getsockname()[1]
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join(5)


@pytest.mark.req("AGT-004", "BAT-126", "QLT-034")
@pytest.mark.parametrize(
    ("script", "cause"),
    [
        ("touch a; git add a; git commit", "editor"),
        ("git fetch http://127.0.0.1:{port}/x.git", "terminal prompts disabled"),
        ("ssh-keygen -q -t ed25519 -N secret1 -f k && ssh-keygen -y -f k", "passphrase"),
        ("read line < /dev/tty", "No such device or address"),
    ],
    ids=["editor", "password", "passphrase", "terminal"],
)
async def test_what_would_wait_for_a_person_fails_at_once_with_the_cause(
    box: Sandbox, place: Path, refusing: int, script: str, cause: str
) -> None:
    """Case P04."""
    result = await play(box, place, f"cd tree; ({script.format(port=refusing)}) || exit 9")
    assert result.outcome is Outcome.NEEDS_INPUT
    assert cause in result.error
    assert result.seconds < 10


async def test_an_agents_own_input_is_empty_after_the_prompt(box: Sandbox, place: Path) -> None:
    result = await play(box, place, "cat >/dev/null; read line || echo there is nothing more to read")
    assert result.text == "there is nothing more to read"


@pytest.mark.req("AGT-004", "BAT-169", "QLT-034")
async def test_deadline_silence_and_cancelling_each_have_their_outcome_and_keep_the_output(
    box: Sandbox, place: Path
) -> None:
    mark = f"9{uuid.uuid4().int % 10**9:09d}"
    script = f"echo what was said so far; trap '' TERM; sleep {mark}; sleep {mark}"
    stop = asyncio.Event()
    results = [
        await play(box, place, script, deadline=1.0),
        await play(box, place, script, idle=0.5),
        await play(box, place, script, cancelled=stop, on_output=lambda _: stop.set()),
    ]
    assert [result.outcome for result in results] == [Outcome.TIMED_OUT, Outcome.IDLE, Outcome.KILLED]
    assert {result.text for result in results} == {"what was said so far"}
    assert living(mark) == []


@pytest.mark.req("AGT-004")
async def test_the_transcript_has_all_output_as_it_came_and_errors_at_the_end(box: Sandbox, place: Path) -> None:
    lines: list[str] = []
    await play(
        box, place, "echo one; printf 'se'; printf 'cret\\n'; echo oops >&2; printf last", on_output=lines.append,
        redact=lambda text: text.replace("secret", "***"),
    )  # fmt: skip
    assert lines[:3] == ["one", "***", "last"]
    assert (place / "transcript").read_text() == "one\n***\nlast\n[standard error]\noops\n"
    assert (place / "transcript").stat().st_mode & 0o777 == 0o600


@pytest.mark.req("AGT-004")
def test_a_transcript_stops_at_its_limit_and_says_so(tmp_path: Path) -> None:
    transcript = Transcript(tmp_path / "t", limit=100)
    for number in range(50):
        transcript.feed(f"line {number}\n".encode())
    transcript.close()
    text = (tmp_path / "t").read_text()
    assert text.startswith("line 0\nline 1\n")
    assert text.endswith("\n[the transcript's limit is reached; the rest is left out]\n")
    assert len(text) < 200


@pytest.mark.req("QLT-040", "AGT-008")
async def test_an_agent_finds_no_credential_in_environment_home_or_command_lines(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case K05: what a hidden order could make an agent print."""
    for name in ("GITHUB_TOKEN", "GH_TOKEN", "DROVEWAY_TOKEN", "AWS_SECRET_ACCESS_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "canary-token")
    walls = await Sandbox.probe(Runner(SystemClock(), RandomIds()), required=True)
    result = await play(walls, place, "env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline ~/.* ~/.*/*; exit 0")
    assert "HERD_RUN_TAG" in result.text
    assert "canary-token" not in result.text + (place / "transcript").read_text()


@pytest.mark.req("AGT-011", "AGT-008")
@pytest.mark.smoke
async def test_the_scripted_agent_works_on_a_repository_inside_the_walls(box: Sandbox, place: Path) -> None:
    script = place.parent / "script.yaml"
    script.write_text(
        "[{role: worker, steps: [{write: {path: a, text: b}}, {commit: made}], say: It was made as asked.}]"
    )
    run = AgentRun("scripted", Role.WORKER, "do it", place / "tree", place / "home", script=script, issue_title="-x y")
    provider = PROVIDERS["scripted"]
    invocation = prepare(provider, run, os.environ, identity=("Herd", "herd@example.org"))
    mounts = Mounts(writable=(place,), readable=(script,))
    argv, env = box.wrap(invocation.argv, cwd=run.work_dir, env=invocation.env, mounts=mounts)
    completed = await supervise(
        Runner(SystemClock(), RandomIds()), argv, env,
        stdin=invocation.stdin, cwd=run.work_dir, deadline=30, idle=10, transcript=place / "transcript",
    )  # fmt: skip
    result = provider.read(run, completed)
    assert (result.outcome, result.text, result.usage.cost_usd) == (Outcome.OK, "It was made as asked.", 0.0), (
        result.error
    )
    log = ["git", "-C", str(place / "tree"), "log", "--format=%an <%ae> %s"]
    logged = subprocess.run(log, check=True, capture_output=True, text=True).stdout  # noqa: ASYNC221
    assert logged == "Herd <herd@example.org> made\n"


def test_our_python_is_found_by_agents_on_a_machine_without_another(tmp_path: Path) -> None:
    run = AgentRun("command", Role.WORKER, "", tmp_path, tmp_path / "home", binary="true")
    env = prepare(PROVIDERS["command"], run, {"PATH": "/nowhere"}).env
    assert env["PATH"] == f"/nowhere:{os.path.dirname(sys.executable)}"
