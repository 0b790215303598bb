"""The rows of one partition: of a table with the partition columns, of steps, and of what is stored of a key group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panekeeper.framework.core.steps import EvictPartitions, PartialRows, Rows, Step
from panekeeper.state.codec import decode_header, decode_table, encode_header, encode_table
from panekeeper.state.records import HANDLERS, HORIZON
from panekeeper.state.store import MemoryStore

Values = Mapping[str, pa.Scalar]
"""Partition column -> its value, of some or all of them."""


def is_of(table: pa.Table, key: Values) -> pa.Array:
    """Return which rows of a table have these values in its columns; a null, and NaN, is one value."""
    found = pa.array(np.ones(table.num_rows, dtype=np.bool_))
    for name, value in key.items():
        column = table.column(name)
        value = value.cast(column.type)  # noqa: PLW2901 -- as the column has it
        if not value.is_valid:
            same = column.is_null()
        elif pa.types.is_floating(column.type) and np.isnan(value.as_py()):
            same = pc.fill_null(pc.is_nan(column), False)
        else:
            same = pc.fill_null(pc.equal(column, value), False)
        found = pc.and_(found, same.combine_chunks() if isinstance(same, pa.ChunkedArray) else same)
    return found


def rows_of(table: pa.Table, key: Values) -> pa.Table:
    """Return the rows of one partition; all rows of a table without these columns."""
    return table.filter(is_of(table, key)) if key.keys() <= {*table.column_names} else table


def step_of(step: Step, key: Values) -> Step:
    """Return a step with the rows of one partition alone; any other step is for all partitions."""
    if isinstance(step, Rows | PartialRows):
        return replace(step, table=rows_of(step.table, key))
    return replace(step, keys=rows_of(step.keys, key)) if isinstance(step, EvictPartitions) else step


def store_of_key(store: MemoryStore, key: Values) -> MemoryStore:
    """Return what is stored of one partition, where stored tables have the partition columns."""
    kept = MemoryStore()
    kept.header = None if store.header is None else _header_of(store.header, key)
    for place, value in store.entries.items():
        kind = place[0].rpartition("/")[2]
        if kind in (HANDLERS, HORIZON):
            kept.entries[place] = value
        else:
            kept.entries[place] = _header_of(value, key) if is_stored_header(value) else _table_of(value, key)
    return kept


def is_stored_header(value: bytes) -> bool:
    """Return whether a stored value is a header, and no table."""
    try:
        decode_header(value)
    except Exception:  # noqa: BLE001 -- what is no JSON there is a table
        return False
    return True


def _header_of(value: bytes, key: Values) -> bytes:
    fields, tables = decode_header(value)
    return encode_header(fields, {name: rows_of(table, key) for name, table in tables.items()})


def _table_of(value: bytes, key: Values) -> bytes:
    table = decode_table(value)
    return encode_table(rows_of(table, key))
