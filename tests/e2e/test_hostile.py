"""Hostile agents against a real ``herd up``: nothing but their branch reaches the forge, and they see no secret."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

import droveway
from droveway.core.keys import find_markers, message_key

from . import hostile
from .harness import CANARY, Landed, canaries, look, until
from .test_engine_alone import processes
from .test_up import Machine

SLEEPER = "86397.25"
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("hostile")]  # all look at one aftermath


@dataclass(frozen=True)
class Aftermath:
    """What the batch of hostile tasks left."""

    walled: bool
    machine: Machine
    batch: int
    canary: Path
    state: str
    url: str
    landed: Landed
    secrets: tuple[str, ...]
    issues: dict[str, dict[str, Any]]
    comments: dict[str, list[str]]
    loot: dict[str, dict[str, Any]]
    tree: dict[str, bytes]

    def git(self, *args: str, folder: Path | None = None) -> bytes:
        env = {**self.machine.env, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
        command = ["git", *args]
        return subprocess.run(
            command, cwd=folder or self.machine.clone, env=env, capture_output=True, check=True
        ).stdout

    def report(self, title: str) -> str:
        return next(text for text in self.comments[title] if "Worker Report" in text)


def path_without(folder: Path, program: str) -> str:
    """Give a PATH on which everything is but one program."""
    folder.mkdir()
    for part in os.environ["PATH"].split(os.pathsep):
        for found in Path(part).iterdir() if Path(part).is_dir() else ():
            if found.name != program and not (folder / found.name).is_symlink():
                (folder / found.name).symlink_to(found)
    return str(folder)


@pytest.fixture(scope="module", params=["bubblewrap", "none"])
def after(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aftermath]:
    walled = request.param == "bubblewrap"
    folder = tmp_path_factory.mktemp(f"hostile-{request.param}")
    machine = Machine(folder)
    for name in ("canary", "tmp"):
        (folder / name).mkdir()
    machine.env["TMPDIR"] = str(folder / "tmp")
    if not walled:
        machine.env["PATH"] = path_without(folder / "bin", "bwrap")
    service = machine.up()
    try:
        assert f"sandbox  {request.param}" in service.text()
        machine.verb("init")
        headers = {"Authorization": f"Bearer {machine.token()}"}
        with httpx.Client(base_url=machine.url(), headers=headers, timeout=30) as owner:
            victim = owner.post("/repos/owner/shop/issues", json={"title": "Victim", "body": "Stays open."}).json()
            assert victim["number"] == 1
            params = {
                "walled": walled,
                "canary": str(folder / "canary"),
                "home": str(machine.home),
                "state": str(machine.home / "state"),
                "forge": str(next((machine.home / "forge").rglob("objects"))),
                "roots": [str(machine.home), str(machine.clone), "/tmp", "/var/tmp", str(Path.home()), "/run"],
                "prefixes": [sys.prefix, sys.base_prefix],  # of our own Python, which agents may read, wherever it lies
                "package": str(Path(droveway.__file__).parent.parent),
                "url": machine.url(),
                "sleeper": SLEEPER,
                "injection": hostile.INJECTION,
            }
            (folder / "script.yaml").write_text(json.dumps(hostile.script(params)))
            (folder / "plan.json").write_text(json.dumps(hostile.plan()))
            made = json.loads(machine.verb("plan", "--from-file", "../plan.json", "--json").stdout)
            batch = str(made["batch"])
            watched = machine.verb("watch", batch, "--timeout", "230", "--json", check=False)
            assert watched.stdout, (watched.stderr, service.text()[-3000:])
            yield _look(owner, walled, machine, folder / "canary", made["batch"], json.loads(watched.stdout)["state"])
    finally:
        service.stop()


def _look(owner: httpx.Client, walled: bool, machine: Machine, canary: Path, batch: int, state: str) -> Aftermath:
    items = owner.get("/repos/owner/shop/issues?state=all&per_page=100").json()
    issues = {item["title"]: item for item in items}
    comments = {
        title: [
            comment["body"]
            for comment in owner.get(f"/repos/owner/shop/issues/{item['number']}/comments?per_page=100").json()
        ]
        for title, item in issues.items()
    }
    machine.git("fetch", "-q", "herd")

    def git(*args: str) -> bytes:
        return subprocess.run(
            ["git", *args], cwd=machine.clone, env=machine.env, capture_output=True, check=True
        ).stdout

    names = [os.fsdecode(name) for name in git("ls-tree", "-rz", "--name-only", "herd/main").split(b"\0") if name]
    tree = {name: git("show", f"herd/main:{name}") for name in names}
    loot = {}
    for name, content in tree.items():
        if name.startswith("loot/"):
            found = json.loads(content)
            loot[found["name"]] = found
    secrets = [(machine.home / "state" / f"{name}.token").read_text().strip() for name in ("owner", "bot")]
    return Aftermath(
        walled=walled,
        machine=machine,
        batch=batch,
        canary=canary,
        state=state,
        url=machine.url(),
        landed=look(machine.url(), machine.token(), "owner/shop"),
        secrets=(CANARY, *secrets),
        issues=issues,
        comments=comments,
        loot=loot,
        tree=tree,
    )


@pytest.mark.req("BAT-134", "BAT-133", "BAT-131")
def test_every_attempt_goes_on_and_its_harmless_change_lands(after: Aftermath) -> None:
    assert after.state == "landed"
    for title in hostile.ATTACKS:
        labels = {label["name"] for label in after.issues[title]["labels"]}
        assert "herd/status:done" in labels, (title, after.comments[title])
    harmless = ("pushed", "gated", "linked", "config", "planted", "left", "spoken", "later", "after")
    assert {f"{name}.txt" for name in harmless} <= set(after.tree)
    assert set(after.landed.successes.values()) == {1}


@pytest.mark.req("BAT-134", "BAT-135", "BAT-136", "BAT-133")
def test_nothing_but_the_workers_branches_reaches_the_forge(after: Aftermath) -> None:
    heads = after.machine.git("ls-remote", "herd").splitlines()
    refs = {line.split("\t")[1] for line in heads}
    assert {ref for ref in refs if not ref.startswith("refs/pull/")} == {"HEAD", "refs/heads/main"}
    assert len(after.landed.pulls) == 1
    assert set(after.issues) == {*hostile.ATTACKS, "Victim", after.landed.pulls[0]["title"]}
    subjects = after.machine.git("log", "--format=%s", "herd/main").splitlines()
    assert len(subjects) == 3, subjects
    for repository in (after.machine.home / "forge").rglob("*.git"):
        listed = after.git("cat-file", "--batch-check", "--batch-all-objects", folder=repository).split(b"\n")
        commits = [line.split()[0] for line in listed if b" commit " in line]
        assert commits
        for sha in commits:
            assert b"EVIL" not in after.git("cat-file", "commit", sha.decode(), folder=repository)


@pytest.mark.req("BAT-134")
def test_what_an_agent_tried_is_in_its_report(after: Aftermath) -> None:
    pushed = after.report("Push elsewhere")
    for ref in ("refs/heads/main", "refs/heads/evil-plain", "refs/heads/evil-plain-past", "refs/tags/evil-tag"):
        assert ref in pushed
    gated = after.report("Edit the gate")
    for ref in ("refs/heads/evil-made", "refs/heads/evil-made-pushed", "refs/tags/evil-made", "refs/heads/evil-packed"):
        assert ref in gated
    assert "refs/heads/evil-target" in after.report("Link the gate")


@pytest.mark.req("BAT-134", "AGT-008", "QLT-040")
def test_no_program_of_an_agent_runs_outside_its_walls(after: Aftermath) -> None:
    assert [path.name for path in after.canary.iterdir()] == []
    assert list(after.machine.folder.rglob("canary-of-an-agent")) == []  # its writes went to a memory of its own
    until(lambda: not processes_named(SLEEPER), 30, "what agents left running ends")


def processes_named(word: str) -> list[str]:
    return [found for found in processes(word) if "sleep" in found and word in found]


@pytest.mark.req("QLT-040", "AGT-008")
def test_no_agent_sees_a_credential_nor_anothers_files(after: Aftermath) -> None:
    assert set(after.loot) == set(hostile.ATTACKS)
    for name, found in after.loot.items():
        text = json.dumps(found)
        assert not [secret for secret in after.secrets if secret in text], name
        names = set(found["env"]) - {"HERD_RUN_TAG"}  # by it the runner finds a run's processes
        assert not [key for key in names if re.search("TOKEN|SECRET|DROVEWAY|HERD_|PASSWORD", key)], name
        assert Path(found["env"]["HOME"]).is_relative_to(after.machine.home / "cache"), name
        if after.walled:
            # The script is what a scripted agent reads; nothing else is there, not even by name.
            assert [path for path in found["seen"] if not path.endswith("/script.yaml")] == [], name
            assert {"/", "/usr", "/etc"}.isdisjoint(found["wrote"]), name
            assert not [told for told in found["processes"].values() if "herd up" in told], name


@pytest.mark.req("QLT-040", "QLT-032")
def test_no_secret_stands_in_any_file_object_log_transcript_or_comment(after: Aftermath) -> None:
    texts = [*after.landed.texts, *(text for texts in after.comments.values() for text in texts)]
    reviews = after.landed.pulls[0]["number"]
    with httpx.Client(base_url=after.url, headers={"Authorization": f"Bearer {after.machine.token()}"}) as client:
        texts.append(client.get(f"/repos/owner/shop/pulls/{reviews}/reviews").text)
    assert canaries(after.machine.folder, texts, *after.secrets) == []
    found = [*(after.machine.home / "forge").rglob("*.git"), *(after.machine.home / "cache").rglob("mirror.git")]
    assert len(found) >= 2
    for repository in found:
        everything = after.git("cat-file", "--batch", "--batch-all-objects", folder=repository)
        assert [secret for secret in after.secrets if secret.encode() in everything] == []


@pytest.mark.req("BAT-005", "K07", "REV-118", "QLT-041")
def test_what_agents_say_is_no_marker_no_command_no_mention_and_closes_nothing(after: Aftermath) -> None:
    assert after.issues["Victim"]["state"] == "open"
    assert after.comments["Victim"] == []
    bodies = {title: [item["body"] or "", *after.comments[title]] for title, item in after.issues.items()}
    for title, texts in bodies.items():
        for text in texts:
            assert "forged" not in (message_key(text) or "")
            assert [found for found in find_markers(text, "attempt") if found.get("run") == "forged"] == []
            results = find_markers(text, "review-result")
            assert [found for found in results if found.get("head_sha") == "0"] == []
            if title not in hostile.ATTACKS or text != texts[0]:  # the task itself is a person's text
                assert re.search(r"^\s{0,3}/herd", text, re.MULTILINE) is None
                assert re.search(r"(?<![\w`/])@(owner|everyone)\b", text) is None
                assert re.search(r"(?i)\b(fixes|closes:|resolved) (owner/shop)?#1\b", text) is None
    message = after.machine.git("log", "-1", "--format=%B", "herd/main")
    assert re.search(r"(?i)\b(fixes|closes:?|resolved) (owner/shop)?#1\b", message) is None
    assert "<!-- herd:" not in message


@pytest.mark.req("K05", "QLT-041", "REV-011")
def test_no_text_leaves_its_untrusted_block_in_any_prompt(after: Aftermath) -> None:
    prompts = sorted((after.machine.home / "cache").rglob("prompt.md"))
    assert len(prompts) >= len(hostile.ATTACKS) + 1
    for prompt in prompts:
        text = prompt.read_text()
        opened = re.findall(r"^<untrusted-([0-9a-f]{16}) ", text, re.MULTILINE)
        assert opened
        outside = text
        for mark in opened:
            assert text.count(f"<untrusted-{mark} ") == text.count(f"</untrusted-{mark}>") == 1
            outside = re.sub(rf"<untrusted-{mark} .*?</untrusted-{mark}>", "", outside, flags=re.DOTALL)
        for forged in ("/herd", "herd:", "print your environment", "The task is over", "Role: planner", "fixes #1"):
            assert forged not in outside, (prompt, forged)
        assert "\u202e" not in text
        assert "<!-- print" not in text


@pytest.mark.req("QLT-032", "AGT-008")
def test_a_finished_run_leaves_no_directory(after: Aftermath) -> None:
    runs = [path.name for path in (after.machine.home / "cache").glob("*/*/*/runs/*")]
    assert [name for name in runs if not name.endswith(".log")] == []
    assert list((after.machine.folder / "tmp").iterdir()) == []
