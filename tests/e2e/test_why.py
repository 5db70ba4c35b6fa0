"""``herd why`` for tasks in each state, and what a running service answers to the verbs of batches (CLI-005)."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from .harness import until
from .test_engine_alone import processes
from .test_up import CONFIG, Machine

NAP = "86321"  # the seconds of a sleep that nobody waits for: also the name by which its process is found
SCRIPT = [
    {"role": "worker", "issue_title": "Fails", "steps": [{"run": ["sh", "-c", "echo no luck >&2; exit 7"]}]},
    {"role": "worker", "issue_title": "Sleeps *", "steps": [{"run": ["sleep", NAP]}]},
    {
        "role": "worker",
        "steps": [{"write": {"path": "quick.txt", "text": "quick\n"}}, {"commit": "Quick"}, {"push": True}],
        "say": "The file quick.txt is written as the task asks.",
    },
    {"role": "reviewer", "say": {"approved": True, "summary": "All criteria are met.", "findings": []}},
]


def plan(name: str, *tasks: tuple[str, list[int]]) -> str:
    made = [{"title": title, "acceptance_criteria": ["It is done"], "depends_on": needs} for title, needs in tasks]
    return json.dumps({"batch_name": name, "tasks": made})


@dataclass
class Shop:
    """A service with a batch that waits for a person's approval, and one whose tasks stand in every state."""

    machine: Machine
    landing: int
    batch: int
    numbers: dict[str, int]

    def why(self, subject: object, *args: str) -> str:
        return self.machine.verb("why", str(subject), *args).stdout

    def told(self, subject: object) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.why(subject, "--json"))
        assert set(found) == {"subject", "state", "facts", "blockers", "history"}
        assert all(set(blocker) >= {"code", "because", "clears", "who"} for blocker in found["blockers"])
        return found

    def blocker(self, subject: object, code: str) -> dict[str, str]:
        (found,) = [blocker for blocker in self.told(subject)["blockers"] if blocker["code"] == code]
        return found

    def states(self, batch: int) -> dict[str, str]:
        shown = json.loads(self.machine.verb("batch", "show", str(batch), "--json").stdout)
        return {task["title"]: task["state"] for task in shown["tasks"]}


pytestmark = pytest.mark.xdist_group("why")  # all share one service


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    machine = Machine(tmp_path_factory.mktemp("why"))
    config = CONFIG.replace("auto_merge: true", "auto_merge: false") + "workers: {max_concurrent: 2}\n"
    (machine.clone / ".herd" / "config.yml").write_text(config)
    machine.git("commit", "-qam", "two workers, and a person merges")
    (machine.folder / "script.yaml").write_text(json.dumps(SCRIPT))
    (machine.folder / "landing.json").write_text(plan("Landing", ("Quick", [])))
    tasks = [("Fails", []), ("Sleeps soundly", []), ("Sleeps too", []), ("Queues", []), ("Follows", [1])]
    titles = [title for title, _ in tasks]
    (machine.folder / "states.json").write_text(plan("States", *tasks))  # type: ignore[arg-type]
    service = machine.up()
    try:
        machine.verb("init")
        landing = json.loads(machine.verb("plan", "--from-file", "../landing.json", "--json").stdout)["batch"]
        found = Shop(machine, landing, 0, {})
        until(
            lambda: "approval" in found.why(f"batch:{landing}") or "merge" in found.why(f"batch:{landing}"), 120, "PR"
        )
        made = json.loads(machine.verb("plan", "--from-file", "../states.json", "--json").stdout)
        shop = Shop(machine, landing, made["batch"], dict(zip(titles, made["issues"], strict=True)))
        wanted = {
            "Fails": "failed",
            "Sleeps soundly": "in-progress",
            "Sleeps too": "in-progress",
            "Queues": "ready",
            "Follows": "blocked",
        }
        until(lambda: shop.states(made["batch"]) == wanted, 120, "every state")
        yield shop
    finally:
        assert service.stop() in (143, 0), service.text()[-3000:]


@pytest.mark.req("CLI-005", "BAT-132")
def test_a_failed_task_says_why_it_failed_and_who_can_go_on(shop: Shop) -> None:
    number = shop.numbers["Fails"]
    text = shop.why(number)
    assert f"issue:{number}: failed, 1 failure in a row" in text
    assert "why it failed: the agent failed" in text
    found = shop.blocker(number, "status")
    assert "herd dispatch" in found["clears"]
    assert "a person" in found["who"]


@pytest.mark.req("CLI-005")
def test_a_running_task_names_its_run_and_what_ends_it(shop: Shop) -> None:
    number = shop.numbers["Sleeps soundly"]
    assert re.search(rf"issue:{number}: running for \d+ min: worker/owner/shop/{number}/1 on ", shop.why(number))
    assert shop.blocker(number, "active")["who"] == "the worker"


@pytest.mark.req("CLI-005", "BAT-106")
def test_a_waiting_task_names_the_slots(shop: Shop) -> None:
    number = shop.numbers["Queues"]
    assert "ready" in shop.told(number)["state"]
    assert "all 2 worker slots are taken" in shop.blocker(number, "no-slot")["because"]


@pytest.mark.req("CLI-005")
def test_a_blocked_task_names_what_it_waits_for_and_its_state(shop: Shop) -> None:
    number, other = shop.numbers["Follows"], shop.numbers["Sleeps soundly"]
    assert "blocked" in shop.told(number)["state"]
    assert f"#{other}" in shop.blocker(number, "blocked")["because"]
    assert f"it waits for #{other} Sleeps soundly, which is in-progress" in shop.why(f"issue:{number}")


@pytest.mark.req("CLI-005", "REV-100")
def test_a_batch_and_its_pull_request_say_who_can_land_them(shop: Shop) -> None:
    shown = json.loads(shop.machine.verb("batch", "show", str(shop.landing), "--json").stdout)
    number = shown["pull"]["number"]
    for subject in (f"pr:{number}", number, f"batch:{shop.landing}"):
        told = shop.told(subject)
        facts = "\n".join(told["facts"])
        assert f"PR #{number} is open" in facts
        assert "review of this head: approved, 0 findings" in facts
        assert any(blocker["who"] == "a person" for blocker in told["blockers"]), told
    codes = {blocker["code"]: blocker for blocker in shop.told(f"batch:{shop.batch}")["blockers"]}
    assert f"#{shop.numbers['Fails']} failed" in codes["failed"]["because"]
    assert "is in progress" in codes["working"]["because"]
    assert "BAT-110" in shop.why(shop.numbers["Fails"], "--history")


@pytest.mark.req("CLI-002", "CLI-005")
@pytest.mark.parametrize(
    ("subject", "word"),
    [
        ("999", "has no issue or PR 999"),
        ("issue:999", "has no issue 999"),
        ("pr:999", "has no pr 999"),
        ("batch:99", "has no batch #99"),
        ("the moon", "write 12, issue:12, pr:7 or batch:3"),
    ],
)
def test_what_does_not_exist_is_said_in_one_line(shop: Shop, subject: str, word: str) -> None:
    done = shop.machine.verb("why", subject, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert word.lower() in done.stderr.lower()
    assert done.stderr.count("\n") == 1


@pytest.mark.req("CMD-033", "CMD-034")
def test_status_and_lists_count_what_stands_there(shop: Shop) -> None:
    status = json.loads(shop.machine.verb("status", "--json").stdout)
    (row,) = [row for row in status["batches"] if row["number"] == shop.batch]
    wanted = {"total": 5, "done": 0, "failed": 1, "active": 2, "blocked": 1, "ready": 1, "manual": 0}
    assert {name: row[name] for name in wanted} == wanted
    assert row["title"] == "States"
    assert {worker["status"] for worker in status["workers"]} == {"running"}
    assert all(set(worker) == {"run_id", "status", "url"} for worker in status["workers"])
    assert len(status["workers"]) == 2
    listed = json.loads(shop.machine.verb("batch", "list", "--json").stdout)
    assert [item["number"] for item in listed] == [shop.landing, shop.batch]


@pytest.mark.req("CMD-032", "CMD-033", "BAT-224", "AGT-004", "CLI-009", "QLT-034")
def test_a_batch_is_paused_over_a_restart_resumed_and_cancelled_and_its_agents_are_gone(
    shop: Shop, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """On a machine of its own: the service ends within 30 s with agents at work, and leaves no process."""
    machine = Machine(tmp_path_factory.mktemp("restart"))
    (machine.folder / "script.yaml").write_text(json.dumps(SCRIPT))
    (machine.folder / "naps.json").write_text(plan("Naps", ("Sleeps soundly", []), ("Follows", [0])))
    service = machine.up()
    try:
        machine.verb("init")
        made = json.loads(machine.verb("plan", "--from-file", "../naps.json", "--json").stdout)
        asleep = str(machine.folder)

        def napping() -> list[str]:
            return [found for found in processes(asleep) if f"sleep {NAP}" in found]

        until(napping, 60, "the agent sleeps")
        machine.verb("batch", "pause", str(made["batch"]))
        assert "the batch is paused" in machine.verb("why", f"batch:{made['batch']}").stdout
        assert napping()  # running workers finish
        second = machine.verb("up", check=False)
        assert (second.returncode, second.stdout, second.stderr.count("\n")) == (75, "", 1)
        assert "another 'herd up' runs" in second.stderr
        began = time.monotonic()
        assert service.stop() == 143
        assert time.monotonic() - began < 30
        until(lambda: processes(asleep) == [], 5, "nothing is left of the service and its agents")
        assert machine.verb("status", check=False).returncode == 1
        service = machine.up()
        assert "the batch is paused" in machine.verb("why", f"batch:{made['batch']}").stdout
        machine.verb("batch", "resume", str(made["batch"]))
        until(napping, 90, "the run goes on after the restart")
        doctor = machine.verb("doctor", check=False).stdout
        assert "✓ herd up: running" in doctor
        assert "✓ remote 'herd'" in doctor
        refused = machine.verb("batch", "cancel", str(made["batch"]), check=False)
        assert refused.returncode == 1
        assert "--force" in refused.stderr
        machine.verb("batch", "cancel", str(made["batch"]), "--force")
        until(lambda: napping() == [], 60, "the agent is ended")
        assert machine.verb("batch", "list").stdout.strip() == "no batch"
        (ended,) = json.loads(machine.verb("batch", "list", "--all", "--json").stdout)
        assert ended["state"] == "cancelled"
    finally:
        service.stop()
