"""A program: the service on a home, until it is killed; ``HERD_CRASH_AT`` says where it dies by itself."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from droveway.app import Home
from droveway.service import UpOptions, running


async def main(folder: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    options = UpOptions(home=Home(folder / "home"), environ=environ, engine="inline", script=folder / "script.yaml")
    async with running(options):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
