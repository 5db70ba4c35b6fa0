"""The one git runner: a scrubbed environment, no foreign configuration, stdin instead of argv, exit codes only."""

from __future__ import annotations

import os
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

from droveway.core.errors import HerdError
from droveway.core.runner import Completed, End, Limits, Runner, scrubbed_environment
from droveway.core.text import Redactor, cut_bytes

DEFAULT_TIMEOUT = 120.0
NETWORK_TIMEOUT = 600.0
MAX_OUTPUT = 512 * 1024 * 1024

# Each line closes a way by which a repository, a machine or a person's settings could change what git does for us.
_CONFIG: Mapping[str, str] = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.untrackedCache": "false",
    "core.attributesFile": "/dev/null",  # else ~/.config/git/attributes counts
    "core.excludesFile": "/dev/null",  # else ~/.config/git/ignore counts
    "core.autocrlf": "false",
    "core.safecrlf": "false",
    "core.quotePath": "false",
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    "core.logAllRefUpdates": "false",
    "credential.helper": "",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "receive.autogc": "false",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "push.recurseSubmodules": "no",
    "commit.gpgSign": "false",
    "push.gpgSign": "false",
    "log.showSignature": "false",
    "http.followRedirects": "false",  # the Authorization header would follow to another host
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "60",
    "init.defaultBranch": "main",
    "advice.detachedHead": "false",
}
_ENVIRONMENT: Mapping[str, str] = {
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",
    "SSH_ASKPASS": "true",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    "GIT_ALLOW_PROTOCOL": "file:http:https:ssh",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_ADVICE": "0",
}
_AUTH_MARKS = (
    "Authentication failed",
    "could not read Username",
    "could not read Password",
    "returned error: 401",
    "returned error: 403",
    "Permission denied (",
)


class GitError(HerdError):
    """A git command failed, or did not end in time. ``stderr`` is its tail, without credentials."""

    def __init__(self, argv: Sequence[str], code: int, stderr: str, *, timed_out: bool = False) -> None:
        """Hold the command, its exit code and the tail of what it said."""
        verb = next((part for part in argv[1:] if not part.startswith("-")), "?")
        lines = [line.strip() for line in stderr.splitlines() if line.strip()]
        telling = [line for line in lines if line.startswith(("fatal:", "error:"))]
        last = (telling or lines[-1:] or ["it said nothing"])[0]
        super().__init__(f"git {verb} {'took too long' if timed_out else f'failed ({code})'}: {last}")
        self.argv = tuple(argv)
        self.code = code
        self.stderr = stderr
        self.timed_out = timed_out

    @property
    def auth(self) -> bool:
        """Whether the forge refused the credential. Git has one exit code for all, so its (C locale) words decide."""
        return any(mark in self.stderr for mark in _AUTH_MARKS)


class Git:
    """Runs git. Nothing of the user's or the machine's configuration reaches it, and it asks nobody anything."""

    def __init__(self, runner: Runner, env: Mapping[str, str] | None = None) -> None:
        """Use ``runner``; ``env`` is the base environment (default: the process's own, scrubbed)."""
        self._runner = runner
        self._base = {**scrubbed_environment(os.environ if env is None else env), **_ENVIRONMENT}

    def environment(self, config: Mapping[str, str] | None = None) -> dict[str, str]:
        """Give the whole environment of a child, with the settings as ``GIT_CONFIG_*`` and so not in its argv."""
        settings = {**_CONFIG, **(config or {})}
        pairs = {"GIT_CONFIG_COUNT": str(len(settings))}
        for index, (key, value) in enumerate(settings.items()):
            pairs[f"GIT_CONFIG_KEY_{index}"] = key
            pairs[f"GIT_CONFIG_VALUE_{index}"] = value
        return {**self._base, **pairs}

    async def run(
        self,
        *args: str,
        git_dir: Path | None = None,
        work_tree: Path | None = None,
        cwd: Path | None = None,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        config: Mapping[str, str] | None = None,
        secrets: Sequence[str] = (),
        ok: Container[int] = (0,),
        timeout: float = DEFAULT_TIMEOUT,
    ) -> Completed:
        """Run ``git *args`` and give the result; raise GitError where the exit code is not in ``ok``.

        With ``git_dir`` nothing is discovered: no ``.git`` on the way is looked at. ``config`` adds settings (they
        may hold credentials), ``secrets`` is taken out of the error. ``timeout`` is in seconds.
        """
        argv = ["git"]
        if git_dir is not None:
            argv.append(f"--git-dir={git_dir}")
        if work_tree is not None:
            argv.append(f"--work-tree={work_tree}")
        argv += args
        where = cwd or work_tree or git_dir or Path("/")
        done = await self._start(argv, where, {**self.environment(config), **(env or {})}, stdin, timeout)
        if done.end is not End.EXITED or done.code not in ok:
            redact = Redactor(secrets)
            said = redact(cut_bytes(done.error_text(), 4000, tail=True))
            raise GitError([redact(part) for part in argv], done.code, said, timed_out=done.end is End.TIMEOUT)
        return done

    async def helper(self, *argv: str, stdin: bytes, timeout: float) -> Completed:
        """Run a program of ours that itself calls git many times, in git's environment; raise GitError if it fails."""
        done = await self._start(list(argv), Path("/"), self.environment(), stdin, timeout)
        if not done.ok:
            said = cut_bytes(done.error_text(), 4000, tail=True)
            raise GitError(argv, done.code, said, timed_out=done.end is End.TIMEOUT)
        return done

    async def _start(
        self, argv: list[str], cwd: Path, env: Mapping[str, str], stdin: bytes | None, timeout: float
    ) -> Completed:
        limits = Limits(timeout=timeout, max_output=MAX_OUTPUT)
        return await self._runner.run(argv, cwd=cwd, env=env, stdin=stdin, limits=limits, leaves_nothing=True)
