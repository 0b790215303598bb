"""Which columns a table gets for results of any type."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, LongType, MapType, StringType, StructField, StructType

from framework.engine.sink.tables import stored_schema


def columns(*, strict: bool) -> StructType:
    """Columns with a struct in every place; in lists and maps with the rules of the source, or without any."""
    point = StructType([StructField("x", LongType(), nullable=False), StructField("y", StringType())])
    free = point if strict else StructType([StructField("x", LongType()), StructField("y", StringType())])
    listed = ArrayType(free, containsNull=not strict)
    return (
        StructType()
        .add("number", LongType(), nullable=False)
        .add("struct", point)
        .add("list", listed)
        .add("map", MapType(free, listed, valueContainsNull=not strict))
        .add("inner", StructType([StructField("list", listed, nullable=False)]))
    )


def test_nothing_in_a_list_or_map_is_not_null() -> None:
    """Delta would refuse such a table; a struct that is no part of one keeps its rules, and so does a column."""
    assert stored_schema(columns(strict=True)) == columns(strict=False)
    assert stored_schema(columns(strict=False)) == columns(strict=False)
