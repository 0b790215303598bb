"""A watermark that leaps over very many panes: the work is that of the open panes, however far it leaps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from panekeeper import TimeInterval, agg
from panekeeper.framework.core.job_spec import EVENT_TIME, JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.steps import Rows, Watermark
from panekeeper.state.store import MemoryStore
from tests.framework.core.panes.batch_cost import Cost

S = 1_000_000
YEAR = 365 * 24 * 3600 * S
KEYS = pa.schema([("key", pa.string())])
COLUMNS = pa.schema([("key", pa.string()), ("v", pa.int64())])
WINDOWS = {
    "touching": TimeInterval(1, discard_age=5),
    "sliding": TimeInterval(60, creation_period=1, discard_age=5),
    "with gaps": TimeInterval(1, creation_period=10, discard_age=5),
}


def spec(window: TimeInterval, *, keeps_rows: bool) -> JobSpec:
    """A job that adds up, or keeps, the values of each key."""
    aggregates = {"n": agg.collect("v") if keeps_rows else agg.sum("v")}
    output = pa.schema([("n", pa.list_(pa.int64()) if keeps_rows else pa.int64())])
    return JobSpec(window=window, keys=KEYS, columns=COLUMNS, aggregates=aggregates, output=output)


def rows(*triples: tuple[str, int, int]) -> Rows:
    """Rows of (key, event time in us, value)."""
    keys, times, values = zip(*triples, strict=True)
    return Rows(pa.table({"key": keys, "v": pa.array(values, pa.int64()), EVENT_TIME: pa.array(times, pa.int64())}))


def leap(window: TimeInterval, by: int, *, keeps_rows: bool) -> tuple[list[dict[str, Any]], Cost]:
    """Fill a few panes, let the watermark leap, and return all results with the cost of the leap."""
    job, store, cost = spec(window, keeps_rows=keeps_rows), MemoryStore(), Cost()
    start = 1_700_000_000 * S
    KeyGroupRunner(job, store).run([rows(("a", start, 1), ("b", start + S, 2)), Watermark(start)])
    done = cost.of(job, store, Watermark(start + by), rows(("a", start + by, 4)), Watermark(start + by + 2 * S))
    after = KeyGroupRunner(job, store).run([Watermark(start + by + 100 * S)])
    found = [row for one in (done, after) for row in ([] if one.results is None else one.results.to_pylist())]
    assert store.entries == {} or after.open_panes == 0
    return found, cost


@pytest.mark.parametrize("keeps_rows", [False, True])
@pytest.mark.parametrize("name", WINDOWS)
def test_a_leap_of_fifty_years_costs_what_a_leap_of_an_hour_costs(name: str, *, keeps_rows: bool) -> None:
    """Panes of a second: 1.6 billion lie in between, and none of them is looked at."""
    leap(WINDOWS[name], 3600 * S, keeps_rows=keeps_rows)  # what is imported and compiled once does not count
    hour, near = leap(WINDOWS[name], 3600 * S, keeps_rows=keeps_rows)
    years, far = leap(WINDOWS[name], 50 * YEAR, keeps_rows=keeps_rows)
    assert len(years) == len(hour)
    assert [row["n"] for row in years] == [row["n"] for row in hour]
    assert far.calls < near.calls + 50  # a slot more or less, as the leap ends in the lattice
    assert far.bytes < near.bytes + 100_000


@pytest.mark.parametrize("keeps_rows", [False, True])
def test_rows_from_the_first_to_the_last_instant_do_not_change_each_others_panes(*, keeps_rows: bool) -> None:
    """Panes of 1.5 ms every ms, rows of the years 1 and 9999: codes and slices together would not fit into an int64."""
    job = spec(TimeInterval(0.0015, creation_period=0.001), keeps_rows=keeps_rows)
    first, last = -62_135_596_800 * S, 253_402_300_799 * S
    names = [f"key-{number:05d}" for number in range(40_000)]
    some = [triple for name in names for triple in ((name, first, 1), (name, last, 2))]
    store = MemoryStore()
    done = KeyGroupRunner(job, store).run([rows(*some), Watermark(last + S)])
    assert done.results is not None
    values = done.results.column("n").to_pylist()
    found = np.array([sum(one) if keeps_rows else one for one in values])
    assert sorted(np.unique(found, return_counts=True)[1].tolist()) == [80_000, 80_000]
