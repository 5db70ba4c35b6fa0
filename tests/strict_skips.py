"""A pytest plugin: with ``CI`` set, a skipped or expectedly failing test fails the run (QLT-051)."""

from __future__ import annotations

import os

import pytest

_QUIET = ("skipped", "xfailed", "xpassed")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Turn a green end into a failed one; with xdist only the controller has the reports of all."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    quiet = [report for kind in _QUIET for report in (reporter.stats.get(kind, []) if reporter else [])]
    if (
        not quiet
        or not os.environ.get("CI")
        or session.exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    ):
        return
    session.exitstatus = pytest.ExitCode.TESTS_FAILED
    names = ", ".join(sorted({report.nodeid for report in quiet}))
    reporter.write_line(f"\nnot proved here, which CI takes for a failure: {names}", red=True)
