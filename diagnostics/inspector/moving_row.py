"""Which row of a batch has moved the watermark? The batch is read again, where the source still has it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper.framework.core.inspection.reasons import Mover, Passed
from panekeeper.framework.declarations.errors import CheckpointError, DeclarationError
from panekeeper.framework.engine.flow.checked_rows import checked_rows
from panekeeper.framework.engine.flow.packing import EVENT_TIME_COLUMN
from panekeeper.framework.engine.session.columns import quoted
from panekeeper.framework.engine.sources.streams import path_of_files, sources_of
from panekeeper.recovery.errors import RowsGone
from panekeeper.recovery.jobs.recorded_rows import recorded_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from panekeeper.framework.builder.outputs import DeltaJob
    from panekeeper.framework.engine.flow.intake import Intake
    from panekeeper.recovery.storage.files import Files

_FILE = "file_of_the_row"


def moving_row(folder: Files, job: DeltaJob, passed: Passed) -> Mover:
    """Return which row of the batch before has moved the watermark to what it was; or why that cannot be read."""
    before = passed.batch - 1
    try:
        recorded = recorded_batches(folder, job)
        own = recorded.pipeline.ports[0].intake
        intake = replace(own, key_groups=len(recorded.record.group_ids))
        row = recorded.rows(_latest, first=before, last=before, declared=lambda df: _with_places(intake, df))
    except (CheckpointError, RowsGone, DeclarationError) as error:
        return Mover(unread=str(error).partition("\n")[0])
    if row is None:
        return Mover()
    names = [*dict.fromkeys([*own.partition_by, *own.origin_columns])]
    return Mover(time=row[EVENT_TIME_COLUMN], file=row[_FILE], values={name: row[name] for name in names})


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
