"""The walls, tried from inside; and that no process survives its run, with walls and without."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import stat
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from droveway.core.clock import SystemClock
from droveway.core.errors import HerdError
from droveway.core.ids import RandomIds
from droveway.core.runner import Completed, End, Limits, Runner
from droveway.sandbox import Level, Mounts, Sandbox


@pytest.fixture
def runner() -> Runner:
    return Runner(SystemClock(), RandomIds())


@pytest.fixture(params=[Level.BUBBLEWRAP, Level.NONE])
async def box(request: pytest.FixtureRequest, runner: Runner) -> Sandbox:
    """Both levels. A machine of ours that can't do bubblewrap fails here, with the reason."""
    if request.param is Level.NONE:
        return Sandbox.none()
    return await Sandbox.probe(runner, required=True)


@pytest.fixture
async def walls(runner: Runner) -> Sandbox:
    return await Sandbox.probe(runner, required=True)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "run" / "home").mkdir(parents=True)
    return tmp_path / "run"


@pytest.fixture
def mark() -> str:
    return f"9{uuid.uuid4().int % 10**9:09d}"


def living(mark: str) -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if mark.encode() in Path(f"/proc/{name}/cmdline").read_bytes() and int(name) != os.getpid():
                found.append(int(name))
    return found


async def inside(
    runner: Runner, box: Sandbox, place: Path, script: str, mounts: Mounts | None = None, **limits: float
) -> Completed:
    env = {"PATH": os.environ["PATH"], "HOME": str(place / "home"), "MODEL_KEY": "canary-value"}
    argv, env = box.wrap(["sh", "-c", script], cwd=place, env=env, mounts=mounts or Mounts(writable=(place,)))
    assert not any("canary-value" in part for part in argv)
    given = {"timeout": 30.0, "grace": 1.0, **limits}
    return await runner.run(argv, cwd="/", env=env, limits=Limits(**given))  # type: ignore[arg-type]


@pytest.mark.req("AGT-008")
async def test_the_probe_really_starts_one_and_says_the_level_and_why(runner: Runner) -> None:
    box = await Sandbox.probe(runner)
    assert (box.level, box.reason, box.isolates_network) == (Level.BUBBLEWRAP, "bubblewrap works", True)


@pytest.mark.req("AGT-008")
@pytest.mark.parametrize("broken", [False, True])
async def test_without_bubblewrap_the_level_is_none_or_a_required_sandbox_refuses_in_one_line(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    if broken:
        (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
        (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    box = await Sandbox.probe(runner)
    assert box.level is Level.NONE
    assert ("No permissions" if broken else "not installed") in box.reason
    with pytest.raises(HerdError, match="a sandbox is required") as caught:
        await Sandbox.probe(runner, required=True)
    assert "\n" not in str(caught.value)


@pytest.mark.req("QLT-040", "AGT-008")
@pytest.mark.smoke
async def test_only_the_places_are_writable_and_nothing_else_of_the_machine_is_seen(
    runner: Runner, walls: Sandbox, place: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "secret").write_text("canary-file")
    readable = tmp_path / "readable"
    readable.mkdir()
    (readable / "text").write_text("may be read")
    (readable / "hidden").write_text("canary-hidden")
    (readable / "folder").mkdir()
    (readable / "folder" / "deep").write_text("canary-deep")
    mounts = Mounts(writable=(place,), readable=(readable,), hidden=(readable / "hidden", readable / "folder"))
    script = f"""
        exec 2>&1
        pwd; echo mine > made; cat {readable}/text
        cat {other}/secret {readable}/hidden {readable}/folder/deep /etc/shadow /etc/ssl/private/*
        for target in / /usr /etc /bin {readable}; do
            touch $target/herd-was-here 2>/dev/null && echo WROTE $target
        done
        mount -o remount,rw,bind /usr && echo REMOUNTED
        ls -A {tmp_path} | tr '\\n' ' '; ls -A "$HOME" /tmp /root /home /run /var/run 2>/dev/null
        echo $MODEL_KEY
    """
    done = await inside(runner, walls, place, script, mounts)
    said = done.text()
    assert said.startswith(f"{place}\nmay be read")
    assert "canary-value" in said  # what the provider asked for
    for wrong in ("canary-file", "canary-hidden", "canary-deep", "WROTE", "REMOUNTED", "root:*:", "root:$"):
        assert wrong not in said
    assert "readable run" in said
    assert (place / "made").read_text() == "mine\n"
    assert sorted(os.listdir(tmp_path)) == ["other", "readable", "run"]


@pytest.mark.req("QLT-040")
@pytest.mark.smoke
async def test_the_machines_other_processes_and_sockets_are_out_of_sight(
    runner: Runner, walls: Sandbox, place: Path
) -> None:
    done = await inside(runner, walls, place, f"ls -d /proc/[0-9]* | wc -l; test -d /proc/{os.getpid()}/cwd || echo no")
    count, rest = done.text().split(maxsplit=1)
    assert int(count) < 8
    assert rest == "no\n" or os.getpid() < 8


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.req("AGT-008")
@pytest.mark.parametrize(("network", "code"), [("full", 0), ("none", 1)])
async def test_the_network_is_full_or_none(
    runner: Runner, walls: Sandbox, place: Path, listener: int, network: str, code: int
) -> None:
    program = f"import socket; socket.create_connection(('127.0.0.1', {listener}), 5)"
    mounts = Mounts(writable=(place,), network=network)  # type: ignore[arg-type]
    done = await inside(runner, walls, place, f'{sys.executable} -c "{program}"', mounts)
    assert done.code == code, done.error_text()


def test_no_network_without_walls_is_refused_not_ignored(place: Path) -> None:
    with pytest.raises(HerdError, match="can't be had"):
        Sandbox.none().wrap(["true"], cwd=place, env={}, mounts=Mounts(writable=(place,), network="none"))


def test_a_missing_place_is_named(place: Path) -> None:
    with pytest.raises(HerdError, match="gone does not exist"):
        Sandbox.none().wrap(["true"], cwd=place, env={}, mounts=Mounts(writable=(place / "gone",)))


async def test_a_home_outside_of_the_places_is_an_empty_one(
    runner: Runner, walls: Sandbox, place: Path, tmp_path: Path
) -> None:
    (tmp_path / "person").mkdir()
    (tmp_path / "person" / ".netrc").write_text("canary-file")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "person")}
    argv, env = walls.wrap(
        ["sh", "-c", "ls -A $HOME; touch $HOME/x"], cwd=place, env=env, mounts=Mounts(writable=(place,))
    )
    done = await runner.run(argv, cwd="/", env=env)
    assert (done.stdout, done.stderr, done.code) == (b"", b"", 0)
    assert os.listdir(tmp_path / "person") == [".netrc"]


async def test_a_program_installed_in_a_prefix_or_by_links_runs_inside(
    runner: Runner, walls: Sandbox, place: Path, tmp_path: Path
) -> None:
    """As npm (node_modules/.bin), virtual environments and installers with versioned folders do it."""
    package = tmp_path / "tools" / "node_modules"
    (package / ".bin").mkdir(parents=True)
    (package / "agent").mkdir()
    (package / "agent" / "part").write_text("from the package")
    (package / "agent" / "cli").write_text('#!/bin/sh\ncat "$(dirname "$(readlink -f "$0")")/part"\n')
    (package / "agent" / "cli").chmod(0o755)
    (package / ".bin" / "agent").symlink_to("../agent/cli")
    versions = tmp_path / "share" / "versions"
    versions.mkdir(parents=True)
    (versions / "2.1").write_text("#!/bin/sh\necho from the version\n")
    (versions / "2.1").chmod(0o755)
    (tmp_path / "local" / "bin").mkdir(parents=True)
    (tmp_path / "local" / "bin" / "other").symlink_to(versions / "2.1")
    env = {"PATH": f"{package}/.bin:{tmp_path}/local/bin:{os.environ['PATH']}", "HOME": str(place / "home")}
    said = []
    for argv in (["agent"], ["other"], [sys.executable, "-c", "import droveway; print('from ours')"]):
        wrapped, whole = walls.wrap(argv, cwd=place, env=env, mounts=Mounts(writable=(place,)))
        done = await runner.run(wrapped, cwd="/", env=whole)
        said.append(done.text().strip() or done.error_text())
    assert said == ["from the package", "from the version", "from ours"]


@pytest.mark.req("AGT-004", "QLT-034", "BAT-170")
@pytest.mark.smoke
@pytest.mark.parametrize(
    "start",
    [
        "sleep {mark} &",
        "setsid sleep {mark} &",
        "setsid sh -c 'trap \"\" TERM; sleep {mark}; sleep {mark}' &",
        "(env -i setsid sh -c 'trap \"\" TERM; sleep {mark}; sleep {mark}' &) ;",
        "for i in 1 2 3 4 5 6 7 8 9; do (setsid sleep {mark} &) ; done;",
    ],
)
async def test_after_the_agents_end_nothing_of_it_lives_though_it_holds_the_pipe(
    runner: Runner, box: Sandbox, place: Path, mark: str, start: str
) -> None:
    done = await inside(runner, box, place, start.format(mark=mark) + " echo so far; exit 3")
    assert (done.text(), done.code, done.end) == ("so far\n", 3, End.EXITED)
    assert done.seconds < 10
    assert living(mark) == []


@pytest.mark.req("AGT-004", "QLT-034", "BAT-169")
@pytest.mark.parametrize(
    "script",
    [
        "setsid sh -c 'trap \"\" TERM; sleep {mark}; sleep {mark}' & trap '' TERM; sleep {mark}; sleep {mark}",
        "(env -i setsid sh -c 'trap \"\" TERM; sleep {mark}; sleep {mark}' &) ; sleep {mark}",
        "sleep {mark} & kill -STOP $!; wait",
    ],
)
async def test_at_the_deadline_nothing_lives_also_who_left_ignores_term_or_is_stopped(
    runner: Runner, box: Sandbox, place: Path, mark: str, script: str
) -> None:
    done = await inside(runner, box, place, "echo begun; " + script.format(mark=mark), timeout=1.0, grace=10.0)
    assert (done.end, done.text()) == (End.TIMEOUT, "begun\n")
    assert living(mark) == []


@pytest.mark.req("AGT-004")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
async def test_an_agent_killed_by_somebody_else_leaves_nothing(
    runner: Runner, box: Sandbox, place: Path, mark: str, number: signal.Signals
) -> None:
    done = await inside(runner, box, place, f"setsid sleep {mark} & kill -{int(number)} $$")
    assert done.code == 128 + number
    assert living(mark) == []


@pytest.mark.req("AGT-004")
@pytest.mark.parametrize("level", [Level.BUBBLEWRAP, Level.NONE])
async def test_when_the_supervisor_itself_is_killed_its_agents_go_too(place: Path, mark: str, level: Level) -> None:
    program = f"""
import asyncio, os
from pathlib import Path
from droveway.core.clock import SystemClock
from droveway.core.ids import RandomIds
from droveway.core.runner import Runner
from droveway.sandbox import Sandbox, Mounts
async def main():
    runner = Runner(SystemClock(), RandomIds())
    box = await Sandbox.probe(runner) if {level == Level.BUBBLEWRAP} else Sandbox.none()
    script = "(env -i setsid sh -c 'trap : TERM; sleep {mark}; sleep {mark}' &) ; echo up; sleep {mark}"
    place = Path({str(place)!r})
    argv, env = box.wrap(["sh", "-c", script], cwd=place, env={{"PATH": os.environ["PATH"]}},
                         mounts=Mounts(writable=(place,)))
    await runner.run(argv, cwd="/", env=env, sink=lambda piece: print(piece.decode(), flush=True))
asyncio.run(main())
"""
    supervisor = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    assert supervisor.stdout
    assert await supervisor.stdout.readline() == b"up\n"
    assert living(mark)
    supervisor.kill()
    await supervisor.wait()
    async with asyncio.timeout(15):
        while living(mark):  # noqa: ASYNC110 - nothing tells us: its parent is dead
            await asyncio.sleep(0.05)


@pytest.mark.req("AGT-004")
async def test_orphans_that_end_early_are_reaped_while_the_agent_still_runs(
    runner: Runner, box: Sandbox, place: Path
) -> None:
    # Orphans fall to the parent of this shell, which is the reaper or the namespace's init.
    ours = r"for f in $(grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null); do grep -l ^PPid:.$PPID'$' $f; done"
    count = f"{ours} 2>/dev/null | wc -l"
    wait = f"for i in $(seq 100); do left=$({count}); [ $left = 0 ] && break; sleep 0.1; done"
    done = await inside(runner, box, place, f"for i in $(seq 50); do (true &) ; done; {wait}; echo $left")
    assert done.text().strip() == "0"


async def test_a_program_that_is_missing_gives_127_and_its_name(runner: Runner, place: Path) -> None:
    argv, env = Sandbox.none().wrap(["no-such-agent"], cwd=place, env={}, mounts=Mounts(writable=(place,)))
    done = await runner.run(argv, cwd="/", env=env)
    assert (done.code, done.error_text()) == (127, "no-such-agent: No such file or directory\n")


async def test_the_places_files_belong_to_whoever_runs_us(runner: Runner, box: Sandbox, place: Path) -> None:
    await inside(runner, box, place, "umask 077; echo x > made")
    found = (place / "made").stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (os.getuid(), 0o600)
