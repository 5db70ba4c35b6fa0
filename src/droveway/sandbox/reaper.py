"""A small supervisor that stands before a program where there is no sandbox; run as a script, standard library only.

It adopts every orphan of the program (child subreaper), passes TERM on to all of them, and leaves none behind: not when
the program ends, not when it is told to stop, and not when the process that started it has died (case P01). A process
that left the group and the session and cleared its environment is still found, because it is a descendant.

``python -I -S reaper.py GRACE FOLDER -- ARGV…`` ends with the program's own code, or 128 + the signal that ended it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
CANNOT_START = 127


def descendants() -> list[int]:
    """Give the pids of all living processes below this one."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as handle:
                state, parent = handle.read().rpartition(b")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if state != b"Z":
            children.setdefault(int(parent), []).append(int(name))
    found: list[int] = []
    todo = [os.getpid()]
    while todo:
        fresh = children.get(todo.pop(), [])
        found.extend(fresh)
        todo.extend(fresh)
    return found


def signal_all(number: int) -> bool:
    """Send a signal to every descendant; give whether there was any."""
    pids = descendants()
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:  # it has just ended, or it is not ours
            continue
    return bool(pids)


def reap(main: int) -> int | None:
    """Take all zombies; give the main program's wait status if it was among them."""
    status = None
    while True:
        try:
            pid, code = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if pid == 0:
            return status
        if pid == main:
            status = code


def leave_none(main: int, grace: float) -> int | None:
    """Stop all descendants: TERM, the grace, KILL until nothing is left (5 seconds at most)."""
    status = None
    signal_all(signal.SIGTERM)
    killing_at = time.monotonic() + grace
    while time.monotonic() < killing_at + 5:
        found = reap(main)
        status = found if found is not None else status
        if not descendants():
            break
        if time.monotonic() >= killing_at:
            signal_all(signal.SIGKILL)
        time.sleep(0.02)
    found = reap(main)
    return found if found is not None else status


def main(arguments: list[str]) -> int:
    """Run the program and give its exit code."""
    grace, folder, argv = float(arguments[0]), arguments[1], arguments[3:]
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    watched = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    try:
        os.chdir(folder)
        child = os.posix_spawnp(argv[0], argv, os.environ, setsigmask=[])
    except OSError as error:
        sys.stderr.write(f"{argv[0]}: {error.strerror}\n")
        return CANNOT_START
    for descriptor in (0, 1):  # the pipes are the program's: its reader must see their end when the program ends
        os.close(descriptor)
    status = None
    while status is None:
        info = signal.sigtimedwait(watched, 0.5)
        status = reap(child)
        orphaned = os.getppid() != parent
        if status is None and (orphaned or (info is not None and info.si_signo != signal.SIGCHLD)):
            status = leave_none(child, grace)
            break
    leave_none(child, min(grace, 1.0))
    if status is None:
        return 128 + signal.SIGKILL
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
