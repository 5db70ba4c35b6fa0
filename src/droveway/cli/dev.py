"""``herd-dev``: tools for developers of Droveway (CLI-008). It works in a checkout."""

from __future__ import annotations

import ast
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import click

_DEFINITION = re.compile(r"^(?:- |\| )(?:\*\*)?([A-Z]{3}-\d{3})(?:\*\*)? \[(\w+)\]", re.MULTILINE)
_ROOT = Path(__file__).resolve().parents[3]


@click.group()
def main() -> None:
    """Tools for developers of Droveway."""


def defined_ids(folder: Path) -> dict[str, str]:
    """Give every requirement id of the specification with its kind (seed, decided, beyond)."""
    found: dict[str, str] = {}
    for path in sorted(folder.glob("*.md")):
        for name, kind in _DEFINITION.findall(path.read_text(encoding="utf-8")):
            found.setdefault(name, kind)
    cases = (folder / "cases.md").read_text(encoding="utf-8")
    return {**found, **dict.fromkeys(re.findall(r"^### ([A-Z]\d{2}) ", cases, re.MULTILINE), "case")}


def marked_ids(folder: Path) -> dict[str, set[str]]:
    """Give the ids that tests are marked with, with the tests' files; ``*[f"BAT-{n:03}" …]`` of a range counts too."""
    found: dict[str, set[str]] = {}
    for path in sorted(folder.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "req":
                for name in _names(call):
                    found.setdefault(name, set()).add(path.relative_to(folder.parent).as_posix())
    return found


def _names(call: ast.Call) -> Iterator[str]:
    for argument in call.args:
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            yield argument.value
        elif isinstance(argument, ast.Starred):
            # A comprehension over a literal range: evaluated without names but range.
            expression = compile(ast.Expression(argument.value), "<req>", "eval")
            yield from eval(expression, {"__builtins__": {"range": range}})  # noqa: S307 - our own test's literal


@main.command()
@click.option("--all", "every", is_flag=True, help="Also list the ids that have tests, with their files.")
@click.option("--json", "as_json", is_flag=True)
@click.argument("prefixes", nargs=-1)
def trace(every: bool, as_json: bool, prefixes: tuple[str, ...]) -> None:
    """List the ids and cases of docs/spec that no test proves (exit 1 where a test names an unknown one)."""
    defined, marked = defined_ids(_ROOT / "docs" / "spec"), marked_ids(_ROOT / "tests")
    wanted = {name: kind for name, kind in defined.items() if not prefixes or name.startswith(tuple(prefixes))}
    missing = [name for name in wanted if name not in marked]
    unknown = sorted(set(marked) - set(defined))
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode({"defined": len(wanted), "missing": missing, "unknown": unknown}).decode())
    else:
        for name, kind in wanted.items():
            if name not in marked:
                click.echo(f"{name} [{kind}] no test")
            elif every:
                click.echo(f"{name} [{kind}] {', '.join(sorted(marked[name]))}")
        click.echo(f"{len(wanted) - len(missing)} of {len(wanted)} ids have tests")
    for name in unknown:
        click.echo(f"{name} is no id of the specification: {', '.join(sorted(marked[name]))}", err=True)
    if unknown:
        raise SystemExit(1)


@main.command(context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def bench(name: str, arguments: tuple[str, ...]) -> None:
    """Run bench/NAME.py, which prints both sides and the ratio."""
    path = _ROOT / "bench" / f"{name}.py"
    if not path.is_file():
        known = ", ".join(sorted(item.stem for item in path.parent.glob("*.py")))
        raise click.UsageError(f"no bench {name!r}; there are: {known}")
    sys.argv = [str(path), *arguments]
    runpy.run_path(str(path), run_name="__main__")
