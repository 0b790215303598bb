"""Which streams, and which types of their columns, can be declared?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.types import DataType, DecimalType, TimestampNTZType, TimestampType

from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.policy import Policy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DIGITS = 18
"""Decimals of so many digits are whole numbers of 64 bits."""
_SEVERAL_OPERATORS = "spark.sql.streaming.statefulOperator.allowMultiple"


def require_subtractable(policy: Policy, name: str, of_column: DataType) -> None:
    """Check the type of a column that a policy reads.

    Args:
        policy: the policy.
        name: the column.
        of_column: its type.

    Raises:
        DeclarationError: it is no number or time, or is not subtracted exactly, or the policy does not take it.
    """
    kind = of_column.typeName()
    if kind not in policy.column_types:
        target = "timestamp" if kind in ("date", "timestamp_ntz") else "double"
        raise DeclarationError(
            f"{type(policy).__name__} computes with {name!r}, which is a {kind}; cast it to integer, double or "
            f'timestamp: df.withColumn("{name}", F.col("{name}").cast("{target}"))'
        )
    if isinstance(of_column, DecimalType) and of_column.precision > _DIGITS:
        cast = f"decimal({_DIGITS},{min(of_column.scale, _DIGITS // 2)})"
        raise DeclarationError(
            f"{type(policy).__name__} computes with {name!r}, which is a {of_column.simpleString()}; it takes decimals "
            f'of up to {_DIGITS} digits: df.withColumn("{name}", F.col("{name}").cast("{cast}"))'
        )
    policy.check_column(kind)


def require_timestamp(what: str, name: str, kind: DataType) -> None:
    """Check the type of a column of times.

    Args:
        what: the option that names the column.
        name: the column.
        kind: its type.

    Raises:
        DeclarationError: it is no timestamp; the message has the cast.
    """
    if isinstance(kind, TimestampType):
        return
    cast = f'F.timestamp_millis("{name}") or F.timestamp_seconds("{name}")'
    if kind.typeName() == "string":
        cast = f'F.to_timestamp("{name}", "yyyy-MM-dd HH:mm:ss")'
    elif isinstance(kind, TimestampNTZType) or kind.typeName() == "date":
        cast = f'F.col("{name}").cast("timestamp")'
    raise DeclarationError(
        f"{what}: column {name!r} is a {kind.simpleString()}, not a timestamp; "
        f'cast it first: df.withColumn("{name}", {cast})'
    )


def require_no_watermark(df: DataFrame) -> None:
    """Check that a stream has no watermark of its own: Spark refuses a second one, but only in the first micro-batch.

    A session that is set to Spark's old rule (one operator with state, any number of watermarks) is left to it.

    Args:
        df: the user's streaming DataFrame.

    Raises:
        DeclarationError: it has one.
    """
    if df.sparkSession.conf.get(_SEVERAL_OPERATORS, "true") == "true" and _has_watermark(
        df._jdf.queryExecution().analyzed()  # noqa: SLF001 -- a plan has no public form
    ):
        raise DeclarationError(
            "the stream has a watermark already, and Spark takes one only: leave out withWatermark() and give the "
            "delay as watermark= of windowed(). An operator of Spark that needs one, such as "
            "dropDuplicatesWithinWatermark, belongs in a query of its own before this one; it can write a Delta table "
            "that this stream reads"
        )


def _has_watermark(plan: Any) -> bool:
    children = plan.children()
    return plan.getClass().getSimpleName() == "EventTimeWatermark" or any(
        _has_watermark(children.apply(number)) for number in range(children.size())
    )
