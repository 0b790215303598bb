"""Rows of the quarantine are read back as they were in the stream."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper import TimeInterval, agg, windowed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = {
    "sensor": "'a'",
    "yes": "true",
    "tiny": "-1Y",
    "small": "2S",
    "whole": "3",
    "big": "9223372036854775807L",
    "single": "CAST(0.1 AS FLOAT)",
    "nan": "CAST('NaN' AS DOUBLE)",
    "infinite": "CAST('-Infinity' AS FLOAT)",
    "exact": "CAST('12345678901234567890.0123456789' AS DECIMAL(38, 10))",
    "text": "'ü \"quoted\" \\\\ text'",
    "bytes": "X'00FF10'",
    "day": "DATE '2024-03-10'",
    "instant": "TIMESTAMP '2024-03-10 02:30:00.000005'",
    "wall clock": "TIMESTAMP_NTZ '2024-03-10 02:30:00.000005'",
    "a.b": "named_struct('x', 1, 'y', CAST(null AS INT), 'z', TIMESTAMP '2024-03-10 02:30:00')",
    "many": "array(1.5D, null, CAST('Infinity' AS DOUBLE))",
    "named": "map('one', X'01', 'none', CAST(null AS BINARY))",
    "structs": "array(named_struct('k', map('d', DATE '0001-02-03')))",
    "nothing": "CAST(null AS STRING)",
    "span": "INTERVAL '1 02:03:04.000005' DAY TO SECOND",
    "hours": "INTERVAL '30:40' HOUR TO MINUTE",
    "months": "INTERVAL '1-2' YEAR TO MONTH",
}


def test_every_row_of_the_quarantine_is_read_back_with_the_schema_of_the_stream(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A rejected row and a late one, by a job whose aggregate reads no column, and orders by one."""
    values = ", ".join(f"{value} AS `{name}`" for name, value in COLUMNS.items())
    for number, (minute, ok) in enumerate([("30", "true"), ("01", "true"), ("31", "false")]):
        row = (
            f"TIMESTAMP '2024-03-10 10:{minute}:00' AS at, {ok} AS ok, {values}, parse_json('[1, {{\"a\": 2}}]') AS any"
        )
        spark.sql(f"SELECT {number} AS id, {row}").coalesce(1).write.parquet(str(tmp_path / "in"), mode="append")
    given = spark.read.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(given.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    job = (
        windowed(
            stream,
            name="q",
            partition_by="sensor",
            event_time="at",
            watermark="1 minute",
            order_by="whole",
            reject={"BAD": "NOT ok"},
        )
        .window(TimeInterval("1 minute"))
        .aggregate(n=agg.count())
        .to_delta(tmp_path / "log")
        .start(checkpoint=tmp_path / "checkpoint", trigger="available_now")
    )
    job.await_end()
    quarantine = spark.read.format("delta").load(f"{tmp_path}/log_quarantine")
    back = quarantine.select("reason", F.from_json("row", given.schema).alias("row")).select("reason", "row.*")
    as_text = {name: F.col(name).cast("string") for name in ("any", "months")}  # Python has no values for them
    found = {row.id: str(row) for row in back.drop("reason").withColumns(as_text).collect()}
    expected = {row.id: str(row) for row in given.withColumns(as_text).collect()}
    assert {row.id: row.reason for row in back.select("id", "reason").collect()} == {1: "LATE", 2: "BAD"}
    assert found == {number: expected[number] for number in (1, 2)}
