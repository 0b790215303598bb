"""A program that ends without having waited for its jobs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from panekeeper.framework.declarations.errors import JobFailed, PanekeeperError
from panekeeper.framework.engine.job.shutdown.program_end import UnattendedJobs


class FakeJob:
    """A job that runs, has ended, or has failed."""

    def __init__(self, checkpoint: str, *, has_ended: bool = False, failure: Exception | None = None) -> None:
        self.checkpoint, self.has_ended, self.failure = checkpoint, has_ended, failure

    def await_end(self, timeout: float) -> bool:
        """Return or raise what a job does."""
        assert timeout > 0
        if self.failure is not None:
            raise self.failure
        return self.has_ended


def test_jobs_that_run_or_have_failed_are_reported_and_others_not(capsys: pytest.CaptureFixture[str]) -> None:
    """One line each, with what to do; nothing of a job that was awaited, has ended, or whose Spark is gone."""
    failed: PanekeeperError = JobFailed("job 'a' stopped: boom")
    awaited = FakeJob("/awaited", failure=failed)
    jobs = UnattendedJobs()
    running = [
        FakeJob("/runs"),
        FakeJob("/failed", failure=failed),
        FakeJob("/ended", has_ended=True),
        FakeJob("/gone", failure=ConnectionError()),
        awaited,
    ]
    for job in running:
        jobs.add(job)
    jobs.remove(awaited)
    jobs.report()
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("panekeeper: the program ends while the job on /runs runs")
    assert second.startswith("panekeeper: the job on /failed has failed, and the program has not waited for it")
    assert second.endswith("await_end()): job 'a' stopped: boom")


def test_it_is_reported_as_the_program_ends() -> None:
    """By itself, after the last line of the program."""
    program = (
        "from tests.framework.engine.job.shutdown.test_program_end import FakeJob, UnattendedJobs\n"
        "UnattendedJobs().add(FakeJob('/runs'))\n"
        "print('done')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "done\n"
    assert "while the job on /runs runs" in done.stderr
