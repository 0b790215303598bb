"""Where a tumbling window of `Delta` tumbles: looking for the next tumble finds the same as passing every row."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper import Count, Delta, Sliding, Tumbling, agg
from panekeeper.framework.core.arrival.policies.delta import _tumbles_by_scan, _tumbles_by_search
from panekeeper.framework.core.job_spec import ARRIVAL_TIME, JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.steps import Rows
from panekeeper.state.store import MemoryStore

NUMBERS = st.one_of(
    st.integers(-(2**62), 2**62), st.integers(-9, 9), st.floats(allow_nan=False), st.sampled_from([0.1, 0.2, 0.3])
)
SIZES = st.one_of(st.integers(1, 2**62), st.integers(1, 9), st.floats(1e-9, 1e308), st.sampled_from([0.1, 0.2]))


@given(st.lists(NUMBERS, min_size=1), st.none() | NUMBERS | st.just(float("nan")), SIZES, st.integers(0, 3))
def test_both_ways_tumble_before_the_same_rows(
    values: list[float], first: float | None, size: float, before: int
) -> None:
    """The difference counts, however the sum of the first value and the size is rounded."""
    values = [float("-inf")] * before + sorted(values)
    scanned: list[int] = []
    found: list[int] = []
    last = _tumbles_by_scan(values, before, len(values), first, size, scanned)
    assert repr(_tumbles_by_search(values, before, len(values), first, size, found)) == repr(last)
    assert found == scanned


def cents(*values: str) -> pa.Array:
    """Decimals of two places."""
    return pa.array([Decimal(value) for value in values], pa.decimal128(18, 2))


def days(*values: int) -> pa.Array:
    """Days of a February with 29."""
    return pa.array([date(2024, 2, value) for value in values])


@pytest.mark.parametrize(
    ("values", "size", "contents"),
    [
        (cents("0.10", "0.20", "0.30", "0.31"), 0.2, [3]),
        (cents("0.10", "0.20", "0.30", "0.31"), 0.199, [2]),
        (cents("9000000000000000.00", "9000000000000000.01", "9000000000000000.02"), 1e-7, [1, 1]),
        (cents("1.00", "1.33", "1.34"), 1 / 3, [2]),
        (cents("1.00", "1.33", "1.34"), Decimal("0.33"), [2]),
        (days(26, 27, 28, 29), 2, [3]),
        (days(26, 27, 28, 29), "2 days", [3]),
        (days(26, 27, 28, 29), "47 hours", [2]),
        (days(26, 27, 28), 0.5, [1, 1]),
    ],
)
def test_decimals_and_dates_are_subtracted_exactly(values: pa.Array, size: Any, contents: list[int]) -> None:
    """Strictly more than the size, whatever a double makes of both; also across batches, from the stored first row."""
    columns = pa.schema([("v", values.type)])
    output = pa.schema([("n", pa.int64())])
    job = JobSpec(
        window=Tumbling(Delta("v", size)),
        keys=pa.schema([]),
        columns=columns,
        aggregates={"n": agg.count()},
        output=output,
    )
    rows = pa.table([values, pa.array(range(len(values)), pa.int64())], names=["v", ARRIVAL_TIME])
    for step in (1, len(values)):
        store, found = MemoryStore(), list[int]()
        for begin in range(0, len(values), step):
            results = KeyGroupRunner(job, store).run([Rows(rows.slice(begin, step))]).results
            found += [] if results is None else results.column("n").to_pylist()
        assert found == contents


def test_decimals_are_evicted_and_fire_like_other_numbers() -> None:
    """As eviction and as trigger of a sliding window."""
    values = cents("1.00", "1.10", "1.21", "1.30")
    columns, output = pa.schema([("v", values.type)]), pa.schema([("n", pa.int64())])
    rows = pa.table([values, pa.array(range(4), pa.int64())], names=["v", ARRIVAL_TIME])
    for window, expected in (
        (Sliding(evict=Delta("v", 0.2)), [1, 2, 2, 3]),
        (Sliding(evict=Count(9), trigger=Delta("v", 0.2)), [2]),
    ):
        aggregates = {"n": agg.count()}
        job = JobSpec(window=window, keys=pa.schema([]), columns=columns, aggregates=aggregates, output=output)
        results = KeyGroupRunner(job, MemoryStore()).run([Rows(rows)]).results
        assert results is not None
        assert results.column("n").to_pylist() == expected


NANOSECOND_COLUMNS = pa.schema([("celsius", pa.float64()), ("ns", pa.int64())])


@pytest.mark.parametrize("begin", [0, 1_764_000_000_000_000_000])
@pytest.mark.parametrize("split", [1, 2, 3, 5])
@pytest.mark.parametrize("evict", [Count(9), Delta("celsius", 100.0)])
def test_large_integers_fire_by_their_exact_difference_in_every_split(evict: Any, split: int, begin: int) -> None:
    """Also with a size that is a float, as 1e9, and beside a column of floats: doubles hold no such nanoseconds."""
    spec = JobSpec(
        window=Sliding(evict=evict, trigger=Delta("ns", 1e9)),
        keys=pa.schema([]),
        columns=NANOSECOND_COLUMNS,
        aggregates={"n": agg.count()},
        output=pa.schema([("n", pa.int64())]),
    )
    store = MemoryStore()
    found: list[int] = []
    rows = [begin + step for step in (1, 1_000_000_001, 1_000_000_002, 2_000_000_002, 2_000_000_003)]
    for part in filter(None, (rows[:split], rows[split:])):
        table = pa.table({"celsius": [20.5] * len(part), "ns": part, ARRIVAL_TIME: [1] * len(part)})
        results = KeyGroupRunner(spec, store).run([Rows(table)]).results
        found += [] if results is None else results.column("n").to_pylist()
    assert found == [2, 4]
