"""The agent without a model, as a program and in process (AGT-011)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from droveway.agents import Call, NoEntryError, Step, parse_script, perform, play
from droveway.agents.script import call_of_prompt, find
from droveway.core.errors import InputError

SCRIPT = """
- role: worker
  issue_title: "Add * greeting"
  attempt: 1
  steps:
    - write: {path: src/a.py, text: "x = 1\\n"}
    - append: {path: src/a.py, text: "y = 2\\n"}
    - replace: {path: src/a.py, old: "x = 1", new: "x = 3"}
    - run: [git, status, --short]
    - commit: "-starts with a hyphen and has 'quotes'"
    - push: true
  say: {done: true, summary: "it was added as asked"}
- role: worker
  prompt_has: [conflict, "in README"]
  steps: [{sleep: 0}, {crash: 41}]
- role: reviewer
  say: {approved: true, findings: []}
- {}
"""


def run(place: Path, script: str, prompt: str = "", *options: str) -> subprocess.CompletedProcess[str]:
    (place.parent / "script.yaml").write_text(script, encoding="utf-8")
    command = [sys.executable, "-m", "droveway.agents.scripted", "--script", str(place.parent / "script.yaml")]
    return subprocess.run([*command, *options], cwd=place, input=prompt, capture_output=True, text=True, check=False)


def git(place: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=place, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "A")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "a@example.org")
    git(tmp_path, "init", "-q", "--bare", "gate.git")
    git(tmp_path, "clone", "-q", "gate.git", "tree")
    git(tmp_path / "tree", "checkout", "-q", "-b", "herd/worker/12-add")
    return tmp_path / "tree"


@pytest.mark.req("AGT-011")
@pytest.mark.smoke
def test_the_steps_are_really_done_and_say_is_printed_as_json(place: Path) -> None:
    done = run(place, SCRIPT, "do it", "--role=worker", "--issue-title=Add a greeting", "--attempt=1")
    assert (done.returncode, done.stdout) == (0, '{\n "done": true,\n "summary": "it was added as asked"\n}\n')
    assert (place / "src/a.py").read_text() == "x = 3\ny = 2\n"
    assert git(place, "log", "--format=%s") == "-starts with a hyphen and has 'quotes'"
    assert git(place.parent / "gate.git", "rev-parse", "herd/worker/12-add") == git(place, "rev-parse", "HEAD")
    assert "step: replace src/a.py" in done.stderr


@pytest.mark.req("AGT-011")
def test_what_no_option_says_is_read_from_the_prompts_header_lines(place: Path) -> None:
    done = run(place, SCRIPT, "---\nRole: reviewer\nIssue: #7 Any title\nAttempt: 2\n\ntext")
    assert (done.returncode, done.stdout) == (0, '{\n "approved": true,\n "findings": []\n}\n')


@pytest.mark.req("AGT-011")
def test_crash_ends_the_program_with_its_code_and_a_negative_one_by_a_signal(place: Path) -> None:
    prompt = "a conflict\nin README"
    assert run(place, SCRIPT, prompt, "--role=worker", "--attempt=2").returncode == 41
    assert run(place, "[{steps: [{crash: -9}]}]").returncode == -9


@pytest.mark.req("AGT-011")
def test_a_call_that_nothing_matches_fails_with_the_nearest_entry(place: Path) -> None:
    script = SCRIPT.replace("- {}", "")
    done = run(place, script, "x", "--role=worker", "--issue-title=Add a greeting", "--attempt=3")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        "no entry of the script matches role worker, issue title 'Add a greeting', attempt 3; "
        "the nearest, entry 1, wants attempt 1\n"
    )


@pytest.mark.req("AGT-011")
def test_a_step_that_fails_ends_with_1_and_the_cause(place: Path) -> None:
    done = run(place, "[{steps: [{replace: {path: a, old: b, new: c}}, {commit: x}]}]")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "replace: a does not hold 'b'")
    assert run(place, "[{steps: [{run: [no-such-program]}]}]").stderr.splitlines()[-1].startswith("no-such-program: No")
    assert run(place, "[{steps: [{run: ['false']}]}]").stderr.splitlines()[-1] == "false ended with 1"


@pytest.mark.req("AGT-011")
def test_a_replacement_that_stands_already_is_no_failure(place: Path) -> None:
    step = "[{steps: [{replace: {path: a, old: before, new: after}}], say: done}]"
    (place / "a").write_text("it was before\n")
    for _ in range(2):
        assert run(place, step).returncode == 0
        assert (place / "a").read_text() == "it was after\n"


def test_an_attempt_that_finds_its_work_done_commits_nothing_and_goes_on(place: Path) -> None:
    script = "[{steps: [{write: {path: a, text: b}}, {commit: once}], say: this is long enough}]"
    assert run(place, script).returncode == 0
    assert run(place, script).returncode == 0
    assert git(place, "log", "--format=%s") == "once"


@pytest.mark.req("AGT-011")
async def test_in_process_the_same_file_gives_the_same(place: Path) -> None:
    script = parse_script(SCRIPT)

    async def do(step: Step) -> None:
        perform(step, place)

    played = await play(script, Call("worker", "Add one greeting", 1, ""), do)
    assert (played.text, played.code) == ('{\n "done": true,\n "summary": "it was added as asked"\n}', 0)
    assert (place / "src/a.py").read_text() == "x = 3\ny = 2\n"
    assert (await play(script, Call("worker", "", 2, "conflict in README"), do)).code == 41
    failed = await play(parse_script("[{steps: [{run: ['false']}]}]"), Call("worker", "", 1, ""), do)
    assert (failed.text, failed.code) == ("false ended with 1", 1)
    with pytest.raises(NoEntryError, match="the script is empty"):
        await play((), Call("worker", "", 1, ""), do)


@pytest.mark.req("AGT-011")
def test_the_first_entry_whose_conditions_all_hold_answers() -> None:
    script = parse_script(SCRIPT)

    def number(role: str, title: str = "", attempt: int = 1, prompt: str = "") -> int:
        return find(script, Call(role, title, attempt, prompt)).number

    assert number("worker", "Add the greeting") == 1
    assert number("worker", "add the greeting") == 4
    assert number("worker", "Add the greeting", 2) == 4
    assert number("worker", "Add the greeting", 2, "a conflict in README") == 2
    assert number("reviewer") == 3


def test_a_header_needs_its_line_and_the_first_one_counts() -> None:
    prompt = "x Role: nobody\nRole: worker\nIssue: #12 Fix: it  \nAttempt: 3\n\nAttempt: 9\nRole: reviewer"
    assert call_of_prompt(prompt)[:3] == ("worker", "Fix: it", 3)
    assert call_of_prompt("nothing")[:3] == ("", "", 1)


@pytest.mark.req("AGT-011")
def test_every_problem_of_a_file_has_its_line() -> None:
    with pytest.raises(InputError) as caught:
        parse_script(
            """
- role: boss
  attempts: 1
  steps:
    - write: {path: ../a, text: b}
    - write: {path: a}
    - replace: {path: .git/config, old: a, new: b}
    - run: git status
    - commit: ""
    - push: false
    - sleep: -1
    - crash: true
    - {say: a, run: [b]}
    - dance
- text
- {attempt: one, issue_title: 3, prompt_has: {a: b}, steps: run}
""",
            source="s.yaml",
        )
    assert caught.value.problems == (
        "s.yaml: entry 1: unknown key 'attempts'",
        "s.yaml: entry 1: unknown role 'boss'",
        "s.yaml: entry 1, step 1: the path '../a' leaves the work place",
        "s.yaml: entry 1, step 2: write wants the texts path, text",
        "s.yaml: entry 1, step 3: the path '.git/config' leaves the work place",
        "s.yaml: entry 1, step 4: run wants a list of texts",
        "s.yaml: entry 1, step 5: commit wants a message",
        "s.yaml: entry 1, step 6: push wants true",
        "s.yaml: entry 1, step 7: sleep wants seconds",
        "s.yaml: entry 1, step 8: crash wants a code",
        "s.yaml: entry 1, step 9: one of write, append, replace, run, commit, push, sleep, crash is expected",
        "s.yaml: entry 1, step 10: one of write, append, replace, run, commit, push, sleep, crash is expected",
        "s.yaml: entry 2: a mapping is expected",
        "s.yaml: entry 3: issue_title must be a text",
        "s.yaml: entry 3: attempt must be a whole number",
        "s.yaml: entry 3: prompt_has must be a text or a list of texts",
        "s.yaml: entry 3: steps must be a list",
    )


@pytest.mark.parametrize("text", ["a: [", "just text", "{role: worker}", ""])
def test_a_file_that_is_no_list_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(InputError, match=r"^s: .*"):
        parse_script(text, source="s")


def test_the_program_refuses_a_bad_script_with_2(place: Path) -> None:
    assert run(place, "[{role: boss}]").returncode == 2
    assert run(place, "[]", "", "--colour=red").returncode == 2


def test_the_program_starts_without_what_it_does_not_need() -> None:
    program = (
        "import sys, droveway.agents.scripted; print(*sorted({'msgspec', 'asyncio', 'structlog'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout == "\n"
