"""Do the tables of a savepoint keep old versions long enough to restore it? Delta removes them after some time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from panekeeper.framework.declarations.durations import to_us
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.storage.delta_log import table_properties
from panekeeper.recovery.storage.locations import files_at
from panekeeper.recovery.storage.s3 import S3Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WEEK = timedelta(weeks=1)

# Delta's defaults, for a table without these properties.
_DEFAULTS = {
    "delta.logRetentionDuration": "interval 30 days",
    "delta.deletedFileRetentionDuration": "interval 1 week",
}


def short_retention(
    manifest: Manifest, *, keep_for: timedelta = WEEK, s3: S3Options | None = None, spark: SparkSession | None = None
) -> list[str]:
    """Return a warning for each table that keeps its old versions for less time than `keep_for`.

    Args:
        manifest: the savepoint.
        keep_for: how long it must be possible to restore it.
        s3: how S3 is reached.
        spark: reads tables that are neither on a local disk nor on S3; without it, these are not checked.
    """
    warnings = []
    days = -(-keep_for // timedelta(days=1))
    for role, table in manifest.tables.items():
        properties = _properties(table.path, s3, spark)
        if properties is None:
            continue
        for name, default in _DEFAULTS.items():
            value = properties.get(name, default)
            kept = parse_interval(value)
            if kept is not None and kept < keep_for:
                warnings.append(
                    f"table {role} keeps old versions for {value.removeprefix('interval ')} only ({name}), and "
                    f"savepoint {manifest.name} cannot be restored once they are gone: "
                    f"ALTER TABLE delta.`{table.path}` SET TBLPROPERTIES ('{name}' = 'interval {days} days')"
                )
    return warnings


def parse_interval(text: str) -> timedelta | None:
    """Return an interval as Delta writes it, None for one in months, or one that cannot be read.

    >>> parse_interval("interval 1 week")
    datetime.timedelta(days=7)
    >>> parse_interval("2 days 12 hours")
    datetime.timedelta(days=2, seconds=43200)
    """
    try:
        return timedelta(microseconds=to_us(text, "the interval"))
    except (DeclarationError, OverflowError):
        return None


def _properties(path: str, s3: S3Options | None, spark: SparkSession | None) -> Mapping[str, str] | None:
    files = files_at(path, s3)
    if files is not None:
        return table_properties(files)
    if spark is None:
        return None
    from panekeeper.recovery.storage.delta_tables import properties_of

    return properties_of(spark, path)
