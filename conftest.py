"""What holds for every test: where PANEKEEPER_CI is set, a skipped test is a failed one."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

_STRICT = bool(os.environ.get("PANEKEEPER_CI"))


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if _STRICT and report.outcome == "skipped" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which counts as a failure where PANEKEEPER_CI is set: {report.longrepr}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Called after each phase of a test."""
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Called after a file was collected: a whole file may skip itself."""
    report = yield
    _refuse_skip(report)
    return report
