"""Real git, a bare repository as the forge, and a person's clone to make branches with."""

from __future__ import annotations

import http.server
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from droveway.core.clock import SystemClock
from droveway.core.ids import RandomIds
from droveway.core.runner import Runner
from droveway.git import Git, Identity, Mirror, Place, Remote

BOT = Identity("Droveway", "droveway@example.invalid")
WHEN = datetime(2026, 1, 1, tzinfo=UTC)
COMMIT = {"author": BOT, "committer": BOT, "when": WHEN}
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "A Person"), ("EMAIL", "p@example.invalid"), ("DATE", "@1767225600 +0000"))
    },
}


def sh(cwd: Path, *args: str, ok: tuple[int, ...] = (0,), env: Mapping[str, str] | None = None) -> str:
    """Run git as a person (or an agent) would, with its own configuration files in force."""
    done = subprocess.run(["git", *args], cwd=cwd, env={**ENVIRONMENT, **(env or {})}, capture_output=True, check=False)
    assert done.returncode in ok, (args, done.stderr.decode())
    return done.stdout.decode("utf-8", "replace").strip()


class Forge:
    """A bare repository, and a clone beside it by which tests make its branches."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "forge.git"
        self.clone = folder / "person"
        sh(folder, "init", "-q", "--bare", "-b", "main", str(self.path))
        sh(folder, "init", "-q", "-b", "main", str(self.clone))
        sh(self.clone, "remote", "add", "origin", str(self.path))

    def branch(
        self,
        name: str,
        files: Mapping[str, str | bytes | None],
        base: str = "main",
        *,
        push: bool = True,
        message: str = "",
    ) -> str:
        """Make a branch off ``base`` with one commit; None deletes a file. Give its SHA."""
        born = bool(sh(self.clone, "rev-parse", "-q", "--verify", "HEAD", ok=(0, 1)))
        if born:
            sh(self.clone, "checkout", "-q", "-f", "-B", name, base)
            sh(self.clone, "clean", "-qfdx")
        for path, content in files.items():
            target = self.clone / path
            if content is None:
                target.unlink()
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content if isinstance(content, bytes) else content.encode())
        sh(self.clone, "add", "-A", "-f")
        sh(self.clone, "commit", "-q", "--allow-empty", "-m", message or name)
        if push:
            sh(self.clone, "push", "-q", "-f", "origin", f"HEAD:refs/heads/{name}")
        return sh(self.clone, "rev-parse", "HEAD")

    def refs(self) -> dict[str, str]:
        """List all refs of the forge."""
        rows = sh(self.path, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        return dict(row.split(" ") for row in rows)

    def tip(self, name: str) -> str | None:
        """Give a branch's SHA."""
        return self.refs().get(f"refs/heads/{name}")


@pytest.fixture
def clock() -> SystemClock:
    return SystemClock()


@pytest.fixture
def git(clock: SystemClock) -> Git:
    return Git(Runner(clock, RandomIds()))


@pytest.fixture
def forge(tmp_path: Path) -> Forge:
    made = Forge(tmp_path)
    made.branch("main", {"README.md": "hello\n", "src/a.txt": "one\ntwo\nthree\n"})
    return made


@pytest.fixture
async def mirror(tmp_path: Path, forge: Forge, git: Git, clock: SystemClock) -> Mirror:
    made = await Mirror.open(tmp_path / "cache" / "mirror.git", Remote(f"file://{forge.path}"), git=git, clock=clock)
    await made.fetch()
    return made


BRANCH = "herd/worker/1-task"


@pytest.fixture
async def place(tmp_path: Path, mirror: Mirror, forge: Forge) -> Place:
    return await Place.create(
        tmp_path / "cache" / "runs" / "1-1", mirror, branch=BRANCH, start=forge.tip("main") or "", author=BOT
    )


class _Refusing(http.server.BaseHTTPRequestHandler):
    """A forge that answers nothing but 401."""

    def do_GET(self) -> None:
        self.server.seen.append(self.headers.get("Authorization"))  # type: ignore[attr-defined]
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="x"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture
def unauthorised() -> Iterator[str]:
    """Give the URL of a repository on a forge that refuses every credential."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Refusing) as server:
        server.seen = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/o/r.git"
            assert any(str(value).startswith("Basic ") for value in server.seen)  # type: ignore[attr-defined]
        finally:
            server.shutdown()
            thread.join()
