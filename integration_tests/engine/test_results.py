"""What a job writes: the log, the view, the quarantine and the metrics of a few readings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from framework.engine.sink import batch_output as batches

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Reading, Readings
    from panekeeper import BatchReport

FILES: list[list[Reading]] = [
    [("a", "10:00:10", 1), ("b", "10:00:20", 2), ("a", None, 3), ("b", "10:00:59", -9)],
    [("a", "10:01:30", 4), ("b", "10:02:30", 8)],  # the watermark passes 10:01 and 10:02
    [("a", "10:00:40", 16), ("c", "10:05:30", 32)],  # late, but its pane still takes rows
    [("a", "10:00:50", 64), ("c", "10:05:31", 128)],  # too late
]
LOG = [
    ("a", "10:00", 1, 1, 0, "WATERMARK"),
    ("a", "10:00", 17, 2, 1, "LATE"),
    ("a", "10:01", 4, 1, 0, "WATERMARK"),
    ("b", "10:00", 2, 1, 0, "WATERMARK"),
    ("b", "10:02", 8, 1, 0, "WATERMARK"),
]
REJECT = {"sensor out of order": "value < 0"}


def test_a_job_writes_its_four_tables(readings: Readings) -> None:
    """The log has every firing, the view the newest of each pane, the quarantine the rest; the metrics balance."""
    for rows in FILES:
        readings.put(*rows)
    reports: list[BatchReport] = []
    job = readings.start(reject=REJECT)
    job.on_batch(reports.append)
    job.await_end()

    assert readings.log() == LOG
    assert readings.log("view") == [row for row in LOG if row != LOG[0]]

    quarantine = sorted((row["reason"], row["row"]) for row in readings.rows("log_quarantine"))
    assert [reason for reason, _ in quarantine] == ["LATE", "NULL_EVENT_TIME", "sensor out of order"]
    assert quarantine[1][1] == '{"sensor":"a","at":null,"value":3}'

    metrics = sorted(readings.rows("log_metrics"), key=lambda row: row["batch"])
    assert all(row["balanced"] for row in metrics)
    assert [row["rows_in"] for row in metrics][:4] == [4, 2, 2, 2]
    assert sum(row["quarantined"] for row in metrics) == 2
    assert sum(row["dropped_late"] for row in metrics) == 1
    assert sum(row["firings"] for row in metrics) == len(LOG)

    assert [report.rows for report in reports][:4] == [4, 2, 2, 2]
    status = job.status()
    assert (status.rows, status.late, status.dropped, status.quarantined, status.firings) == (10, 1, 1, 2, 5)
    assert f"{status.watermark:%H:%M:%S}" == "10:05:30"
    assert status.state.value == "ended"


def test_large_results_take_the_long_way_and_are_the_same(readings: Readings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results that do not pass through the driver are unpacked by Spark's workers into the same rows."""
    monkeypatch.setattr(batches, "_DRIVER_BYTES", 0)
    for rows in FILES:
        readings.put(*rows)
    readings.run(reject=REJECT)

    assert readings.log() == LOG
    assert readings.log("view") == [row for row in LOG if row != LOG[0]]
    assert len(readings.rows("log_quarantine")) == 3


def test_a_flush_fires_what_is_open_and_finishes_the_job(readings: Readings) -> None:
    """An ended job is flushed by one more batch; then its windows are closed and nothing is left to fire."""
    for rows in FILES:
        readings.put(*rows)
    job = readings.run(reject=REJECT)
    job.flush()

    assert job.finished
    assert job.status().state.value == "flushed"
    assert job.status().open_panes == 0
    assert readings.log() == [*LOG, ("c", "10:05", 160, 2, 0, "FLUSH")]
    assert readings.log("view") == [*[row for row in LOG if row != LOG[0]], ("c", "10:05", 160, 2, 0, "FLUSH")]


def test_transform_gives_the_results_to_a_sink_of_your_own(readings: Readings) -> None:
    """The plain streaming frame has the columns of the log, and goes on after a restart on its checkpoint."""
    received: list[tuple[str, int]] = []

    def run() -> None:
        frame = readings.computed().transform(checkpoint=readings.checkpoint)
        assert frame.columns == ["sensor", "pane_start", "pane_end", "total", "n", "refinement", "reason"]
        writer = frame.writeStream.foreachBatch(
            lambda df, _: received.extend((r["sensor"], r["total"]) for r in df.collect())
        )
        query = writer.option("checkpointLocation", str(readings.checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()

    readings.put(("a", "10:00:10", 1), ("a", "10:01:30", 2))
    run()
    assert received == [("a", 1)]
    readings.put(("a", "10:01:40", 4), ("a", "10:03:00", 8))
    run()
    assert received == [("a", 1), ("a", 6)]


def test_order_by_declares_the_order_of_arrival(readings: Readings) -> None:
    """`first` is the first by the declared order, however the rows stand in the file."""
    readings.put(("a", "10:00:30", 3), ("a", "10:00:10", 1), ("a", "10:00:20", 2), ("a", "10:02:00", 9))
    readings.run(order_by="value", total="first")

    assert readings.log() == [("a", "10:00", 1, 3, 0, "WATERMARK")]
