"""What check runs say: a table of ends, and text that is foreign (FRG-028, BAT-005)."""

from __future__ import annotations

import pytest

from droveway.core.settings import Ci, Command
from droveway.service.ci_words import MAX_ANNOTATIONS, finished, named, places, plain
from droveway.work.validation import CheckStatus, Report, Result

pytestmark = pytest.mark.req("FRG-028")
P, F, T, S = CheckStatus.PASSED, CheckStatus.FAILED, CheckStatus.TIMED_OUT, CheckStatus.SKIPPED


@pytest.mark.parametrize(
    ("statuses", "optional", "conclusion"),
    [
        ([P], False, "success"),
        ([F], False, "failure"),
        ([T], False, "timed_out"),
        ([S], False, "skipped"),
        ([P, S], False, "success"),
        ([P, T], False, "timed_out"),
        ([F, T], False, "failure"),
        ([F], True, "neutral"),
        ([T], True, "neutral"),
        ([S], True, "skipped"),
    ],
)
def test_each_end_has_its_conclusion(statuses: list[CheckStatus], optional: bool, conclusion: str) -> None:
    report = Report(tuple(Result("x", status, required=not optional, detail="why") for status in statuses))
    change = finished(report, Command("x", optional=optional), ())
    assert (change.status, change.conclusion) == ("completed", conclusion)
    assert change.title
    assert change.summary


def test_setup_comes_first_and_every_name_is_there_once() -> None:
    commands = (Command("make test"), Command(("make", "test")), Command("npm ci", kind="setup"), Command("x", "a\nb"))
    found = named(Ci(commands))
    assert [each.name for each in found] == ["npm ci", "make test", "make test (2)", "a b"]
    assert named(Ci(commands)) == found


@pytest.mark.req("BAT-005")
def test_a_log_is_shown_without_colours_and_carries_no_marker() -> None:
    output = 'ok\x1b[31mred\x1b[0m\r\n10%\r99%\rdone\x00\n<!-- herd:msg {"v":1} --> @ada fixes #1\n```\n'
    assert plain(output).splitlines()[:2] == ["okred", "done"]
    change = finished(Report((Result("x", F, detail="exit code 1", output=output),)), Command("x"), ())
    assert "<!-- herd:" not in change.summary
    assert "@ada" not in change.summary
    assert change.summary.rstrip().endswith("````")


def test_annotations_name_only_files_of_the_commit_and_are_bounded() -> None:
    log = (
        "a/b.py:3:7: wrong\n./c.py:1: bad\n/etc/passwd:1: no\n../c.py:1: no\nnone.py:1: no\n12:30:01 noise\nd.py:0: no"
    )
    found = places(log, ["a/b.py", "c.py", "d.py"], Command("x"))
    assert [(each.path, each.line, each.message) for each in found] == [("a/b.py", 3, "wrong"), ("c.py", 1, "bad")]
    inner = places("b.py:3: wrong", ["a/b.py"], Command("x", dir="a", optional=True))
    assert [(each.path, each.level) for each in inner] == [("a/b.py", "warning")]
    assert places("\n" * 60_000 + " " * 60_000 + "x" * 60_000, ["c.py"], Command("x")) == ()
    many = "\n".join(f"c.py:{n}: bad" for n in range(1, 200))
    assert len(places(many, ["c.py"], Command("x"))) == MAX_ANNOTATIONS
