"""Columns are found as Spark finds them; what is no column, stream or number is refused with code that runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper import Count, DeclarationError, Delta, Sliding, TimeInterval, Tumbling, agg, windowed

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession


def stream(spark: SparkSession) -> DataFrame:
    """A stream with a column of every kind."""
    return (
        spark.readStream.format("rate")
        .load()
        .withColumnRenamed("timestamp", "ts")
        .withColumn("at", F.col("ts"))
        .withColumn("user", F.lit("a"))
        .withColumn("dev.id", F.lit(1))
        .withColumn("dev", F.struct(F.lit(1).alias("no")))
        .withColumn("tags", F.array(F.lit("x")))
        .withColumn("price", F.lit(1).cast("decimal(38,2)"))
        .withColumn("late", F.col("value") > 3)
        .withColumn("day", F.to_date("ts"))
        .withColumn("local", F.col("ts").cast("timestamp_ntz"))
        .withColumn("text", F.lit("2026-01-01 00:00:00"))
        .withColumn("ms", F.lit(1_780_000_000_000.0))
    )


def test_a_column_is_found_as_spark_finds_it(spark: SparkSession) -> None:
    """By a name in any case, in backticks, or as a Column that is no more than one."""
    df = stream(spark)
    users: list[Any] = ["user", "USER", "`user`", F.col("User"), df["user"], df.user, F.expr("user"), ["User"]]
    for given in users:
        assert windowed(df, name="x", partition_by=given)._intake.partition_by == ("user",)
    assert windowed(df, name="x", partition_by=F.col("`dev.id`"))._intake.partition_by == ("dev.id",)
    found = windowed(df, name="x", partition_by=["USER", F.col("VALUE")], event_time="TS", order_by=df.ts)
    intake = found._intake
    assert (intake.partition_by, intake.event_time, intake.order_by) == (("user", "value"), "ts", ("ts",))
    computed = found.window(TimeInterval("5 mins")).aggregate(top=agg.max("Value"), at=agg.arg_max("VALUE", "Ts"))
    assert computed._pipeline.spec.aggregates == {"top": agg.max("value"), "at": agg.arg_max("value", "ts")}
    sliding = Sliding(evict=Count(2), trigger=Delta("VALUE", 5))
    by_change = windowed(df, name="x", arrival_time=F.col("TS")).window(sliding)
    assert by_change._input.window == Sliding(evict=Count(2), trigger=Delta("value", 5))
    assert by_change._input.intake.numeric_columns == ("value",)


def advised(error: BaseException) -> list[str]:
    """Each piece of code in a message, from `df.` to the bracket that closes it."""
    found = []
    for start in (match.start() for match in re.finditer(r"\bdf\.\w+\(", str(error))):
        code, depth = "", 0
        for letter in str(error)[start:]:
            code, depth = code + letter, depth + (letter == "(") - (letter == ")")
            if letter == ")" and not depth:
                break
        found.append(code)
    return found


def declare(df: DataFrame, **options: Any) -> Any:
    """A time interval by user, with these options."""
    return windowed(df, **{"name": "x", "partition_by": "user", "event_time": "ts"} | options).window(TimeInterval(60))


def by_delta(df: DataFrame, column: str) -> Any:
    """A window that a difference in a column fills."""
    return windowed(df, name="x").window(Tumbling(Delta(column, 1)))


REFUSED: dict[str, Callable[[DataFrame], Any]] = {
    "event_time: column 'value' is a bigint": lambda df: declare(df, event_time="value"),
    "event_time: column 'ms' is a double": lambda df: declare(df, event_time="ms"),
    "event_time: column 'text' is a string": lambda df: declare(df, event_time="text"),
    "arrival_time: column 'day' is a date": lambda df: declare(df, arrival_time="day"),
    "agg.sum('price'): column 'price' is decimal": lambda df: declare(df).aggregate(x=agg.sum("price")),
    "agg.mean('text'): column 'text' is string": lambda df: declare(df).aggregate(x=agg.mean("text")),
    "agg.stddev('late'): column 'late' is bool": lambda df: declare(df).aggregate(x=agg.stddev("late")),
    "agg.mean('at'): column 'at' is timestamp": lambda df: declare(df).aggregate(x=agg.mean("at")),
    "agg.mean('local'): column 'local' is timestamp": lambda df: declare(df).aggregate(x=agg.mean("local")),
    "agg.sum('day'): column 'day' is date": lambda df: declare(df).aggregate(x=agg.sum("day")),
    "agg.approx_distinct('dev'): column 'dev' is": lambda df: declare(df).aggregate(x=agg.approx_distinct("dev")),
    "agg.approx_distinct('tags'): column 'tags' is": lambda df: declare(df).aggregate(x=agg.approx_distinct("tags")),
    "Delta computes with 'text', which is a string": lambda df: by_delta(df, "text"),
    "Delta computes with 'late', which is a boolean": lambda df: by_delta(df, "late"),
    "Delta computes with 'local', which is a timestamp_ntz": lambda df: by_delta(df, "local"),
    "Delta computes with 'price', which is a decimal(38,2)": lambda df: by_delta(df, "price"),
}
"""How the message begins -> what is refused, and taken once the frame is as the message advises."""


def test_the_code_in_a_message_does_what_the_message_says(spark: SparkSession) -> None:
    """It is run as it is printed, and the same declaration is then taken; where it names two ways, each of them."""
    for beginning, make in REFUSED.items():
        with pytest.raises(DeclarationError, match=re.escape(beginning)) as caught:
            make(stream(spark))
        assert advised(caught.value), caught.value
        for code in advised(caught.value):
            make(eval(code, {"df": stream(spark), "F": F}))  # noqa: S307 -- our own text
    with pytest.raises(DeclarationError, match=r"'dev\.no' is a field of the column 'dev'") as caught:
        declare(stream(spark), partition_by="dev.no")
    (code,) = advised(caught.value)
    declare(eval(code, {"df": stream(spark), "F": F}), partition_by="dev_no")  # noqa: S307 -- as above
    for twin in ("ts", "TS"):
        two = stream(spark).select("*", F.lit(1).alias(twin))
        with pytest.raises(DeclarationError, match=f"two columns of one name, 'ts' and '{twin}'; rename one") as caught:
            declare(two)
        (code,) = advised(caught.value)
        declare(eval(code, {"df": two}))  # noqa: S307 -- as above
