"""Columns that Spark has and that cannot travel with the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper import DeclarationError, TimeInterval, agg, windowed

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Readings


@pytest.mark.parametrize("name", ["load.kw", "load`kw"])
def test_a_name_that_spark_cannot_give_to_python_is_refused_where_the_column_is_needed(
    readings: Readings, name: str
) -> None:
    """`mapInArrow` takes it for a field of a struct; a column that no window needs stays where it is."""
    stream = readings.stream().withColumn(name, F.col("value"))
    by_minute = windowed(stream, name="readings", partition_by="sensor", event_time="at", watermark=0).window(
        TimeInterval(60)
    )
    with pytest.raises(DeclarationError, match=r"the name of the column 'load.kw' has a '\.' or a '`'.*; rename the"):
        by_minute.aggregate(total=agg.sum(name))
    by_minute.aggregate(total=agg.sum("value"))


@pytest.mark.parametrize("option", ["partition_by", "order_by"])
def test_rows_are_neither_partitioned_nor_sorted_by_a_nested_column(readings: Readings, option: str) -> None:
    """Arrow cannot sort by it: the first batch would fail."""
    stream = readings.stream().withColumn("values", F.array("value"))
    with pytest.raises(DeclarationError, match=f"{option}: column 'values' is a array<bigint>; use plain columns"):
        windowed(stream, **{"name": "readings", option: "values"})  # type: ignore[arg-type]
