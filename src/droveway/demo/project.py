"""The project that the demo works on: a dependency's installed source, or any given one."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import string
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from droveway.core.errors import HerdError, InputError
from droveway.core.runner import Limits, Runner, scrubbed_environment

DISTRIBUTION = "unidiff"
_IDENTITY = {
    "GIT_AUTHOR_NAME": "Droveway Demo",
    "GIT_AUTHOR_EMAIL": "droveway@noreply.invalid",
    "GIT_COMMITTER_NAME": "Droveway Demo",
    "GIT_COMMITTER_EMAIL": "droveway@noreply.invalid",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
}


@dataclass(frozen=True)
class Project:
    """A git repository at ``path`` whose Python package ``package`` lies at ``package_dir`` (relative to it)."""

    name: str
    path: Path
    package: str
    package_dir: str
    names: Mapping[str, str]

    def plan(self) -> dict[str, Any]:
        """Give the shipped plan with this project's names."""
        plan: dict[str, Any] = json.loads(self._filled("plan.json"))
        return plan

    def script(self) -> str:
        """Give the shipped agent's script with this project's names."""
        return self._filled("script.yaml")

    def _filled(self, file: str) -> str:
        text = resources.files(__package__).joinpath(file).read_text(encoding="utf-8")
        return string.Template(text).substitute(self.names)


async def make_project(
    runner: Runner, environ: Mapping[str, str], folder: Path, source: str | None, *, agent: str, model: str = ""
) -> Project:
    """Make the demo's git repository in ``folder`` (which must not exist) from ``source``, a folder or an sdist.

    Without a source the installed files of a pure-Python dependency are taken, so that no network is needed.
    """
    name = _fill(folder, source)
    git = _Git(runner, environ, folder)
    if not (folder / ".git").exists():
        await git("init", "--quiet", "--initial-branch=main")
        await git("add", "--all")
        await git("commit", "--quiet", "--allow-empty", "-m", f"Import {name}")
    package_dir = _package(folder)
    project = Project(
        name, folder, package_dir.name, package_dir.relative_to(folder).as_posix(), _names(folder, package_dir)
    )
    _lay_ground(project, agent, model)
    await git("add", "--all", "--force", "--", *_ground(project))
    await git("commit", "--quiet", "-m", "Prepare for Droveway")
    return project


class _Git:
    def __init__(self, runner: Runner, environ: Mapping[str, str], folder: Path) -> None:
        self._runner = runner
        self._env = {**scrubbed_environment(environ), **_IDENTITY}
        self._folder = folder

    async def __call__(self, *args: str) -> str:
        done = await self._runner.run(["git", *args], cwd=self._folder, env=self._env, limits=Limits(timeout=120))
        if not done.ok:
            raise HerdError(f"the demo's project could not be prepared: git {args[0]}: {done.error_text().strip()}")
        return done.text().strip()


def _fill(folder: Path, source: str | None) -> str:
    if source is None:
        distribution = importlib.metadata.distribution(DISTRIBUTION)
        for file in distribution.files or ():
            if file.suffix in (".py", ".typed") and ".." not in file.parts:
                target = folder / Path(*file.parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(str(distribution.locate_file(file)), target)
        readme = f"# {DISTRIBUTION} {distribution.version}\n\n{distribution.metadata['Summary'] or ''}\n"
        (folder / "README.md").write_text(readme, encoding="utf-8")
        return DISTRIBUTION
    path = Path(source)
    if path.is_dir():
        shutil.copytree(
            path, folder, symlinks=True, ignore=shutil.ignore_patterns(".venv", "node_modules", "__pycache__")
        )
        return path.resolve().name
    if not path.is_file():
        raise InputError(f"--project {source}: no such file or folder")
    folder.mkdir(parents=True)
    try:
        if zipfile.is_zipfile(path):
            _unzip(path, folder)
        else:
            with tarfile.open(path) as archive:
                archive.extractall(folder, filter="data")
    except (tarfile.TarError, zipfile.BadZipFile, OSError) as error:
        reason = str(error).splitlines()[0].rstrip(":") if str(error) else type(error).__name__
        raise InputError(f"--project {source} is no folder and no sdist (.tar.gz or .zip): {reason}") from None
    inner = list(folder.iterdir())
    if len(inner) == 1 and inner[0].is_dir():
        for item in list(inner[0].iterdir()):
            shutil.move(str(item), folder / item.name)
        inner[0].rmdir()
    return path.name.removesuffix(".gz").removesuffix(".tar").removesuffix(".zip")


def _unzip(path: Path, folder: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            target = (folder / member.filename).resolve()
            if not target.is_relative_to(folder.resolve()):
                raise InputError(f"{path}: the member {member.filename!r} lies outside the archive")
        archive.extractall(folder)  # noqa: S202 - every member was checked above


def _package(folder: Path) -> Path:
    for root in (folder, folder / "src", folder / "lib"):
        found = sorted(
            path.parent for path in root.glob("*/__init__.py") if not path.parent.name.startswith(("test", "."))
        )
        if found:
            return found[0]
    raise InputError(f"no Python package was found in {folder.name}: the demo needs a folder with an __init__.py")


def _names(folder: Path, package_dir: Path) -> dict[str, str]:
    def free(*candidates: str) -> str:
        return next(name for name in (*candidates, f"herd_{candidates[-1]}") if not (folder / name).exists())

    return {
        "package": package_dir.name,
        "package_dir": package_dir.relative_to(folder).as_posix(),
        "import_root": package_dir.parent.relative_to(folder).as_posix(),
        "tests": free("tests", "herd_tests"),
        "docs": free("docs", "herd_docs"),
        "tools": free("tools", "herd_tools"),
        "guide": free("CONTRIBUTING.md", "HACKING.md", "HERD.md"),
    }


def _ground(project: Project) -> list[str]:
    return [".herd/config.yml", ".gitignore", project.names["guide"], project.names["tests"]]


def _lay_ground(project: Project, agent: str, model: str) -> None:
    names, root = project.names, project.path
    (root / names["guide"]).write_text(
        f"# Contributing to {project.package}\n\n## First steps\n\nNothing is written here yet.\n", encoding="utf-8"
    )
    tests = root / names["tests"]
    tests.mkdir()
    (tests / "__init__.py").write_text("", encoding="utf-8")
    (tests / "test_ground.py").write_text(
        '"""The tests run."""\n\nimport unittest\n\n\nclass GroundTest(unittest.TestCase):\n'
        "    def test_the_runner_runs(self):\n        self.assertTrue(True)\n",
        encoding="utf-8",
    )
    ignore = root / ".gitignore"
    lines = ignore.read_text(encoding="utf-8").splitlines() if ignore.exists() else []
    wanted = ["__pycache__/", ".herd/plans/", ".herd/state/", ".herd/tmp/"]
    ignore.write_text("\n".join([*lines, *(line for line in wanted if line not in lines)]) + "\n", encoding="utf-8")
    config = {
        "version": 1,
        "platform": {"provider": "local"},
        "agent": {"provider": agent, **({"model": model} if model else {})},
        "workers": {"max_concurrent": 4, "timeout_minutes": 10, "progress_interval_seconds": 5},
        "integrator": {"ci_start_grace_seconds": 0, "review_fix_severity": "medium"},
        "pull_requests": {"auto_merge": True},
        "validation": {
            "commands": [
                {"name": "compile", "kind": "build", "run": ["python3", "-m", "compileall", "-q", project.package_dir]},
                {
                    "name": "test",
                    "kind": "test",
                    "run": ["python3", "-m", "unittest", "discover", "-s", names["tests"], "-t", "."],
                },
            ]
        },
    }
    folder = root / ".herd"
    folder.mkdir(exist_ok=True)
    (folder / "config.yml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
