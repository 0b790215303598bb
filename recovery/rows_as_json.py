"""The rows of a table as fields of JSON: times in UTC, as ISO 8601; and the first of many as a result."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from panekeeper.framework.declarations.display import Part, Result, TextTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


MORE = "and more; --limit N prints them"
"""The last line of a table that has not all rows."""


@dataclass(frozen=True, kw_only=True)
class FirstRows(Result):
    """The first rows of a table, and whether there are more; what is said if there is none."""

    rows: list[dict[str, Any]]
    more: bool
    if_none: str = "none"
    _not_in_json: ClassVar[Collection[str]] = ("if_none",)

    def _described(self) -> Iterator[Part]:
        if not self.rows:
            yield self.if_none
            return
        rows = [self.row_shown(row) for row in self.rows]
        yield TextTable.of(rows[0], [row.values() for row in rows])
        if self.more:
            yield MORE

    def row_shown(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what is shown of a row: all of it, unless a class of rows says otherwise."""
        return row


def first_rows(table: pa.Table | DataFrame, limit: int) -> dict[str, Any]:
    """Return the first `rows` of a table or a frame, by its columns from the left, and whether there are `more`."""
    rows = _first(table, limit + 1).to_pylist()
    return {"rows": [as_fields(row) for row in rows[:limit]], "more": len(rows) > limit}


def _first(table: pa.Table | DataFrame, limit: int) -> pa.Table:
    if isinstance(table, pa.Table):
        return ordered(table).slice(0, limit)
    from panekeeper.framework.engine.session.columns import quoted

    by = [name for name in table.columns if not table.schema[name].dataType.typeName().startswith(("map", "array"))]
    return table.orderBy(*map(quoted, by)).limit(limit).toArrow()


def ordered(table: pa.Table) -> pa.Table:
    """Return a table ordered by its columns from the left, as Spark orders: nulls first, and NaN after all numbers."""
    keys = dict[str, pa.ChunkedArray]()
    for place, column in enumerate(table.columns):
        if pa.types.is_nested(column.type):
            continue
        keys[f"{place} is there"] = pc.is_valid(column)
        if pa.types.is_floating(column.type):
            keys[f"{place} is NaN"] = pc.is_nan(column)
        keys[f"{place}"] = column
    if not keys or not table.num_rows:
        return table
    places = pc.sort_indices(pa.table(keys), [(name, "ascending") for name in keys])
    return table.take(places)


def as_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with its values as JSON has them."""
    return {name: as_json(value) for name, value in row.items()}


def as_json(value: Any) -> Any:
    """Return a value as JSON has it.

    >>> as_json(datetime(2013, 3, 8, 10, tzinfo=UTC)), as_json(1.5), as_json(b"x")
    ('2013-03-08T10:00:00Z', 1.5, "b'x'")
    """
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return value.isoformat()
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
