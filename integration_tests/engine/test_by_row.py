"""Windows by row, in real jobs."""

from __future__ import annotations

from typing import Any

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


def test_windows_by_row_fire_once_or_at_each_batch_across_starts(readings: Readings) -> None:
    """By `emit`, two windows of one job: the log of one has final rows only, the view of either the newest result."""
    about: dict[str, Any] = {"difference": "10 seconds", "discard_age": "1 minute", "right": False}

    def run() -> None:
        stream = windowed(readings.stream(), name="by-row", partition_by="sensor", event_time="at", key_groups=2)
        windows = {"close": SlidingByRow(**about, emit="on_close"), "update": SlidingByRow(**about, emit="on_update")}
        job = stream.windows(**windows).aggregate(total=agg.sum("value"))
        declared = job.to_delta(readings.folder / "log", view=readings.folder / "view")
        assert declared.start(checkpoint=readings.checkpoint, trigger="available_now").await_end(300)

    readings.put(("a", "10:00:00", 1), ("a", "10:00:10", 2))
    readings.put(("a", "10:00:12", 4))
    run()
    readings.put(("a", "10:00:07", 8))
    readings.put(("a", "10:05:00", 16))
    run()
    found = {
        name: sorted(
            (f"{row['pane_end']:%M:%S}", row["refinement"], row["total"], row["reason"], row["is_final"])
            for row in readings.rows(name)
        )
        for name in ("log_close", "view_close", "log_update", "view_update")
    }
    final = [("00:00", 1), ("00:07", 9), ("00:10", 11), ("00:12", 14)]
    assert found["log_close"] == [(end, 0, total, "WATERMARK", True) for end, total in final]
    assert found["view_close"] == found["log_close"]
    assert found["log_update"] == [
        ("00:00", 0, 1, "EARLY", False),
        ("00:00", 1, 1, "WATERMARK", False),
        ("00:07", 0, 9, "LATE", False),
        ("00:10", 0, 3, "EARLY", False),
        ("00:10", 1, 3, "WATERMARK", False),
        ("00:10", 2, 11, "LATE", False),
        ("00:12", 0, 6, "EARLY", False),
        ("00:12", 1, 14, "EARLY", False),
        ("00:12", 2, 14, "WATERMARK", True),
        ("05:00", 0, 16, "EARLY", False),
    ]
    newest = {row[0]: row for row in found["log_update"]}
    assert found["view_update"] == sorted(newest.values())
