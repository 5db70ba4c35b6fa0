"""A bad plan is refused whole, with every error, before anything exists; a good one comes back as data."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from droveway.batch.plan import CycleError, plan_as_json, plan_table, read_plan, tiers, validate
from droveway.core.errors import InputError


def task(title: str = "A task", **fields: Any) -> dict[str, Any]:
    return {"title": title, "acceptance_criteria": ["it works"], **fields}


def plan(*tasks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"batch_name": "Batch", "tasks": list(tasks), **fields}


@pytest.mark.req("BAT-014")
def test_every_field_of_a_task_is_read() -> None:
    raw = plan(
        task(),
        task(
            "Second",
            description="what",
            implementation_details="how",
            scope=["src/a.py"],
            conventions=["tabs"],
            context_from_dependencies=["A gives x()"],
            complexity="high",
            type="bugfix",
            runner_label="big",
            depends_on=[0, 0],
            manual=True,
            timeout_minutes=5,
            model="m",
            priority=-3,
        ),
        pr_summary="why",
    )
    check = validate(raw)
    assert check.errors == ()
    assert check.plan is not None
    second = check.plan.tasks[1]
    assert (second.depends_on, second.priority, second.timeout_minutes, second.manual) == ((0,), -3, 5, True)
    assert check.plan.pr_summary == "why"
    assert validate(json.loads(plan_as_json(check.plan))).plan == check.plan


@pytest.mark.req("BAT-015")
def test_a_dependency_out_of_range_is_named_with_its_task() -> None:
    raw = plan(task("A"), task("B"), task("C"), task("X", depends_on=[0, 7]), task("E"))
    assert validate(raw).errors == ('task 3 ("X"): depends_on[1]=7 is out of range [0,5)',)


@pytest.mark.req("BAT-015")
def test_all_errors_are_reported_at_once() -> None:
    raw = {
        "batch_name": " ",
        "tasks": [
            {"title": "", "acceptance_criteria": ["x"]},
            {"title": "No criteria", "acceptance_criteria": [" "]},
            task("Self", depends_on=[2]),
            task("Enum", complexity="huge", type="epic"),
            task("Types", description=3, scope="src", manual="yes", timeout_minutes=0, priority=True, depends_on=["0"]),
            "text",
        ],
    }
    errors = "\n".join(validate(raw).errors)
    for wanted in (
        "batch_name is blank",
        "task 0: title is blank",
        'task 1 ("No criteria"): acceptance_criteria is empty',
        'task 2 ("Self"): depends_on[0]=2 is the task itself',
        'task 3 ("Enum"): complexity is "huge"',
        'task 3 ("Enum"): type is "epic"',
        'task 4 ("Types"): description is a number',
        'task 4 ("Types"): scope is text',
        'task 4 ("Types"): manual is "yes"',
        'task 4 ("Types"): timeout_minutes is 0',
        'task 4 ("Types"): priority is true',
        'task 4 ("Types"): depends_on[0] is "0"',
        "task 5 is text",
    ):
        assert wanted in errors
    assert validate(raw).plan is None


@pytest.mark.req("BAT-015")
@pytest.mark.parametrize("raw", [None, [], "x", 3, {}, {"batch_name": "x"}, {"batch_name": "x", "tasks": "y"}])
def test_what_is_no_plan_is_said_so(raw: Any) -> None:
    check = validate(raw)
    assert check.errors
    assert check.plan is None


@pytest.mark.req("BAT-015")
def test_an_unknown_key_is_a_warning_and_an_empty_plan_an_error() -> None:
    check = validate(plan(task(owner="me"), extra=1))
    assert check.plan is not None
    assert check.warnings == ('unknown key "extra" is ignored', 'task 0 ("A task"): unknown key "owner" is ignored')
    assert validate(plan()).errors == ("tasks is empty; a plan has at least one task",)


@pytest.mark.req("BAT-016", "BAT-098", "D01")
def test_a_circle_is_named_with_its_members() -> None:
    raw = plan(task("free"), task("a", depends_on=[2]), task("b", depends_on=[3, 0]), task("c", depends_on=[1]))
    assert validate(raw).errors == ("circular dependency: #1 → #2 → #3 → #1",)


@pytest.mark.req("BAT-097", "BAT-015", "D01")
def test_a_chain_of_3000_and_a_plan_of_5000_are_checked_without_recursion() -> None:
    chain = plan(*(task(f"t{i}", depends_on=[i - 1] if i else []) for i in range(3000)))
    check = validate(chain)
    assert check.plan is not None
    assert max(row.tier for row in plan_table(check.plan)) == 2999
    chain["tasks"][0]["depends_on"] = [2999]
    assert "circular dependency: #0 → #2999 → #2998" in validate(chain).errors[0]
    wide = plan(*(task(f"t{i}", scope=[f"src/{i % 7}/*.py", f"src/f{i}.py", "**/*.md"]) for i in range(5000)))
    assert validate(wide).plan is not None


@given(st.data())
def test_tiers_are_the_smallest_that_respect_every_edge(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 30))
    names = list(range(count))
    random.Random(data.draw(st.integers())).shuffle(names)
    graph = {names[i]: data.draw(st.lists(st.sampled_from(names[:i]), max_size=4)) if i else [] for i in range(count)}
    found = tiers(graph)
    for number, needed in graph.items():
        assert found[number] == (1 + max(found[other] for other in needed) if needed else 0)


@given(st.dictionaries(st.integers(0, 12), st.lists(st.integers(0, 12), max_size=3), min_size=1))
def test_tiers_end_in_tiers_or_a_true_cycle(graph: dict[int, list[int]]) -> None:
    graph = {number: [other for other in needed if other in graph] for number, needed in graph.items()}
    try:
        found, members = tiers(graph), ()
    except CycleError as error:
        found, members = {}, error.members
    assert found.keys() == graph.keys() or members
    assert len(set(members)) == len(members)
    for number, needed in zip(members, (*members[1:], *members[:1]), strict=True):
        assert needed in graph[number]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_the_validator_never_raises(raw: Any) -> None:
    validate(raw)
    validate({"batch_name": raw, "tasks": [raw, task(depends_on=raw, scope=raw, title=raw)]})


@pytest.mark.req("BAT-017")
@pytest.mark.parametrize(
    ("a", "b", "meet"),
    [
        ("src/a.py", "src/a.py", True),
        ("./src/a.py", "src//a.py", True),
        ("src/a.py", "src/b.py", False),
        ("src/", "src/deep/er/a.py", True),
        ("src", "srcs/a.py", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/sub/a.py", False),
        ("src/**/*.py", "src/sub/deep/a.py", True),
        ("**/*.md", "docs/*", True),
        ("a*c", "*b*", True),
        ("a?c", "abd", False),
        ("src/[ab].py", "src/a.py", True),
    ],
)
def test_scopes_that_can_name_one_file_are_found(a: str, b: str, meet: bool) -> None:
    check = validate(plan(task("one", scope=[a]), task("two", scope=[b])))
    assert check.plan is not None
    assert bool(check.warnings) is meet
    assert bool(validate(plan(task("one", scope=[a]), task("two", scope=[b])), strict_scope=True).errors) is meet


@pytest.mark.req("BAT-017")
def test_tasks_that_follow_each_other_may_share_files_and_a_late_manual_task_is_warned_of() -> None:
    raw = plan(
        task("one", scope=["a"]), task("two", scope=["a"], depends_on=[0], manual=True), task("three", depends_on=[1])
    )
    assert len(validate(raw).warnings) == 1
    assert "manual task" in validate(raw).warnings[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x00\x01", "binary"),
        (b"\xff\xfe{", "UTF-8"),
        (b"", "empty"),
        (b"{", "not JSON"),
        (b"[" * 200_000, "deeply"),
        (b'{"a": 1, "a": 2}', "twice"),
        (b" " * (10 * 1024 * 1024 + 1), "10 MB"),
    ],
)
def test_a_file_that_is_no_plan_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_plan(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_plan(tmp_path / "none.json")
