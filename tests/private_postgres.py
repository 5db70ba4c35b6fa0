"""A PostgreSQL cluster of the test run's own, in a temporary folder, reached by its socket alone."""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest


class Cluster:
    """Gives databases away; each is empty or a copy of one that was given before."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def url(self, name: str) -> str:
        return f"postgresql://herd@/{name}?host={self._folder}"

    def database(self, template: str | None = None) -> str:
        """Make a database and give its URL."""
        self._count += 1
        name = f"herd_{os.getpid()}_{self._count}"
        copied = f" TEMPLATE {template.split('/')[3].split('?')[0]} STRATEGY FILE_COPY" if template else ""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}{copied}")
        return self.url(name)


@contextlib.contextmanager
def cluster() -> Iterator[Cluster]:
    """Start a cluster; as root it runs as ``nobody``, because PostgreSQL refuses root."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[4]))
    if not found:
        pytest.fail("these tests need PostgreSQL's server programs: apt-get install postgresql")
    programs = Path(found[-1])
    folder = Path(tempfile.mkdtemp(prefix="herd-pg-", dir="/tmp"))
    who: dict[str, object] = {}
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        who = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}

    def run(*argv: str) -> None:
        done = subprocess.run(argv, cwd=folder, env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=120, check=False, **who)  # fmt: skip
        assert done.returncode == 0, done.stdout.decode()

    data = folder / "data"
    try:
        run(str(programs / "initdb"), "-D", str(data), "-U", "herd", "-A", "trust", "-N", "-E", "UTF8")
        options = f"-k {folder} -c listen_addresses= -c fsync=off -c full_page_writes=off -c synchronous_commit=off"
        log = str(folder / "log")
        run(str(programs / "pg_ctl"), "-D", str(data), "-w", "-l", log, "-o", options, "start")
        try:
            yield Cluster(folder)
        finally:
            run(str(programs / "pg_ctl"), "-D", str(data), "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
