"""``python -m droveway.localforge``: the forge as a process of its own."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from droveway.core.errors import HerdError
from droveway.localforge.serving import ServeOptions, main_serve


def main() -> int:
    """Read the options and serve."""
    parser = argparse.ArgumentParser(prog="python -m droveway.localforge", description="Serve the embedded forge.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the forge, made on first use")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--ready-file", type=Path, help="gets the base URL when the forge answers")
    parser.add_argument("--token-file", type=Path, help="gets the first tokens as JSON by login, mode 600")
    parser.add_argument("--owner", default="owner", help="login of the owner's account, at the first start")
    parser.add_argument("--repo", action="append", default=[], help="make this repository where it does not exist")
    parser.add_argument("--import", dest="imports", type=Path, action="append", default=[], help="repository or bundle")
    given = parser.parse_args()
    options = ServeOptions(
        data=given.data,
        host=given.host,
        port=given.port,
        owner=given.owner,
        ready_file=given.ready_file,
        token_file=given.token_file,
        repos=tuple(given.repo),
        imports=tuple(given.imports),
    )
    try:
        return main_serve(options)
    except HerdError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - a command's own words
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
