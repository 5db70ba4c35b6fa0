"""The command line: help, exit codes, one clear line for bad input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from droveway.cli.main import VERBS

from .conftest import Herd


@pytest.mark.req("CLI-001", "QLT-006")
def test_version_and_help_import_next_to_nothing() -> None:
    code = (
        "import sys; sys.argv = ['herd', {argument!r}]\n"
        "from droveway.__main__ import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(sorted(m.split('.')[0] for m in sys.modules if m.split('.')[0] in "
        "{{'click','rich','httpx','sqlalchemy','dbos','graphql','msgspec','jinja2','yaml'}}), file=sys.stderr)"
    )
    loaded = {}
    for argument in ("--version", "--help"):
        done = subprocess.run(
            [sys.executable, "-c", code.format(argument=argument)], capture_output=True, text=True, check=True
        )
        loaded[argument] = done.stderr
        assert "herd" in done.stdout.lower()
    assert loaded["--version"] == "[]\n"
    assert "httpx" not in loaded["--help"]
    assert "sqlalchemy" not in loaded["--help"]
    assert "rich" not in loaded["--help"]


@pytest.mark.req("CLI-001")
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_its_help(herd: Herd, verb: str) -> None:
    said = herd(verb, "--help")
    assert said.code == 0
    assert "Usage" in said.out


@pytest.mark.req("CLI-002")
@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["plann"], 2, "Did you mean 'plan'"),
        (["plan"], 2, "--from-file"),
        (["plan", "--from-file", "missing.json"], 2, "missing.json"),
        (["dispatch"], 2, "--batch"),
        (["integrator", "review"], 2, "--batch"),
        (["config", "get", "worker.max"], 2, "clone"),
        (["pull"], 2, "repository"),
        (["status", "--repo", "no slash"], 2, "owner/name"),
        (["watch", "0"], 2, "0"),
        (["demo", "--project", "missing.tar.gz"], 2, "missing.tar.gz"),
        (["demo", "--project", sys.executable], 2, "no sdist"),
        (["up", "--forge", "nonsense"], 2, "no address"),
        (["up", "--forge", "ftp://forge.invalid"], 2, "no address"),
    ],
)
def test_bad_input_gets_one_clear_line(herd: Herd, arguments: list[str], code: int, word: str) -> None:
    said = herd(*arguments, env={"HERD_GITHUB_TOKEN": "canary-token-0"})
    assert (said.code, "Traceback" in said.err) == (code, False), said
    assert word in said.err
    assert len([line for line in said.err.splitlines() if line.startswith(("herd: ", "Error: "))]) == 1


@pytest.mark.req("CLI-009")
@pytest.mark.parametrize("verb", ["status", "watch", "why 1", "init"])
def test_without_a_running_service_the_way_on_is_named(herd: Herd, clone: Path, verb: str) -> None:
    subprocess.run(["git", "remote", "add", "herd", "http://127.0.0.1:9/owner/shop.git"], cwd=clone, check=True)
    said = herd(*verb.split(), cwd=clone)
    assert said.code == 1
    assert "herd up" in said.err


@pytest.mark.req("BAT-061", "BAT-060")
def test_the_configuration_is_read_set_and_checked_before_it_is_written(herd: Herd, clone: Path) -> None:
    assert herd("config", "set", "workers.max_concurrent", "5", cwd=clone).code == 0
    assert json.loads(herd("config", "get", "workers.max_concurrent", "--json", cwd=clone).out) == {
        "workers.max_concurrent": 5
    }
    before = (clone / ".herd/config.yml").read_bytes()
    for key, value, word in (
        ("workers.max_concurrent", "0", "greater than 0"),
        ("workers.max_concurent", "2", "did you mean 'workers.max_concurrent'"),
        ("integrator.strategy", "octopus", "one of"),
        ("monitor.patrol_interval_minutes", "4", "at least 5"),
    ):
        said = herd("config", "set", key, value, cwd=clone)
        assert said.code == 2
        assert word in said.err
    assert (clone / ".herd/config.yml").read_bytes() == before
    (clone / ".herdos.yml").write_text("version: 1\n")
    (clone / ".herd/config.yml").write_text("version: 1\n")


@pytest.mark.req("CLI-007")
def test_doctor_says_what_is_there_and_how_to_mend_it(herd: Herd, clone: Path) -> None:
    said = herd("doctor", "--json", cwd=clone)
    lines = {line["what"]: line for line in json.loads(said.out)}
    assert [lines[what]["state"] for what in ("python", "git", "database")] == ["ok"] * 3
    assert lines["remote 'herd'"]["state"] == "note"
    assert "herd init" in lines["remote 'herd'"]["mend"]


@pytest.mark.req("CLI-009")
def test_the_credential_helper_answers_only_for_the_running_forge(herd: Herd) -> None:
    assert herd("git-credential", "get").out == ""
