"""Partition keys as small numbers: each partition of a batch gets a code, in the order in which the keys come up.

A code is valid within one batch only. Stored tables have the key columns by value.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panekeeper.state.codec import that_may_be_null, with_columns
from panekeeper.state.errors import LifecycleError


class PartitionKeys:
    """The partitions that came up in this batch so far. Null is a legal key.

    Without partition columns all rows have code 0.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = that_may_be_null(schema)
        self._code_of_key = self.schema.empty_table()

    @property
    def count(self) -> int:
        """Number of partitions that have a code."""
        return self._code_of_key.num_rows if len(self.schema) else 1

    def encode(self, table: pa.Table) -> np.ndarray:
        """Return the code of each row's partition (int64), giving new partitions the next codes."""
        if not len(self.schema):
            return np.zeros(table.num_rows, dtype=np.int64)
        count_before = self._code_of_key.num_rows
        both = pa.concat_tables([self._code_of_key, with_columns(table, self.schema)])
        codes = _codes([_column_codes(both.column(i)) for i in range(len(self.schema))])
        count = int(codes.max(initial=-1)) + 1
        if count > count_before:
            first = np.empty(count, dtype=np.int64)  # codes are dense, in the order in which keys come up
            first[codes[::-1]] = np.arange(len(codes))[::-1]  # where a code repeats, the last assignment stays
            self._code_of_key = both.take(pa.array(first))
        return codes[count_before:]

    def with_normal_keys(self, table: pa.Table) -> pa.Table:
        """Return new rows with equal float keys as equal bits: -0.0 as 0.0, every NaN as the same one.

        Spark's hash, which finds the key group, takes them for equal as well. It is for rows that come in: stored
        rows have keys that were made normal here.
        """
        for field in self.schema:
            if pa.types.is_floating(field.type):
                place = table.column_names.index(field.name)
                column = table.column(place)
                column = pc.if_else(pc.is_nan(column), pa.scalar(float("nan"), column.type), pc.add(column, 0.0))
                table = table.set_column(place, field.name, column.cast(table.schema.field(place).type))
        return table

    def take(self, codes: np.ndarray) -> pa.Table:
        """Return the key columns of these codes, one row each; no columns at all without partitioning."""
        if not len(self.schema):
            return self._code_of_key
        return self._code_of_key.take(pa.array(codes))

    def values(self, codes: Iterable[int]) -> list[Any]:
        """Return the keys as Python values: None, the one column's value, or a tuple of several."""
        wanted = np.fromiter(codes, dtype=np.int64)
        if not len(self.schema):
            return [None] * len(wanted)
        columns = [column.to_pylist() for column in self.take(wanted).columns]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def with_keys(table: pa.Table, keys: PartitionKeys, codes: np.ndarray) -> pa.Table:
    """Return the table with the partition columns of `codes` put in front: a table that can be stored."""
    taken = keys.take(codes)
    return pa.table([*taken.columns, *table.columns], names=[*taken.column_names, *table.column_names])


def first_seen(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (codes, distinct values), the distinct values in order of first appearance.

    >>> first_seen(np.array([7, 3, 7]))
    (array([0, 1, 0]), array([7, 3]))
    """
    encoded = pa.array(values).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_numpy()


def _column_codes(column: pa.ChunkedArray) -> tuple[np.ndarray, int]:
    encoded = pc.dictionary_encode(column.combine_chunks(), null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary)


def _codes(columns: list[tuple[np.ndarray, int]]) -> np.ndarray:
    codes, _ = columns[0]
    for other, size in columns[1:]:
        # Re-coding after every column keeps the product of two columns far from the end of int64.
        codes, _ = first_seen(codes * size + other)
    return codes


def code_of(keys: PartitionKeys, key: Any) -> int:
    """Return the code of the partition with this key, None without partitions. Raises `LifecycleError` as `key_row`."""
    if not keys.schema.names and key is None:
        return 0
    return int(keys.encode(keys.with_normal_keys(key_row(keys, key, "has no results")))[0])


def key_row(keys: PartitionKeys, key: Any, problem: str) -> pa.Table:
    """Return a partition key, as operators and handlers see it, as a table of one row.

    Args:
        keys: the keys of the window.
        key: the value of the one partition column, or a tuple of several.
        problem: what cannot be done, for the error.

    Raises:
        LifecycleError: it has another number of values or other types.
    """
    names = keys.schema.names
    values = key if isinstance(key, tuple) else (key,)
    if len(values) != len(names):
        raise LifecycleError(f"partition {key!r} {problem}: a key here has {len(names)} values")
    try:
        return pa.Table.from_pylist([dict(zip(names, values, strict=True))], schema=keys.schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise LifecycleError(f"partition {key!r} {problem}: {error}") from error
