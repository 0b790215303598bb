# ruff: noqa: D102 -- what these methods mean is said once, in protocol.py
"""The distinct values of a cell, and how often each is there: of these, count_distinct, top_k, quantiles, histogram.

The entries of a cell stand in the order of the stable hashes of their values (`approx_distinct.py`), so they do not
depend on the order in which rows come, nor does what is left of them if there are too many: those with the smallest
hashes, which say how many there would be.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.aggregates.approx_distinct import Hashes, estimate, order_by_hash, stable_hashes
from panekeeper.framework.core.aggregates.columns import (
    FLOAT64,
    INT64,
    Bools,
    Floats,
    Ints,
    absolute_code,
    canonical_nan,
    combine,
    has_absolute_code,
    lists,
    offsets_of,
    order_codes,
    raw_values,
    valid_mask,
)
from panekeeper.framework.core.aggregates.protocol import DISTINCT_OVERFLOW, Accumulator, State, fold_changed_cells
from panekeeper.framework.core.stable_order import bounds, changes, gather_ranges
from panekeeper.framework.declarations.errors import InputError

_MERGED_AT_ONCE = 2**18
"""Entries that are sorted at once while ranges are merged."""


@dataclass(frozen=True, kw_only=True)
class Tally(Accumulator):
    """The distinct values that are not null of each cell. State: their list, and of each the number of rows.

    Attributes:
        declared: the aggregate, as it is written.
        kind: type of the values.
        at_most: of how many distinct values the result is known; None: of any number.
        counted: whether the state has the numbers of rows.
    """

    declared: str
    kind: pa.DataType
    at_most: int | None
    counted: bool = True

    @property
    def merges_exactly(self) -> bool:
        return True

    @property
    def reason(self) -> str:
        return DISTINCT_OVERFLOW

    def state_types(self) -> list[pa.DataType]:
        return [pa.list_(self.kind), *([pa.list_(pa.int64())] if self.counted else [])]

    def fold(self, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:
        array = combine(rows.column(self.inputs[0]))
        cells, values = cells[valid_mask(array)], self.entries_of(array.drop_null())
        return self._added(state, cells, n_cells, values, np.ones(len(values), dtype=np.int64))

    def merge(self, state: State, later: State, cells: Ints, n_cells: int) -> State:
        sizes = np.diff(offsets_of(later[0]))
        values = later[0].flatten()
        counts = raw_values(later[1].flatten()) if self.counted else np.ones(len(values), dtype=np.int64)
        return self._added(state, np.repeat(cells, sizes), n_cells, values, counts)

    def entries_of(self, values: pa.Array) -> pa.Array:
        """Return what is counted of values that are not null."""
        return _normal(values)

    def _added(self, state: State, cells: Ints, n_cells: int, values: pa.Array, counts: Ints) -> State:
        def added(held: State, owners: Ints, n: int, fresh: pa.Table, _: Ints) -> State:
            before = np.repeat(np.arange(len(held[0])), np.diff(offsets_of(held[0])))
            numbers = raw_values(held[1].flatten()) if self.counted else np.ones(len(before), dtype=np.int64)
            both = pa.concat_arrays([held[0].flatten(), combine(fresh.column("value"))])
            counted = np.concatenate([numbers, raw_values(combine(fresh.column("count")))])
            return self._grouped(np.concatenate([before, owners]), both, counted, n)

        table = pa.table({"value": values, "count": counts})
        return fold_changed_cells(added, self.with_empty_columns(state), cells, n_cells, table, cells)

    def merge_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        state = self.with_empty_columns(state)
        if ((hi - lo) == 1).all():
            return [column.take(pa.array(lo)) for column in state]
        ends = offsets_of(state[0])
        total = bounds(ends[hi] - ends[lo])
        blocks, start = [[pa.array([], kind)] for kind in self.state_types()], 0
        while start < len(lo):
            end = max(int(np.searchsorted(total, total[start] + _MERGED_AT_ONCE, side="right")) - 1, start + 1)
            positions, _ = gather_ranges(ends[lo[start:end]], ends[hi[start:end]])
            owners = np.repeat(np.arange(end - start), np.diff(total[start : end + 1]))
            values, *counts = (column.flatten().take(pa.array(positions)) for column in state)
            numbers = raw_values(counts[0]) if self.counted else np.ones(len(values), dtype=np.int64)
            for block, merged in zip(blocks, self._grouped(owners, values, numbers, end - start), strict=True):
                block.append(merged)
            start = end
        return [pa.concat_arrays(block) for block in blocks]

    def _grouped(self, owners: Ints, values: pa.Array, counts: Ints, n: int) -> State:
        """Return the entries of each owner 0..n-1, added up, in the order of their hashes, as many as are kept."""
        order, first = _order(owners, values, n)
        starts = np.flatnonzero(first)
        owners, values = owners[order[starts]], values.take(pa.array(order[starts]))
        if self.counted:
            counts = np.add.reduceat(counts[order], starts) if len(starts) else counts[:0]
        sizes = np.bincount(owners, minlength=n)
        if self.at_most is not None and sizes.max(initial=0) > self.at_most + 1:
            kept = np.arange(len(owners)) - np.repeat(np.cumsum(sizes) - sizes, sizes) <= self.at_most
            values, sizes = values.filter(pa.array(kept)), np.minimum(sizes, self.at_most + 1)
            counts = counts[kept] if self.counted else counts
        columns = [values, *([pa.array(counts)] if self.counted else [])]
        return [lists(sizes, column, kind) for column, kind in zip(columns, self.state_types(), strict=True)]

    def _require_known(self, sizes: Ints) -> None:
        """Raise `InputError` if a cell has more distinct values than there may be."""
        if self.at_most is not None and (sizes > self.at_most).any():
            raise InputError(
                f"{self.declared}: a window has more than {self.at_most} distinct values; declare a greater at_most"
            )


@dataclass(frozen=True, kw_only=True)
class Distinct(Tally):
    """Number of distinct values; beyond `at_most` it is unknown, or estimated."""

    output: pa.DataType = INT64
    counted: bool = False
    estimates: bool

    def finish(self, state: State) -> pa.Array:
        ends = offsets_of(self.with_empty_columns(state)[0])
        sizes = np.diff(ends)
        if not self.estimates:
            self._require_known(sizes)
        elif self.at_most is not None and (beyond := sizes > self.at_most).any():
            last = state[0].flatten().take(pa.array(ends[1:][beyond] - 1))
            sizes[beyond] = estimate(_hashes_of(last)[0], self.at_most + 1)
        return pa.array(sizes)


@dataclass(frozen=True, kw_only=True)
class TopK(Tally):
    """The `k` most frequent values with their numbers; of equally frequent ones the smaller comes first."""

    k: int

    def finish(self, state: State) -> pa.Array:
        state = self.with_empty_columns(state)
        ends = offsets_of(state[0])
        sizes = np.diff(ends)
        self._require_known(sizes)
        values, counts = state[0].flatten(), raw_values(state[1].flatten())
        order = np.lexsort((order_codes(values)[0], -counts, np.repeat(np.arange(len(sizes)), sizes)))
        order = order[np.arange(len(order)) - np.repeat(ends[:-1], sizes) < self.k]
        tally = [values.take(pa.array(order)), pa.array(counts[order])]
        fields = [self.output.value_type.field(place) for place in (0, 1)]
        return lists(np.minimum(sizes, self.k), pa.StructArray.from_arrays(tally, fields=fields), self.output)


@dataclass(frozen=True, kw_only=True)
class Quantiles(Tally):
    """Values of given ranks: each the smallest one that so great a part of all values does not exceed.

    Not exact, the entries are buckets: the highest bits of doubles, of which so many are left that the middle of a
    bucket is within 0.8 % of what is in it. Nothing about them depends on the order of rows or batches.
    """

    ranks: tuple[Fraction, ...]
    is_exact: bool
    is_whole: bool
    """Whether the values are integers, so that those below 128, which have a bucket each, are exact."""

    def entries_of(self, values: pa.Array) -> pa.Array:
        if self.is_exact:
            return super().entries_of(values)
        return pa.array((absolute_code(values.cast(FLOAT64, safe=False)) >> _BITS_LEFT_OUT).astype(np.int32))

    def finish(self, state: State) -> pa.Array:
        state = self.with_empty_columns(state)
        sizes = np.diff(offsets_of(state[0]))
        values, counts = state[0].flatten(), raw_values(state[1].flatten())
        order = np.lexsort((order_codes(values)[0], np.repeat(np.arange(len(sizes)), sizes)))
        until = bounds(counts[order])
        begins = until[np.cumsum(sizes) - sizes]
        numbers = (until[np.cumsum(sizes)] - begins).astype(object)
        places = np.empty((len(sizes), len(self.ranks)), dtype=np.int64)
        for column, rank in enumerate(self.ranks):
            wanted = -(-numbers * rank.numerator // rank.denominator)
            places[:, column] = begins + np.maximum(wanted.astype(np.int64), 1)
        at = np.searchsorted(until[1:], places[sizes > 0].ravel())
        chosen = values.take(pa.array(order[at]))
        shown = chosen if self.is_exact else pa.array(_middles(raw_values(chosen), without_fraction=self.is_whole))
        return lists((sizes > 0) * len(self.ranks), shown, self.output, sizes == 0)


@dataclass(frozen=True, kw_only=True)
class Histogram(Tally):
    """How many values lie below the first edge, from each edge to the next, and from the last one on."""

    edges: tuple[float, ...]

    def entries_of(self, values: pa.Array) -> pa.Array:
        doubles = raw_values(values.cast(FLOAT64, safe=False))
        return pa.array(np.searchsorted(np.array(self.edges), doubles, side="right").astype(np.int32))

    def finish(self, state: State) -> pa.Array:
        state = self.with_empty_columns(state)
        sizes, bins = np.diff(offsets_of(state[0])), len(self.edges) + 1
        counts_of_bins = np.zeros((len(sizes), bins), dtype=np.int64)
        places = np.repeat(np.arange(len(sizes)), sizes), raw_values(state[0].flatten())
        counts_of_bins[places] = raw_values(state[1].flatten())
        return lists(np.full(len(sizes), bins), pa.array(counts_of_bins.ravel()), self.output)


_BITS_LEFT_OUT = 46
"""Of the 52 bits of a double behind its leading one, 6 are left."""


def _middles(buckets: Ints, *, without_fraction: bool) -> Floats:
    """Return the number in the middle of each bucket of `Quantiles`; 0 for the two around it."""
    magnitudes = np.where(buckets < 0, ~buckets, buckets).astype(np.int64)
    least = (magnitudes << _BITS_LEFT_OUT).view(np.float64)
    middle = ((magnitudes << _BITS_LEFT_OUT) + (1 << (_BITS_LEFT_OUT - 1))).view(np.float64)
    middle = np.where(magnitudes == 0, 0.0, np.where(np.isinf(least), least, middle))
    middle = np.trunc(middle) if without_fraction else middle
    return canonical_nan(np.where(buckets < -1, -middle, middle))


def _normal(values: pa.Array) -> pa.Array:
    """Return values so that equal ones have equal bits: one NaN, and 0.0 for -0.0."""
    if not pa.types.is_floating(values.type):
        return values
    return pa.array(canonical_nan(raw_values(values) + 0), values.type)


def _hashes_of(values: pa.Array) -> tuple[Hashes, Ints | None]:
    """Return the hash of each value, and a number of it where different values may have equal hashes."""
    if has_absolute_code(values.type):
        return stable_hashes(values), None
    encoded = values.dictionary_encode()
    numbers: Ints = encoded.indices.to_numpy()
    return stable_hashes(encoded.dictionary)[numbers], numbers


def _order(owners: Ints, values: pa.Array, n: int) -> tuple[Ints, Bools]:
    """Return the order by owner 0..n-1, then hash of the value, and which entry is the first with its value there."""
    hashes, numbers = _hashes_of(values)
    order = order_by_hash(owners, hashes, n)
    first = changes(owners[order], hashes[order])
    if numbers is not None and (changes(numbers[order]) & ~first).any():  # values of one hash
        order = np.lexsort((order_codes(values)[0], hashes, owners))
        first = changes(owners[order], numbers[order])
    return order, first
