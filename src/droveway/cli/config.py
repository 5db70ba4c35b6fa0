"""``herd config``: the file of the clone one stands in (BAT-061)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from droveway.cli.common import Say, common, here, run


@click.group()
def config() -> None:
    """List, read, set and edit the configuration of this clone (.herd/config.yml)."""


async def _file() -> Path:
    from droveway.app import CONFIG_PATHS
    from droveway.core.errors import InputError
    from droveway.service.target import git_top

    _, runner = here()
    top = await git_top(runner, os.environ, Path.cwd())
    if top is None:
        raise InputError("this folder is no clone: change into one and try again")
    present = [top / path for path in CONFIG_PATHS if (top / path).exists()]
    return present[0] if present else top / CONFIG_PATHS[0]


def _settings(path: Path, content: bytes | None = None) -> Any:
    from droveway.app import read_settings

    data = content if content is not None else (path.read_bytes() if path.exists() else None)
    return read_settings({".herd/config.yml": data}, {})


@config.command("list")
@common()
def list_(say: Say) -> None:
    """List every key with its value."""
    from droveway.core.settings import known_keys, value_of

    settings = _settings(run(_file()))
    values = {key: value_of(settings, key) for key in known_keys()}
    for key, value in values.items():
        say.line(f"{key} = {value!r}")
    say.result(values)


@config.command()
@click.argument("key")
@common()
def get(say: Say, key: str) -> None:
    """Print one key's value."""
    from droveway.core.settings import value_of

    value = value_of(_settings(run(_file())), key)
    say.line(str(value))
    say.result({key: value})


@config.command("set")
@click.argument("key")
@click.argument("value")
@common(dry_run=True)
def set_(say: Say, key: str, value: str, dry_run: bool) -> None:
    """Set one key; VALUE is YAML (true, 3, [a, b], text). It is checked before it is written."""
    import yaml

    from droveway.core.errors import InputError
    from droveway.core.settings import value_of

    path = run(_file())
    value_of(_settings(path), key)
    try:
        parsed = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise InputError(f"{value!r} is no YAML value: {' '.join(str(error).split())}") from None
    raw = (yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else None) or {}
    place = raw
    *folders, last = key.split(".")
    for folder in folders:
        place = place.setdefault(folder, {})
    place[last] = parsed
    text = yaml.safe_dump(raw, sort_keys=False, allow_unicode=True)
    _settings(path, text.encode())
    if not dry_run:
        _write(path, text)
    say.line(
        f"{key} = {parsed!r}"
        + (" (not written: --dry-run)" if dry_run else f" in {path.name}; commit and push it to the base")
    )
    say.result({key: parsed})


@config.command()
@common()
def edit(say: Say) -> None:
    """Open the file in $EDITOR; what does not check is not written."""
    from droveway.core.errors import HerdError, InputError

    path = run(_file())
    before = path.read_text(encoding="utf-8") if path.exists() else "version: 1\n"
    text = click.edit(before, extension=".yml")
    if text is None or text == before:
        say.line("nothing was changed")
        return
    try:
        _settings(path, text.encode())
    except InputError as error:
        raise HerdError(f"not written:\n{error}") from None
    _write(path, text)
    say.line(f"wrote {path.name}; commit and push it to the base")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
