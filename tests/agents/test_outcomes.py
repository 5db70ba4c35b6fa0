"""How a run ended, by what it said and how its process ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from droveway.agents import Outcome, is_suspicious
from droveway.agents.outcomes import Said, judge, reset_time
from droveway.core.runner import Completed, End

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
WELL = "All of it was done as it was asked for."


def ended(code: int = 0, *, stderr: str = "", end: End = End.EXITED) -> Completed:
    return Completed(("agent",), code, b"", stderr.encode(), 1.5, end)


@pytest.mark.req("BAT-174", "AGT-005")
@pytest.mark.parametrize(
    ("text", "suspicious"),
    [
        ("", True),
        (" \n ", True),
        ("Execution error", True),
        ("\nExecution error\n", True),
        ("Execution error: the disk is full", False),
        ("nineteen characters", True),
        ("twenty characters ok", False),
        ("ok\nok", False),
        (WELL, False),
    ],
)
def test_output_is_suspicious_when_empty_an_execution_error_or_one_short_line(text: str, suspicious: bool) -> None:
    assert is_suspicious(text) is suspicious
    assert judge(ended(), Said(text)).outcome is (Outcome.SUSPICIOUS if suspicious else Outcome.OK)


@pytest.mark.req("AGT-004")
@pytest.mark.parametrize(
    ("completed", "said", "outcome"),
    [
        (ended(), Said(WELL), Outcome.OK),
        (ended(1), Said(WELL), Outcome.FAILED),
        (ended(0), Said(WELL, failed=True, error="it broke"), Outcome.FAILED),
        (ended(1, end=End.TIMEOUT), Said(WELL), Outcome.TIMED_OUT),
        (ended(-15, end=End.IDLE), Said(WELL), Outcome.IDLE),
        (ended(-15, end=End.IDLE, stderr="Attempt 1 failed with status 429. Retrying"), Said(), Outcome.QUOTA),
        (ended(-15, end=End.OUTPUT), Said(WELL), Outcome.LIMIT),
        (ended(-15, end=End.STOPPED), Said(WELL), Outcome.KILLED),
        (ended(-9), Said(""), Outcome.KILLED),
        (ended(137), Said(""), Outcome.KILLED),
        (ended(1), Said(failed=True, limit=True), Outcome.LIMIT),
        (ended(1), Said(failed=True, error="Reached max session turns for this session."), Outcome.LIMIT),
        (ended(1), Said(failed=True, error="Invalid API key · Please run /login"), Outcome.LOGIN_LOST),
        (ended(1), Said(failed=True, error="unexpected status 401 Unauthorized"), Outcome.LOGIN_LOST),
        (ended(0), Said("API Error", failed=True, error="You've hit your usage limit."), Outcome.QUOTA),
        (
            ended(128, stderr="fatal: could not read Username for 'x': terminal prompts disabled"),
            Said(),
            Outcome.NEEDS_INPUT,
        ),
        (ended(0), Said("The page says 401 Unauthorized and rate limit, which I documented."), Outcome.OK),
    ],
)
def test_the_agents_own_verdict_counts_before_the_exit_code(completed: Completed, said: Said, outcome: Outcome) -> None:
    result = judge(completed, said, NOW)
    assert result.outcome is outcome
    assert "\n" not in result.error
    assert bool(result.error) is (outcome is not Outcome.OK)


@pytest.mark.req("AGT-004")
@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("Claude AI usage limit reached|1796130000", datetime(2026, 12, 1, 13, 0, tzinfo=UTC)),
        ("Please try again in 2 hours 5 minutes.", NOW + timedelta(hours=2, minutes=5)),
        ("try again in 1 day, 3 hours and 2 minutes", NOW + timedelta(days=1, hours=3, minutes=2)),
        ("Please retry in 28.5s.", NOW + timedelta(seconds=28.5)),
        ("Rate limit reached. Please try again in 350ms.", NOW + timedelta(seconds=0.35)),
        ("Resets at 2026-12-02T00:00:00Z", datetime(2026, 12, 2, tzinfo=UTC)),
        ("timestamp=2026-12-01T03:08:48Z error 429", None),
        ("quota exceeded", None),
    ],
)
def test_the_time_when_a_quota_is_free_again_is_read_where_it_is_said(text: str, at: datetime | None) -> None:
    assert reset_time(text, NOW) == at


def test_a_span_needs_the_present_moment() -> None:
    assert reset_time("try again in 2 hours", None) is None
