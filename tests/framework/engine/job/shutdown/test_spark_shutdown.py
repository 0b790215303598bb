"""The end of Java, which has started the program: jobs are drained first, then the program ends."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from panekeeper import JobNotRunning
from panekeeper.framework.engine.job.shutdown.spark_shutdown import SparkShutdown


class RecordedJob:
    """A job that notes that it was drained, or has ended before."""

    def __init__(self, *, ended: bool = False) -> None:
        self.ended = ended
        self.drained = threading.Event()

    def drain(self) -> None:
        if self.ended:
            raise JobNotRunning("it has ended")
        self.drained.set()


@pytest.fixture
def shutdown(monkeypatch: pytest.MonkeyPatch) -> SparkShutdown:
    """A program that was submitted, but for its Java side."""
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setattr(SparkShutdown, "_install", lambda *_: None)
    return SparkShutdown()


def run_in_java(shutdown: SparkShutdown) -> threading.Thread:
    """Call `run` as Java does, in a thread of its own."""
    java = threading.Thread(target=shutdown.run)
    java.start()
    return java


def test_java_waits_until_the_jobs_and_the_program_have_ended(shutdown: SparkShutdown) -> None:
    """Each job is drained, whether it is awaited or not."""
    jobs = [RecordedJob(), RecordedJob()]
    unused: Any = None
    for job in jobs:
        shutdown.add(job, unused)
    java = run_in_java(shutdown)
    assert all(job.drained.wait(60) for job in jobs)
    assert java.is_alive()
    shutdown.end_program()
    java.join(60)
    assert not java.is_alive()


def test_java_waits_for_nothing_if_no_job_runs(shutdown: SparkShutdown) -> None:
    """Without a job, after the last one has ended, and when it is forgotten."""
    unused: Any = None
    shutdown.run()
    ended = RecordedJob(ended=True)
    shutdown.add(ended, unused)
    shutdown.run()
    shutdown.add(RecordedJob(), unused)
    shutdown.run()


def test_a_program_of_python_alone_ends_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """There Python gets the signals."""
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    shutdown, job = SparkShutdown(), RecordedJob()
    unused: Any = None
    shutdown.add(job, unused)
    shutdown.run()
    assert not job.drained.is_set()
