"""From what the forge says to readiness: a PR of the embedded forge, judged (FRG-009, FRG-010)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from droveway.core.checks import CheckState
from droveway.core.facts import Complete, Unknown
from droveway.core.readiness import Conflict
from droveway.forge import (
    CheckRun,
    CommitStatus,
    HeadChecks,
    Protection,
    PullRequest,
    check_state,
    conflict_of,
    readiness_of,
)

from .conftest import Road

NOW = datetime(2026, 3, 1, tzinfo=UTC)
OLD = NOW - timedelta(hours=1)
GRACE = timedelta(seconds=120)


def run(name: str, conclusion: str, number: int = 1) -> CheckRun:
    return CheckRun(number, name, "actions", "completed", conclusion)


@pytest.mark.req("BAT-206", "BAT-207", "FRG-010")
def test_the_checks_of_a_head_are_rolled_up_and_unknown_stays_unknown() -> None:
    head = HeadChecks("a" * 40, (run("unit", "success"),), (CommitStatus("deploy", "success"),), (), OLD)
    assert check_state(head, ["unit", "deploy"], NOW, GRACE).state is CheckState.SUCCESS
    assert check_state(Complete(head, NOW), ["types"], NOW, GRACE).missing == ("types",)
    assert check_state(Unknown("502", NOW), [], NOW, GRACE).state is CheckState.UNKNOWN
    assert check_state(None, [], NOW, GRACE).state is CheckState.UNKNOWN
    absent = msgspec.structs.replace(head, runs=(), absent=("check runs",))
    assert check_state(absent, [], NOW, GRACE).notes == ("check runs may not be read",)
    both = msgspec.structs.replace(head, runs=(), statuses=(), absent=("check runs", "statuses"))
    assert check_state(both, [], NOW, GRACE).state is CheckState.UNKNOWN
    queued = msgspec.structs.replace(head, queued_suites=(("other", NOW - timedelta(seconds=20)),))
    assert check_state(queued, [], NOW, GRACE).pending == ("suite of other",)


async def live(road: Road, number: int) -> PullRequest:
    for _ in range(3):  # mergeability is computed when it is asked for
        pull = await road.bot.pull(road.repo, number)
        assert pull is not None
        if pull.mergeable is not None:
            break
    return pull


@pytest.mark.req("FRG-009", "BAT-195", "BAT-196")
async def test_a_pull_request_of_the_forge_becomes_ready_step_by_step(road: Road) -> None:
    sha = road.branch("herd/batch/1-x", {"new.txt": "1\n"})
    number = (await road.bot.create_pull(road.repo, title="P", body="", head="herd/batch/1-x", base="main")).number
    await road.bot._http.write(
        "POST", f"/repos/{road.repo}/pulls/{number}/requested_reviewers", {"reviewers": ["owner"]}
    )
    demands = Protection(("unit",), required_approvals=1)
    later = datetime.now(UTC) + timedelta(hours=1)

    async def codes() -> list[str]:
        pull = await live(road, number)
        assert conflict_of(pull) is Conflict.CLEAN
        return [each.code for each in readiness_of(pull, demands, now=later, grace=GRACE, method="squash")]

    assert await codes() == ["check-missing", "review-missing", "review-requested"]
    await road.bot.set_status(road.repo, sha, context="unit", state="failure")
    assert await codes() == ["check-failed", "review-missing", "review-requested"]
    await road.bot.set_status(road.repo, sha, context="unit", state="success")
    await road.person.submit_review(road.repo, number, sha=sha, event="REQUEST_CHANGES", body="no")
    assert await codes() == ["changes-requested", "review-missing"]
    await road.person.submit_review(road.repo, number, sha=sha, event="APPROVE", body="")
    assert await codes() == []
    pull = await live(road, number)
    unknown = [each.code for each in readiness_of(pull, None, now=later, grace=GRACE)]
    assert unknown == ["checks-unknown"]
    road.branch("main", {"new.txt": "another\n"})
    pull = await live(road, number)
    assert conflict_of(pull) is Conflict.CONFLICT
    assert "conflict" in [each.code for each in readiness_of(pull, demands, now=later, grace=GRACE)]
