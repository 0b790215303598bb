"""Ranges of cells: read one by one or merged by halves, the extreme is the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper.framework.core.aggregates.ranges import are_short, extremes_of_ranges, running_sums


@pytest.mark.parametrize("largest", [True, False])
@given(st.lists(st.integers(-9, 9)), st.data())
def test_the_extreme_of_a_range_is_that_of_its_cells(largest: bool, cells: list[int], data: st.DataObject) -> None:  # noqa: FBT001 (a parameter of the test)
    """Ranges in any order, overlapping, apart, up to the last cell, or empty."""
    edge = st.integers(0, len(cells))
    ranges = [sorted(pair) for pair in data.draw(st.lists(st.tuples(edge, edge)))]
    lo, hi = np.array(ranges, dtype=np.int64).reshape(-1, 2).T
    best = extremes_of_ranges(np.array(cells, dtype=np.float64), lo, hi, largest=largest)

    pick = max if largest else min
    assert [best[n] for n, (a, b) in enumerate(ranges) if b > a] == [pick(cells[a:b]) for a, b in ranges if b > a]


def test_long_overlapping_ranges_are_not_read_cell_by_cell() -> None:
    """A range of every cell for each of them would cost by the square of their number."""
    at = np.arange(1000)
    assert are_short(at, at + 10, 1000)
    assert not are_short(np.zeros_like(at), at, 1000)


def test_sums_of_long_and_short_groups_are_those_of_a_loop() -> None:
    """Strictly from left to right, however groups of all lengths are added up together."""
    random = np.random.default_rng(7)
    lengths = np.array([3, 0, 700, 1, 64, 511, 0, 512, 2, 64])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    begun, values = random.normal(size=len(lengths)), random.normal(size=offsets[-1]) * 10.0 ** random.integers(-9, 9)
    for some in (slice(None), lengths < 512, lengths >= 512):
        groups = np.flatnonzero(np.isin(np.arange(len(lengths)), np.arange(len(lengths))[some]))
        own = np.concatenate([values[offsets[group] : offsets[group + 1]] for group in groups.tolist()])
        ends = np.concatenate([[0], np.cumsum(lengths[groups])])
        expected = []
        for place, group in enumerate(groups.tolist()):
            total = begun[group]
            for value in own[ends[place] : ends[place + 1]]:
                total = total + value
                expected.append(total)
        assert running_sums(begun[groups], own, ends).tolist() == expected
