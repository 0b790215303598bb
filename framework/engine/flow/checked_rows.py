"""Intake: from the user's streaming DataFrame to the columns that are packed; bad rows are marked with a reason.

Everything here is a Spark expression, so it runs in the Java virtual machine. A refused row is not dropped: it travels
with its reason and its own text to the quarantine table (`refused_rows.py`), by the same exactly-once path as the
results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention
from pyspark.sql.types import TimestampType

from panekeeper.framework.core.job_spec import TIMESTAMP
from panekeeper.framework.engine.flow import packing
from panekeeper.framework.engine.flow.intake import Intake
from panekeeper.framework.engine.flow.refused_rows import refused_row
from panekeeper.framework.engine.flow.row_checks import RowChecks, arrival_us
from panekeeper.framework.engine.session.columns import as_utc, column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_REASON = "_pk_reason"


def checked_rows(
    intake: Intake, carried: Sequence[str], *, rest: Column | None = None, arrived: bool, watermark: bool
) -> DataFrame:
    """Return what `packing.Packer` takes: key group, event time, rejections and the carried columns.

    Every column costs: rows are written to Arrow one value after the other. So arrival times come only if `arrived`,
    and a rejection is one text, null in most rows, and no struct. `rest` is what the quarantine needs of a row beside
    the carried columns. Spark keeps a watermark of the event time if `watermark`.
    """
    source = _with_marks(intake)
    extra = [column(name) for name in packing.MARKS] if intake.has_marks else []
    extra += [column(packing.FILE_ORDER_COLUMN)] if intake.by_file else []
    checks = RowChecks(
        types={name: intake.type_of(name) for name in intake.user_columns},
        event_time=intake.event_time,
        arrival_time=intake.arrival_time,
        max_ahead_us=intake.max_ahead_us,
        reject=intake.reject,
        partition_by=intake.partition_by,
        numeric_columns=intake.numeric_columns,
        carried=[name for name in carried if name not in intake.conditions],
    )
    is_row, reason = _is_row(intake), F.col(_REASON)
    checked = source.withColumn(_REASON, F.when(is_row, checks.reason()))
    is_good = reason.isNull() & is_row
    time = F.lit(None).cast(TimestampType())
    if intake.event_time is not None:
        time = column(intake.event_time) if intake.pane_time == TIMESTAMP else as_utc(intake.event_time)
    arrival = column(intake.arrival_time) if intake.arrival_time else None
    group = key_group([column(name) for name in intake.partition_by], intake.key_groups)
    frame = checked.select(
        group.alias(packing.KEY_GROUP_COLUMN),
        F.when(is_good, time).alias(packing.EVENT_TIME_COLUMN),
        *([_source_partition().alias(packing.SOURCE_PARTITION_COLUMN)] if intake.watermark_by else []),
        *([arrival_us(None if intake.idle else arrival).alias(packing.ARRIVAL_TIME_COLUMN)] if arrived else []),
        F.when(reason.isNotNull(), refused_row(intake, checks, reason)).alias(packing.REJECT_COLUMN),
        *[_carried(intake, name, is_good) for name in carried],
        *([] if rest is None else [rest.alias(packing.REST_COLUMN)]),
        *extra,
    )
    if intake.event_time is None or intake.has_mark_column or not watermark:
        return frame
    return frame.withWatermark(packing.EVENT_TIME_COLUMN, f"{-(-intake.watermark_us // 1000)} milliseconds")


def key_group(keys: Sequence[Column], groups: int | None) -> Column:
    """Return which of so many key groups a key belongs to (`state/key_groups.py`)."""
    return F.pmod(F.xxhash64(*keys), F.lit(groups)).cast("int") if keys else F.lit(0)


def _carried(intake: Intake, name: str, is_good: Column) -> Column:
    """Return a column that travels. A condition is tried on good rows only, and is false where it is null."""
    if name not in intake.conditions:
        return column(name)
    return F.coalesce(F.when(is_good, F.expr(intake.conditions[name])), F.lit(False)).alias(name)


def _with_marks(intake: Intake) -> DataFrame:
    df = intake.df
    if intake.by_file:
        file = F.col("_metadata")
        age = F.lpad(F.unix_micros(file["file_modification_time"]).cast("string"), 20, "0")
        part = F.lpad(file["file_block_start"].cast("string"), 20, "0")
        return df.withColumn(packing.FILE_ORDER_COLUMN, F.concat_ws(" ", age, file["file_path"], part))
    rules = ((intake.punctuation, packing.MARK_AFTER_ROW), (intake.marks, "window"))
    given = [(F.expr(rule), F.lit(kind)) for rule, kind in rules if rule is not None]
    if not given:
        return df
    if intake.has_mark_column:  # rows of the stream itself may be marks, too
        mark = column(packing.MARK)
        given = [(mark.isNull() & holds, kind) for holds, kind in given]
    else:
        mark = F.lit(None).cast("string")
        nothing = F.lit(None)
        df = df.withColumns({packing.MARK_VALUE: nothing.cast("long"), packing.MARK_TEXT: nothing.cast("string")})
    for holds, kind in given:
        mark = F.when(holds, kind).otherwise(mark)
    return df.withColumn(packing.MARK, mark)


def _is_row(intake: Intake) -> Column:
    """Say whether a row is one of the user's, and no mark in the place of one."""
    if not intake.has_marks:
        return F.lit(True)
    return column(packing.MARK).isNull() | (column(packing.MARK) == packing.MARK_AFTER_ROW)


def _source_partition() -> Column:
    return F.concat_ws("-", column("topic"), column("partition"))
