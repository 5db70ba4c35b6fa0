"""The command's entry: ``--version`` is answered before anything is imported (QLT-006)."""

from __future__ import annotations

import sys


def main() -> None:
    """Run ``herd``."""
    if sys.argv[1:] == ["--version"]:
        from droveway import __version__

        sys.stdout.write(f"herd {__version__}\n")
        return
    from droveway.cli.main import herd

    herd()


if __name__ == "__main__":
    main()
