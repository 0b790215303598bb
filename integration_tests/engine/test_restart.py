"""What a job does after a stop: after a clean one, after a failure at any step of the commit protocol, and overdue."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from framework.engine.job import query
from framework.engine.sink.fault_points import POINTS
from integration_tests.engine.readings import FILES, LOG
from panekeeper import JobFailed

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from integration_tests.engine.conftest import Readings
    from panekeeper import BatchReport


@pytest.mark.extended
@pytest.mark.parametrize("point", [point for point in POINTS if point != "mid-batch"])
def test_a_failure_at_any_step_changes_nothing(
    readings: Readings, fail_at: Callable[[str, int], None], point: str
) -> None:
    """A batch that fails between any two steps is run again at the next start, and each row stands once."""
    for rows in FILES:
        readings.put(*rows)
    fail_at(point, 2)
    with pytest.raises(JobFailed, match="the line went dead"):
        readings.run()
    readings.run()

    assert readings.log() == LOG
    assert len(readings.rows("log_quarantine")) == 1
    metrics = sorted(row["batch"] for row in readings.rows("log_metrics"))
    assert metrics == sorted(set(metrics))
    assert sum(row["rows_in"] for row in readings.rows("log_metrics")) == 8


def test_overdue_panes_fire_at_the_first_batch_after_a_start_without_any_data(readings: Readings) -> None:
    """Spark alone would wait for the next row: the watermark that moved before the stop acts at once after it."""
    readings.put(("a", "10:00:10", 1), ("b", "10:07:00", 2))
    job = readings.start()
    job.on_batch(lambda _: job.stop())  # before the batch that would act on the new watermark
    job.await_end()
    assert readings.log() == []
    assert readings.numbers("offsets") == readings.numbers("commits") == [0]

    reports: list[BatchReport] = []
    job = readings.start()
    job.on_batch(reports.append)
    job.await_end()

    assert readings.log() == [("a", "10:00", 1, 1, 0, "WATERMARK")]
    assert next((report.batch, report.rows, report.firings) for report in reports) == (1, 0, 1)


def test_a_running_job_stops_between_two_batches_and_resumes_there(readings: Readings) -> None:
    """`stop()` in the midst of a stream leaves no batch uncommitted; the next start continues with the next file."""
    for minute in range(6):
        readings.put(("a", f"10:{minute:02d}:10", 1), ("b", f"10:{minute:02d}:20", 2))
    second = threading.Event()
    job = readings.start(trigger="immediate")
    job.on_batch(lambda report: second.set() if report.batch == 1 else None)
    assert second.wait(timeout=300)
    job.stop()

    assert job.status().state.value == "ended"
    assert readings.numbers("offsets") == readings.numbers("commits")
    seen = sum(row["rows_in"] for row in readings.rows("log_metrics"))
    assert seen < 12

    readings.run()
    assert sum(row["rows_in"] for row in readings.rows("log_metrics")) == 12
    assert len(readings.log()) == 10


def test_a_stop_asked_for_while_a_batch_is_planned_lets_it_finish(readings: Readings) -> None:
    """Spark interrupts itself if it finds the query ended between writing a batch's offsets and running it."""
    for minute in range(6):
        readings.put(("a", f"10:{minute:02d}:10", 1))
    job = readings.start(trigger="immediate")
    while readings.numbers("offsets")[-1] < 2:
        time.sleep(0.001)  # a batch whose offsets have just been written is being planned
    job.stop()

    assert job.status().state.value == "ended"
    assert readings.numbers("offsets") == readings.numbers("commits")


def test_a_query_that_ends_before_a_stop_looks_again_has_ended(
    readings: Readings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It slept when it was asked to end, woke up, and is gone before the second look finds it awake."""
    readings.put(("a", "10:00:10", 1))
    job = readings.start(trigger="immediate")
    job.process_available()
    look, before = query._is_idle, [False]

    def slow_look(running: StreamingQuery) -> bool:
        thread = query._thread(running)
        while before[-1] and thread.isAlive() and not any("Lock.lock" in str(one) for one in thread.getStackTrace()):
            pass
        before.append(look(running))
        return before[-1]

    monkeypatch.setattr(query, "_is_idle", slow_look)
    job.stop()

    assert job.status().state.value == "ended"
    assert readings.numbers("offsets") == readings.numbers("commits")


def test_a_callback_may_stop_the_job_when_it_is_told_of_an_earlier_batch(readings: Readings) -> None:
    """It is called in the thread that registers it, perhaps amid a batch, which waits to be told; so it does not."""
    for minute in range(4):
        readings.put(("a", f"10:{minute:02d}:10", 1))
    first = threading.Event()
    job = readings.start(trigger="immediate")
    job.on_batch(lambda _: first.set())
    assert first.wait(timeout=300)
    job.on_batch(lambda _: job.stop())

    assert job.status().state.value == "ended"
    assert readings.numbers("offsets") == readings.numbers("commits")


def test_ctrl_c_lets_the_running_batch_finish(readings: Readings) -> None:
    """The interrupt is raised once the job has ended between two batches."""
    readings.put(("a", "10:00:10", 1))
    readings.put(("a", "10:00:20", 2))
    job = readings.start(trigger="immediate")
    job.on_batch(lambda report: os.kill(os.getpid(), signal.SIGINT) if report.batch == 1 else None)
    with pytest.raises(KeyboardInterrupt):
        job.await_end(timeout=300)

    assert job.status().state.value == "ended"
    assert readings.numbers("offsets") == readings.numbers("commits")


def test_a_running_job_takes_what_is_available_and_then_a_flush(readings: Readings) -> None:
    """`process_available()` returns once the files are in the tables; `flush()` of a running job ends it."""
    readings.put(("a", "10:00:10", 1))
    job = readings.start(trigger="immediate")
    job.process_available()
    assert job.status().rows == 1
    readings.put(("a", "10:00:20", 2))
    job.process_available()
    assert job.status().rows == 2
    job.flush()

    assert job.finished
    assert readings.log() == [("a", "10:00", 3, 2, 0, "FLUSH")]
    assert readings.numbers("offsets") == readings.numbers("commits")
