"""Ranges of cells: read one by one or merged by halves, the extreme is the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper.framework.core.aggregates.ranges import are_short, extremes_of_ranges


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
