"""How a job ends when its process is to end: by a signal, with Spark's own process, or because the program is over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from panekeeper import JobNotRunning
from panekeeper.framework.declarations.errors import JobFailed, PanekeeperError
from panekeeper.framework.engine.job.shutdown import SignalRequests, SparkShutdown, UnattendedJobs, await_end
from panekeeper.state.checkpoint.clock import Deadline


class FakeJob:
    """A job that runs, has ended, or has failed; it notes that it was drained."""

    def __init__(self, checkpoint: str = "/job", *, has_ended: bool = False, failure: Exception | None = None) -> None:
        self.checkpoint, self.has_ended, self.failure = checkpoint, has_ended, failure
        self.drained = threading.Event()

    def await_end(self, timeout: float) -> bool:
        assert timeout > 0
        if self.failure is not None:
            raise self.failure
        return self.has_ended

    def drain(self) -> None:
        if self.has_ended:
            raise JobNotRunning("it has ended")
        self.drained.set()


def test_the_first_ctrl_c_is_a_request_and_the_second_an_interrupt() -> None:
    """The handler that was there before comes back afterwards."""
    before = signal.getsignal(signal.SIGINT)
    with SignalRequests() as signals:
        os.kill(os.getpid(), signal.SIGINT)
        assert signals.requested
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def _await_with_ctrl_c() -> list[str]:
    """Wait for a job that does not end, press Ctrl-C, and return what was done to the job."""
    done: list[str] = []

    def is_over(_: float) -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        return False

    with pytest.raises(KeyboardInterrupt):
        await_end(is_over, Deadline(None), drain=lambda: done.append("drain"), stop=lambda: done.append("stop"))
    return done


def test_ctrl_c_in_a_program_ends_the_job_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """It ends after the running batch; the terminal says how to leave at once."""
    assert _await_with_ctrl_c() == ["stop"]
    assert "press Ctrl-C again" in capsys.readouterr().err


def test_an_interrupt_in_the_kernel_of_a_notebook_ends_the_wait_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job goes on, and the cell says how it is reached."""
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert _await_with_ctrl_c() == []
    assert "the job goes on" in capsys.readouterr().err


def test_outside_the_main_thread_nothing_is_touched() -> None:
    """Python delivers signals to the main thread only; elsewhere waiting is just waiting."""
    seen: list[bool] = []

    def wait() -> None:
        before = signal.getsignal(signal.SIGINT)
        with SignalRequests() as signals:
            seen.append(signal.getsignal(signal.SIGINT) is before and not signals.requested)

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join()
    assert seen == [True]


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
        "from tests.framework.engine.job.test_shutdown import FakeJob, UnattendedJobs\n"
        "UnattendedJobs().add(FakeJob('/runs'))\n"
        "print('done')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "done\n"
    assert "while the job on /runs runs" in done.stderr


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
    jobs = [FakeJob(), FakeJob()]
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
    ended = FakeJob(has_ended=True)
    shutdown.add(ended, unused)
    shutdown.run()
    shutdown.add(FakeJob(), unused)
    shutdown.run()


def test_a_program_of_python_alone_ends_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """There Python gets the signals."""
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    shutdown, job = SparkShutdown(), FakeJob()
    unused: Any = None
    shutdown.add(job, unused)
    shutdown.run()
    assert not job.drained.is_set()
