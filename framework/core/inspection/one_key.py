"""The rows of one partition: of a table with the partition columns, of steps, and of what is stored of a key group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.core.joins.panes import stored_key
from panekeeper.framework.core.steps import EvictPartitions, PartialRows, Rows, Step
from panekeeper.state.codec import decode_header, decode_table, encode_header, encode_table
from panekeeper.state.store import MemoryStore

Values = Mapping[str, pa.Scalar]
"""Partition column -> its value, of some or all of them."""


def is_of(table: pa.Table, key: Values) -> pa.Array:
    """Return which rows of a table have these values in its columns; a null, and NaN, is one value."""
    matches = pa.array(np.ones(table.num_rows, dtype=np.bool_))
    for name, value in key.items():
        column = table.column(name)
        value = value.cast(column.type)  # noqa: PLW2901 -- as the column has it
        if not value.is_valid:
            same = column.is_null()
        elif pa.types.is_floating(column.type) and np.isnan(value.as_py()):
            same = pc.fill_null(pc.is_nan(column), False)
        else:
            same = pc.fill_null(pc.equal(column, value), False)
        matches = pc.and_(matches, same.combine_chunks() if isinstance(same, pa.ChunkedArray) else same)
    return matches


def rows_of(table: pa.Table, key: Values, names: Iterable[tuple[str, ...]] = ()) -> pa.Table:
    """Return the rows of one partition, by whichever of `names` it is called; all rows of a table without these."""
    for own in (tuple(key), *names):
        if own and {*own} <= {*table.column_names}:
            return table.filter(is_of(table, dict(zip(own, key.values(), strict=True))))
    return table


def key_names(spec: JobSpec) -> list[tuple[str, ...]]:
    """Return what the partition columns are called: in the rows of each port, and where rows of two are joined."""
    joined = tuple(stored_key(place) for place in range(len(spec.keys)))
    return [*dict.fromkeys([*(tuple(port.keys.names) for port in spec.ports), joined])]


def step_of(step: Step, key: Values, spec: JobSpec) -> Step:
    """Return a step with the rows of one partition alone; any other step is for all partitions."""
    if isinstance(step, Rows | PartialRows):
        return replace(step, table=rows_of(step.table, key, key_names(spec)[step.port :]))
    return replace(step, keys=rows_of(step.keys, key, key_names(spec))) if isinstance(step, EvictPartitions) else step


def store_of_key(store: MemoryStore, key: Values, spec: JobSpec) -> MemoryStore:
    """Return what is stored of one partition, where stored tables have the partition columns."""
    names = key_names(spec)
    return each_table(store, lambda table: rows_of(table, key, names))


def each_table(store: MemoryStore, change: Callable[[pa.Table], pa.Table]) -> MemoryStore:
    """Return a store with each table in it changed, those in headers, too."""
    return MemoryStore.of({place: _changed(value, change) for place, value in store.segments.items()})


def _changed(value: bytes, change: Callable[[pa.Table], pa.Table]) -> bytes:
    if is_stored_header(value):
        fields, tables = decode_header(value)
        return encode_header(fields, {name: change(table) for name, table in tables.items()})
    table = decode_table(value)
    return encode_table(change(table))


def is_stored_header(value: bytes) -> bool:
    """Return whether a stored value is a header, and no table."""
    try:
        decode_header(value)
    except Exception:  # noqa: BLE001 -- what is no JSON there is a table
        return False
    return True
