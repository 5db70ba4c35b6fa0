"""The scripts that people call first: what they say when something is missing, and that a skip fails CI."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SETUP = ROOT / "tools" / "setup"
SCRIPTS = ["herd", "check", "tools/setup", "tools/judges", "tools/smoke", ".ci/run"]
#: what tools/setup needs of a machine apart from Python and git
BASICS = ["sh", "dirname", "basename", "cat", "mkdir", "rm", "grep", "tail", "cut", "flock", "env"]


def path_of(folder: Path, *programs: str) -> str:
    """Make a PATH that holds the basics and these programs."""
    folder.mkdir()
    for name in [*BASICS, *programs]:
        found = shutil.which(name, path="/usr/local/bin:/usr/bin:/bin")
        assert found, name
        (folder / name).symlink_to(found)
    return str(folder)


def call(*argv: str | Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, env=env, text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=60, check=False
    )


def folders(tmp_path: Path) -> dict[str, str]:
    return {"HERD_VENV": str(tmp_path / "venv"), "HERD_TOOL_CACHE": str(tmp_path / "cache"), "HOME": str(tmp_path)}


def assert_one_line(done: subprocess.CompletedProcess[str], said: str) -> None:
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_can_be_run_and_read_by_its_shell(name: str) -> None:
    script = ROOT / name
    assert os.access(script, os.X_OK)
    shell = "bash" if "bash" in script.read_text().splitlines()[0] else "sh"
    assert call(shell, "-n", script, env={"PATH": os.defpath}).returncode == 0


@pytest.mark.req("QLT-052")
def test_a_wrong_mode_is_said_in_one_line(tmp_path: Path) -> None:
    assert_one_line(call(SETUP, "all", env={"PATH": path_of(tmp_path / "bin", "git")}), "unknown mode 'all'")


@pytest.mark.req("QLT-052")
def test_a_machine_without_git_is_told_so_in_one_line(tmp_path: Path) -> None:
    env = folders(tmp_path) | {"PATH": path_of(tmp_path / "bin", "python3")}
    assert_one_line(call(SETUP, env=env), "git was not found")


@pytest.mark.req("QLT-052")
def test_a_machine_without_python_is_told_so_in_one_line(tmp_path: Path) -> None:
    env = folders(tmp_path) | {"PATH": path_of(tmp_path / "bin", "git")}
    assert_one_line(call(SETUP, env=env), "no Python 3.11 or newer was found")


@pytest.mark.req("QLT-050", "QLT-052")
def test_an_old_python_is_passed_over_and_one_that_was_named_is_refused(tmp_path: Path) -> None:
    path = path_of(tmp_path / "bin", "git")
    old = tmp_path / "bin" / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")  # what `sys.version_info < (3, 11) and sys.exit(1)` gives
    old.chmod(0o755)
    assert_one_line(call(SETUP, env=folders(tmp_path) | {"PATH": path}), "no Python 3.11 or newer was found")
    named = folders(tmp_path) | {"PATH": path, "HERD_PYTHON": str(old)}
    assert_one_line(call(SETUP, env=named), f"HERD_PYTHON={old} is not a Python 3.11 or newer")


@pytest.mark.req("QLT-052")
def test_a_folder_that_cant_be_written_is_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    env = folders(tmp_path) | {"PATH": path_of(tmp_path / "bin", "git", "python3")}
    env["HERD_TOOL_CACHE"] = str(tmp_path / "file" / "cache")
    assert_one_line(call(SETUP, env=env), "can't write to")


@pytest.mark.req("QLT-052")
def test_a_registry_that_cant_be_reached_is_said_in_one_line(tmp_path: Path) -> None:
    path = path_of(tmp_path / "bin", "git", "python3")
    uv = tmp_path / "bin" / "uv"
    uv.write_text(
        '#!/bin/sh\n[ "$1" != --version ] || { echo "uv 0.9.1"; exit 0; }\n'
        'echo "error: Failed to fetch" >&2; echo "  Caused by: dns error: name resolution" >&2; exit 2\n'
    )
    uv.chmod(0o755)
    done = call(SETUP, env=folders(tmp_path) | {"PATH": path})
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == "setting up venv (run) …"
    assert "the package registry can't be reached" in done.stderr.splitlines()[1]
    assert len(done.stderr.splitlines()) == 2


@pytest.mark.req("QLT-052")
def test_a_setup_that_did_not_end_well_is_not_taken_for_done(tmp_path: Path) -> None:
    path = path_of(tmp_path / "bin", "git", "python3", "ln")
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    for name in ("herd", "python"):
        (tmp_path / "venv" / "bin" / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / "venv" / "bin" / name).chmod(0o755)
    (tmp_path / "venv" / ".herd-run").write_text("of another lock\n")
    uv = tmp_path / "bin" / "uv"
    uv.write_text(
        '#!/bin/sh\n[ "$1" != --version ] || { echo "uv 0.9.1"; exit 0; }\necho "error: broken" >&2; exit 1\n'
    )
    uv.chmod(0o755)
    done = call(SETUP, env=folders(tmp_path) | {"PATH": path})
    assert done.returncode == 2
    assert "error: broken" in done.stderr
    assert not (tmp_path / "venv" / ".herd-run").exists()


def test_an_unknown_setting_of_the_smoke_set_is_said_in_one_line() -> None:
    assert_one_line(call(ROOT / "tools" / "smoke", "moon", env={"PATH": os.defpath}), "unknown setting 'moon'")


@pytest.mark.req("QLT-051")
@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize(("ci", "code"), [("true", 1), ("", 0)])
def test_a_skipped_test_fails_a_run_of_ci_and_is_named(tmp_path: Path, ci: str, code: int, workers: str) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n\ndef test_one():\n    pass\n\n@pytest.mark.skip(reason='no moon')\ndef test_two():\n    pass\n"
    )
    env = {"PATH": os.defpath, "CI": ci, "PYTHONPATH": str(ROOT / "tests"), "HOME": str(tmp_path)}
    argv = [sys.executable, "-m", "pytest", "-p", "strict_skips", "-p", "no:cacheprovider", "-n", workers, "-q", "-rs"]
    done = call(*argv, "--rootdir", tmp_path, "-c", os.devnull, tmp_path, env=env)
    assert done.returncode == code, done.stdout + done.stderr
    assert "no moon" in done.stdout
    assert ("not proved here" in done.stdout) is bool(ci)
    assert done.stdout.splitlines()[-1].startswith("1 passed, 1 skipped")
