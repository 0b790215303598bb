"""The fixtures for a user's tests on Spark, as the guide shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from panekeeper import DeclarationError
from panekeeper.pytest_plugin import kill_and_restart, spark_job
from tests.panekeeper.test_pytest_plugin import CODE

__all__ = ["kill_and_restart", "spark_job"]


@pytest.mark.usefixtures("spark")
def test_a_killed_job_goes_on(spark_job: Callable[..., Any], kill_and_restart: Callable[..., None]) -> None:
    """No row is lost, and none counts twice. The test of the guide passes; the session is the one that runs already."""
    guide: dict[str, Any] = {}
    exec(CODE, guide)  # noqa: S102 -- our own page
    jobs: list[Any] = []

    def start(*declared: Any) -> Any:
        jobs.append(spark_job(*declared))
        return jobs[-1]

    guide["test_a_killed_job_counts_each_ride_once"](start, kill_and_restart)
    kill_and_restart(jobs[0], [{"taxi": "7", "at": "2024-05-01 10:22", "fare": 1.0}], at="after-delta-commit")
    assert [row["total"] for row in jobs[0].rows] == [12.5, 30.0]
    assert jobs[0].rows.counts["rows_in"] == 3
    assert "job fares: running" in jobs[0].job._repr_html_()
    with pytest.raises(DeclarationError, match="at is 'lunch'; a batch can be killed before-plan, "):
        kill_and_restart(jobs[0], at="lunch")
