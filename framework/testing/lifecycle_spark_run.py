"""Lifecycle vectors on Spark: a streaming query with one micro-batch a step, on Spark's state store."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from panekeeper.framework.testing.lifecycle import Call, LifecycleDeclaration, LifecycleStep, run_step, to_line
from panekeeper.state.spark_store import SparkStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle


class StepProcessor(StatefulProcessor):
    """Runs the step of a micro-batch on the store of the key group and emits the calls."""

    def __init__(self, declaration: LifecycleDeclaration) -> None:
        self._declared = declaration

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the store."""
        self._store = SparkStore(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Run the step in each row; there is one."""
        for row in rows:
            calls = run_step(LifecycleStep(**json.loads(row.value)), self._declared, self._store)
            yield Row(calls=json.dumps(calls))

    def close(self) -> None:
        """Do nothing: the store is Spark's."""


def run_on_spark(
    declaration: LifecycleDeclaration, steps: Iterable[LifecycleStep], spark: SparkSession | None
) -> list[Call]:
    """Run the steps, with a query for each run, and return the calls in order."""
    if spark is None:
        from panekeeper.framework.engine.session.session import session

        spark = session()
    calls: list[Call] = []
    run = 1
    with tempfile.TemporaryDirectory(prefix="panekeeper-play-", ignore_cleanup_errors=True) as folder:
        source = Path(folder, "input")
        source.mkdir()
        for number, step in enumerate(steps):
            if step.run != run:
                _run_query(declaration, spark, Path(folder), calls)
                run = step.run
            path = source / f"{number:06d}.txt"
            path.write_text(to_line(step))
            os.utime(path, (1_600_000_000 + number,) * 2)  # the file source reads in this order
        _run_query(declaration, spark, Path(folder), calls)
    return calls


def _run_query(declaration: LifecycleDeclaration, spark: SparkSession, folder: Path, calls: list[Call]) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
    from panekeeper.framework.engine.session.settings import query_settings

    rows = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder / "input"))
    calls_stream = (
        rows.withColumn("g", F.lit(0))
        .groupBy("g")
        .transformWithState(
            statefulProcessor=StepProcessor(declaration),
            outputStructType="calls string",
            outputMode="Append",
            timeMode="None",
        )
    )

    def keep(frame: DataFrame, _: int) -> None:
        for row in frame.collect():
            calls.extend(json.loads(row.calls))

    files = CheckpointFiles(spark, str(folder / "checkpoint"))
    writer = calls_stream.writeStream.foreachBatch(keep).option("checkpointLocation", files.place)
    with query_settings(files):
        query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
