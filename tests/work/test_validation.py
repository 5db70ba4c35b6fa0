"""Validation: which commands, how they run, what the results mean."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from droveway.core.clock import SystemClock
from droveway.core.ids import RandomIds
from droveway.core.runner import Completed, Limits, Runner
from droveway.core.settings import Command, Validation
from droveway.core.text import byte_length
from droveway.work.validation import (
    Check,
    CheckStatus,
    DiskTree,
    Report,
    Result,
    ValidationOutcome,
    detect,
    detect_commands,
    errors_text,
    plan,
    run_checks,
)

VENV = ".venv/bin/python"
GO = ["go build -buildvcs=false ./...", "go test -buildvcs=false ./...", "go vet ./...", "golangci-lint run ./..."]
P, F, T, S = CheckStatus.PASSED, CheckStatus.FAILED, CheckStatus.TIMED_OUT, CheckStatus.SKIPPED


def tree(root: Path, files: Mapping[str, str]) -> DiskTree:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return DiskTree(root)


async def run(argv: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float) -> Completed:
    whole = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **env}
    return await Runner(SystemClock(), RandomIds()).run(
        argv, cwd=cwd, env=whole, limits=Limits(timeout=timeout, grace=1)
    )


async def checked(root: Path, *checks: Check, budget: float = 60.0) -> Report:
    return await run_checks(checks, root, run, clock=SystemClock(), budget=budget, path=os.environ["PATH"])


def sh(script: str, **more: object) -> Check:
    return Check(name=script, argv=("sh", "-c", script), **more)  # type: ignore[arg-type]


@pytest.mark.req("BAT-140", "BAT-142", "BAT-143", "BAT-144", "BAT-145", "BAT-146", "BAT-147")
@pytest.mark.parametrize(
    ("files", "commands"),
    [
        ({"go.mod": ""}, GO),
        ({"pyproject.toml": "", "src/a.py": ""}, ["python3 -m compileall -q src"]),
        (
            {"setup.py": "", "tests/test_a.py": "", "pytest.ini": ""},
            ["python3 -m compileall -q setup.py tests", "python3 -m pytest -q -p no:cacheprovider"],
        ),
        (
            {"pyproject.toml": "[tool.ruff]\n[tool.mypy]\n", "a.py": "", ".venv/bin/python": ""},
            [f"{VENV} -m compileall -q a.py", "ruff check --no-cache .", f"{VENV} -m mypy --cache-dir /dev/null"],
        ),
        ({"package.json": '{"scripts": {"test": "x", "build": "y", "start": "z"}}'}, ["npm run build", "npm run test"]),
        ({"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'}, []),
        ({"package.json": '{"scripts": {"lint": "x"}}', "pnpm-lock.yaml": ""}, ["pnpm run lint"]),
        ({"package.json": "not json"}, []),
        ({"Cargo.toml": ""}, ["cargo build --all-targets", "cargo test", "cargo clippy -- -D warnings"]),
        ({"pom.xml": "", "mvnw": ""}, ["./mvnw -q verify"]),
        ({"build.gradle.kts": ""}, ["gradle check"]),
        ({"Makefile": "check: x\ntest:\nlint:\n"}, ["make check", "make lint"]),
        ({"Makefile": "test:\n", "go.mod": ""}, GO),
        ({"README.md": ""}, []),
    ],
)  # fmt: skip
def test_manifests_imply_their_commands(tmp_path: Path, files: dict[str, str], commands: list[str]) -> None:
    assert [" ".join(check.argv) for check in detect(tree(tmp_path, files))] == commands


@pytest.mark.req("BAT-148")
def test_in_a_monorepo_the_nearest_manifest_of_each_changed_file_decides(tmp_path: Path) -> None:
    source = tree(tmp_path, {"a/go.mod": "", "a/x/y.go": "", "b/Cargo.toml": "", "c/go.mod": "", "a/x/d/go.mod": ""})
    assert {check.dir for check in detect(source, ["a/x/y.go", "b/src/l.rs"])} == {"a", "b"}
    assert {check.dir for check in detect(source, ["a/x/d/z.go"])} == {"a/x/d"}
    assert detect(source, ["top.txt"]) == ()
    assert detect(source, ["b/l.rs", "a/x/y.go"]) == detect(source, ["a/x/y.go", "b/l.rs"])


@pytest.mark.req("BAT-141")
def test_declared_commands_turn_detection_off(tmp_path: Path) -> None:
    source = tree(tmp_path, {"go.mod": "", "p/one/x": "", "p/two/x": ""})
    settings = Validation(
        commands=(Command(run="make 'a b'", dir="p/*", kind="build"), Command(run=("x", "y z"), name="n"))
    )
    checks = plan(settings, source)
    assert [(check.argv, check.dir) for check in checks] == [
        (("make", "a b"), "p/one"), (("make", "a b"), "p/two"), (("x", "y z"), "."),
    ]  # fmt: skip
    assert plan(Validation(auto_detect=False), source) == ()


@pytest.mark.req("QLT-043")
@pytest.mark.parametrize("folder", ["..", "../x", "/etc", "a/../../b"])
def test_a_folder_outside_of_the_tree_is_not_entered(tmp_path: Path, folder: str) -> None:
    (check,) = plan(Validation(commands=(Command(run="true", dir=folder),)), tree(tmp_path, {"a/x": ""}))
    assert check.skip


@pytest.mark.req("QLT-043")
async def test_links_that_leave_the_tree_are_not_followed(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    source = tree(root, {"a": ""})
    (tmp_path / "secret").write_text("secret")
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "out").symlink_to(tmp_path)
    assert source.text("link") is None
    assert source.text("out/secret") is None
    assert (await checked(root, sh("true", dir="out"))).results[0].status is F


@pytest.mark.req("BAT-149")
async def test_all_commands_run_each_with_its_own_result(tmp_path: Path) -> None:
    report = await checked(
        tmp_path,
        sh("exit 3"),
        sh("sleep 60", timeout_seconds=0.3),
        sh("echo out; echo err >&2"),
        Check("gone", ("no-such-tool",)),
        Check("maybe", ("no-such-tool",), optional=True),
        Check("lint", ("no-such-tool",), if_present=True),
        sh("exit 5", skip_codes=(5,)),
        sh("true", skip="node_modules is absent"),
    )
    assert [result.status for result in report.results] == [F, T, P, F, S, S, S, S]
    assert report.results[0].code == 3
    assert report.results[2].output == "out\nerr\n"
    assert all(result.detail for result in report.results if result.status is not P)


@pytest.mark.req("BAT-149")
async def test_what_no_time_is_left_for_is_not_passed(tmp_path: Path) -> None:
    report = await checked(tmp_path, sh("true"), budget=0)
    assert [result.status for result in report.results] == [T]
    assert report.outcome is ValidationOutcome.FAILED


@pytest.mark.req("BAT-150")
@pytest.mark.parametrize(
    ("results", "outcome"),
    [
        ([], ValidationOutcome.NONE),
        ([(P, True)], ValidationOutcome.PASSED),
        ([(S, True)], ValidationOutcome.NONE),
        ([(P, True), (S, True)], ValidationOutcome.NONE),
        ([(P, True), (S, False), (F, False)], ValidationOutcome.PASSED),
        ([(P, True), (F, True)], ValidationOutcome.FAILED),
        ([(P, True), (T, True)], ValidationOutcome.FAILED),
        ([(F, False)], ValidationOutcome.NONE),
    ],
)
def test_skipped_is_never_passed(results: list[tuple[CheckStatus, bool]], outcome: ValidationOutcome) -> None:
    report = Report(tuple(Result(str(n), status, required) for n, (status, required) in enumerate(results)))
    assert report.outcome is outcome


@pytest.mark.req("BAT-239")
async def test_a_project_whose_dependencies_are_absent_fails_no_task(tmp_path: Path) -> None:
    manifest = '{"scripts": {"test": "exit 1"}, "devDependencies": {"jest": "1"}}'
    source = tree(tmp_path, {"package.json": manifest, "package-lock.json": "{}"})
    (named,) = detect_commands(tmp_path)
    assert named.startswith("npm run test (skipped: node_modules is absent")
    report = await checked(tmp_path, *plan(Validation(), source))
    assert report.outcome is ValidationOutcome.NONE
    assert "node_modules" in report.results[0].detail


@pytest.mark.req("BAT-142", "BAT-239")
async def test_pytest_is_used_where_it_can_be_imported_else_unittest(tmp_path: Path) -> None:
    case = "import unittest\nclass T(unittest.TestCase):\n    def test_x(self):\n        self.assertTrue({})\n"
    source = tree(tmp_path, {"setup.cfg": "", "test_a.py": case.format("True")})
    checks = [msg for msg in plan(Validation(), source) if msg.kind == "test"]
    with_pytest = [_with_python(check, sys.executable) for check in checks]
    assert (await checked(tmp_path, *with_pytest)).outcome is ValidationOutcome.PASSED
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
    bare.chmod(0o755)
    report = await checked(tmp_path, *[_with_python(check, str(bare)) for check in checks])
    assert [(result.name, result.status) for result in report.results] == [("python -m unittest", P)]
    (tmp_path / "test_a.py").write_text(case.format("False"))
    report = await checked(tmp_path, *[_with_python(check, str(bare)) for check in checks])
    assert report.outcome is ValidationOutcome.FAILED
    (tmp_path / "test_a.py").write_text("def test_x(): pass\n")
    report = await checked(tmp_path, *[_with_python(check, str(bare)) for check in checks])
    assert report.outcome is ValidationOutcome.NONE


def _with_python(check: Check, python: str) -> Check:
    import msgspec

    return msgspec.structs.replace(
        check, argv=(python, *check.argv[1:]), otherwise=(python, *check.otherwise[1:]) if check.otherwise else ()
    )


@pytest.mark.req("BAT-152", "BAT-032")
def test_the_errors_are_the_tail_of_what_failed() -> None:
    report = Report((Result("good", P, output="fine"), Result("bad", F, output="ä" * 40_000 + "\nthe end")))
    text = errors_text(report)
    assert byte_length(text) <= 16 * 1024
    assert text.endswith("the end")
    assert "fine" not in text
