"""Which paths a program needs to run: its links, its package folder, its interpreter's prefix."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

import droveway

SYSTEM = tuple(Path(name) for name in ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"))
"""Shown whole. Where one is a link (merged /usr) the link is made anew."""

ETC = (
    *("alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version", "fonts", "group"),
    *("host.conf", "hosts", "java-11-openjdk", "java-17-openjdk", "java-21-openjdk", "ld.so.cache", "ld.so.conf"),
    *("ld.so.conf.d", "locale.alias", "localtime", "magic", "mime.types", "nsswitch.conf", "os-release", "passwd"),
    *("pki", "protocols", "resolv.conf", "services", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone", "xdg"),
)
"""What programs read of /etc: no key, no password, no package registry's credential."""


class Link(msgspec.Struct, frozen=True):
    """A symbolic link to make: at ``path``, pointing to ``target`` as it is written."""

    path: Path
    target: str


def inside(path: Path, roots: Iterable[Path]) -> bool:
    """Whether ``path`` is one of the roots or below one."""
    return any(path == root or root in path.parents for root in roots)


def python_paths() -> tuple[Path, ...]:
    """Give the folders of the Python in use, and our own package, so that ``python -m droveway…`` works inside."""
    package = Path(droveway.__file__).resolve().parent
    prefixes = (Path(sys.prefix), Path(sys.base_prefix), Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve())
    return tuple(path for path in (*dict.fromkeys(prefixes), package) if not inside(path, SYSTEM))


def search_path(path: str) -> str:
    """Give the PATH that works behind the walls: version managers' shims call what is not there, so they go.

    The Python in use comes first where one of them would have given ``python3`` (pyenv, asdf).
    """
    entries = path.split(os.pathsep)
    kept = [entry for entry in entries if Path(entry).name != "shims"]
    own = [str(Path(sys.base_prefix) / "bin")] if len(kept) < len(entries) else []
    return os.pathsep.join([*own, *kept])


def program_paths(program: str, search: str) -> Iterator[Path | Link]:
    """Give what ``program`` (a path or a name on ``search``) needs: each link on the way, and the place of the file."""
    found = shutil.which(program, path=search)
    if found is None:
        return
    path = Path(os.path.abspath(found))
    for _ in range(16):
        if inside(path, SYSTEM):
            return
        package = _outermost(path, "node_modules")
        if package is not None:
            yield package
            return
        if not path.is_symlink():
            yield _prefix(path) or path
            return
        prefix = _prefix(path)
        if prefix is not None:
            yield prefix
        else:
            yield Link(path, os.readlink(path))
        path = Path(os.path.normpath(path.parent / os.readlink(path)))


def _outermost(path: Path, name: str) -> Path | None:
    """Give the outermost folder called ``name`` above ``path``."""
    folders = [parent for parent in path.parents if parent.name == name]
    return folders[-1] if folders else None


def _prefix(path: Path) -> Path | None:
    """Give the installation prefix of ``PREFIX/bin/program``, if it looks like one and is not somebody's whole home."""
    prefix = path.parent.parent
    if path.parent.name != "bin" or not ((prefix / "lib").is_dir() or (prefix / "pyvenv.cfg").is_file()):
        return None
    homes = {Path("/"), Path("/root"), Path(os.path.expanduser("~"))}
    # ~/.local/bin has a ~/.local/lib beside it, but ~/.local/share holds keys and everybody's state.
    return None if prefix in homes or prefix.name == ".local" or prefix.parent == Path("/home") else prefix
