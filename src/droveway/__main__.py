"""The command's entry: ``--version`` is answered before anything is imported (QLT-006)."""

from __future__ import annotations

import sys


def main() -> None:
    """Run ``herd``; every error of ours is one clear line and the exit code of CLI-002."""
    if sys.argv[1:] == ["--version"]:
        from droveway import __version__

        sys.stdout.write(f"herd {__version__}\n")
        return
    from droveway.cli.main import herd
    from droveway.core.errors import HerdError
    from droveway.core.facts import FactUnknownError

    try:
        herd()
    except HerdError as error:
        for line in str(error).splitlines():
            sys.stderr.write(f"herd: {line}\n")
        sys.exit(error.exit_code)
    except FactUnknownError as error:
        sys.stderr.write(f"herd: {error}\n")
        sys.exit(3)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)


if __name__ == "__main__":
    main()
