"""Stable sorting by counting: the same order as by comparing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper.framework.core.stable_order import ranked, stable_order

MANY = 2500


@pytest.mark.parametrize("span", [1, 2, 1000, 2**16 - 1, 2**16, 2**16 + 1, 2**32 - 1, 2**32, 2**32 + 1, 2**62])
@pytest.mark.parametrize("least", [0, -7, -(2**61)])
@given(st.integers(0, 2**32))
def test_every_range_of_values_is_sorted_as_by_numpy(span: int, least: int, seed: int) -> None:
    """Few values or many, also negative ones: equals keep their order."""
    random = np.random.default_rng(seed)
    values = least + random.choice(random.integers(0, span, 40, endpoint=True), MANY)
    assert stable_order(values).tolist() == np.argsort(values, kind="stable").tolist()
    for found, wanted in zip(ranked(values), np.unique(values, return_inverse=True), strict=True):
        assert found.tolist() == wanted.tolist()


@given(st.integers(0, 2**32), st.integers(0, MANY))
def test_several_keys_sort_as_by_numpy(seed: int, count: int) -> None:
    """The last key counts most; sorted keys and keys of other widths too."""
    random = np.random.default_rng(seed)
    times, codes, rows = random.integers(0, 2**40, count), random.integers(0, 9, count), random.integers(0, 5, count)
    for keys in ((rows, codes, times), (times, codes.astype(np.int32)), (np.sort(times), np.sort(codes))):
        assert stable_order(*keys).tolist() == np.lexsort(keys).tolist()
