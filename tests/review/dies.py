"""A process that runs one review and may be killed in it: ``python -m review.dies SPEC.json`` (REV-055)."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from datetime import timedelta
from pathlib import Path

import msgspec

from droveway.app import FleetSpec, Home, open_fleet
from droveway.core.jobs import Job
from droveway.core.lease import Lease
from droveway.engine import JobContext
from droveway.review import run_review


async def main(spec: dict[str, object]) -> None:
    given = FleetSpec(
        home=Home(Path(str(spec["home"]))),
        api_url=str(spec["url"]),
        token=os.environ.pop("DIES_TOKEN"),
        git_url=str(spec["url"]),
        engine="inline",
        script=Path(str(spec["script"])),
    )
    async with open_fleet(given) as fleet:
        job = msgspec.convert(spec["job"], Job)
        now = fleet.clock.now()
        context = JobContext(job, now, asyncio.Event(), Lease.unshared(job.id), now + timedelta(minutes=30))
        sys.stdout.write(json.dumps(await run_review(fleet, context)))


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text())))
