"""What a job does after a stop: after a clean one, after a failure at any step of the commit protocol, and overdue."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING

import pytest

from integration_tests.drills.faults.armed import IN_OTHER_THREADS, POINTS
from integration_tests.engine.readings import FILES, LOG
from panekeeper import CheckpointError, IncompatibleCheckpoint, JobFailed
from panekeeper.framework.engine.job import query
from panekeeper.framework.engine.session.settings import STATE_FORMAT
from panekeeper.recovery.savepoint.state_reader import digests

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from integration_tests.engine.conftest import Readings
    from panekeeper import BatchReport


@pytest.mark.parametrize("point", [one for one in POINTS if one not in IN_OTHER_THREADS])
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


@pytest.mark.extended
def test_files_found_for_a_batch_that_was_never_planned_are_found_again(readings: Readings) -> None:
    """Killed after the source has logged a file, and before the batch's offsets, a job still reads a file a batch."""
    readings.put(*FILES[0])
    readings.run()
    for rows in FILES[1:]:
        readings.put(*rows)
    log = readings.epoch / "sources/0"
    found = (log / "0").read_text().replace("0000.json", "0001.json")
    (log / "1").write_text(found.replace('"batchId":0', '"batchId":1'))
    readings.run()

    assert readings.log() == LOG
    assert [row["rows_in"] for row in sorted(readings.rows("log_metrics"), key=itemgetter("batch"))].count(2) == 4


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


def test_a_stop_while_a_batch_is_planned_lets_it_finish(readings: Readings) -> None:
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
    """It is idle when it is to end, goes on, and has ended before the second check finds it active."""
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


def test_a_callback_may_stop_the_job_when_it_receives_an_earlier_batch(readings: Readings) -> None:
    """It is called in the thread that registers it, perhaps amid a batch, for whose end it must not wait."""
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


@pytest.mark.extended
def test_state_has_one_format_whatever_a_session_says(readings: Readings) -> None:
    """A session with the other one resumes it; one with another time zone is refused, with both values."""
    settings = readings.spark.conf
    for rows in FILES[:2]:
        readings.put(*rows)
    try:
        settings.set(STATE_FORMAT, "1")
        readings.run()
        for rows in FILES[2:]:
            readings.put(*rows)
        settings.set("spark.sql.session.timeZone", "Asia/Tokyo")
        with pytest.raises(IncompatibleCheckpoint, match=r"timeZone=Asia/Tokyo, .* begun with UTC: .* Set it back"):
            readings.start()
        settings.set("spark.sql.session.timeZone", "UTC")
        readings.run()
        assert digests(readings.spark, str(readings.epoch))
    finally:
        settings.set(STATE_FORMAT, "2")
        settings.set("spark.sql.session.timeZone", "UTC")
    assert readings.log() == LOG
    assert {path.read_text()[:2] for path in (readings.epoch / "commits").glob("[0-9]*")} == {"v2"}


@pytest.mark.extended
def test_an_older_copy_of_a_checkpoint_is_refused(readings: Readings) -> None:
    """Put back from a backup of its files: tables would skip its next batches by their numbers, with new rows."""
    readings.put(("a", "10:00:10", 1), ("a", "10:02:10", 2))
    readings.run()
    shutil.copytree(readings.checkpoint, readings.folder / "backup")
    readings.put(("a", "10:04:10", 4))
    readings.run()
    before = readings.log()
    shutil.move(readings.checkpoint, readings.folder / "newest")
    shutil.copytree(readings.folder / "backup", readings.checkpoint)
    readings.put(("a", "10:06:10", 8))
    with pytest.raises(
        CheckpointError, match=r"is an older copy: it has recorded no batch after \d+, and the log .* has"
    ):
        readings.run()
    assert readings.log() == before

    shutil.rmtree(readings.checkpoint)
    shutil.move(readings.folder / "newest", readings.checkpoint)
    readings.run()
    assert readings.log() == [*before, ("a", "10:04", 4, 1, 0, "WATERMARK")]
