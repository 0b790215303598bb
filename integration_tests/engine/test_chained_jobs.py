"""Jobs that read results of other jobs, and what `windowed()` warns of: the programs of docs/chained-jobs.md."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest

from panekeeper import TimeInterval, agg, windowed
from tests.project.sources import ROOT, blocks_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

NEVER_REFINED, CORRECTED, UNIQUE = [
    block.text for block in blocks_of(ROOT / "docs" / "chained-jobs.md") if block.language == "python"
]


def put(folder: Path, number: int, *rows: tuple[str, str, str, int]) -> None:
    """Write a file of (id, sensor, time, value)."""
    (folder / "in").mkdir(exist_ok=True)
    lines = [f'{{"id": "{i}", "sensor": "{s}", "at": "2024-05-{at}:00Z", "value": {v}}}' for i, s, at, v in rows]
    (folder / "in" / f"{number}.json").write_text("\n".join(lines))


def in_folder(program: str, folder: Path) -> str:
    """Return a program of the page with its paths in a folder."""
    return program.replace('"in"', f'"{folder}/in"').replace('"out/', f'"{folder}/out/')


def days_of(spark: SparkSession, table: Path) -> list[tuple[Any, ...]]:
    """Return (sensor, day, total, n) of each result row."""
    return sorted(
        (row.sensor, row.pane_start.day, row.total, row.n)
        for row in spark.read.format("delta").load(str(table)).collect()
    )


ROWS = [("1", "a", "01T10:10", 1), ("2", "a", "01T11:10", 2), ("3", "b", "01T11:20", 5), ("4", "a", "02T10:00", 7)]
LATE = ("5", "a", "01T10:50", 10)


def test_what_keeps_every_row_before_a_window_is_warned_of(spark: SparkSession, tmp_path: Path) -> None:
    """DropDuplicates and a join without a watermark; not what a watermark bounds, which the page shows."""
    put(tmp_path, 0, *ROWS)
    read = spark.readStream.schema("id string, sensor string, at timestamp, value bigint")
    rows, other = read.json(str(tmp_path / "in")), read.option("stream", "2").json(str(tmp_path / "in"))
    declared: dict[str, Any] = {"name": "sums", "partition_by": "sensor"}
    with pytest.warns(UserWarning, match=r"in a query of its own before this one: df\.withWatermark"):
        windowed(rows.dropDuplicates(["id"]), event_time="at", **declared)
    with pytest.warns(UserWarning, match=r"Bound it df\.withWatermark"):
        windowed(rows.dropDuplicates(["id"]), **declared)
    with pytest.warns(UserWarning, match=r"ports\(a, b\)\.operator"):
        windowed(rows.join(other.select("id"), "id"), **declared)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        late = rows.withWatermark("at", "2 hours")
        windowed(late.dropDuplicates(["id", "at"]), **declared)
        windowed(late.dropDuplicatesWithinWatermark(["id"]), **declared)
        put(tmp_path, 1, ROWS[0])
        names: dict[str, Any] = {"spark": spark, "readings": rows}
        exec(in_folder(UNIQUE, tmp_path), names)  # noqa: S102 -- a program of our own page
        windowed(names["rows"], event_time="at", **declared)
    unique = spark.read.format("delta").load(str(tmp_path / "out/unique"))
    assert sorted(row.id for row in unique.collect()) == ["1", "2", "3", "4"]


def test_hours_that_never_refine_are_counted_once(spark: SparkSession, tmp_path: Path) -> None:
    """A row that comes in time is in its hour; the second job reads one row of each, without a warning."""
    names: dict[str, Any] = {"spark": spark}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number, rows in ((0, ROWS[:3]), (1, [LATE, ROWS[3], ("6", "a", "03T10:00", 0), ("7", "a", "04T10:00", 0)])):
            put(tmp_path, number, *rows)
            exec(in_folder(NEVER_REFINED, tmp_path), names)  # noqa: S102 -- a program of our own page
    job = names["days"].start(checkpoint=tmp_path / "out/days_checkpoint", trigger="available_now")
    assert job.await_end(timeout=300)
    assert days_of(spark, tmp_path / "out/days")[:2] == [("a", 1, 13, 3), ("a", 2, 7, 1)]


@pytest.mark.release  # CI chains jobs that correct nothing
def test_corrections_of_the_first_job_reach_the_second(spark: SparkSession, tmp_path: Path) -> None:
    """An hour is corrected after its day was counted; a stream of the log would have 14 there, and is warned of.

    day 1   a: 10:10 (1), 11:10 (2)  b: 11:20 (5)    later: a 10:50 (10)     a: 3, then 13
    """
    put(tmp_path, 0, *ROWS)
    readings = spark.readStream.schema("id string, sensor string, at timestamp, value bigint")
    names: dict[str, Any] = {"windowed": windowed, "TimeInterval": TimeInterval, "agg": agg}
    names |= {"spark": spark, "readings": readings.json(str(tmp_path / "in"))}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number, rows in (
            (0, [*ROWS, ("6", "a", "03T10:00", 0)]),
            (1, [LATE, ("7", "a", "03T10:30", 0)]),
            (2, [("8", "a", "03T12:00", 0), ("9", "a", "04T12:00", 0)]),
        ):
            put(tmp_path, number, *rows)
            exec(in_folder(CORRECTED, tmp_path), names)  # noqa: S102 -- a program of our own page
            job = names["days"].start(checkpoint=tmp_path / "out/days_checkpoint", trigger="available_now")
            assert job.await_end(timeout=300)
    assert days_of(spark, tmp_path / "out/days_now")[:2] == [("a", 1, 13, 3), ("a", 2, 7, 1)]
    assert [row for row in days_of(spark, tmp_path / "out/days") if row[:2] == ("a", 1)] == [
        ("a", 1, 3, 2),
        ("a", 1, 13, 3),
    ]
    log = spark.readStream.format("delta").load(str(tmp_path / "out/hours"))
    with pytest.warns(UserWarning, match="reads results of another job, where a pane that has refined has several"):
        windowed(log, name="days", partition_by="sensor", event_time="pane_start")
