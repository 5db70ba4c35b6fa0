"""The runner against real processes: every end, and nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import uuid
from pathlib import Path

import pytest

from droveway.core.clock import SystemClock
from droveway.core.ids import RandomIds, SeededIds
from droveway.core.runner import Completed, End, Limits, Runner, scrubbed_environment

SECOND = 1.0
ENV = {"PATH": os.environ["PATH"]}


@pytest.fixture
def runner() -> Runner:
    return Runner(SystemClock(), RandomIds())


@pytest.fixture
def mark() -> str:
    """A number of seconds that nobody else sleeps."""
    return f"9{uuid.uuid4().int % 10**9:09d}"


def living(mark: str) -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if mark.encode() in Path(f"/proc/{name}/cmdline").read_bytes() and int(name) != os.getpid():
                found.append(int(name))
    return found


def zombie_children() -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            state, parent = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[:2]
            if state == "Z" and int(parent) == os.getpid():
                found.append(int(name))
    return found


async def sh(runner: Runner, script: str, **limits: float) -> Completed:
    given = {"timeout": 30.0, "grace": 0.5, **limits}
    return await runner.run(["sh", "-c", script], cwd="/", env=ENV, limits=Limits(**given))  # type: ignore[arg-type]


@pytest.mark.smoke
async def test_output_code_and_environment_are_exactly_the_childs(runner: Runner) -> None:
    done = await runner.run(["sh", "-c", "cat; env; echo no >&2; exit 7"], cwd="/", env={"A": "b"}, stdin=b"\x00in\xff")
    names = {line.partition("=")[0] for line in done.text().removeprefix("\0in\ufffd").splitlines()}
    assert names <= {"A", "HERD_RUN_TAG", "PWD", "SHLVL", "_", "OLDPWD"}
    assert "A=b" in done.text()
    assert done.stdout.startswith(b"\x00in\xff")
    assert (done.code, done.error_text(), done.end, done.ok) == (7, "no\n", End.EXITED, False)


async def test_a_child_without_input_reads_the_end_at_once(runner: Runner) -> None:
    assert (await sh(runner, "cat; echo over")).text() == "over\n"


async def test_two_megabytes_of_input_arrive_byte_for_byte(runner: Runner) -> None:
    data = b"---\n" + os.urandom(2 * 1024 * 1024)
    assert (await runner.run(["cat"], cwd="/", env=ENV, stdin=data)).stdout == data


@pytest.mark.req("AGT-004")
@pytest.mark.smoke
@pytest.mark.parametrize(
    "start",
    [
        "sleep {mark} &",
        "(sleep {mark} & ) ; (sleep {mark} & ) ;",
        "setsid sleep {mark} &",
        "setsid sh -c 'trap \"\" TERM; sleep {mark}; sleep {mark}' &",
    ],
)
async def test_the_direct_childs_end_ends_the_run_and_all_that_it_left_behind(
    runner: Runner, mark: str, start: str
) -> None:
    done = await sh(runner, start.format(mark=mark) + " echo so far")
    assert (done.text(), done.code, done.end) == ("so far\n", 0, End.EXITED)
    assert done.seconds < 5
    assert living(mark) == []
    assert zombie_children() == []


@pytest.mark.req("AGT-004", "QLT-034")
@pytest.mark.parametrize(
    "inner",
    [
        "sleep {mark}",
        "setsid sh -c 'trap \"\" TERM; sleep {mark}; sleep {mark}' & trap '' TERM; sleep {mark}; sleep {mark}",
        "env -i setsid sh -c 'trap \"\" TERM; sleep {mark}' & wait",
    ],
)
async def test_at_the_deadline_the_whole_tree_goes_also_who_ignores_term(runner: Runner, mark: str, inner: str) -> None:
    done = await sh(runner, "echo begun; " + inner.format(mark=mark), timeout=0.5)
    assert (done.end, done.text()) == (End.TIMEOUT, "begun\n")
    assert done.code < 0
    assert living(mark) == []
    assert zombie_children() == []


async def test_silence_ends_a_run_and_a_beat_on_either_pipe_delays_it(runner: Runner, mark: str) -> None:
    done = await sh(runner, f"for i in 1 2 3 4; do sleep 0.2; echo . >&2; done; sleep {mark}", idle=0.6)
    assert (done.end, done.error_text()) == (End.IDLE, ".\n" * 4)
    assert living(mark) == []


async def test_more_output_than_the_limit_ends_a_run_with_what_fits(runner: Runner) -> None:
    done = await runner.run(["yes"], cwd="/", env=ENV, limits=Limits(max_output=1000, grace=0.5))
    assert (done.end, len(done.stdout)) == (End.OUTPUT, 1000)


@pytest.mark.req("AGT-004")
async def test_a_stop_event_ends_a_run_with_the_output_so_far(runner: Runner, mark: str) -> None:
    stop = asyncio.Event()
    limits = Limits(grace=0.5)
    command = ["sh", "-c", f"echo begun; sleep {mark}"]
    done = await runner.run(command, cwd="/", env=ENV, limits=limits, sink=lambda _: stop.set(), stop=stop)
    assert (done.end, done.text()) == (End.STOPPED, "begun\n")
    assert living(mark) == []


async def test_a_cancelled_caller_leaves_nothing_even_if_cancelled_twice(runner: Runner, mark: str) -> None:
    begun = asyncio.Event()
    command = ["sh", "-c", f"trap '' TERM; echo begun; sleep {mark}; sleep {mark}"]
    limits = Limits(grace=0.5)
    task = asyncio.ensure_future(runner.run(command, cwd="/", env=ENV, limits=limits, sink=lambda _: begun.set()))
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert living(mark) == []
    assert zombie_children() == []


async def test_a_program_that_is_not_there_says_so(runner: Runner) -> None:
    with pytest.raises(FileNotFoundError):
        await runner.run(["/no/such/program"], cwd="/", env=ENV)


@pytest.mark.req("AGT-004")
async def test_as_pid_1_the_orphans_that_become_ours_are_reaped(mark: str) -> None:
    """In a PID namespace of its own the runner's process is PID 1, as in a container without an init."""
    program = f"""
import asyncio, os
from droveway.core.clock import SystemClock
from droveway.core.ids import RandomIds
from droveway.core.runner import Runner, Limits
async def main():
    script = "for i in $(seq 50); do (setsid sleep {mark} &) ; done; echo so far"
    done = await Runner(SystemClock(), RandomIds()).run(
        ["sh", "-c", script], cwd="/", env={{"PATH": os.environ["PATH"]}}, limits=Limits(grace=2))
    print(os.getpid(), done.text().strip(), sorted(int(n) for n in os.listdir("/proc") if n.isdigit()))
asyncio.run(main())
"""
    inside = ["bwrap", "--unshare-pid", "--as-pid-1", "--dev-bind", "/", "/", "--proc", "/proc", sys.executable, "-c"]
    done = await Runner(SystemClock(), RandomIds()).run([*inside, program], cwd="/", env=dict(os.environ))
    assert done.text() == "1 so far [1]\n", done.error_text()


def test_the_scrubbed_environment_is_an_allow_list() -> None:
    source = {"PATH": "/bin", "GITHUB_TOKEN": "x", "HOME": "/h", "SSH_AUTH_SOCK": "/s", "LANG": "de"}
    assert scrubbed_environment(source, {"B": "c"}) == {"PATH": "/bin", "HOME": "/h", "LC_ALL": "C.UTF-8", "B": "c"}


@pytest.mark.req("AGT-004")
async def test_a_process_with_the_same_seed_does_not_stop_our_children(tmp_path: Path) -> None:
    """Two simulations with one seed run side by side: the end of one's child leaves the other's alone."""
    ours = Runner(SystemClock(), SeededIds(1))
    ready = tmp_path / "ready"
    child = asyncio.ensure_future(
        ours.run(["sh", "-c", f"touch {ready}; sleep 2; echo lived"], cwd=tmp_path, env={"PATH": os.environ["PATH"]})
    )
    while not ready.exists():  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(0.01)
    code = (
        "import asyncio, os\n"
        "from droveway.core.clock import SystemClock\n"
        "from droveway.core.ids import SeededIds\n"
        "from droveway.core.runner import Runner\n"
        "run = Runner(SystemClock(), SeededIds(1)).run\n"
        "asyncio.run(run(['sh', '-c', 'true'], cwd='/', env={'PATH': os.environ['PATH']}))\n"
    )
    other = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    assert await other.wait() == 0
    done = await child
    assert (done.text(), done.code, done.end) == ("lived\n", 0, End.EXITED)
