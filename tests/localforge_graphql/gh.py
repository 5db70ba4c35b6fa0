"""`gh` against a served forge: an environment of its own, plain HTTP through a proxy address, JSON out."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def programs() -> list[tuple[str, str]]:
    """Give (name, path) of each gh: the system's, and the newer one, which HERD_GH names or our environment holds."""
    newer = os.environ.get("HERD_GH") or shutil.which("gh", path=str(Path(sys.executable).parent))
    found = [("system", shutil.which("gh", path="/usr/local/bin:/usr/bin:/bin")), ("newer", newer)]
    return [(name, path or "") for name, path in found]


class Gh:
    """One gh, signed in as one account."""

    def __init__(self, path: str, *, proxy: str, token: str, home: Path) -> None:
        self.path = path
        self.cwd = home / "elsewhere"
        self.cwd.mkdir(parents=True, exist_ok=True)
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "GH_CONFIG_DIR": str(home / "gh"),
            "GH_HOST": "github.localhost",
            "GH_TOKEN": token,
            "HTTP_PROXY": proxy,
            "http_proxy": proxy,
            "NO_PROXY": "",
            "GH_TELEMETRY": "false",
            "GH_NO_UPDATE_NOTIFIER": "1",
            "GH_PROMPT_DISABLED": "1",
            "NO_COLOR": "1",
            "LANG": "C.UTF-8",
        }

    def run(self, *argv: str, ok: bool = True, repo: str = "owner/road") -> subprocess.CompletedProcess[str]:
        env = {**self.env, "GH_REPO": f"github.localhost/{repo}"}
        done = subprocess.run(
            [self.path, *argv], env=env, cwd=self.cwd, text=True, capture_output=True, timeout=60,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        if ok and done.returncode:
            pytest.fail(f"gh {' '.join(argv)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def place(self, origin: str) -> None:
        """Make the folder a git work place with this origin: the older gh wants one for `pr create`."""
        for argv in (("init", "-q"), ("remote", "add", "origin", origin)):
            subprocess.run(["git", *argv], cwd=self.cwd, check=True, capture_output=True)

    def out(self, *argv: str) -> str:
        return self.run(*argv).stdout

    def json(self, *argv: str) -> Any:
        return json.loads(self.out(*argv))
