"""Aggregates on Spark: of the rows for which a condition holds, in Delta tables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from panekeeper import DeclarationError, TimeInterval, agg, windowed

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Readings
    from panekeeper import Job


def run(readings: Readings) -> Job:
    """A job with conditions, over what is there; one raises for a row that is refused."""
    job = (
        windowed(
            readings.stream(),
            name="conditions",
            partition_by="sensor",
            event_time="at",
            reject={"ZERO": "value = 0"},
            key_groups=2,
        )
        .window(TimeInterval(60, discard_age=60))
        .aggregate(
            plus=agg.sum("value", where="value > 1.5"),
            n=agg.count_if("value > 1.5"),
            minus=agg.collect("value", where="100 / value < 0"),
        )
        .to_delta(readings.folder / "log", view=readings.folder / "view")
        .start(checkpoint=readings.checkpoint, trigger="available_now")
    )
    job.await_end()
    return job


def test_an_aggregate_is_of_the_rows_for_which_its_condition_holds(readings: Readings) -> None:
    """Through a restart, in log and view; a refused row is not tried, a quarantined one has its stream's columns."""
    readings.put(("a", "10:00:10", 1), ("a", "10:00:20", 2), ("a", "10:00:30", -3), ("b", "10:00:10", -1))
    readings.put(("a", "10:00:40", 0), ("c", "10:01:10", 7))
    run(readings)
    readings.put(("a", "10:00:50", 4), ("c", "10:05:00", 1))
    readings.put(("a", "10:00:55", 9))
    run(readings)

    log = sorted((r["sensor"], r["plus"], r["n"], r["minus"], r["refinement"]) for r in readings.rows("log"))
    assert log == [("a", 2, 1, [-3], 0), ("a", 6, 2, [-3], 1), ("b", None, 0, [-1], 0), ("c", 7, 1, [], 0)]
    assert {r["sensor"]: r["plus"] for r in readings.rows("view")} == {"a": 6, "b": None, "c": 7}
    refused = {r["reason"]: json.loads(r["row"]) for r in readings.rows("log_quarantine")}
    assert {reason: row["value"] for reason, row in refused.items()} == {"ZERO": 0, "LATE": 9}
    assert {*refused["LATE"]} == {*refused["ZERO"]} == {"sensor", "at", "value"}


NO_CONDITIONS = {
    "valu > 3": r"is not a condition on these columns: .*valu.* \(columns: sensor, at, value\)$",
    "value + 3": "is a bigint, not a condition",
    "value >": "is not a condition on these columns: ",
    "sum(value) > 3": "is not a condition on these columns: ",
    "row_number() over (order by value) > 1": "is not a condition on these columns: ",
}


def test_what_is_no_condition_on_a_row_is_refused(readings: Readings) -> None:
    """Where it is declared, with the aggregate and the columns that there are."""
    stream = windowed(readings.stream(), name="x", event_time="at").window(TimeInterval(60))
    for condition, message in NO_CONDITIONS.items():
        with pytest.raises(DeclarationError, match=r"^aggregate n=agg\.sum\('value', where=.*" + message):
            stream.aggregate(n=agg.sum("value", where=condition))
