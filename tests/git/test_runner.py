"""The git runner: nothing of the machine's configuration counts, and no credential is said."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from droveway.core.clock import SystemClock
from droveway.core.ids import RandomIds
from droveway.core.runner import Runner
from droveway.git import Git, GitError, Mirror, Remote

from .conftest import BOT, COMMIT, Forge


async def test_settings_of_the_user_and_of_the_machine_do_not_count(tmp_path: Path, clock: SystemClock) -> None:
    home = tmp_path / "home"
    (home / ".config" / "git").mkdir(parents=True)
    (home / ".gitconfig").write_text("[core]\n\thooksPath = /evil\n[user]\n\tname = Somebody\n")
    (home / ".config" / "git" / "ignore").write_text("*\n")
    hostile = {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_DIR": "/elsewhere", "GIT_CONFIG_COUNT": "9"}
    git = Git(Runner(clock, RandomIds()), hostile)
    shown = (await git.run("config", "--list", "--show-origin", cwd=tmp_path)).text()
    assert "Somebody" not in shown
    assert str(home) not in shown
    assert (await git.run("config", "core.hooksPath", cwd=tmp_path)).text().strip() == "/dev/null"
    repository = tmp_path / "r"
    await git.run("init", "-q", "--template=", str(repository), cwd=tmp_path)
    (repository / "file").write_text("x")
    assert (await git.run("ls-files", "--others", "--exclude-standard", cwd=repository)).text() == "file\n"


async def test_a_failure_names_the_verb_the_code_and_what_git_said(git: Git, tmp_path: Path) -> None:
    with pytest.raises(GitError, match=r"git rev-parse failed \(128\): fatal: ") as caught:
        await git.run("rev-parse", "HEAD", cwd=tmp_path)
    assert caught.value.code == 128
    assert not caught.value.auth


async def test_a_git_that_does_not_end_is_stopped(git: Git, tmp_path: Path) -> None:
    with pytest.raises(GitError, match="took too long") as caught:
        await git.run("-c", "alias.wait=!sleep 600", "wait", cwd=tmp_path, timeout=0.3)
    assert caught.value.timed_out


async def test_a_token_is_in_no_argument_no_file_and_no_error(
    tmp_path: Path, forge: Forge, clock: SystemClock, git: Git
) -> None:
    token = "ghs_0123456789abcdefghijklmnop"
    remote = Remote("http://127.0.0.1:9/o/r.git", token)
    mirror = await Mirror.open(tmp_path / "m.git", remote, git=git, clock=clock)
    with pytest.raises(GitError) as caught:
        await mirror.fetch()
    said = f"{caught.value} {caught.value.argv} {caught.value.stderr}"
    assert token not in said
    assert remote.basic not in said
    for path in (p for p in mirror.path.rglob("*") if p.is_file()):
        assert token.encode() not in path.read_bytes()
    assert any(remote.basic in value for value in git.environment(remote.config()).values())
    assert list(remote.config()) == ["http.http://127.0.0.1:9/.extraHeader"]


def test_a_credential_in_a_url_is_taken_out_of_it() -> None:
    assert Remote.of("https://x-access-token:se%2Fcret@host:8/o/r.git") == Remote("https://host:8/o/r.git", "se/cret")
    assert Remote.of("https://tok@host/o/r") == Remote("https://host/o/r", "tok")
    assert Remote.of("git@host:o/r.git") == Remote("git@host:o/r.git")
    assert Remote("file:///x", "token").config() == {}


@pytest.mark.smoke
@pytest.mark.parametrize(
    "locale",
    [{"LANG": "fr_FR.UTF-8", "LANGUAGE": "fr"}, {"LC_ALL": "C"}, {"LC_ALL": "tr_TR.UTF-8"}, {"LC_ALL": "zh_CN"}],
)
async def test_a_merge_is_the_same_in_every_locale_with_names_that_are_not_ascii(
    tmp_path: Path, forge: Forge, clock: SystemClock, locale: dict[str, str]
) -> None:
    """Case X08."""
    tip = forge.branch("base", {"ş/İıi.txt": "one\n", 'tab\there "q".txt': "x\n", "plain": "a\n"})
    ours = forge.branch("one", {"ş/İıi.txt": "two\n"}, "base")
    theirs = forge.branch("two", {"ş/İıi.txt": "three\n", 'tab\there "q".txt': "y\n"}, "base")
    raw = os.fsdecode(b"bad-\xff-name")
    forge.branch("three", {raw: "z\n"}, "base")
    git = Git(Runner(clock, RandomIds()), {"PATH": os.environ["PATH"], **locale})
    mirror = await Mirror.open(tmp_path / "m2.git", Remote(f"file://{forge.path}"), git=git, clock=clock)
    await mirror.fetch()
    result = await mirror.sweep(
        tip,
        [(1, "one", ours), (2, "two", theirs), (3, "three", (await mirror.refs())["refs/heads/three"])],
        message=lambda n, b: f"Fusionné {n} {b} ş",
        **COMMIT,
    )
    assert [c.conflict.paths for c in result.conflicts] == [("ş/İıi.txt",)]
    assert result.conflicts[0].conflict.kinds == ("CONFLICT (contents)",)
    assert [m.number for m in result.merged] == [1, 3]
    assert "bad-\ufffd-name" in await mirror.changed_files(tip, result.final)
    assert (await mirror.commit_info(result.final)).message == "Fusionné 3 three ş"
    assert (await mirror.commit_info(result.final)).author == BOT
