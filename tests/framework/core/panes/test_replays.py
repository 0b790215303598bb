"""A batch that spans very many panes of few rows, as a replay does: its work is that of its rows."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper import TimeInterval, agg
from panekeeper.framework.core.job_spec import EVENT_TIME, JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.panes.geometry import Geometry
from panekeeper.framework.core.panes.pane_index import CellIndex
from panekeeper.framework.core.steps import Rows, Step, Watermark
from panekeeper.framework.declarations.events import Event, EventType
from panekeeper.framework.declarations.operator import Emit, Operator
from panekeeper.state.store import MemoryStore
from tests.framework.core.panes.batch_cost import Cost

S = 1_000_000
COLUMNS = pa.schema([("key", pa.int64()), ("v", pa.int64())])
WINDOW = TimeInterval(60, creation_period=20, discard_age=10**6)


class Sum(Operator):
    """Adds up the rows of a pane."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.TRIGGER})

    def handle_event(self, event: Event, emit: Emit) -> None:
        """Emit one sum."""
        emit(total=int(event.column("v").sum()))


COMPUTATIONS: dict[str, dict[str, Any]] = {
    "partial aggregates": {"aggregates": {"total": agg.sum("v")}},
    "aggregates of rows": {"aggregates": {"total": agg.sum("v"), "all": agg.collect("v")}},
    "an operator": {"operator": Sum()},
}


def fire(computation: str, n_rows: int, n_keys: int, *, late: bool = False) -> Cost:
    """Fire panes that have one row each, of these keys in turn; return what that costs.

    `late`: they have fired, get the same rows again, and fire again.
    """
    columns = {"all": pa.list_(pa.int64()), "total": pa.int64()}
    names = [*COMPUTATIONS[computation].get("aggregates", ["total"])]
    spec = JobSpec(
        window=WINDOW,
        keys=pa.schema([COLUMNS.field("key")]),
        columns=COLUMNS,
        output=pa.schema([(name, columns[name]) for name in names]),
        **COMPUTATIONS[computation],
    )
    place = np.arange(n_rows)
    rows = pa.table({"key": place % n_keys, "v": place, EVENT_TIME: place * 60 * S})
    end = n_rows * 60 * S + 40 * S
    store, cost = MemoryStore(), Cost()
    KeyGroupRunner(spec, store).run([Rows(rows), Watermark(end)] if late else [Rows(rows)])
    steps: list[Step] = [Rows(rows), Watermark(end + 1)] if late else [Watermark(end)]
    done = cost.of(spec, store, *steps)
    assert done.results is not None
    assert sum(done.results.column("total").to_pylist()) == (6 if late else 3) * place.sum()
    return cost


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("computation", COMPUTATIONS)
def test_twice_as_many_panes_cost_twice_as_much(computation: str, *, late: bool) -> None:
    """Not four times: nothing is done for all panes at each of them."""
    fire(computation, 20, 4, late=late)  # what is imported and compiled once does not count
    once, twice = (fire(computation, rows, 4, late=late).calls for rows in (60, 120))
    assert twice < 2.2 * once


def test_keys_with_rows_in_few_of_the_panes_take_the_memory_of_their_rows() -> None:
    """4,000 keys and 12,000 panes make 48 million pairs, of which 12,000 have rows."""
    assert fire("partial aggregates", 4_000, 4_000).bytes < 40_000_000


CELLS = st.lists(st.tuples(st.integers(0, 5), st.integers(-9, 9)), min_size=1, max_size=30)


@given(cells=CELLS, panes=st.sets(st.integers(-7, 7), min_size=1), size=st.integers(1, 6), period=st.integers(1, 9))
def test_the_pairs_of_panes_are_those_with_rows(
    cells: list[tuple[int, int]], panes: set[int], size: int, period: int
) -> None:
    """Whether they are looked for cell by cell or among all pairs; panes may touch, overlap or have gaps."""
    geometry = Geometry(duration=size, period=period, offset=0, discard_age=0)
    codes, slices = (np.array(column, dtype=np.int64) for column in zip(*cells, strict=True))
    wanted = np.array(sorted(panes), dtype=np.int64)
    bounds = {pane: [int(edge[0]) for edge in geometry.slice_range(np.array([pane]))] for pane in panes}
    expected = sorted(
        {(pane, code) for code, one in cells for pane, (first, end) in bounds.items() if first <= one < end}
    )
    found_codes, found_panes = CellIndex(codes, slices, geometry).pairs(wanted)
    assert list(zip(found_panes.tolist(), found_codes.tolist(), strict=True)) == expected
