"""Plays the acts of a lifecycle vector in a streaming query: one micro-batch an act, on Spark's state store."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from framework.testing.lifecycle import Act, Call, Declared, as_text, perform
from state.spark_store import SparkStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle


class Performer(StatefulProcessor):
    """Performs the act of a micro-batch on the group's store and emits the calls."""

    def __init__(self, declared: Declared) -> None:
        self._declared = declared

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state."""
        self._store = SparkStore(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Do what the one row says."""
        for row in rows:
            calls = perform(Act(**json.loads(row.value)), self._declared, self._store)
            yield Row(calls=json.dumps(calls))

    def close(self) -> None:
        """Nothing to close."""


def perform_on_spark(declared: Declared, acts: Iterable[Act], spark: SparkSession | None) -> list[Call]:
    """Perform the acts, a query for each run, and return the calls in order."""
    if spark is None:
        from framework.engine.session.session import session

        spark = session()
    calls: list[Call] = []
    run = 1
    with tempfile.TemporaryDirectory(prefix="panekeeper-play-", ignore_cleanup_errors=True) as folder:
        source = Path(folder, "input")
        source.mkdir()
        for number, act in enumerate(acts):
            if act.run != run:
                _run_query(declared, spark, Path(folder), calls)
                run = act.run
            path = source / f"{number:06d}.txt"
            path.write_text(as_text(act))
            os.utime(path, (1_600_000_000 + number,) * 2)  # the file source reads in this order
        _run_query(declared, spark, Path(folder), calls)
    return calls


def _run_query(declared: Declared, spark: SparkSession, folder: Path, calls: list[Call]) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    from framework.engine.job.startup_checks import query_settings
    from framework.engine.session.checkpoint_files import CheckpointFiles

    rows = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder / "input"))
    performed = (
        rows.withColumn("g", F.lit(0))
        .groupBy("g")
        .transformWithState(
            statefulProcessor=Performer(declared),
            outputStructType="calls string",
            outputMode="Append",
            timeMode="None",
        )
    )

    def keep(frame: DataFrame, _: int) -> None:
        for row in frame.collect():
            calls.extend(json.loads(row.calls))

    files = CheckpointFiles(spark, str(folder / "checkpoint"))
    writer = performed.writeStream.foreachBatch(keep).option("checkpointLocation", files.root)
    with query_settings(files):
        query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
