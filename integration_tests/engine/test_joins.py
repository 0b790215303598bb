"""Joins of two streams as real jobs: declared, stopped, resumed and flushed."""

from __future__ import annotations

from typing import Any

import pytest

from integration_tests.engine.conftest import Readings
from panekeeper import IncompatibleCheckpoint, TimeInterval, ports, windowed

COLUMNS = ("nullif(sensor, '') AS sensor", "at", "value")


def second_stream(readings: Readings) -> Readings:
    """More readings, of a stream of their own."""
    folder = readings.folder / "second"
    folder.mkdir()
    return Readings(readings.spark, folder)


def test_rows_of_two_streams_meet_in_the_log_once_across_starts(readings: Readings) -> None:
    """Pairs, rows that are given up, and late ones; what was kept by one start meets what the next one reads."""
    second = second_stream(readings)

    def run(before: str = "2 minutes") -> Any:
        by_sensor: dict[str, Any] = {"partition_by": "sensor", "event_time": "at", "key_groups": 2}
        first, other = (
            windowed(one.stream().selectExpr(*COLUMNS), name="joined", **by_sensor) for one in (readings, second)
        )
        joined = ports(first, other).join_within(on=["sensor"], before=before, after="1 minute", how="full")
        job = joined.to_delta(readings.folder / "log").start(checkpoint=readings.checkpoint, trigger="available_now")
        assert job.await_end(300)
        rows = readings.rows("log")
        found = [(r["sensor"], r["left_value"], r["right_value"], r["reason"]) for r in rows]
        assert all((row["left_at"] is None) == (row["left_value"] is None) for row in rows)
        return job, sorted(found, key=str)

    readings.put(("a", "10:00:00", 1), ("b", "10:00:00", 2), ("", "10:00:00", 3))
    second.put(("a", "09:58:00", 10), ("a", "10:01:00", 11), ("a", "10:01:01", 12), ("b", "09:57:59", 13))
    _, found = run()
    first = [("a", 1, 10, "MATCH"), ("a", 1, 11, "MATCH"), ("b", None, 13, "NO_MATCH")]
    assert found == first
    with pytest.raises(IncompatibleCheckpoint, match=r"window\.before: 2m in the checkpoint, 3m now"):
        run("3 minutes")
    second.put(("b", "10:00:30", 14), ("c", "10:05:00", 15))
    readings.put(("c", "10:10:00", 4))  # both are at 10:05 at least: 10:00 and its partners are over
    readings.put(("a", "10:04:00", 5))
    job, found = run()
    second_start = [("b", 2, 14, "MATCH"), ("a", None, 12, "NO_MATCH"), (None, 3, None, "NO_MATCH")]
    assert found == sorted([*first, *second_start], key=str)
    assert [(row["port"], row["reason"]) for row in readings.rows("log_quarantine")] == [(0, "LATE")]
    job.flush()
    flushed = [row for row in readings.rows("log") if row["reason"] == "FLUSH"]
    assert sorted((row["left_value"] or row["right_value"]) for row in flushed) == [4, 15]
    assert all(row["balanced"] for row in readings.rows("log_metrics"))


def test_panes_of_two_streams_are_joined_and_refined_across_starts(readings: Readings) -> None:
    """A late row of one stream makes a match of a row of nulls, and the log says which firing holds."""
    second = second_stream(readings)

    def run() -> list[tuple[Any, ...]]:
        first, other = (
            windowed(one.stream(), name="joined", partition_by="sensor", event_time="at", key_groups=2).window(
                TimeInterval("1 minute", discard_age="1 hour")
            )
            for one in (readings, second)
        )
        joined = ports(first, other).join(how="left")
        job = joined.to_delta(readings.folder / "log").start(checkpoint=readings.checkpoint, trigger="available_now")
        assert job.await_end(300)
        names = ("sensor", "left_value", "right_value", "refinement", "is_final", "reason")
        return sorted((tuple(row[name] for name in names) for row in readings.rows("log")), key=str)

    readings.put(("a", "10:00:00", 1), ("b", "10:00:59", 2), ("a", "10:05:00", 3))
    second.put(("a", "10:00:30", 10), ("a", "10:01:00", 11))
    complete = [("a", 1, 10, 0, False, "WATERMARK"), ("b", 2, None, 0, False, "WATERMARK")]
    assert run() == complete
    second.put(("b", "10:00:00", 12), ("c", "10:02:00", 13))
    assert run() == sorted([*complete, ("b", 2, 12, 1, False, "LATE")], key=str)
    assert all(row["balanced"] for row in readings.rows("log_metrics"))
