"""``herd up`` beside a forge that lives on in a process of its own, killed at random moments; what a run leaves."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from .harness import CANARY, Process, assert_sound, canaries, herd, look, until
from .test_up import TITLES, Machine, _lands

SEEDS = range(5)


@dataclass
class Forge:
    """The forge's own process, and the files that say where it is and who we are there."""

    folder: Path
    process: Process

    @property
    def url(self) -> str:
        return (self.folder / "ready").read_text().strip()

    @property
    def options(self) -> list[str]:
        found = ["--forge", self.url, "--token-file", str(self.folder / "bot"), "--repo", "owner/shop"]
        return [*found, "--owner-token-file", str(self.folder / "owner")]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    (tmp_path / "tmp").mkdir()
    made.env["TMPDIR"] = str(tmp_path / "tmp")
    return made


@pytest.fixture
def forge(machine: Machine) -> Iterator[Forge]:
    folder = machine.folder / "forge-process"
    folder.mkdir()
    files = ["--data", str(folder / "data"), "--ready-file", str(folder / "ready")]
    tokens = ["--token-file", str(folder / "bot"), "--owner-token-file", str(folder / "owner")]
    process = herd("forge", "serve", *files, *tokens, out=folder / "out", env=machine.env)
    try:
        until((folder / "ready").exists, 60, "herd forge serve")
        yield Forge(folder, process)
    finally:
        process.stop()


def processes(word: str) -> list[str]:
    """Give the command lines of living processes that name ``word`` in it, in their environment or as their folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            told = (entry / "cmdline").read_bytes()
            where = os.readlink(entry / "cwd")
            environ = (entry / "environ").read_bytes()
        except OSError:
            continue
        if told and (word.encode() in told + environ or word in where):
            found.append(told.replace(b"\0", b" ").decode("utf-8", "replace"))
    return found


@pytest.mark.req("ENG-005", "CLI-009", "FRG-020", "QLT-032", "QLT-040")
def test_the_engine_works_beside_a_forge_of_its_own_process_and_leaves_nothing(machine: Machine, forge: Forge) -> None:
    service = machine.up(*forge.options)
    try:
        _lands(machine, lambda: None)
        runs = list((machine.home / "cache").glob("*/*/*/runs/*"))
        assert [path.name for path in runs if not path.name.endswith(".log")] == []
        assert (machine.home / "state" / "bot.token").stat().st_mode & 0o777 == 0o600
        landed = look(machine.url(), machine.token(), "owner/shop")
        secrets = [(forge.folder / name).read_text().strip() for name in ("bot", "owner")]
        kept = canaries(machine.folder, landed.texts, CANARY, *secrets)
        assert [place for place in kept if not place.startswith(("forge-process/bot:", "forge-process/owner:"))] == []
    finally:
        assert service.stop() in (143, 0), service.text()[-3000:]
    home = str(machine.home)
    left = until(lambda: (found := processes(home)) and len(found) == 1 and found, 20, "the service's processes end")
    assert "forge serve" in left[0], left
    assert list((machine.folder / "tmp").iterdir()) == []


@pytest.mark.slow
@pytest.mark.req("ENG-004", "ENG-005", "BAT-003", "QLT-030", "FRG-033")
@pytest.mark.parametrize("seed", SEEDS)
def test_the_engine_killed_alone_goes_on_and_lands_the_same(machine: Machine, forge: Forge, seed: int) -> None:
    rolled = random.Random(seed)
    moments = sorted(rolled.uniform(0.2, 14.0) for _ in range(2))
    print(f"seed {seed}: killed {', '.join(f'{moment:.2f}' for moment in moments)} s after the batch was made")
    services = [machine.up(*forge.options)]

    def disturb() -> None:
        began = time.monotonic()
        for moment in moments:
            time.sleep(max(began + moment - time.monotonic(), 0))  # the moment itself is the test's input
            services[-1].kill()
            services.append(machine.up(*forge.options))

    try:
        _lands(machine, disturb)
        assert forge.process.popen.poll() is None
        landed = look(machine.url(), machine.token(), "owner/shop")
        assert_sound(landed, landed.tree, TITLES)
        assert set(landed.successes.values()) == {1}
        assert len(landed.successes) == len(TITLES)
    finally:
        services[-1].kill()
