"""Plays a script on Spark: a real job, from files to Delta tables, with a micro-batch for each file.

The time is in the files, as marks in the place of rows, so that a script says what the wall clock reads and how far the
watermark is. A `Restart` ends the job and starts it again on its checkpoint. What the tables hold is read from their
logs, commit by commit: they name the micro-batch.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention
from pyspark.sql.types import LongType, StringType, StructField, StructType

from panekeeper.framework.declarations.durations import to_datetime_if_any
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.engine.flow.checked_rows import checked_rows
from panekeeper.framework.engine.flow.packing import EVENT_TIME_COLUMN, MARK, MARK_TEXT, MARK_VALUE
from panekeeper.framework.engine.flow.spark_watermark import watermark_behind
from panekeeper.framework.testing.batch_files import BatchFiles, session_of_one_group
from panekeeper.framework.testing.results import COUNTS, Results, quarantined
from panekeeper.framework.testing.scripted_job import ScriptBatch, ScriptedJob
from panekeeper.state.codec import with_columns
from panekeeper.state.table_roles import role_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from panekeeper.framework.core.job_spec import JobSpec
    from panekeeper.framework.engine.flow.pipeline import InputPort

_MARKS = {MARK: StringType(), MARK_VALUE: LongType(), MARK_TEXT: StringType()}
_FAR_BEHIND = timedelta(days=3_650_000)
"""A delay by which the progress of rows never reaches a watermark that the script gives."""


def run_on_spark(script: ScriptedJob, spark: SparkSession | None) -> Results:
    """Play a script on Spark, in a folder of its own that is removed in the end."""
    if any("idle_after" in port.options for port in script.ports):
        raise DeclarationError("idle_after goes by the clock of a job, not by that of a script; play it in memory")
    for batch in script.batches:
        if batch.is_continued:
            raise DeclarationError(
                f"script[{batch.number}] has a clock or watermark among its rows, which a batch of Spark does not; "
                "make it an item of its own, or play it in memory"
            )
    with tempfile.TemporaryDirectory(prefix="panekeeper-run-", ignore_cleanup_errors=True) as folder:
        return _SparkJob(script, session_of_one_group(spark), Path(folder)).play()


class _SparkJob:
    """The job of a script, with its input files and tables in one folder."""

    def __init__(self, script: ScriptedJob, spark: SparkSession, folder: Path) -> None:
        self._script, self._folder, self._spark = script, folder, spark
        self._schemas = [
            StructType([*port.columns, *(StructField(name, kind) for name, kind in _MARKS.items())])
            for port in script.ports
        ]
        further: dict[str, Any] = {"_marks": True, "key_groups": 1}
        if script.has_watermarks and len(script.ports) > 1:
            further["watermark"] = _FAR_BEHIND
        self._inputs = [BatchFiles(folder / f"input_{port}", schema) for port, schema in enumerate(self._schemas)]
        self._computation = script.computation([files.stream(spark) for files in self._inputs], **further)
        self._latest_us: int | None = None
        self._reached_us: int | None = None

    def play(self) -> Results:
        """Run the job, once for each start, and return what its tables hold."""
        for batch in self._script.batches:
            if batch.is_start and batch.number:
                self._run()
            self._write(batch)
        self._run()
        return read_results(self._folder / "log", self._computation._pipeline.spec)  # noqa: SLF001 -- of the framework

    def _run(self) -> None:
        """Start the job, let it read what was written, and end it."""
        job = self._computation.to_delta(str(self._folder / "log"))
        job.start(checkpoint=str(self._folder / "checkpoint"), trigger="available_now").await_end()

    def _write(self, batch: ScriptBatch) -> None:
        """Write a micro-batch, a file for each port."""
        watermark = self._watermark(batch)
        for port, rows in enumerate(batch.tables):
            schema = pa.schema([*rows.schema, (MARK, pa.string()), (MARK_VALUE, pa.int64()), (MARK_TEXT, pa.string())])
            lines = pa.Table.from_pylist(
                [{MARK: kind, MARK_VALUE: us} for kind, us in self._marks(port, batch, watermark)], schema=schema
            )
            nulls = {name: pa.nulls(rows.num_rows, schema.field(name).type) for name in _MARKS}
            columns = {name: rows.column(name) for name in rows.column_names} | nulls
            path = self._inputs[port].write(pa.concat_tables([lines, pa.table(columns, schema=schema)]))
            if rows.num_rows and self._follows_rows:
                self._note_latest(self._port(port), self._spark.read.schema(self._schemas[port]).parquet(str(path)))

    def _watermark(self, batch: ScriptBatch) -> int | None:
        """Return the watermark to which a micro-batch advances, us; None if it does not."""
        watermark = batch.watermark_us
        if self._follows_rows:
            watermark = watermark_behind(self._latest_us, self._port(0).intake.watermark_us)
        before, self._reached_us = self._reached_us, watermark
        return None if watermark == before else watermark

    def _marks(self, port: int, batch: ScriptBatch, watermark: int | None) -> Iterator[tuple[str, int]]:
        """Yield the marks with which a micro-batch begins on a port: kind and time, us."""
        if watermark is not None:
            yield "watermark", watermark
        has_own_clock = self._port(port).intake.arrival_time is not None and not self._port(port).spec.has_panes
        if (batch.is_start or batch.is_tick) and not has_own_clock:
            yield "resume" if batch.is_start else "clock", batch.now_us
        if batch.is_flush:
            yield "flush", batch.now_us

    @property
    def _follows_rows(self) -> bool:
        """Whether the watermark of the only port is to be that of a job without marks."""
        return not self._script.has_watermarks and len(self._script.ports) == 1 and self._port(0).spec.has_panes

    def _note_latest(self, port: InputPort, rows: DataFrame) -> None:
        """Note the greatest event time of the good rows of a file."""
        checked = checked_rows(port.intake.of_rows(rows), port.carried_columns, arrived=False, watermark=False)
        latest = checked.select(F.max(F.unix_micros(EVENT_TIME_COLUMN)).alias("us")).first()
        if latest is not None and latest.us is not None:
            self._latest_us = max(latest.us, self._latest_us or latest.us)

    def _port(self, number: int) -> InputPort:
        return self._computation._pipeline.ports[number]  # noqa: SLF001


def read_results(log: Path, spec: JobSpec) -> Results:
    """Return what the tables of a job hold: its log, and those beside it."""
    results = Results(spec.windows)
    for window, part in spec.parts.items():
        for number, table in _commits(log.with_name(role_of(log.name, window))):
            results.add(with_columns(table, part.results_schema), number, window)
    results.sort(key=lambda row: row["batch"])
    for number, table in _commits(log.with_name(f"{log.name}_quarantine")):
        rows = quarantined(with_columns(table, spec.rejected_schema), number)
        results.quarantine += [row | {"source": None} for row in rows]  # the file is none of the script's
    for _, table in _commits(log.with_name(f"{log.name}_metrics")):
        for name in COUNTS:
            results.counts[name] += sum(table.column(name).to_pylist())
        reached = table.column("watermark").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
        results.watermark = to_datetime_if_any(max((us for us in reached if us is not None), default=None))
    return results


def _commits(table: Path) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of each commit of a Delta table, with the number of its micro-batch."""
    for path in sorted((table / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        numbers = [action["txn"]["version"] for action in actions if "txn" in action]
        for name in sorted(action["add"]["path"] for action in actions if "add" in action):
            yield numbers[0], pq.read_table(table / name)
