"""Windows by row, in real jobs."""

from __future__ import annotations

from integration_tests.engine.conftest import Readings
from panekeeper import SlidingByRow, agg, windowed


def test_windows_by_row_go_on_across_starts(readings: Readings) -> None:
    """Rows of one start are in windows of the next; a late one refines what has fired, and the view has the newest."""

    def run() -> None:
        stream = windowed(readings.stream(), name="by-row", partition_by="sensor", event_time="at", key_groups=2)
        window = SlidingByRow("10 seconds", discard_age="1 minute", right=False)
        job = stream.window(window).aggregate(total=agg.sum("value"), n=agg.count())
        declared = job.to_delta(readings.folder / "log", view=readings.folder / "view")
        assert declared.start(checkpoint=readings.checkpoint, trigger="available_now").await_end(300)

    readings.put(("a", "10:00:00", 1), ("a", "10:00:10", 2), ("b", "10:00:05", 5))
    readings.put(("a", "10:00:12", 4))
    run()
    readings.put(("a", "10:00:07", 8), ("a", "10:00:30", 16))
    readings.put(("a", "10:05:00", 0))
    run()
    log = [(r["sensor"], r["pane_end"].second, r["total"], r["refinement"]) for r in readings.rows("log")]
    assert sorted(log) == [
        ("a", 0, 1, 0),
        ("a", 7, 9, 0),
        ("a", 10, 3, 0),
        ("a", 10, 11, 1),
        ("a", 12, 14, 0),
        ("a", 30, 16, 0),
        ("b", 5, 5, 0),
    ]
    view = sorted((row["sensor"], row["pane_end"].second, row["total"]) for row in readings.rows("view"))
    assert view == [("a", 0, 1), ("a", 7, 9), ("a", 10, 11), ("a", 12, 14), ("a", 30, 16), ("b", 5, 5)]
    assert readings.rows("log_quarantine") == []
