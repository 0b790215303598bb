"""`why`, with the row that has moved the watermark: read again from the source, where that still has it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from panekeeper.diagnostics.inspector import why as inspector
from panekeeper.framework.declarations.errors import CheckpointError, DeclarationError
from panekeeper.recovery.errors import RowsGone
from panekeeper.recovery.jobs.checkpoint import current_folder
from panekeeper.recovery.storage.locations import Location, checkpoint_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panekeeper.diagnostics.inspector.keys import Key
    from panekeeper.framework.builder.outputs import DeltaJob
    from panekeeper.framework.core.inspection.reasons import Answer, Passed
    from panekeeper.recovery.storage.files import Files
    from panekeeper.recovery.storage.s3 import S3Options


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
    declared = _declared(job, spark)
    if declared is not None and spark is None:
        spark = declared.pipeline.intake.df.sparkSession
    answer = inspector.why(
        checkpoint, key, pane, row=row, window=window, batch=batch, savepoint=savepoint, s3=s3, spark=spark
    )
    passed = answer.passed
    if declared is None or passed is None:
        return answer
    try:
        line = _moving_row(current_folder(checkpoint_at(checkpoint, s3)), declared, passed)
    except (CheckpointError, RowsGone, DeclarationError) as error:
        line = f"which row has moved the watermark cannot be read again: {str(error).partition(chr(10))[0]}"
    at = next((n for n, one in enumerate(answer.reasons, 1) if one.startswith("it fired")), len(answer.reasons))
    return replace(answer, reasons=(*answer.reasons[:at], line, *answer.reasons[at:]))


def _declared(job: DeltaJob | str | os.PathLike[str] | None, spark: SparkSession | None) -> DeltaJob | None:
    if not isinstance(job, str | os.PathLike):
        return job
    from panekeeper.recovery.upgrade.job_file import load_job

    return load_job(job, spark=spark)


def _moving_row(folder: Files, declared: DeltaJob, passed: Passed) -> str:
    from panekeeper.diagnostics.replay.moving_row import moving_row
    from panekeeper.recovery.jobs.recorded_rows import recorded_batches

    return moving_row(recorded_batches(folder, declared), passed)
