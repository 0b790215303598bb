"""Where a tumbling window of `Delta` tumbles: looking for the next cut finds the same as passing every row."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from framework.core.arrival.policies.delta import _cut_rising, _cut_scanning

NUMBERS = st.one_of(
    st.integers(-(2**62), 2**62), st.integers(-9, 9), st.floats(allow_nan=False), st.sampled_from([0.1, 0.2, 0.3])
)
SIZES = st.one_of(st.integers(1, 2**62), st.integers(1, 9), st.floats(1e-9, 1e308), st.sampled_from([0.1, 0.2]))


@given(st.lists(NUMBERS, min_size=1), st.none() | NUMBERS | st.just(float("nan")), SIZES, st.integers(0, 3))
def test_both_ways_cut_before_the_same_rows(values: list[float], first: float | None, size: float, before: int) -> None:
    """The difference counts, however the sum of the first value and the size is rounded."""
    values = [float("-inf")] * before + sorted(values)
    scanned: list[int] = []
    found: list[int] = []
    last = _cut_scanning(values, before, len(values), first, size, scanned)
    assert repr(_cut_rising(values, before, len(values), first, size, found)) == repr(last)
    assert found == scanned
