"""Streams that Spark would refuse in their first micro-batch only are refused where they are declared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from panekeeper import DeclarationError, TimeInterval, agg, windowed

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Readings


def test_a_stream_with_a_watermark_of_its_own_is_refused_where_it_is_declared(readings: Readings) -> None:
    """Its column may be left, or only an operator of Spark that needed it."""
    delayed = readings.stream().withWatermark("at", "1 minute")
    for rows in (delayed, delayed.dropDuplicatesWithinWatermark(["value"]).drop("sensor")):
        stream = windowed(rows, name="x", event_time="at").window(TimeInterval(60))
        with pytest.raises(DeclarationError, match=r"the stream has a watermark already.*give the delay as watermark="):
            stream.aggregate(n=agg.count())
