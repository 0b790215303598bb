"""Fixtures for pytest, which finds them where Panekeeper is installed: `run`, `spark_job`, `kill_and_restart`.

Nothing is imported before a test asks for a fixture, and no test is changed by having them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from panekeeper.framework.testing.results import Results
    from panekeeper.framework.testing.started_job import StartedJob


@pytest.fixture
def run() -> Callable[..., Results]:
    """`panekeeper.testing.run`: plays a script through a window, and returns the rows of its log."""
    from panekeeper.testing import run as play

    return play


@pytest.fixture
def spark_job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., StartedJob]]:
    """Starts a job on files in folders of its own, and stops it when the test ends.

    `job = spark_job(declare, "k string, v long")` starts it, `job.add(rows)` lets it process rows, `job.rows` are those
    of its log; where a function of yours raised, they fail the test (not with `allow_errors=True`). `declare` takes the
    streaming DataFrame and returns what `.aggregate()` or `.operator()` returns. All jobs are in one Spark session,
    that of `panekeeper.session()`.
    """
    from panekeeper.framework.testing.started_job import StartedJob

    jobs: list[StartedJob] = []

    def start(declare: Callable[..., object], schema: object, *, allow_errors: bool = False) -> StartedJob:
        jobs.append(StartedJob(declare, schema, tmp_path_factory.mktemp("spark_job"), allow_errors=allow_errors))
        jobs[-1].start()
        return jobs[-1]

    yield start
    for job in jobs:
        job.stop()


@pytest.fixture
def kill_and_restart() -> Callable[..., None]:
    """Kills a job of `spark_job` in a batch and starts it again: `kill_and_restart(job, rows, at="before-delta")`."""

    def kill(job: StartedJob, rows: object = (), *, at: str = "before-prepare") -> None:
        job.kill_and_restart(rows, at=at)

    return kill
