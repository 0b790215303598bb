"""Rows that come twice, in real jobs."""

from __future__ import annotations

from integration_tests.engine.conftest import Readings
from panekeeper import TimeInterval, agg, windowed


def test_a_row_that_comes_twice_counts_once_across_starts(readings: Readings) -> None:
    """In the log and in the view; the metrics table says how many there were, and the quarantine has none."""

    def run() -> None:
        stream = windowed(
            readings.stream(),
            name="once",
            partition_by="sensor",
            event_time="at",
            dedupe="value",
            dedupe_for="5 minutes",
            key_groups=2,
        )
        computed = stream.window(TimeInterval(60, discard_age=60)).aggregate(n=agg.count())
        job = computed.to_delta(readings.folder / "log", view=readings.folder / "view")
        assert job.start(checkpoint=readings.checkpoint, trigger="available_now").await_end(300)

    readings.put(("a", "10:00:00", 1), ("a", "10:00:00", 1), ("b", "10:00:00", 1), ("a", "10:00:30", 2))
    run()
    readings.put(("a", "10:00:31", 2), ("a", "10:00:59", 3), ("b", "10:00:01", 1))
    readings.put(("a", "10:10:00", 1), ("b", "10:10:00", 4))
    run()
    log = sorted((row["sensor"], row["pane_start"].minute, row["n"]) for row in readings.rows("log"))
    assert log == [("a", 0, 3), ("b", 0, 1)]
    assert sorted((row["sensor"], row["n"]) for row in readings.rows("view")) == [("a", 3), ("b", 1)]
    metrics = readings.rows("log_metrics")
    assert (sum(row["repeated"] for row in metrics), sum(row["admitted"] for row in metrics)) == (3, 6)
    assert all(row["balanced"] for row in metrics)
    assert readings.rows("log_quarantine") == []
