"""Wall-clock windows on a real job across a stop: what is overdue happens at once, and a report says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from panekeeper import Count, JobFailed, Sliding, Time, Tumbling, agg, windowed
from panekeeper.framework.engine.clock import tick_scheduler
from panekeeper.framework.engine.job.job import Job
from panekeeper.framework.engine.job.run import JobRun
from panekeeper.state.checkpoint import control_files

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Readings

MINUTE_US = 60_000_000


class Later:
    """A clock that runs ahead of the real one, by as much as it is set to."""

    def __init__(self) -> None:
        self.ahead_us = 0

    def __call__(self) -> int:
        return int(datetime.now(UTC).timestamp() * 1_000_000) + self.ahead_us


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Later:
    """The clock of the control stream; set ahead, it makes an outage of any length."""
    later = Later()
    for module in (control_files, tick_scheduler):
        monkeypatch.setattr(module, "now_us", later)
    return later


def start(readings: Readings, window: Any, trigger: Any = "available_now") -> Job:
    """Start a job that counts readings by the wall clock."""
    stream = windowed(readings.stream(), name="outage", partition_by="sensor", key_groups=2)
    counted = stream.window(window).aggregate(n=agg.count(), total=agg.sum("value"))
    job = counted.to_delta(readings.folder / "log").start(checkpoint=readings.checkpoint, trigger=trigger)
    readings.jobs.append(job)
    return job


def fired(readings: Readings) -> list[tuple[Any, ...]]:
    """What the log holds, without its instants."""
    return sorted((row["sensor"], row["n"], row["total"], row["reason"]) for row in readings.rows("log"))


def test_an_overdue_tumble_happens_with_no_data_and_is_reported(
    readings: Readings, clock: Later, caplog: pytest.LogCaptureFixture
) -> None:
    """A job that ends when nothing is left to read still does what is due, once, and says what the outage did."""
    caplog.set_level("INFO", "panekeeper")
    readings.put(("a", "10:00:10", 1), ("a", "10:00:11", 2), ("b", "10:00:12", 4))
    first = start(readings, Tumbling(Time(1800)))
    assert first.await_end(timeout=300)
    assert first.downtime is None
    clock.ahead_us += 100 * MINUTE_US
    second = start(readings, Tumbling(Time(1800)))
    assert second.await_end(timeout=300)

    assert fired(readings) == [("a", 2, 3, "OVERDUE"), ("b", 1, 4, "OVERDUE")]
    report = second.downtime
    assert report is not None
    assert (report.clean, report.timers_overdue, report.results) == (True, 2, 2)
    assert report.late_seconds == pytest.approx(70 * 60, abs=120)
    assert str(report) in caplog.messages
    assert "timers overdue       2, the oldest by" in str(report)
    rows = readings.rows("log_downtime")
    assert [(row["batch"], row["timers_overdue"], row["clean"]) for row in rows] == [(report.batch, 2, True)]


def test_tuples_that_ran_out_of_time_while_the_job_was_down_leave_first(readings: Readings, clock: Later) -> None:
    """Before the new rows of the same batch come in."""
    window = Sliding(evict=Time(600), trigger=Count(1))
    readings.put(("a", "10:00:10", 1), ("a", "10:00:11", 2))
    assert start(readings, window).await_end(timeout=300)
    clock.ahead_us += 60 * MINUTE_US
    assert start(readings, window).await_end(timeout=300)
    job = start(readings, window)
    assert job.await_end(timeout=300)
    assert sorted(row["tuples_aged_out"] for row in readings.rows("log_downtime")) == [0, 2]


def test_what_is_overdue_happens_once_however_many_starts_were_aborted(
    readings: Readings, clock: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the report is of the time since the last batch, not since the last start."""
    window = Sliding(evict=Count(9), trigger=Time(1800))
    readings.put(("a", "10:00:10", 1), ("a", "10:00:11", 2))
    assert start(readings, window).await_end(timeout=300)

    def fail(*_: Any) -> Any:
        raise ConnectionError("no worker came up")

    for _ in range(2):
        clock.ahead_us += 100 * MINUTE_US
        with monkeypatch.context() as broken:
            broken.setattr(JobRun, "_begin_query", fail)
            with pytest.raises(JobFailed, match="no worker came up"):
                start(readings, window)
    clock.ahead_us += 100 * MINUTE_US
    assert start(readings, window).await_end(timeout=300)

    assert fired(readings) == [("a", 2, 3, "OVERDUE")]
    report = readings.rows("log_downtime")
    assert [(row["timers_overdue"], row["results"], row["clean"]) for row in report] == [(1, 1, True)]
    assert report[0]["seconds"] == pytest.approx(300 * 60, abs=120)
    assert report[0]["late_seconds"] == pytest.approx(270 * 60, abs=120)


def test_an_hour_of_idleness_costs_a_handful_of_batches(
    readings: Readings, clock: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle job runs no batch and commits nothing between two instants of its windows."""
    waits: list[float] = []
    instants: set[int] = set()

    def wait(self: tick_scheduler.TickScheduler, seconds: float) -> None:
        if self._due is None or (len(instants) == 3 and self._due not in instants):
            self._changed.wait(seconds)
        else:
            instants.add(self._due)
            waits.append(seconds)
            clock.ahead_us += int(seconds * 1_000_000)

    monkeypatch.setattr(tick_scheduler.TickScheduler, "_wait", wait)
    readings.put(("a", "10:00:10", 1))
    job = start(readings, Sliding(evict=Count(9), trigger=Time(1200)), trigger="immediate")
    tumbled = _reports(job, until=lambda: len(instants) == 3)
    job.stop()

    assert sum(waits) == pytest.approx(timedelta(hours=1).total_seconds(), abs=120)
    assert len(tumbled) <= 5
    assert len(readings.numbers("commits")) <= 6
    versions = [path.name for path in (readings.folder / "log_metrics" / "_delta_log").glob("*.json")]
    assert len(versions) <= 7  # the first two make the table, and say whose it is


@pytest.mark.release  # CI moves it without Spark
@pytest.mark.parametrize(
    ("catch_up", "results"),
    [
        ("once", [("a", 2, 3, "OVERDUE"), ("b", 1, 4, "OVERDUE")]),
        ("each", [("a", 2, 3, "TIME"), ("b", 1, 4, "TIME")]),
        ("skip", []),
    ],
)
def test_a_clock_that_goes_forward_and_back_in_a_running_job_is_two_outages(
    readings: Readings, clock: Later, catch_up: Any, results: list[Any]
) -> None:
    """As if its machine had been suspended for hours. A row that comes then is in a window that tumbles in time."""
    readings.put(("a", "10:00:10", 1), ("a", "10:00:11", 2), ("b", "10:00:12", 4))
    job = start(readings, Tumbling(Time(1800), catch_up=catch_up), trigger="immediate")
    job.process_available()
    clock.ahead_us += 100 * MINUTE_US
    _reports(job, until=lambda: job.downtime is not None)
    assert fired(readings) == results
    clock.ahead_us = 0
    _reports(job, until=lambda: len(readings.rows("log_downtime")) == 2)
    readings.put(("c", "10:00:13", 8))
    job.process_available()
    clock.ahead_us += 29 * MINUTE_US
    _reports(job, until=lambda: len(readings.rows("log_downtime")) == 3)
    assert fired(readings) == results
    job.stop()
    rows = sorted(readings.rows("log_downtime"), key=lambda row: row["batch"])
    assert [row["clock_back_seconds"] > 5000 for row in rows] == [False, True, False]
    assert [row["clean"] for row in rows] == [False] * 3
    assert rows[0]["seconds"] == pytest.approx(6000, abs=120)


def _reports(job: Job, *, until: Any) -> list[Any]:
    import threading

    seen: list[Any] = []
    done = threading.Event()

    def receive(report: Any) -> None:
        seen.append(report)
        if until():
            done.set()

    job.on_batch(receive)
    assert done.wait(300)
    return seen
