"""Which commands check a project: those it declares, else those that its manifests imply (BAT-141 … BAT-148, BAT-239).

Reads files only, never follows a link out of the tree, and gives the same commands for the same tree.
"""

from __future__ import annotations

import configparser
import fnmatch
import json
import os
import re
import shlex
import stat
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from droveway.core.settings import Validation
from droveway.work.validation.model import Check

_SKIPPED_FOLDERS = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__", ".tox", "target", "vendor"})
_MAX_FILES = 50_000
_MAX_BYTES = 1 << 20


class Tree(Protocol):
    """A source tree, read only."""

    def files(self) -> Sequence[str]:
        """Give the paths of all plain files, sorted, without what is installed or generated."""
        ...

    def text(self, path: str) -> str | None:
        """Give a file's text, None where there is no plain file."""
        ...

    def has(self, path: str) -> bool:
        """Whether anything is at ``path``, also what is installed or generated."""
        ...


class DiskTree:
    """A tree on disk that somebody else may have written: links are not followed."""

    def __init__(self, root: Path) -> None:
        """Read below ``root``."""
        self._root = root
        self._files: list[str] | None = None

    def files(self) -> Sequence[str]:
        """Give the paths; at most 50,000."""
        if self._files is None:
            found: list[str] = []
            for folder, names, files in os.walk(self._root, followlinks=False):
                names[:] = sorted(name for name in names if name not in _SKIPPED_FOLDERS)
                found += [os.path.relpath(os.path.join(folder, name), self._root) for name in files]
                if len(found) > _MAX_FILES:
                    break
            self._files = sorted(found)
        return self._files

    def text(self, path: str) -> str | None:
        """Read a plain file of at most 1 MiB; no part of its path may be a link."""
        here = self._root
        try:
            for part in Path(path).parts:
                here = here / part
                if stat.S_ISLNK(here.lstat().st_mode):
                    return None
            handle = os.open(here, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(handle, "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    return None
                return file.read(_MAX_BYTES).decode("utf-8", "replace")
        except OSError:
            return None

    def has(self, path: str) -> bool:
        """Whether anything is there."""
        return os.path.lexists(self._root / path)


class Project(msgspec.Struct, frozen=True):
    """One folder with a manifest, as the detectors see it: paths are relative to the folder."""

    dir: str
    files: tuple[str, ...]
    text: Callable[[str], str | None]
    has: Callable[[str], bool]


def plan(settings: Validation, tree: Tree, changed: Iterable[str] = ()) -> tuple[Check, ...]:
    """Give the commands: the declared ones, and only if there are none, the detected ones (BAT-141)."""
    if settings.commands:
        return tuple(check for index in range(len(settings.commands)) for check in _declared(settings, index, tree))
    if not settings.auto_detect:
        return ()
    checks = detect(tree, changed)
    return tuple(msgspec.structs.replace(c, timeout_seconds=float(settings.timeout_seconds)) for c in checks)


def _declared(settings: Validation, index: int, tree: Tree) -> list[Check]:
    command = settings.commands[index]
    argv = tuple(shlex.split(command.run)) if isinstance(command.run, str) else command.run
    name = command.name or " ".join(argv)
    folders = _folders(command.dir, tree)
    return [
        Check(
            name=name if len(folders) < 2 else f"{name} ({folder})",
            argv=argv,
            dir=folder,
            kind=command.kind,
            timeout_seconds=float(command.timeout_seconds or settings.timeout_seconds),
            env=dict(command.env),
            optional=command.optional,
            skip="" if folders else f"no folder matches {command.dir!r}",
        )
        for folder in folders or [command.dir]
    ]


def _folders(pattern: str, tree: Tree) -> list[str]:
    """Give the folders that a ``dir`` names; a glob gives one per matching folder. None ever leaves the root."""
    clean = os.path.normpath(pattern)
    if clean.startswith(("..", "/")):
        return []
    if not any(char in clean for char in "*?["):
        return [clean]
    folders = {parent for path in tree.files() for parent in _parents(path)}
    return sorted(f for f in folders if len(f.split("/")) == len(clean.split("/")) and fnmatch.fnmatchcase(f, clean))


def _parents(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[:depth]) for depth in range(len(parts), 0, -1)]


def detect(tree: Tree, changed: Iterable[str] = ()) -> tuple[Check, ...]:
    """Give the commands that the manifests imply, at the root and nearest to each changed file (BAT-148)."""
    files = tree.files()
    manifests = {name for names, _ in DETECTORS for name in names}
    with_manifest = {os.path.dirname(path) for path in files if os.path.basename(path) in manifests}
    wanted = {""} & with_manifest
    for path in changed:
        near = next((parent for parent in [*_parents(path), ""] if parent in with_manifest), None)
        if near is not None:
            wanted.add(near)
    checks: list[Check] = []
    for folder in sorted(wanted):
        project = _project(tree, folder)
        for names, detector in DETECTORS:
            if any(name in project.files for name in names):
                checks += detector(project)
    if not checks and "Makefile" in files:
        checks = _make(_project(tree, ""))
    return tuple(checks)


def detect_commands(root: Path) -> list[str]:
    """Name the commands that are detected for a checkout, with the step that is missing for one (BAT-148, BAT-239)."""
    return [check.name + (f" (skipped: {check.skip})" if check.skip else "") for check in detect(DiskTree(root))]


def _project(tree: Tree, folder: str) -> Project:
    prefix = f"{folder}/" if folder else ""
    inside = tuple(path[len(prefix) :] for path in tree.files() if path.startswith(prefix))
    return Project(folder or ".", inside, lambda p: tree.text(prefix + p), lambda p: tree.has(prefix + p))


def _named(project: Project, name: str) -> str:
    return name if project.dir == "." else f"{name} ({project.dir})"


def _check(project: Project, kind: str, *argv: str, **more: Any) -> Check:
    return Check(name=_named(project, more.pop("name", " ".join(argv))), argv=argv, dir=project.dir, kind=kind, **more)


# --- one detector per ecosystem --------------------------------------------------------------------------------------


def _python(project: Project) -> list[Check]:
    python = next((p for p in (".venv/bin/python", "venv/bin/python") if project.has(p)), "python3")
    sources = [path for path in project.files if path.endswith(".py")]
    tops = sorted({path.split("/")[0] for path in sources if not path.startswith(".")})
    checks = []
    if tops:
        compile_ = (python, "-m", "compileall", "-q", *tops)
        checks.append(_check(project, "build", *compile_, name="python -m compileall"))
    tests = [path for path in sources if re.search(r"(^|/)(test_[^/]*|[^/]*_test)\.py$", path)]
    toml = _toml(project.text("pyproject.toml"))
    tool = toml.get("tool") if isinstance(toml.get("tool"), dict) else {}
    assert isinstance(tool, dict)
    if tests:
        pytest = (python, "-m", "pytest", "-q", "-p", "no:cacheprovider")
        unittest = (python, "-m", "unittest", "discover", "-q", *_unittest_start(project, tests))
        checks.append(
            _check(
                project,
                "test",
                *pytest,
                name="python -m pytest",
                needs=("pytest",),
                skip_codes=(5,),
                otherwise=() if _configured(project, tool, "pytest") else unittest,
                otherwise_name=_named(project, "python -m unittest"),
                skip_text="Ran 0 tests",
            )
        )
    if _configured(project, tool, "ruff"):
        checks.append(
            _check(
                project, "lint", "ruff", "check", "--no-cache", ".", name="ruff check", optional=True, if_present=True
            )
        )
    if _configured(project, tool, "mypy"):
        checks.append(
            _check(
                project,
                "vet",
                python,
                "-m",
                "mypy",
                "--cache-dir",
                os.devnull,
                name="mypy",
                optional=True,
                needs=("mypy",),
            )
        )
    return checks


def _unittest_start(project: Project, tests: Sequence[str]) -> tuple[str, ...]:
    tops = {path.split("/")[0] for path in tests}
    if tops in ({"tests"}, {"test"}):
        top = next(iter(tops))
        return ("-s", top, "-t", ".") if f"{top}/__init__.py" in project.files else ("-s", top)
    return ()


def _configured(project: Project, tool: dict[str, Any], name: str) -> bool:
    files = {
        "pytest": ("pytest.ini", ".pytest.ini", "conftest.py"),
        "ruff": ("ruff.toml", ".ruff.toml"),
        "mypy": ("mypy.ini", ".mypy.ini"),
    }
    if name in tool or any(file in project.files for file in files[name]):
        return True
    ini = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        ini.read_string(project.text("setup.cfg") or "")
    except configparser.Error:
        return False
    return any(section in (name, f"tool:{name}") for section in ini.sections())


def _toml(text: str | None) -> dict[str, Any]:
    try:
        return tomllib.loads(text or "")
    except tomllib.TOMLDecodeError:
        return {}


_MANAGERS = (
    ("pnpm", ("pnpm-lock.yaml",)),
    ("yarn", ("yarn.lock",)),
    ("bun", ("bun.lockb", "bun.lock")),
    ("npm", ("package-lock.json", "npm-shrinkwrap.json")),
)
_PLACEHOLDER = "no test specified"


def _node(project: Project) -> list[Check]:
    try:
        manifest = json.loads(project.text("package.json") or "{}")
    except ValueError:
        manifest = {}
    scripts = manifest.get("scripts") if isinstance(manifest, dict) else None
    if not isinstance(scripts, dict):
        return []
    manager = next((name for name, locks in _MANAGERS if any(lock in project.files for lock in locks)), "npm")
    depends = any(manifest.get(kind) for kind in ("dependencies", "devDependencies"))
    skip = ""
    if depends and not project.has("node_modules"):
        skip = f"node_modules is absent: declare a command of kind setup ({manager} install)"
    kinds = {"build": "build", "test": "test", "lint": "lint", "typecheck": "vet"}
    return [
        _check(project, kind, manager, "run", script, name=f"{manager} run {script}", skip=skip)
        for script, kind in kinds.items()
        if isinstance(scripts.get(script), str) and _PLACEHOLDER not in scripts[script]
    ]


def _go(project: Project) -> list[Check]:
    return [
        _check(project, "build", "go", "build", "-buildvcs=false", "./..."),
        _check(project, "test", "go", "test", "-buildvcs=false", "./..."),
        _check(project, "vet", "go", "vet", "./..."),
        _check(project, "lint", "golangci-lint", "run", "./...", if_present=True),
    ]


def _cargo(project: Project) -> list[Check]:
    return [
        _check(project, "build", "cargo", "build", "--all-targets"),
        _check(project, "test", "cargo", "test"),
        _check(project, "lint", "cargo", "clippy", "--", "-D", "warnings", optional=True),
    ]


def _maven(project: Project) -> list[Check]:
    return [_check(project, "test", "./mvnw" if project.has("mvnw") else "mvn", "-q", "verify")]


def _gradle(project: Project) -> list[Check]:
    return [_check(project, "test", "./gradlew" if project.has("gradlew") else "gradle", "check")]


def _make(project: Project) -> list[Check]:
    targets = set(re.findall(r"^([A-Za-z0-9_.-]+)\s*:(?!=)", project.text("Makefile") or "", re.MULTILINE))
    first = next((target for target in ("check", "test") if target in targets), None)
    checks = [_check(project, "test", "make", first)] if first else []
    return [*checks, *([_check(project, "lint", "make", "lint")] if "lint" in targets else [])]


DETECTORS: tuple[tuple[tuple[str, ...], Callable[[Project], list[Check]]], ...] = (
    (("pyproject.toml", "setup.py", "setup.cfg", "tox.ini"), _python),
    (("package.json",), _node),
    (("go.mod",), _go),
    (("Cargo.toml",), _cargo),
    (("pom.xml",), _maven),
    (("build.gradle", "build.gradle.kts"), _gradle),
)
