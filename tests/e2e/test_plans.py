"""Plans against one running ``herd up``: bad ones leave nothing, broken creations are completed, good ones land."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest

from .test_up import SCRIPT, Machine

DESCRIBED = {
    "batch_name": "Described",
    "tasks": [
        {"title": "Write greeting 0", "description": "It.", "acceptance_criteria": ["It is there"]},
        {
            "title": "Collect them",
            "description": "All.",
            "acceptance_criteria": ["They are there"],
            "depends_on": [0],
        },
    ],
}
PLANNER = {"role": "planner", "prompt_has": "Greet everybody", "say": json.dumps(DESCRIBED)}
FAULTY = {
    "role": "planner",
    "prompt_has": "Go round in circles",
    "say": {**DESCRIBED, "tasks": [{**DESCRIBED["tasks"][1], "depends_on": [0]}]},  # type: ignore[dict-item]
}
SILENT = {"role": "planner", "say": "I would rather talk about the weather today, if you do not mind."}


class Shop(Machine):
    """A machine whose forge can be counted."""

    def plan(self, plan: Any, *args: str, name: str = "plan", **env: str) -> tuple[int, str, str]:
        """Write a plan file and give it to herd plan: exit code, output, errors."""
        path = self.folder / f"{name}.json"
        if plan is not None:
            path.write_bytes(plan if isinstance(plan, bytes) else json.dumps(plan).encode())
        kept = self.env
        self.env = {**kept, **env}
        try:
            done = self.verb("plan", "--from-file", str(path), *args, check=False)
        finally:
            self.env = kept
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout, done.stderr

    def rest(self, path: str) -> Any:
        headers = {"Authorization": f"Bearer {self.token()}"}
        answer = httpx.get(f"{self.url()}/repos/owner/shop/{path}", headers=headers, timeout=30)
        answer.raise_for_status()
        return answer.json()

    def standing(self) -> tuple[list[str], list[str], list[str]]:
        """Give the issues, milestones and herd's branches that exist, in whatever state."""
        issues = [item["title"] for item in self.rest("issues?state=all&per_page=100")]
        milestones = [item["title"] for item in self.rest("milestones?state=all&per_page=100")]
        return issues, milestones, [item["name"] for item in self.rest("branches?per_page=100")]

    def issues(self, batch: int) -> list[dict[str, Any]]:
        found = self.rest(f"issues?state=all&per_page=100&milestone={batch}&direction=asc")
        return [item for item in found if "pull_request" not in item]


pytestmark = pytest.mark.xdist_group("plans")  # all share one service


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    shop = Shop(tmp_path_factory.mktemp("plans"))
    (shop.folder / "script.yaml").write_text(json.dumps([PLANNER, FAULTY, SILENT, *SCRIPT]))
    service = shop.up()
    try:
        shop.verb("init")
        yield shop
    finally:
        assert service.stop() in (143, 0), service.text()[-3000:]


def task(title: str = "A", *depends: int, **more: Any) -> dict[str, Any]:
    return {"title": title, "acceptance_criteria": ["c"], "depends_on": list(depends), **more}


def batch(*tasks: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"batch_name": "Bad", "tasks": list(tasks), **more}


BAD: dict[str, tuple[Any, tuple[str, ...]]] = {
    "no name": ({"tasks": [task()]}, ("batch_name is missing",)),
    "no tasks": (batch(), ("tasks is empty; a plan has at least one task",)),
    "blank title": (batch(task("  ")), ("task 0: title is blank",)),
    "no criterion": (
        batch(task(acceptance_criteria=[])),
        ('task 0 ("A"): acceptance_criteria is empty; a task has at least one criterion',),
    ),
    "out of range": (
        batch(*(task(name) for name in "ABC"), task("X", 0, 7), task("E")),
        ('task 3 ("X"): depends_on[1]=7 is out of range [0,5)',),
    ),
    "itself": (batch(task("A"), task("B", 1)), ('task 1 ("B"): depends_on[0]=1 is the task itself',)),
    "cycle": (batch(task("A", 2), task("B", 0), task("C", 1)), ("#0 →", "→ #0", "circular dependency")),
    "enums": (
        batch(task(complexity="huge", type="chore", priority="high", manual="yes", timeout_minutes=-1)),
        ("complexity", "type", "priority", "manual", "timeout_minutes"),
    ),
    "all at once": (
        {"batch_name": " ", "tasks": [task(""), task("B", 9, acceptance_criteria=[]), "no task", {"title": 3}]},
        ("batch_name is blank", "task 0: title is blank", "depends_on[0]=9", "acceptance_criteria", "task 2 is text",
         "title is a number"),
    ),
    "not JSON": (b'{"batch_name": "x",\n  oops}', ("line 2, column 3: not JSON",)),
    "a list": (b"[]", ("the plan is a list",)),
    "doubled key": (b'{"batch_name": "x", "batch_name": "y"}', ("stands twice",)),
    "empty": (b"  \n", ("the plan is empty",)),
    "binary": (b"\x7fELF\x00\x01\x02" * 100, ("binary file, not JSON",)),
    "not UTF-8": (b'{"batch_name": "\xff"}', ("not UTF-8",)),
    "10 MB": (b" " * (10 * 2**20 + 1), ("larger than 10 MB",)),
    "nested": (b"[" * 200_000, ("",)),
}  # fmt: skip


@pytest.mark.req("BAT-015", "BAT-016", "CMD-030", "CLI-002")
def test_each_kind_of_bad_plan_is_told_whole_and_leaves_nothing_on_the_forge(shop: Shop) -> None:
    before = shop.standing()
    for kind, (plan, expected) in BAD.items():
        code, out, err = shop.plan(plan, name=f"bad-{kind.replace(' ', '-')}")
        assert (code, out) == (2, ""), (kind, code, out, err)
        assert all(part in err for part in expected), (kind, err)
        assert all(line.startswith("herd: ") for line in err.splitlines()), (kind, err)
        assert len(err) < 2000, kind
    assert shop.plan(None, name="nowhere")[0] == 2
    assert shop.standing() == before


@pytest.mark.req("BAT-015", "BAT-017", "BAT-012", "CLI-001")
def test_an_unknown_key_warns_and_a_dry_run_shows_the_table_and_creates_nothing(shop: Shop) -> None:
    before = shop.standing()
    plan = batch(task("Root", scope=["src/*.py"]), task("Side", scope=["src/a.py"]), task("Leaf", 0, 1, depend=[3]))
    code, out, err = shop.plan({**plan, "colour": "red"}, "--dry-run", name="dry")
    assert code == 0, err
    assert 'warning: unknown key "colour" is ignored' in err
    assert 'warning: task 2 ("Leaf"): unknown key "depend" is ignored' in err
    assert "may run at the same time and overlap: src/*.py and src/a.py" in err
    for row in ("tier 0", "tier 1", "Leaf", "nothing was created (--dry-run)"):
        assert row in out
    code, _, err = shop.plan(plan, "--dry-run", "--strict-scope", name="strict")
    assert (code, "overlap" in err) == (2, True)
    assert shop.standing() == before


@pytest.mark.req("BAT-008", "BAT-012", "BAT-018", "BAT-013", "CMD-031")
def test_a_batch_is_created_without_being_started_under_a_name_of_its_own(shop: Shop) -> None:
    plan = batch(task("Write greeting 1", scope=["greet1.txt"]))
    code, out, err = shop.plan(plan, "--no-dispatch", "--batch", "Named by hand", "--json", name="first")
    assert code == 0, err
    first = json.loads(out)
    assert first["title"] == "Named by hand"
    code, out, err = shop.plan(plan, "--no-dispatch", "--batch", "Named by hand", name="second")
    assert code == 0, err
    note = 'Note: batch name conflicted with existing milestone — using "Named by hand (2)" instead.'
    assert note in out
    second = max(item["number"] for item in shop.rest("milestones?per_page=100"))
    assert f"herd dispatch --batch {second}" in out
    _, _, branches = shop.standing()
    assert not [name for name in branches if name.startswith(f"herd/batch/{first['batch']}-")]
    (issue,) = shop.issues(first["batch"])
    assert "herd/status:ready" in [label["name"] for label in issue["labels"]]
    told = shop.verb("why", str(issue["number"])).stdout
    assert "the batch is not started" in told
    assert f"herd dispatch --batch {first['batch']}" in told
    shop.verb("dispatch", "--batch", str(first["batch"]))
    watched = json.loads(shop.verb("watch", str(first["batch"]), "--timeout", "200", "--json").stdout)
    assert watched["state"] == "landed"
    shop.verb("batch", "cancel", str(second), "--force")
    assert not (shop.clone / ".herd" / "plans").exists() or list((shop.clone / ".herd" / "plans").iterdir()) == []


@pytest.mark.req("BAT-021", "BAT-013", "BAT-240")
def test_a_creation_that_was_killed_is_completed_by_the_kept_plan(shop: Shop) -> None:
    plan = {**batch(*(task(f"Step {n}", *([n - 1] if n else [])) for n in range(5))), "batch_name": "Half"}
    code, _, _ = shop.plan(plan, "--no-dispatch", name="half", HERD_CRASH_AT="plan.issue:3")
    assert code == -9
    (number,) = [item["number"] for item in shop.rest("milestones?per_page=100") if item["title"] == "Half"]
    assert len(shop.issues(number)) == 3
    kept = shop.clone / ".herd" / "plans" / "half.json"
    assert kept.exists()
    done = shop.verb("plan", "--from-file", str(kept), "--no-dispatch", "--json")
    created = json.loads(done.stdout)
    assert created["batch"] == number
    issues = shop.issues(number)
    assert sorted(item["title"] for item in issues) == [f"Step {n}" for n in range(5)]
    assert sorted(item["number"] for item in issues) == sorted(created["issues"])
    for before, item in itertools.pairwise(issues):
        assert f"depends_on: [{before['number']}]" in item["body"]
    assert not kept.exists()
    assert [item["title"] for item in shop.rest("milestones?state=all&per_page=100")].count("Half") == 1
    shop.verb("batch", "cancel", str(number), "--force")


@pytest.mark.req("BAT-007", "BAT-010", "BAT-013", "BAT-009", "AGT-006")
def test_a_description_becomes_a_plan_by_the_planner_agent_and_lands(shop: Shop) -> None:
    (shop.clone / "README.md").write_text("# Shop\nuncommitted\n")
    done = shop.verb("plan", "Greet everybody, politely.", "--json")
    assert "1 file has uncommitted changes" in done.stderr
    shop.git("checkout", "README.md")
    created = json.loads(done.stdout)
    assert created["title"] == "Described"
    watched = json.loads(shop.verb("watch", str(created["batch"]), "--timeout", "200", "--json").stdout)
    assert watched["state"] == "landed"
    assert not list((shop.clone / ".herd" / "plans").glob("*"))
    before = shop.standing()
    refused = shop.verb("plan", "Something else", check=False)
    assert refused.returncode == 1, refused
    assert refused.stdout == ""
    assert "Traceback" not in refused.stderr
    assert "herd: the planner gave no plan: " in refused.stderr
    assert "transcript.jsonl" in refused.stderr
    assert os.listdir(shop.clone / ".herd" / "plans") == []
    faulty = shop.verb("plan", "Go round in circles", check=False)
    assert faulty.returncode == 2, faulty
    assert 'herd: task 0 ("Collect them"): depends_on[0]=0 is the task itself' in faulty.stderr
    (kept,) = (shop.clone / ".herd" / "plans").iterdir()
    assert f"herd plan --from-file {kept}" in faulty.stderr
    kept.unlink()
    assert shop.standing() == before
