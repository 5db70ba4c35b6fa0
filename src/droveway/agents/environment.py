"""The environment of agents: an allow list, no credential, and nothing in it ever asks a person (QLT-040, case P04)."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from droveway.agents.model import AgentRun, Invocation, Provider
from droveway.core.errors import HerdError

# Whatever could open a terminal, an editor, a pager or a key's passphrase prompt fails at once instead, with a cause.
_NEVER_ASK = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "/bin/false",
    "SSH_ASKPASS": "/bin/false",
    "SSH_ASKPASS_REQUIRE": "force",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "EDITOR": "false",
    "VISUAL": "false",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    "GIT_CONFIG_NOSYSTEM": "1",
    "PIP_NO_INPUT": "1",
    "DEBIAN_FRONTEND": "noninteractive",
    "CI": "1",
    "NO_COLOR": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}
# In the private home, not in GIT_CONFIG_KEY_n: some agents take variables named like keys from what they start.
_GIT_CONFIG = """[user]
\tname = {name}
\temail = {email}
[commit]
\tgpgsign = false
[tag]
\tgpgsign = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
[advice]
\tdetachedHead = false
"""
_PASSED = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "TZ")


def agent_environment(
    source: Mapping[str, str], home: Path, *, identity: tuple[str, str] = ("Droveway agent", "agent@droveway.invalid")
) -> dict[str, str]:
    """Give the base environment of any agent. ``source`` is the process's own; ``identity`` is git's name and address.

    The folder of our own Python stands last on PATH, so that ``python3`` exists on a machine that has no other.
    """
    path = source.get("PATH") or os.defpath
    env = {name: source[name] for name in _PASSED if name in source}
    env |= _NEVER_ASK
    env |= {
        "PATH": os.pathsep.join(dict.fromkeys([*path.split(os.pathsep), os.path.dirname(sys.executable)])),
        "HOME": str(home),
        "LANG": "C.UTF-8",
    }
    for who in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{who}_NAME": identity[0], f"GIT_{who}_EMAIL": identity[1]}
    return env


def prepare(
    provider: Provider,
    run: AgentRun,
    source: Mapping[str, str],
    *,
    identity: tuple[str, str] = ("Droveway agent", "agent@droveway.invalid"),
) -> Invocation:
    """Give the run's invocation with its whole environment, and write its home files (0600) below ``run.home``.

    Raises InputError for a run that lacks something, HerdError where the home was tampered with.
    """
    invocation = provider.invocation(run)
    run.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    files = {".gitconfig": _GIT_CONFIG.format(name=identity[0], email=identity[1]), **invocation.home_files}
    for name, text in files.items():
        _write(run.home, name, text)
    asked = {name: value for name, value in run.env.items() if name in provider.env_names}
    env = agent_environment(source, run.home, identity=identity) | asked | invocation.env
    return Invocation(
        argv=invocation.argv,
        stdin=invocation.stdin,
        env=env,
        home_files=files,
        output_format=invocation.output_format,
    )


def _write(home: Path, name: str, text: str) -> None:
    """Write a file of the home. An earlier run may have left links there, so that we would write elsewhere for it."""
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.parent.resolve().is_relative_to(home.resolve()):
        raise HerdError(f"the agent's home {home} holds a link that leads out of it: {path.parent}")
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as handle:
        handle.write(text)
