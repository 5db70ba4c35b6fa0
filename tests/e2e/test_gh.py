"""``gh`` and git, which we did not write, pointed at the forge that ``herd demo --serve`` leaves running (CLI-009)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from .harness import Landed, environment, herd, look, until

REPO = "owner/demo"
HERD = f"{sys.executable} -m droveway"


def program(name: str) -> str:
    """Give a gh: Debian's, or the newer one of HERD_GH or of the development environment."""
    newer = os.environ.get("HERD_GH") or str(Path(sys.executable).with_name("gh"))
    found = "/usr/bin/gh" if name == "system" else newer
    assert Path(found).exists(), f"no gh at {found}: tools/judges and tools/setup install them"
    return found


@dataclass
class Shop:
    """A demo that has landed and is served, and what REST says of it."""

    folder: Path
    url: str
    landed: Landed

    @property
    def env(self) -> dict[str, str]:
        return environment(self.folder / "data" / "home", HOME=str(self.folder), GH_CONFIG_DIR=str(self.folder / "gh"))

    @property
    def token(self) -> str:
        return (self.folder / "data" / "home" / "state" / "owner.token").read_text().strip()

    def rest(self, path: str) -> Any:
        return httpx.get(f"{self.url}/repos/{REPO}/{path}", headers={"Authorization": f"Bearer {self.token}"}).json()

    def run(self, *argv: str, cwd: Path | None = None, ok: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            argv,
            cwd=cwd or self.folder,
            env={**self.env, "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert not ok or done.returncode == 0, (argv, done.stdout, done.stderr)
        return done


pytestmark = pytest.mark.xdist_group("gh")  # all share one service


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    process = herd("demo", "--keep", "--serve", "--data", str(folder / "data"), out=folder / "out")
    try:
        until(lambda: "The forge stays on" in process.text() or process.popen.poll() is not None, 280, "the demo")
        assert process.popen.poll() is None, process.text()[-3000:]
        url = json.loads((folder / "data" / "home" / "state" / "up.json").read_text())["forge_url"]
        token = (folder / "data" / "home" / "state" / "owner.token").read_text().strip()
        yield Shop(folder, url, look(url, token))
    finally:
        assert process.stop() in (143, 0), process.text()[-3000:]


@dataclass
class Gh:
    """One gh with nothing but what ``eval "$(herd forge env)"`` gives it."""

    path: str
    shop: Shop

    def __call__(self, *argv: str, ok: bool = True, cwd: Path | None = None) -> str:
        shell = f'eval "$({HERD} forge env)" && exec "$0" "$@" --repo "$GH_HOST/{REPO}"'
        done = self.shop.run("sh", "-c", shell, self.path, *argv, ok=ok, cwd=cwd)
        return done.stdout if ok else done.stdout + done.stderr

    def json(self, *argv: str) -> Any:
        return json.loads(self(*argv))


@pytest.fixture(params=["system", "newer"])
def gh(request: pytest.FixtureRequest, shop: Shop) -> Gh:
    return Gh(program(request.param), shop)


@pytest.mark.req("CLI-003", "CLI-009", "FRG-023")
def test_gh_shows_the_issues_and_the_merged_pull_request_as_the_forge_holds_them(gh: Gh, shop: Shop) -> None:
    listed = gh.json("issue", "list", "--state", "all", "--limit", "100", "--json", "number,title,state")
    assert {item["number"]: item["title"] for item in listed} == shop.landed.issues
    assert {item["state"] for item in listed} == {"CLOSED"}
    for title in shop.landed.issues.values():
        assert title[:40] in gh("issue", "list", "--state", "all", "--limit", "100")
    first = min(shop.landed.issues)
    seen = gh.json("issue", "view", str(first), "--json", "title,body,comments,labels,milestone")
    assert seen["body"] == shop.rest(f"issues/{first}")["body"]
    assert [found["body"] for found in seen["comments"]] == [
        found["body"] for found in shop.rest(f"issues/{first}/comments?per_page=100")
    ]
    assert {label["name"] for label in seen["labels"]} == {"herd/status:done", "herd/type:feature"}
    assert "First batch of" in seen["milestone"]["title"]
    (pull,) = shop.landed.pulls
    number = str(pull["number"])
    rows = [line.split("\t")[:2] for line in gh("pr", "list", "--state", "merged").splitlines()]
    assert [number, pull["title"]] in rows
    shown = gh.json("pr", "view", number, "--json", "state,title,body,mergeCommit,files,reviews,baseRefName")
    assert (shown["state"], shown["title"], shown["body"]) == ("MERGED", pull["title"], pull["body"])
    assert shown["mergeCommit"]["oid"] == pull["merge_commit_sha"]
    assert "MERGED" in gh("pr", "view", number)
    diff = gh("pr", "diff", number)
    for file in shown["files"]:
        assert f"+++ b/{file['path']}" in diff
    assert gh("pr", "checks", number).split("\t")[:2] == ["herd/review", "pass"]
    names = {line.split("\t")[0] for line in gh("label", "list", "--limit", "100").splitlines()}
    assert (
        names == {label["name"] for label in shop.rest("labels?per_page=100")} >= {"herd/status:done", "herd/type:fix"}
    )
    gh("pr", "comment", number, "--body", f"Well done — {Path(gh.path).parent}")
    assert shop.rest(f"issues/{number}/comments?per_page=100")[-1]["body"] == f"Well done — {Path(gh.path).parent}"


@pytest.mark.req("CLI-009", "FRG-023")
def test_gh_sees_the_repository(gh: Gh, shop: Shop) -> None:
    shell = f'eval "$({HERD} forge env)" && exec "$0" repo view "$GH_HOST/{REPO}" --json name,defaultBranchRef'
    said = json.loads(shop.run("sh", "-c", shell, gh.path).stdout)
    assert (said["name"], said["defaultBranchRef"]["name"]) == ("demo", "main")


@pytest.mark.req("CLI-009", "FRG-023", "FRG-020")
def test_a_branch_that_a_person_pushes_becomes_a_pull_request_that_gh_merges(gh: Gh, shop: Shop) -> None:
    """Cloned with a token in the address, pushed by the credential helper."""
    clone = shop.folder / f"clone-{Path(gh.path).parent.name}-{os.urandom(3).hex()}"
    host = shop.url.removeprefix("http://")
    shop.run("git", "clone", "-q", f"http://owner:{shop.token}@{host}/{REPO}.git", str(clone))
    assert (clone / "tools" / "report.py").exists()
    branch = clone.name
    helper = f"!DROVEWAY_HOME={shop.folder}/data/home {HERD} git-credential"
    config = {"user.name": "Ada", "user.email": "ada@example.invalid", f"credential.{shop.url}.helper": helper}
    for key, value in config.items():
        shop.run("git", "config", key, value, cwd=clone)
    shop.run("git", "remote", "set-url", "origin", f"{shop.url}/{REPO}.git", cwd=clone)
    shop.run("git", "checkout", "-q", "-b", branch, cwd=clone)
    (clone / f"{branch}.txt").write_text("by hand\n")
    shop.run("git", "add", "-A", cwd=clone)
    shop.run("git", "commit", "-q", "-m", "By hand", cwd=clone)
    shop.run("git", "push", "-q", "origin", branch, cwd=clone)
    # The older gh wants a work place whose remote it knows.
    shop.run("git", "remote", "set-url", "origin", f"http://github.localhost/{REPO}.git", cwd=clone)
    title = f"By hand: {branch}"
    address = gh("pr", "create", "--head", branch, "--base", "main", "--title", title, "--body", "äöü", cwd=clone)
    number = address.strip().rpartition("/")[2]
    assert shop.rest(f"pulls/{number}")["title"] == title
    gh("pr", "merge", number, "--squash")
    merged = shop.rest(f"pulls/{number}")
    assert merged["merged"] is True
    assert shop.rest("commits/main")["sha"] == merged["merge_commit_sha"]
    shutil.rmtree(clone)


@pytest.mark.req("CLI-009", "FRG-020")
def test_without_a_token_nothing_can_be_pushed(shop: Shop) -> None:
    clone = shop.folder / "anonymous"
    shop.run("git", "init", "-q", str(clone))
    shop.run("git", "-c", "user.name=a", "-c", "user.email=b", "commit", "-q", "--allow-empty", "-m", "x", cwd=clone)
    refused = shop.run("git", "push", "-q", f"{shop.url}/{REPO}.git", "HEAD:refs/heads/x", cwd=clone, ok=False)
    assert refused.returncode != 0
    assert "x" not in [branch["name"] for branch in shop.rest("branches?per_page=100")]
