"""Streams that Spark would refuse in their first micro-batch only are refused where they are declared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from panekeeper import DeclarationError, TimeInterval, agg, windowed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from integration_tests.engine.conftest import Readings


def test_a_stream_with_a_watermark_of_its_own_is_refused_where_it_is_declared(readings: Readings) -> None:
    """Its column may be left, or only an operator of Spark that needed it."""
    delayed = readings.stream().withWatermark("at", "1 minute")
    for rows in (delayed, delayed.dropDuplicatesWithinWatermark(["value"]).drop("sensor")):
        stream = windowed(rows, name="x", event_time="at", watermark=0).window(TimeInterval(60))
        with pytest.raises(DeclarationError, match=r"the stream has a watermark already.*give the delay as watermark="):
            stream.aggregate(n=agg.count())


def test_the_declaration_has_the_operators_before_the_window_for_which_spark_keeps_state(readings: Readings) -> None:
    """Spark resumes with the same ones alone. What keeps no state may change."""
    rows = readings.stream()
    names = rows.sparkSession.createDataFrame([("a", "one")], "sensor string, name string")
    others = readings.stream().selectExpr("sensor", "value as other")

    def recorded(given: DataFrame) -> list[str]:
        stream = windowed(given, name="x", event_time="at", watermark=0).window(TimeInterval(60))
        computed = stream.aggregate(n=agg.count()).to_delta(readings.folder / "log")
        return list(computed.pipeline.declaration().get("operators_before", []))

    assert recorded(rows.where("value > 0").join(names, "sensor")) == []
    assert recorded(rows.dropDuplicates(["value"]).where("value > 0")) == ["Deduplicate"]
    assert recorded(rows.join(others, "sensor").dropDuplicates()) == ["Join", "Deduplicate"]
