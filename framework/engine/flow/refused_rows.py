"""What the quarantine gets of a row: why, where it is from, and the row itself as JSON; as Spark expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from panekeeper.framework.core.job_spec import REST_AS_JSON
from panekeeper.framework.engine.session.columns import AS_JSON, column
from panekeeper.framework.engine.sources.streams import leaves

if TYPE_CHECKING:
    from pyspark.sql import Column

    from panekeeper.framework.engine.flow.intake import Intake
    from panekeeper.framework.engine.flow.row_checks import RowChecks


def refused_row(intake: Intake, checks: RowChecks, reason: Column) -> Column:
    """Return a row that the intake refuses for a reason, as `packing.REJECT_COLUMN` has it."""
    row = F.struct(*[column(name) for name in intake.user_columns])
    refused = F.struct(
        reason.alias("reason"),
        checks.detail(reason).alias("detail"),
        checks.event_us().alias("event_time"),
        F.to_json(row, AS_JSON).alias("row"),
        _origin(intake).alias("source"),
    )
    return F.to_json(refused)


def rest_of_row(intake: Intake, read: Sequence[str]) -> Column | None:
    """Return what the quarantine needs beside the columns that the job reads, if a row gets there later; None: nothing.

    What Arrow does not carry as it is, such as an interval or a variant, is there as Spark's JSON.
    """
    plain = [name for name in intake.user_columns if _is_plain(intake.type_of(name))]
    others = [column(name) for name in intake.user_columns if name not in plain]
    parts = [column(name) for name in plain if name not in read]
    parts += [F.to_json(F.struct(*others), AS_JSON).alias(REST_AS_JSON)] if others else []
    return F.struct(*parts) if parts else None


def _origin(intake: Intake) -> Column:
    """Return where a row is from: `topic-partition@offset` of Kafka, or its file; null where it is not known."""
    if kept := intake.origin_columns:
        return F.concat(F.concat_ws("-", *map(column, kept[:-1])), F.lit("@"), column(kept[-1]))
    # Spark refuses the name of the file in a plan with two sources, such as a join with a table: in each batch.
    has_one_source = len([*leaves(intake.df)]) == 1
    return F.nullif(F.input_file_name(), F.lit("")) if has_one_source else F.lit(None).cast("string")


def _is_plain(kind: DataType) -> bool:
    """Return whether Python writes values of a type as JSON as Spark does."""
    if isinstance(kind, ArrayType):
        return _is_plain(kind.elementType)
    if isinstance(kind, MapType):
        return isinstance(kind.keyType, StringType) and _is_plain(kind.valueType)
    if isinstance(kind, StructType):
        return all(_is_plain(field.dataType) for field in kind.fields)
    return isinstance(
        kind, NumericType | StringType | BooleanType | BinaryType | DateType | TimestampType | TimestampNTZType
    )
