"""``herd up`` with a person's own repository, killed whole, and alone beside a forge that lives on."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .harness import CANARY, Process, assert_sound, environment, herd, look, until

PLAN = {
    "batch_name": "Greetings",
    "tasks": [
        {
            "title": f"Write greeting {n}",
            "description": "Write it.",
            "acceptance_criteria": ["It is there"],
            "scope": [f"greet{n}.txt"],
        }
        for n in range(3)
    ]
    + [
        {
            "title": "Collect them",
            "description": "Collect.",
            "acceptance_criteria": ["All are there"],
            "depends_on": [0, 1, 2],
        },
    ],
}
SCRIPT = [
    {
        "role": "worker",
        "issue_title": "Collect them",
        "steps": [{"run": ["sh", "-c", "cat greet*.txt > all.txt"]}, {"commit": "Collect"}, {"push": True}],
        "say": "All greetings stand in all.txt now.",
    },
    *(
        {
            "role": "worker",
            "issue_title": f"Write greeting {n}",
            "steps": [
                {"write": {"path": f"greet{n}.txt", "text": f"Hello {n}\n"}},
                {"sleep": 0.5},
                {"commit": f"Greet {n}"},
                {"push": True},
            ],
            "say": f"The greeting {n} is written to its own file.",
        }
        for n in range(3)
    ),
    {"role": "reviewer", "say": {"approved": True, "summary": "All criteria are met.", "findings": []}},
]
CONFIG = """\
version: 1
platform: {provider: local}
agent: {provider: scripted}
integrator: {ci_start_grace_seconds: 0}
pull_requests: {auto_merge: true}
"""


class Machine:
    """One person's machine: a home, a clone, a script."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.clone = folder / "shop"
        self.env = environment(self.home)
        (folder / "script.yaml").write_text(json.dumps(SCRIPT))
        (folder / "plan.json").write_text(json.dumps(PLAN))
        self.clone.mkdir()
        self.git("init", "-q", "-b", "main")
        for key, value in (("user.name", "Ada"), ("user.email", "ada@example.invalid")):
            self.git("config", key, value)
        (self.clone / ".herd").mkdir()
        (self.clone / ".herd" / "config.yml").write_text(CONFIG)
        (self.clone / "README.md").write_text("# Shop\n")
        self.git("add", "-A")
        self.git("commit", "-qm", "first")
        self.serial = 0

    def git(self, *args: str) -> str:
        done = subprocess.run(["git", *args], cwd=self.clone, env=self.env, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def up(self, *args: str) -> Process:
        self.serial += 1
        started = herd(
            "up",
            "--script",
            str(self.folder / "script.yaml"),
            "--poll",
            "0.5",
            *args,
            out=self.folder / f"up{self.serial}",
            env=self.env,
        )
        until(
            lambda: self.verb("status", check=False).returncode in (0, 2) or started.popen.poll() is not None,
            60,
            "herd up",
        )
        assert started.popen.poll() is None, started.text()
        return started

    def verb(self, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "droveway", *args],
            cwd=self.clone,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert not check or done.returncode == 0, (args, done.stdout, done.stderr)
        return done

    def token(self) -> str:
        return (self.home / "state" / "owner.token").read_text().strip()

    def url(self) -> str:
        return str(json.loads((self.home / "state" / "up.json").read_text())["forge_url"])


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


TITLES = [str(task["title"]) for task in PLAN["tasks"]]  # type: ignore[index,attr-defined]


@pytest.mark.smoke
@pytest.mark.req("ENG-005", "CLI-009", "FRG-020", "CMD-030", "CMD-034", "CMD-039", "BAT-128", "CLI-004")
def test_a_person_takes_a_plan_to_merged_code_on_their_own_repository(machine: Machine) -> None:
    service = machine.up()
    try:
        machine.git("remote", "add", "origin", "https://forge.invalid/ada/shop.git")
        machine.verb("init")
        assert machine.git("config", "remote.origin.url") == "https://forge.invalid/ada/shop.git"
        created = json.loads(machine.verb("plan", "--from-file", "../plan.json", "--json").stdout)
        assert len(created["issues"]) == 4
        watched = json.loads(machine.verb("watch", str(created["batch"]), "--timeout", "200", "--json").stdout)
        assert watched["state"] == "landed"
        machine.verb("pull")
        assert (machine.clone / "all.txt").read_text() == "Hello 0\nHello 1\nHello 2\n"
        status = json.loads(machine.verb("status", "--json").stdout)
        assert set(status) == {"batches", "workers"}
        assert machine.verb("up", check=False).returncode == 75
        landed = look(machine.url(), machine.token(), "owner/shop")
        assert_sound(landed, landed.tree, TITLES)
        assert not [text for text in landed.texts if CANARY in text]
    finally:
        assert service.stop() in (143, 0), service.text()[-3000:]


def _lands(machine: Machine, disturb: Callable[[], None]) -> None:
    machine.verb("init")
    created = json.loads(machine.verb("plan", "--from-file", "../plan.json", "--json").stdout)
    disturb()
    watched = json.loads(machine.verb("watch", str(created["batch"]), "--timeout", "200", "--json").stdout)
    assert watched["state"] == "landed"
    machine.verb("pull")
    assert (machine.clone / "all.txt").read_text() == "Hello 0\nHello 1\nHello 2\n"
    landed = look(machine.url(), machine.token(), "owner/shop")
    assert_sound(landed, landed.tree, TITLES)


@pytest.mark.slow
@pytest.mark.req("ENG-004", "ENG-005", "BAT-003", "QLT-030")
@pytest.mark.parametrize("seed", range(5))
def test_herd_up_killed_whole_goes_on_where_it_was(machine: Machine, seed: int) -> None:
    moment = random.Random(seed).uniform(0.2, 12.0)
    print(f"seed {seed}: killed after {moment:.2f} s")
    services = [machine.up()]

    def disturb() -> None:
        time.sleep(moment)  # the moment itself is the test's input
        services[-1].kill()
        services.append(machine.up())

    try:
        _lands(machine, disturb)
    finally:
        services[-1].kill()
