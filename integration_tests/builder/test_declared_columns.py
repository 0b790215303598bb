"""Columns are found as Spark finds them; what is no column, stream or number is refused with code that runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper import Count, DeclarationError, Delta, Sliding, TimeInterval, Tumbling, agg, windowed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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
    "event_time: column 'text' is a string": lambda df: declare(
        df, event_time="text_time" if "text_time" in df.columns else "text"
    ),
    "arrival_time: column 'day' is a date": lambda df: declare(df, arrival_time="day"),
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


WRONG: dict[str, list[Any]] = {
    "name": [None, 7, "", "a b", b"x"],
    "partition_by": [7, b"user", {"user": 1}, ["user", None], ["user", "USER"], "dev", F, "nowhere", [["user"]]],
    "event_time": [7, ["ts"], "user", "late", "tags", "dev", ""],
    "arrival_time": [7, ("ts",), "nowhere"],
    "order_by": [7, {"ts"}, "dev", ["ts", 7]],
    "watermark": ["soon", "1 month", -1, "-1 hour", [], object()],
    "idle_after": [0, -1, "soon", []],
    "when_idle": ["go", 7, "wait", "advance"],
    "watermark_by": ["topic", 7, "partition"],
    "max_ahead": ["later", "-1 day", {}],
    "reject": [["value < 0"], {"BAD": 7}, {7: "value < 0"}, "value < 0", {"BAD": "value"}, {"": "value < 0"}],
    "on_error": ["ignore", 7, []],
    "punctuation": [7, "value", ["late"], ""],
    "marks": [7, "value <", True],
    "key_groups": ["8", 0, 1.5, True, [8]],
}


COMPUTED = ["upper(user)", "value + 1", "user AS x", "dev.no", "*", "1"]


def test_every_option_of_a_stream_refuses_what_it_cannot_take(spark: SparkSession, tmp_path: Path) -> None:
    """In one line of ours, with the value; a Column that is computed, a frame of pandas, a path and a reader, too."""
    df = stream(spark)
    for option, given in WRONG.items():
        for value in given:
            with pytest.raises(DeclarationError, match=option.split("_", maxsplit=1)[0]):
                declare(df, **{option: value})
    for option in ("partition_by", "event_time", "order_by"):
        for computed in COMPUTED:
            with pytest.raises(DeclarationError, match=f"{option} is Column<.*make a column of it"):
                declare(df, **{option: F.expr(computed)})
        with pytest.raises(DeclarationError, match=f"{option} is Column<'nowhere'>, which is no column"):
            declare(df, **{option: F.col("nowhere")})
    for condition in ("punctuation", "marks"):
        with pytest.raises(DeclarationError, match=f"{condition} is Column<.*as SQL"):
            declare(df, **{condition: F.col("late")})
    for wrong in (pd.DataFrame({"x": [1]}), [1], None, spark, windowed(df, name="x")):
        with pytest.raises(DeclarationError, match=r"not an object of .*spark\.readStream"):
            windowed(wrong, name="x")  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match=r"DataStreamReader; add \.load\(\)"):
        windowed(spark.readStream.format("rate"), name="x")  # type: ignore[arg-type]
    spark.range(1).write.format("delta").save(str(tmp_path / "t"))
    for path in (tmp_path / "t", str(tmp_path / "t")):
        with pytest.raises(DeclarationError, match=r"not the path '.*'; read it: ") as caught:
            windowed(path, name="x")  # type: ignore[arg-type]
        windowed(eval(str(caught.value).split("read it: ")[1], {"spark": spark}), name="x")  # noqa: S307 -- our own text
    with pytest.raises(DeclarationError, match=r"such as n=agg\.count\(\), and agg\.max\('value'\) has no name"):
        declare(df).aggregate(agg.max("value"))
    for column in (7, None, F.col("value")):
        with pytest.raises(DeclarationError, match="the attribute of Delta is"):
            Delta(column, 1)  # type: ignore[arg-type]
