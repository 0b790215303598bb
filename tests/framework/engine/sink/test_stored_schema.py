"""Which columns a table gets for results of any type."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, LongType, MapType, StringType, StructField, StructType

from panekeeper.framework.engine.sink.tables import stored_schema


def columns(*, strict: bool) -> StructType:
    """Columns with a struct in every place; within them with the rules of the source, or without any."""
    point = StructType([StructField("x", LongType(), nullable=not strict), StructField("y", StringType())])
    listed = ArrayType(point, containsNull=not strict)
    return (
        StructType()
        .add("number", LongType(), nullable=False)
        .add("struct", point)
        .add("list", listed)
        .add("map", MapType(point, listed, valueContainsNull=not strict))
        .add("inner", StructType([StructField("list", listed, nullable=not strict)]))
    )


def test_nothing_within_a_column_is_not_null() -> None:
    """Delta would refuse a table with such a list, and rows whose struct is null; a column keeps its own rule."""
    assert stored_schema(columns(strict=True)) == columns(strict=False)
    assert stored_schema(columns(strict=False)) == columns(strict=False)
