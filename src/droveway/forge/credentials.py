"""Where the forge's token comes from (FRG-002)."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping

from droveway.core.runner import Limits, Runner

TOKEN_VARIABLES = ("HERD_GITHUB_TOKEN", "GITHUB_TOKEN", "GH_TOKEN")
_PASSED = ("PATH", "HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "GH_CONFIG_DIR", "GH_HOST", "DBUS_SESSION_BUS_ADDRESS")


async def find_token(environ: Mapping[str, str], runner: Runner) -> str | None:
    """Give the first token of the environment's three variables, else what ``gh auth token`` says; None for none."""
    for name in TOKEN_VARIABLES:
        if value := environ.get(name, "").strip():
            return value
    passed = {name: environ[name] for name in _PASSED if name in environ}
    try:
        done = await runner.run(
            ["gh", "auth", "token"],
            cwd=tempfile.gettempdir(),
            env={**passed, "GH_PROMPT_DISABLED": "1"},
            limits=Limits(timeout=15.0, max_output=65536),
        )
    except OSError:  # gh is not installed
        return None
    return done.text().strip() or None if done.ok else None
