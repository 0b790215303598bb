"""The examples, each compared with a few lines of plain Python over the same input."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from examples import (
    batched_alert,
    evict_before_upgrade,
    hours_and_days,
    last_flights_of_a_plane,
    marked_sessions,
    sensor_smoothing,
    sessions,
    temperature_swings,
)
from examples.flights.data import published_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def read_back(out: Path, sensor: str) -> list[float]:
    """Return the values of one sensor, a second apart, from the file that the example wrote."""
    lines = (out / "in" / "readings.json").read_text().splitlines()
    return [row["value"] for row in map(json.loads, lines) if row["sensor"] == sensor]


@pytest.mark.parametrize("sensor", ["kitchen", pytest.param("cellar", marks=pytest.mark.release)])
def test_smoothing_is_the_mean_of_five_seconds_after_every_second_reading(
    spark: SparkSession, tmp_path: Path, sensor: str
) -> None:
    """A reading exactly five seconds old still counts: six readings a second apart."""
    got = [
        (row.n, row.smooth) for row in sensor_smoothing.main(spark, tmp_path).where(f"sensor = '{sensor}'").collect()
    ]
    values = read_back(tmp_path, sensor)
    windows = [values[max(0, end - 6) : end] for end in range(2, len(values) + 1, 2)]
    assert [n for n, _ in got] == [len(window) for window in windows]
    assert all(math.isclose(mean, sum(w) / len(w)) for (_, mean), w in zip(got, windows, strict=True))


@pytest.mark.extended
def test_a_swing_ends_where_the_temperature_exceeds_the_first_of_its_window(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The row that exceeds opens the next window; the hour without a temperature is in the quarantine."""
    got = [(row.origin, row.hours, row.warmest) for row in temperature_swings.main(spark, tmp_path).collect()]
    expected = []
    table = pd.read_csv(published_file("weather.csv")).sort_values("time_hour", kind="stable")
    for origin, own in table.groupby("origin"):
        window: list[float] = []
        for value in own["temp"].dropna():
            if window and value - window[0] > 15:
                expected.append((origin, len(window), max(window)))
                window = []
            window.append(value)
    assert got == expected
    refused = spark.read.format("delta").load(str(tmp_path / "swings_quarantine")).collect()
    assert [row.reason for row in refused] == ["NULL_ATTRIBUTE"] * int(table["temp"].isna().sum())


def test_sessions_end_with_their_marks_and_feed_a_second_job(spark: SparkSession, tmp_path: Path) -> None:
    """The window marks of the first job's log tumble the window of the second."""
    takings = [(row.sessions, row.takings) for row in marked_sessions.main(spark, tmp_path).collect()]
    log = spark.read.format("delta").load(str(tmp_path / "sessions")).orderBy("firing").collect()
    assert [(row.actions, row.spent, row.window_mark) for row in log] == [(4, 30, True), (2, 0, True), (4, 12, True)]
    assert takings == [(1, 30), (2, 12)]


def test_a_late_click_makes_one_visit_of_two(spark: SparkSession, tmp_path: Path) -> None:
    """The log has all three results, and the view the one that replaces the others."""
    log = [
        (row.user, f"{row.session_start:%H:%M}", row.clicks, row.spent, [f"{one:%H:%M}" for one in row.replaces])
        for row in sessions.main(spark, tmp_path).collect()
    ]
    assert log == [
        ("ann", "09:00", 2, 30, []),
        ("ann", "09:00", 5, 35, ["09:50"]),
        ("ann", "09:50", 2, 5, []),
        ("ann", "12:00", 1, 0, []),
        ("ann", "15:00", 1, 0, []),
        ("bob", "09:10", 1, 0, []),
        ("bob", "12:10", 1, 7, []),
    ]
    view = spark.read.format("delta").load(str(tmp_path / "visits_now")).where("user = 'ann'").orderBy("session_start")
    assert [(row.clicks, row.spent) for row in view.collect()] == [(5, 35), (1, 0), (1, 0)]


@pytest.mark.release
def test_a_flight_that_is_late_for_its_hour_is_in_its_day(spark: SparkSession, tmp_path: Path) -> None:
    """The log of the days has it in a refined result, and the quarantine as late for the other window."""
    days = [
        (row.airport, f"{row.pane_start:%d %H:%M}", row.flights, row.worst, row.refinement)
        for row in hours_and_days.main(spark, tmp_path).collect()
    ]
    assert days == [
        ("CDG", "30 22:00", 3, 25, 0),
        ("CDG", "30 22:00", 4, 900, 1),
        ("ORY", "30 22:00", 1, 0, 0),
        ("ORY", "01 22:00", 1, 40, 0),
    ]
    tables = {
        name: spark.read.format("delta").load(str(tmp_path / name)).collect()
        for name in ("now_hour", "departures_quarantine")
    }
    hours = sorted((row.airport, row.pane_start.hour, row.worst) for row in tables["now_hour"])
    assert hours == [("CDG", 6, 25), ("CDG", 21, 15), ("ORY", 6, 0), ("ORY", 22, 40)]
    assert [(row.window, row.reason) for row in tables["departures_quarantine"]] == [("hour", "LATE")]


@pytest.mark.release
def test_the_average_of_a_plane_is_that_of_its_last_five_flights(spark: SparkSession, tmp_path: Path) -> None:
    """As pandas computes it over the whole month at once."""
    got: dict[str, Any] = {row.tailnum: row.delay for row in last_flights_of_a_plane.main(spark, tmp_path).collect()}
    frame = pd.read_parquet(tmp_path / "in").dropna(subset="tailnum")
    last = frame.groupby("tailnum")["delay"].rolling(5).mean().groupby("tailnum").last().dropna()
    assert got.keys() == set(last.index)
    assert all(math.isclose(got[str(tail)], mean, abs_tol=1e-9) for tail, mean in last.items())


def test_an_alert_counts_each_reading_once(spark: SparkSession, tmp_path: Path) -> None:
    """It has the readings above the limit that entered at each batch instant."""
    got = {
        (r.sensor, r.fired_at.second): (r.readings, r.highest) for r in batched_alert.main(spark, tmp_path).collect()
    }
    expected = {}
    for sensor in ("kitchen", "cellar"):
        values = read_back(tmp_path, sensor)
        for low, high in ((0, 11), (11, 21)):  # a reading of that very instant enters with the batch
            above = [value for value in values[low:high] if value > 22.5]
            if above:
                expected[sensor, high - 1] = (len(above), max(above))
    assert got == expected


@pytest.mark.extended
def test_idle_partitions_are_evicted_before_an_upgrade_and_the_others_continue(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The drain emits the attic's four readings and its key begins again; the kitchen's window spans both versions."""
    rows = evict_before_upgrade.main(spark, tmp_path).collect()
    got = [(row.sensor, row.why, row.readings, row.mean) for row in rows]
    kitchen, later_attic = list(range(42)), list(range(30, 42))
    windows = [kitchen[at : at + 12] for at in (0, 12, 24)]
    assert got[:3] == [
        ("kitchen", "eviction", 12, sum(windows[0]) / 12),
        ("kitchen", "eviction", 12, sum(windows[1]) / 12),
        ("attic", "partition_eviction", 4, 1.5),
    ]
    assert sorted(got[3:]) == [
        ("attic", "eviction", 12, sum(later_attic) / 12),
        ("kitchen", "eviction", 12, sum(windows[2]) / 12),
    ]
