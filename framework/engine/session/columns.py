"""Columns as Spark takes them, by names that may have to be quoted, and as JSON; their types in Arrow."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention
from pyspark.sql.pandas.types import to_arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

AS_JSON: dict[str, Any] = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Options of Spark's `to_json` by which no value is lost: nulls, and times to the microsecond in UTC. By itself it cuts
them to milliseconds."""


def quoted(name: str) -> str:
    """Return a name as an identifier of Spark SQL.

    >>> quoted("delay in min.")
    '`delay in min.`'
    """
    return "`" + name.replace("`", "``") + "`"


def column(name: str) -> Column:
    """Return the top-level column of exactly this name, dots and all."""
    return F.col(quoted(name))


def as_utc(name: str) -> Column:
    """Return a column of times without a zone as instants, as if it were in UTC, whatever the zone of the session.

    A cast would shift times that the zone of the session does not have.
    """
    since = f"{quoted(name)} - TIMESTAMP_NTZ '1970-01-01 00:00:00'"
    return F.expr(f"timestamp_micros(({since}) div INTERVAL '0 00:00:00.000001' DAY TO SECOND)")


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow types of Spark's columns; a timestamp is in UTC, whatever the zone of the session."""
    if "timezone" in inspect.signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)  # Spark 4.1: always UTC
