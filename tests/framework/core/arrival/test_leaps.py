"""An arrival time that leaps over more periods than fit into memory is an error that says so, and ends no worker."""

from __future__ import annotations

import pytest

from panekeeper import Batched, Count, Sliding, Time, Tumbling, agg
from panekeeper.framework.declarations.errors import InputError
from panekeeper.framework.declarations.windows import Window
from panekeeper.state.store import MemoryStore
from tests.framework.core.quarantine_batches import S, job, rows, run

YEAR = 365 * 24 * 3600 * S
WINDOWS: dict[str, Window] = {
    "tumbling": Tumbling(Time(1)),
    "sliding": Sliding(evict=Count(3), trigger=Time(1)),
    "batched": Batched(within=60, every=1),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_a_leap_of_fifty_years_by_seconds_names_the_way_out(name: str) -> None:
    """A row of 1970 before those of today; nothing is stored, and without that row the others are processed."""
    spec, store = job(WINDOWS[name], n=agg.count()), MemoryStore()
    today = rows(("a", 1), ("b", 2), at=54 * YEAR)
    with pytest.raises(InputError, match=r"leaps over 17\d{8} periods of 1s, .*; refuse such rows by reject="):
        run(spec, store, rows(("a", 1), at=S), today)
    assert store.entries == {}
    assert run(spec, store, today).counts["admitted"] == 2


def test_a_leap_over_many_periods_that_fit_is_processed() -> None:
    """A day by seconds."""
    spec, store = job(Tumbling(Time(1)), n=agg.count()), MemoryStore()
    done = run(spec, store, rows(("a", 1), at=S), rows(("a", 2), at=24 * 3600 * S))
    assert done.results is not None
    assert done.results.column("n").to_pylist() == [1]
