"""Names of refs, and refs read without git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from droveway.core.errors import InputError
from droveway.git import check_ref_name, clashing_ref, conflict_markers
from droveway.git.refs import list_refs, read_ref

SHA = "1" * 40


@pytest.mark.req("QLT-043")
@settings(max_examples=150, deadline=None, database=None)
@given(st.text(alphabet=st.sampled_from("ab/.~^:?*[\\@{}-_ \x7f\tlockHEADé|$'\""), min_size=1, max_size=14))
@example("a.lock/b")
@example("a/.b")
@example("a|b")
@example("@")
@example("HEAD")
@example("-a")
@example("a@{b")
@example("refs/heads/a")
@example("refs/")
@example("a.")
def test_a_name_is_refused_exactly_when_git_refuses_it_as_a_branch(name: str) -> None:
    full = name.startswith("refs/")
    argv = ["git", "check-ref-format", name] if full else ["git", "check-ref-format", "--branch", name]
    gits = subprocess.run(argv, capture_output=True, check=False, cwd="/").returncode == 0
    if name.startswith("@{-"):  # "the branch before": a shorthand, no name
        gits = False
    if name == "@":  # git expands it to HEAD
        gits = False
    try:
        check_ref_name(name)
        ours = True
    except InputError:
        ours = False
    assert ours == gits


@pytest.mark.req("QLT-043")
@pytest.mark.parametrize("name", ["x" * 260, "語" * 90, "a/" * 600 + "b", "", "a\ud800"])
def test_a_name_that_no_file_system_holds_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="no name for a branch"):
        check_ref_name(name)


@pytest.mark.req("QLT-043")
def test_a_name_that_is_a_folder_of_another_clashes() -> None:
    existing = ["task/login", "other"]
    assert clashing_ref("task", existing) == "task/login"
    assert clashing_ref("task/login/fix", existing) == "task/login"
    assert clashing_ref("task/logins", existing) is None
    assert clashing_ref("task/login", existing) is None


def test_only_a_plain_file_with_a_plain_sha_is_a_ref(tmp_path: Path) -> None:
    heads = tmp_path / "refs" / "heads"
    (heads / "deep").mkdir(parents=True)
    (heads / "good").write_text(f"{SHA}\n")
    (heads / "deep" / "good").write_text(SHA)
    (heads / "symbolic").write_text("ref: refs/heads/good\n")
    (heads / "short").write_text("1234\n")
    (heads / "two").write_text(f"{SHA}\n{SHA}\n")
    (heads / "huge").write_bytes(b"1" * 2_000_000)
    (heads / "link").symlink_to(heads / "good")
    (heads / "folder").symlink_to(heads / "deep")
    os.mkfifo(heads / "pipe")
    (tmp_path / "packed-refs").write_text(
        f"# pack-refs with: peeled\n{'2' * 40} refs/heads/packed\n{'3' * 40} refs/heads/good\n"
    )
    assert read_ref(tmp_path, "refs/heads/good") == SHA
    assert read_ref(tmp_path, "refs/heads/deep/good") == SHA
    assert read_ref(tmp_path, "refs/heads/packed") == "2" * 40
    for bad in ("symbolic", "short", "two", "huge", "link", "folder/good", "pipe", "absent", "good/below"):
        assert read_ref(tmp_path, f"refs/heads/{bad}") is None, bad
    listed = list_refs(tmp_path)
    assert listed["refs/heads/pipe"] is None
    assert listed["refs/heads/deep/good"] == SHA
    (tmp_path / "link").symlink_to(tmp_path)
    assert read_ref(tmp_path / "link", "refs/heads/good") is None


@pytest.mark.req("BAT-193")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\n<<<<<<< ours\nx\n=======\ny\n>>>>>>> theirs\n", True),
        ("<<<<<<< ours\r\nx\r\n>>>>>>> theirs\r\n", True),
        ("Title\n=======\n\ntext\n", False),
        (">>>>>>> theirs\n<<<<<<< ours\n", False),
        ("<<<<<<<\n>>>>>>>\n", False),
        (" <<<<<<< indented\n>>>>>>> theirs\n", False),
        ("<<<<<<< only the start\n=======\n", False),
        (b"\xff\xfe<<<<<<< x\n<<<<<<< a\n>>>>>>> b\n", True),
        ("", False),
    ],
)
def test_a_conflict_is_an_opening_line_with_a_later_closing_line(text: str | bytes, expected: bool) -> None:
    assert conflict_markers(text) is expected
