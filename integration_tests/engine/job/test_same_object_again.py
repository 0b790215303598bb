"""A job that has ended, and is flushed by the object that started it, after another run has been on its checkpoint."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from integration_tests.engine.readings import FILES, LOG
from panekeeper import CheckpointError, CheckpointInUse
from panekeeper.framework.engine.job.run import JobRun
from panekeeper.state.checkpoint.clock import Deadline

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Readings


def test_a_job_is_not_started_again_by_its_object_after_another_run(readings: Readings) -> None:
    """Nothing that a start looks at is known to it: which tables, which order, which batch. A new start flushes it."""
    for rows in FILES[:2]:
        readings.put(*rows)
    first = readings.run()
    for rows in FILES[2:]:
        readings.put(*rows)
    second = readings.run()
    with pytest.raises(CheckpointError, match=r"another run has been on it; start the job again by its start\(\)"):
        first.flush()
    assert readings.log() == LOG
    second.flush()
    assert second.finished
    assert len(readings.log()) > len(LOG)


def test_a_thread_that_waits_for_the_end_does_not_end_a_flush(
    readings: Readings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job has ended when it is flushed: it acquires its lease again, which the other thread would release."""
    readings.put(*FILES[0])
    job = readings.run()
    acquire = JobRun.acquire_lease

    def acquire_beside_another_thread(started: JobRun) -> None:
        acquire(started)
        waiting = threading.Thread(target=job._run.query.is_over, args=(0.01,))
        waiting.start()
        waiting.join()

    monkeypatch.setattr(JobRun, "acquire_lease", acquire_beside_another_thread)
    job.flush()
    assert job.finished
    assert job.await_end(timeout=60)


def test_a_command_is_given_to_its_own_run_only(readings: Readings) -> None:
    """The flush of a job that has ended would finish the job of another process, with what that has read by then."""
    readings.put(*FILES[0])
    first = readings.run()
    second = readings.start(trigger="immediate")
    try:
        pulse = sorted(path.name for path in (readings.epoch / "pulse").glob("*.json"))
        with pytest.raises(CheckpointInUse):
            first._commands._give("flush", first._run.end.flushed, Deadline(None))
        assert sorted(path.name for path in (readings.epoch / "pulse").glob("*.json")) == pulse
    finally:
        second.stop()
    assert not second.finished
