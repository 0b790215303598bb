"""Columns as Spark takes them, by names that may have to be quoted, and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

if TYPE_CHECKING:
    from pyspark.sql import Column

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
