"""Joins of two streams as real jobs: declared, killed by a stop, resumed, flushed; and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from integration_tests.engine.conftest import Readings
from panekeeper import DeclarationError, IncompatibleCheckpoint, TimeInterval, ports, windowed

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
    with pytest.raises(IncompatibleCheckpoint, match=r"window\.before_us: 120000000 in the checkpoint, 180000000 now"):
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


def test_joins_that_cannot_be_are_refused_where_they_are_declared(readings: Readings) -> None:
    """Each message names what is missing, or the values, and what to give."""
    stream = readings.stream()

    def port(df: Any = None, **options: Any) -> Any:
        given: dict[str, Any] = {"name": "joined", "partition_by": "sensor", "event_time": "at"} | options
        return windowed(stream if df is None else df, **given)

    bounds: dict[str, Any] = {"before": 60, "after": 60}
    renamed = stream.withColumnsRenamed({"sensor": "name", "value": "other"})
    for streams, options, said in [
        ([port(), port()], {}, "join_within.. is without before and after, and a join without bounds would keep"),
        ([port(), port()], {"before": 60}, "is without after, and"),
        ([port(), port(event_time=None)], bounds, "port 1 has no event time, without which join_within"),
        ([port(partition_by=None), port(partition_by=None)], bounds, "the streams have no partition_by, and"),
        ([port(), port(), port()], bounds, r"joins two streams, and ports\(\) has 3"),
        ([port(), port()], {**bounds, "how": "cross"}, "how is 'cross'; it must be 'inner', 'left', 'right' or 'full'"),
        ([port(), port()], {**bounds, "on": 5}, "on is 5; give names of columns"),
        ([port(), port(renamed, partition_by="name")], {**bounds, "on": "value"}, r"on \(port 1\): .*'value'"),
        (
            [port(), port(renamed.withColumnRenamed("other", "sensor"), partition_by="name")],
            {**bounds, "on": "sensor"},
            "'sensor' is a partition column of port 0, and not the same one of port 1",
        ),
        (
            [port(), port(stream.selectExpr("sensor", "at", "cast(value AS int) AS value"))],
            {**bounds, "on": "value"},
            "'value' is int64 on port 0 and int32 on port 1; join on plain columns of one type",
        ),
        (
            [port(), port(stream.selectExpr("sensor", "cast(at AS timestamp_ntz) AS at"))],
            bounds,
            "are of two types, timestamp and timestamp_ntz",
        ),
        ([port(), port()], {"before": 60, "after": -61}, "before is 1m and after -61s, so no time is in"),
    ]:
        with pytest.raises(DeclarationError, match=said):
            ports(*streams).join_within(**options)
    joined = ports(port(), port(renamed, partition_by="name")).join_within(**bounds)
    assert joined._pipeline.spec.results_schema.names == ["sensor", "left_at", "value", "right_at", "other", "reason"]
    with pytest.raises(DeclarationError, match="a join has many rows of one key, and a view one"):
        joined.to_delta(readings.folder / "log", view=readings.folder / "view")
    paned = port().window(TimeInterval(60))
    with pytest.raises(DeclarationError, match=r"equal panes, and port 0 has TimeInterval\("):
        ports(paned, port().window(TimeInterval(61))).join()
    with pytest.raises(DeclarationError, match="must be 'inner', 'left', 'right', 'full', 'semi' or 'anti'"):
        ports(paned, paned).join(how="cross")
    semi = ports(paned, paned).join(how="semi")._pipeline.spec.results_schema.names
    assert semi == ["sensor", "pane_start", "pane_end", "at", "value", "refinement", "is_final", "reason"]
    with pytest.raises(DeclarationError, match=r"joins rows by their times, not by windows"):
        ports(paned, paned).join_within(**bounds)
    with pytest.raises(DeclarationError, match="port 1 has no window"):
        ports(paned, port())
    for method in ("operator", "aggregate"):
        with pytest.raises(DeclarationError, match="port 0 has no window"):
            getattr(ports(port(), port()), method)()
    with pytest.raises(DeclarationError, match="joins the panes of two streams"):
        ports(port(), port()).join(how="left")
