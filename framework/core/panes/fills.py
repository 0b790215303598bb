"""Which panes without rows does a partition get a result for, and which (docs/semantics.md section 6.11)?

What is kept of a partition is the newest pane of its rows, and with `fill="last"` the results of that. It goes once no
further pane would be filled.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.panes.geometry import Geometry
from panekeeper.framework.core.panes.pane_index import SlicePlaces
from panekeeper.framework.core.panes.refinements import PANE_COLUMN
from panekeeper.framework.core.partition_keys import PartitionKeys, with_keys
from panekeeper.framework.declarations.firing import PaneFiringOptions
from panekeeper.state.codec import decode_table, encode_table, of_type
from panekeeper.state.records import IntervalRecord
from panekeeper.state.store import KeyGroupStore

FILLS_KIND = "fills"
_COLUMN = "last.{}"  # no partition column has such a name
_NEVER = -(2**63)


class Fills:
    """The partitions that may get results without rows; `record.fill_until` says until when, if there are any."""

    def __init__(
        self,
        options: PaneFiringOptions,
        output: pa.Schema,
        keys: PartitionKeys,
        geometry: Geometry,
        store: KeyGroupStore,
        record: IntervalRecord,
    ) -> None:
        """Load nothing yet."""
        self._fill = options.fill
        self._for_us = options.fill_for_us
        self._output = output
        self._kept = output if options.fill == "last" else pa.schema([])
        self._keys = keys
        self._geometry = geometry
        self._store = store
        self._record = record
        self._loaded = self._changed = False
        self._codes = np.empty(0, dtype=np.int64)
        self._panes = np.empty(0, dtype=np.int64)
        self._columns = [pa.array([], field.type) for field in self._kept]

    @property
    def is_empty(self) -> bool:
        """Whether no partition may get results without rows."""
        return not len(self._codes) and (self._loaded or self._record.fill_until is None)

    def gaps(self, after: int, until: int, with_rows: Mapping[int, np.ndarray]) -> list[tuple[int, np.ndarray]]:
        """Return the partitions without rows in each pane that fires now: (pane, codes), ascending.

        Args:
            after: the last pane that had fired before.
            until: the last one that fires now.
            with_rows: the partitions with new rows in panes up to that one, late ones among them.
        """
        self._load()
        reach = np.full(self._keys.count, _NEVER, dtype=np.int64)
        """Until which end panes of each partition are filled."""
        # In one batch a partition may have fired in several panes, and in an older one last, for a late row.
        np.maximum.at(reach, self._codes, self._geometry.ends(self._panes) + self._for_us)
        gaps, pane = [], after
        for begun in sorted(with_rows):
            if begun > after:
                break
            codes = with_rows[begun]
            reach[codes] = np.maximum(reach[codes], self._geometry.end(begun) + self._for_us)
        ahead = [pane for pane in sorted(with_rows) if pane > after]
        while pane < until:
            if len(reach) and self._geometry.end(pane + 1) <= int(reach.max()):
                pane += 1
            elif ahead:
                pane = ahead[0]
            else:
                break
            end = self._geometry.end(pane)
            fills = reach >= end
            if ahead and ahead[0] == pane:
                codes = with_rows[ahead.pop(0)]
                fills[codes] = False
                reach[codes] = end + self._for_us
            if fills.any() and self._geometry.start(pane) < end:  # a day that a zone left out has no length
                gaps.append((pane, np.flatnonzero(fills)))
        return gaps

    def note(self, codes: np.ndarray, panes: np.ndarray, columns: list[pa.Array]) -> None:
        """Keep what partitions fire with rows."""
        self._load()
        self._codes, self._panes = np.concatenate([self._codes, codes]), np.concatenate([self._panes, panes])
        if self._kept:
            self._columns = [
                pa.concat_arrays([old, of_type(new, old.type)]) for old, new in zip(self._columns, columns, strict=True)
            ]
        self._changed = True

    def values(self, codes: np.ndarray, panes: np.ndarray) -> list[pa.Array]:
        """Return the results of partitions in panes without rows; after `note` of those that fire with them."""
        if self._fill != "last":
            return [_constant(field.type, len(codes), zero=self._fill == "zero") for field in self._output]
        places = SlicePlaces(self._panes)
        order, known = self._by_pane(places)
        at = order[np.searchsorted(known, codes * (places.span + 1) + places.of(panes)) - 1]
        return [column.take(pa.array(at)) for column in self._columns]

    def save(self, next_pane: int) -> None:
        """Write the newest pane of each partition, of those that may be filled from this pane on."""
        if self._record.flushed:
            self._load()
        if not len(self._codes):
            return
        order, _ = self._by_pane(SlicePlaces(self._panes))
        at = order[np.diff(self._codes[order], append=-1) != 0]
        reach = self._geometry.ends(self._panes[at]) + self._for_us
        at = at[reach >= self._geometry.end(next_pane)] if not self._record.flushed else at[:0]
        had = self._record.fill_until is not None
        if not self._changed and len(at) == len(self._codes):
            return
        self._codes, self._panes = self._codes[at], self._panes[at]
        self._columns = [column.take(pa.array(at)) for column in self._columns]
        if len(at):
            self._store.write(FILLS_KIND, 0, 0, encode_table(self._stored()))
            self._record.fill_until = int(self._geometry.ends(self._panes).max()) + self._for_us
        elif had:
            self._store.remove(FILLS_KIND, 0, 0)
            self._record.fill_until = None
        self._changed = False

    def _by_pane(self, places: SlicePlaces) -> tuple[np.ndarray, np.ndarray]:
        """Return what is kept by partition and pane, what was noted last at the end, and these as numbers."""
        numbers = self._codes * (places.span + 1) + places.of(self._panes)
        order = np.argsort(numbers, kind="stable")
        return order, numbers[order]

    def _stored(self) -> pa.Table:
        columns = {_COLUMN.format(name): c for name, c in zip(self._kept.names, self._columns, strict=True)}
        return with_keys(pa.table({PANE_COLUMN: self._panes, **columns}), self._keys, self._codes)

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True
        if self._record.fill_until is None:
            return
        table = decode_table(self._store.read(FILLS_KIND, 0, 0))
        self._codes, self._panes = self._keys.encode(table), table.column(PANE_COLUMN).to_numpy()
        names = [_COLUMN.format(name) for name in self._kept.names]
        stored = [
            table.column(name).combine_chunks() if name in table.column_names else pa.nulls(table.num_rows)
            for name in names
        ]
        self._columns = [of_type(column, field.type) for column, field in zip(stored, self._kept, strict=True)]


def _constant(kind: pa.DataType, count: int, *, zero: bool) -> pa.Array:
    """Return so many zeros, or nulls where they are not wanted or the type has none."""
    if zero and pa.types.is_decimal(kind):
        return pa.array([Decimal(0)] * count, kind)
    if zero and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return pa.array(np.zeros(count, dtype=kind.to_pandas_dtype()), kind)
    return pa.nulls(count, kind)
