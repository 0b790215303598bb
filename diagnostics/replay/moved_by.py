"""`why`, with the row that has moved the watermark: read again from the source, where that still has it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper.diagnostics.inspector import why as inspector
from panekeeper.framework.declarations.errors import CheckpointError, DeclarationError
from panekeeper.framework.engine.flow.checked_rows import checked_rows
from panekeeper.framework.engine.flow.packing import EVENT_TIME_COLUMN
from panekeeper.framework.engine.session.columns import quoted
from panekeeper.framework.engine.sources.streams import path_of_files, sources_of
from panekeeper.recovery.errors import RowsGone
from panekeeper.recovery.jobs.checkpoint import current_folder
from panekeeper.recovery.jobs.recorded_rows import RecordedBatches, recorded_batches
from panekeeper.recovery.storage.locations import Location, checkpoint_at
from panekeeper.recovery.upgrade.job_file import load_job
from panekeeper.state.checkpoint.clock import format_time
from panekeeper.state.duration_text import us_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from panekeeper.diagnostics.inspector.panes import Key
    from panekeeper.framework.builder.outputs import DeltaJob
    from panekeeper.framework.core.inspection.reasons import Answer, Passed
    from panekeeper.framework.engine.flow.intake import Intake
    from panekeeper.recovery.storage.s3 import S3Options

_FILE = "file_of_the_row"


def why(  # noqa: PLR0913 -- all by keyword but what is asked of
    checkpoint: Location,
    key: Key | None = None,
    pane: str | datetime | None = None,
    *,
    row: Mapping[str, Any] | None = None,
    window: str | None = None,
    batch: int | None = None,
    savepoint: str | None = None,
    job: DeltaJob | str | os.PathLike[str] | None = None,
    s3: S3Options | None = None,
    spark: SparkSession | None = None,
) -> Answer:
    """Return why a pane of a partition has fired, has not fired yet, or is not there.

    Args:
        checkpoint: the job's checkpoint; with `savepoint`, the location of the savepoints.
        key: partition column -> value, for each of the partition columns; of several streams also `port`, which is 0
            if not given.
        pane: when the pane, or session, starts: a time, or text as `"2013-03-08T10:00"`, in UTC if it has no zone; of
            panes that begin together, `"START/END"`. A time within the only pane that has it will do, and a time of
            day, `"10:00"`, of the only known pane that begins then, or has it. None for windows in arrival order and
            interval joins.
        row: in place of `key` and `pane`, a row by its columns: the answer is of the first of its panes, and names the
            others; or why it was dropped. Of an interval join: which partners it has, or what it waits for.
        window: the name of one of several windows.
        batch: as of an earlier batch.
        savepoint: the name of a savepoint.
        job: the declared job, or the file that declares it: of a pane that fired as complete, the answer then names the
            row that has moved the watermark past it, by its file or its offset in Kafka. Its batch is read again.
        s3: how S3 is reached.
        spark: the session that reads; a new one if not given.

    Raises:
        CheckpointError: it is no checkpoint, or the state of the batch is not kept.
        DeclarationError: a key column or a pane is missing, or cannot be one; or a job is given for a savepoint.
    """
    if job is not None and savepoint is not None:
        raise DeclarationError("job is given for a savepoint, and rows are read again by the checkpoint of a job")
    declared = load_job(job, spark=spark) if isinstance(job, str | os.PathLike) else job
    if declared is not None and spark is None:
        spark = declared.pipeline.intake.df.sparkSession
    answer = inspector.why(
        checkpoint, key, pane, row=row, window=window, batch=batch, savepoint=savepoint, s3=s3, spark=spark
    )
    passed = answer.passed
    if declared is None or passed is None:
        return answer
    try:
        line = _mover(recorded_batches(current_folder(checkpoint_at(checkpoint, s3)), declared), passed)
    except (CheckpointError, RowsGone, DeclarationError) as error:
        line = f"which row has moved the watermark cannot be read again: {str(error).partition(chr(10))[0]}"
    at = next((n for n, one in enumerate(answer.reasons, 1) if one.startswith("it fired")), len(answer.reasons))
    return replace(answer, reasons=(*answer.reasons[:at], line, *answer.reasons[at:]))


def _mover(recorded: RecordedBatches, passed: Passed) -> str:
    """Return which row of the batch before has moved the watermark to what it was, in words."""
    own = recorded.pipeline.ports[0].intake
    intake = replace(own, key_groups=len(recorded.record.group_ids))
    found = recorded.rows(
        _latest, first=passed.batch - 1, last=passed.batch - 1, declared=lambda df: _with_places(intake, df)
    )
    if found is None:
        return f"batch {passed.batch - 1} has no row with an event time any more, which has moved the watermark"
    us = found[EVENT_TIME_COLUMN]
    names = [*dict.fromkeys([*own.partition_by, *own.origin_columns])]
    shown = " ".join(f"{name}={found[name]}" for name in names)
    file = "" if found[_FILE] is None else f" in {found[_FILE]}"
    return (
        f"the row of batch {passed.batch - 1} that has moved it: event time {format_time(us)}{file} ({shown}); less "
        f"the delay of {us_text(passed.delay)} that is {format_time(us - passed.delay)}, and the pane waited for "
        f"{format_time(passed.until)}"
    )


def _with_places(intake: Intake, df: DataFrame) -> DataFrame:
    """Return the event times of good rows, what tells them apart, and from which file they are."""
    placed = df.withColumn(_FILE, F.lit(None).cast("string"))
    if all(path_of_files(leaf) for _, leaf in sources_of([df])):  # Spark logs at length what it cannot resolve
        with suppress(AnalysisException):  # a stream that comes not straight from files has no such column
            placed = df.select("*", F.col("_metadata.file_path").alias(_FILE))
    names = [*dict.fromkeys([*intake.partition_by, *intake.origin_columns, _FILE])]
    rows = checked_rows(intake.of_rows(placed), names, arrived=False, watermark=False)
    time = F.unix_micros(EVENT_TIME_COLUMN).alias(EVENT_TIME_COLUMN)
    return rows.select(time, *map(quoted, names))


def _latest(rows: DataFrame) -> Row | None:
    good = rows.where(F.col(EVENT_TIME_COLUMN).isNotNull())
    return good.orderBy(F.col(EVENT_TIME_COLUMN).desc()).first()
