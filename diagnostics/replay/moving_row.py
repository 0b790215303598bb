"""Which row of a batch has moved the watermark? The batch is read again, where the source still has it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper.framework.engine.flow.checked_rows import checked_rows
from panekeeper.framework.engine.flow.packing import EVENT_TIME_COLUMN
from panekeeper.framework.engine.session.columns import quoted
from panekeeper.framework.engine.sources.streams import path_of_files, sources_of
from panekeeper.recovery.jobs.recorded_rows import RecordedBatches
from panekeeper.state.checkpoint.clock import format_time
from panekeeper.state.duration_text import us_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from panekeeper.framework.core.inspection.reasons import Passed
    from panekeeper.framework.engine.flow.intake import Intake

_FILE = "file_of_the_row"


def moving_row(recorded: RecordedBatches, passed: Passed) -> str:
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
