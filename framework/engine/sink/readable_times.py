"""Which files of a table hold days or times that the library which makes small commits would misread.

Spark writes timestamps as INT96 by default, and the library reads these as nanoseconds since 1970 in 64 bits: of a time
outside the years 1678 to 2261 it makes another one, without an error. In a session with
`spark.sql.parquet.datetimeRebaseModeInWrite=LEGACY` Spark writes days before 1582, and times before 1900, as those of
the Julian calendar. What a job writes by Spark is neither (`WRITE_SETTINGS` of
`framework/engine/session/required_settings.py`); OPTIMIZE by others may be.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from panekeeper.framework.engine.sink.small_commit_checks import UnsupportedTable

_TIMES = tuple(pa.scalar(datetime(year, 1, 1, tzinfo=UTC), pa.timestamp("us", tz="UTC")) for year in (1901, 2262))
_DAYS = (pa.scalar(date(1583, 1, 1), pa.date32()), pa.scalar(2**31 - 1, pa.int32()).cast(pa.date32()))
_CALENDAR = b"org.apache.spark.legacyDateTime"
"""A key in the footer of files with days or times of the Julian calendar."""


def require_readable_times(delta: DeltaTable, files: pa.Table, schema: pa.Schema, readable: set[str]) -> None:
    """Raise `UnsupportedTable` if a file may hold such a time, by its statistics, or else by its footer.

    Args:
        delta: the table.
        files: its files, as `small_commit_table.files_of` has them.
        schema: its columns.
        readable: names of files that were found to be readable before; those that are found now are added.
    """
    times = [field for field in schema if _has_time(field.type)]
    if not times or not files.num_rows:
        return
    every = pa.array([True] * files.num_rows)
    for field in times:
        every = pc.and_(every, _is_near(files, field))
    names = files.column("path").filter(pc.invert(every)).to_pylist()
    unknown = {unquote(name) for name in names} - readable
    if unknown:
        readable.update(_readable(delta, unknown))


def _readable(delta: DeltaTable, names: set[str]) -> Iterator[str]:
    for fragment in delta.to_pyarrow_dataset().get_fragments():
        name = unquote(fragment.path)
        if name in names:
            columns = fragment.metadata.schema
            is_int96 = any(columns.column(number).physical_type == "INT96" for number in range(len(columns)))
            if is_int96 or _CALENDAR in (fragment.metadata.metadata or {}):
                raise UnsupportedTable(f"{name} may hold times that the library misreads: INT96, or another calendar")
            yield name


def _is_near(files: pa.Table, field: pa.Field) -> pa.Array:
    """Return for each file whether all its values of a column are known to be within the years."""
    low, high, nulls = (f"{what}.{field.name}" for what in ("min", "max", "null_count"))
    if pa.types.is_nested(field.type) or not {low, high, "num_records"} <= {*files.column_names}:
        return pa.array([False] * files.num_rows)
    first, end = _DAYS if pa.types.is_date(field.type) else _TIMES
    least, greatest = (files.column(name).cast(first.type).combine_chunks() for name in (low, high))
    near = pc.fill_null(pc.and_(pc.greater_equal(least, first), pc.less(greatest, end)), False)
    if nulls not in files.column_names:
        return near
    only_nulls = pc.fill_null(pc.equal(files.column(nulls), files.column("num_records")), False)
    return pc.or_(near, only_nulls.combine_chunks())


def _has_time(kind: pa.DataType) -> bool:
    """Return whether a type is one of days or of timestamps with a zone, or has some within: no others are changed."""
    if pa.types.is_nested(kind):
        return any(_has_time(kind.field(number).type) for number in range(kind.num_fields))
    return bool(pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.tz is not None))
