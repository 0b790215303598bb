"""The first difference between two states of a key group, or two tables of rows, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from panekeeper.framework.core.inspection.one_key import is_stored_header
from panekeeper.state.codec import decode_header, decode_table
from panekeeper.state.store import MemoryStore


def state_difference(expected: MemoryStore, got: MemoryStore) -> str | None:
    """Return where the stored values of two stores differ first; None if both say the same."""
    wanted, got_segments = expected.segments, got.segments
    for place in sorted(wanted.keys() | got_segments.keys()):
        name, before, now = f"{place[0]} {place[1]}/{place[2]}", wanted.get(place), got_segments.get(place)
        if before == now:
            continue
        if before is None or now is None:
            return f"{name} is {'stored' if before is not None else 'not stored'}, and {_other(before)}"
        if (what := value_difference(before, now)) is not None:
            return f"{name}: {what}"
    return None


def value_difference(expected: bytes, got: bytes) -> str | None:
    """Return where two stored values differ first; None if they say the same, in whatever bytes."""
    if not (is_stored_header(expected) and is_stored_header(got)):
        return rows_difference(decode_table(expected), decode_table(got))
    (fields, tables), (own, own_tables) = decode_header(expected), decode_header(got)
    if fields != own:
        name = next(name for name in {**fields, **own} if fields.get(name) != own.get(name))
        return f"{name} is {_short(fields.get(name))}, and {_short(own.get(name))} when run again"
    for name in sorted({*tables, *own_tables}):
        what = rows_difference(tables.get(name), own_tables.get(name))
        if what is not None:
            return f"{name}: {what}"
    return None


def rows_difference(expected: pa.Table | None, got: pa.Table | None) -> str | None:
    """Return which row two tables do not share, rows and columns in whatever order; None if they have the same rows."""
    if expected is not None and got is not None and {*expected.column_names} == {*got.column_names}:
        got = got.select(expected.column_names)  # as for partial results: the order of a declaration may have changed
    if expected is not None and got is not None and _in_order(expected).equals(_in_order(got)):
        return None
    wanted, got_rows = _counted(expected), _counted(got)
    if wanted == got_rows:
        return None
    missing, extra = wanted - got_rows, got_rows - wanted
    said = []
    if missing:
        said.append(f"recorded, and not there when run again: {next(iter(missing))}")
    if extra:
        said.append(f"there when run again, and not recorded: {next(iter(extra))}")
    return f"{sum(missing.values())} and {sum(extra.values())} rows differ; {'; '.join(said)}"


def _in_order(rows: pa.Table) -> pa.Table:
    """Return the rows in an order of their own, as far as their columns have one, all nullable."""
    plain = [
        name for name, kind in zip(rows.column_names, rows.schema.types, strict=True) if not pa.types.is_nested(kind)
    ]
    table = pa.table(rows.columns, names=rows.column_names)
    try:
        return table.sort_by([(name, "ascending") for name in plain]).combine_chunks() if plain else table
    except pa.ArrowException:  # a type without an order: the rows are counted then
        return table


def _counted(table: pa.Table | None) -> Counter[str]:
    return Counter() if table is None else Counter(map(_row, table.to_pylist()))


def _row(row: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={_text(value)}" for name, value in row.items())


def _text(value: Any) -> str:
    return value.isoformat().replace("+00:00", "Z") if hasattr(value, "isoformat") else repr(value)


def _other(before: bytes | None) -> str:
    return "not when run again" if before is not None else "is stored when run again"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]}..."  # noqa: PLR2004 -- a line
