"""How partial aggregates and rows are stored: in runs of slots, whatever a batch changes, however large they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper import TimeInterval, agg
from panekeeper.framework.core.aggregates.binding import bind
from panekeeper.framework.core.job_spec import EVENT_TIME, JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.panes.storage import ROWS_KIND, SLICES_KIND, SliceStorage
from panekeeper.framework.core.steps import Rows, Step, Watermark
from panekeeper.state.codec import decode_table
from panekeeper.state.store import MemoryStore
from tests.framework.core.batch_work import CountingStore

RUN = 2**15
S = 1_000_000


@dataclass
class Stored:
    """A key group's slices, and what should be in them."""

    store: MemoryStore = field(default_factory=MemoryStore)
    runs: dict[int, int] = field(default_factory=dict)
    cells: set[tuple[int, int]] = field(default_factory=set)
    """(slot, number of the cell) of all cells of open slots."""
    n_cells: int = 0
    first_open: int = -(2**62)

    def add(self, slots: list[int], size: int = 10) -> None:
        """Run a batch, after a restart, that adds cells of so many bytes."""
        storage = SliceStorage(self.store, self.runs)
        numbers = range(self.n_cells, self.n_cells + len(slots))
        self.n_cells += len(slots)
        self.cells |= set(zip(slots, numbers, strict=True))
        added = pa.table({"slot": slots, "number": list(numbers), "content": [b"x" * size] * len(slots)})
        changed = np.unique(slots)
        memory = pa.concat_tables([*storage.read(changed), added])
        memory = memory.filter(pc.greater_equal(memory.column("slot"), self.first_open))
        storage.write(changed, memory.column("slot").to_numpy(), lambda at: memory.take(pa.array(at)).combine_chunks())

    def close(self, before: int) -> None:
        """Close all slots before this one, as a watermark does."""
        self.first_open = max(before, self.first_open)
        self.cells = {cell for cell in self.cells if cell[0] >= self.first_open}
        open_slots = np.array(sorted({slot for slot, _ in self.cells}), dtype=np.int64)
        SliceStorage(self.store, self.runs).retain(open_slots)

    def tables(self) -> list[pa.Table]:
        """The stored values, by their first slots."""
        return [decode_table(self.store.read(SLICES_KIND, first, 0)) for first in sorted(self.runs)]


SLOTS = st.lists(st.integers(-6, 6) | st.sampled_from([-(10**15), 10**15]), min_size=1, max_size=8)


@given(
    batches=st.lists(st.tuples(SLOTS, st.none() | st.integers(-6, 7)), min_size=1, max_size=6),
    size=st.sampled_from([10, RUN // 3, 2 * RUN]),
)
def test_every_cell_is_stored_once_in_a_run_of_its_own(batches: list[tuple[list[int], int | None]], size: int) -> None:
    """Runs do not overlap, none of several slots is large, and a value goes when the last of its slots is closed."""
    stored = Stored()
    for slots, close in batches:
        stored.add([max(slot, stored.first_open) for slot in slots], size)  # no row falls into a slot that is closed
        if close is not None:
            stored.close(close)
        tables, firsts = stored.tables(), sorted(stored.runs)
        found = [(row["slot"], row["number"]) for table in tables for row in table.to_pylist()]
        assert sorted(cell for cell in found if cell[0] >= stored.first_open) == sorted(stored.cells)
        assert set(stored.store.entries) == {(SLICES_KIND, first, 0) for first in firsts}
        assert all(first + stored.runs[first] <= after for first, after in pairwise(firsts))
        for first, table in zip(firsts, tables, strict=True):
            own = table.column("slot").to_pylist()
            assert (min(own), max(own)) == (first, first + stored.runs[first] - 1)
            assert len(set(own)) == 1 or len(own) * size <= RUN
            assert max(own) >= stored.first_open


def test_a_value_without_a_changed_slot_is_not_rewritten() -> None:
    """Not even if those around it are: a batch costs by what is new."""
    stored = Stored()
    for slot in (3, 1, 5):
        stored.add([slot])
    before = dict(stored.store.entries)
    stored.add([1, 5, 2, 4])
    assert stored.runs == {1: 2, 3: 1, 4: 2}
    assert stored.store.entries[SLICES_KIND, 3, 0] == before[SLICES_KIND, 3, 0]


COLUMNS = pa.schema([("key", pa.string()), ("v", pa.int64()), ("name", pa.string())])
WINDOW = TimeInterval(60, creation_period=20, discard_age=360)
CONTENTS: dict[str, dict[str, agg.Aggregate]] = {
    "cells": {"n": agg.sum("v"), "last": agg.last("name")},
    "rows": {"n": agg.collect("v"), "last": agg.last("name")},
}


def rows(seconds: range, text: int) -> Rows:
    """A row of each of three keys, every so many seconds, with a name of so many letters."""
    triples = [(key, at) for at in seconds for key in "abc"]
    columns = {
        "key": [key for key, _ in triples],
        "v": [at for _, at in triples],
        "name": [f"{at}".ljust(text) for _, at in triples],
        EVENT_TIME: [at * S for _, at in triples],
    }
    return Rows(pa.table(columns, schema=COLUMNS.append(pa.field(EVENT_TIME, pa.int64()))))


def results(content: str, stores: list[MemoryStore], batches: list[list[Step]]) -> list[dict[str, Any]]:
    """Run each batch on its store, which has what the one before has left; return the result rows, sorted."""
    aggregates = CONTENTS[content]
    output = pa.schema([(name, bind(one, COLUMNS).output) for name, one in aggregates.items()])
    keys = pa.schema([COLUMNS.field("key")])
    spec = JobSpec(window=WINDOW, keys=keys, columns=COLUMNS, aggregates=aggregates, output=output)
    done = [KeyGroupRunner(spec, store).run(steps).results for store, steps in zip(stores, batches, strict=True)]
    return in_order([row for table in done if table is not None for row in table.to_pylist()])


def in_order(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The result rows by pane and key, whatever batch they came with."""
    return sorted(found, key=lambda row: (row["pane_start"], row["key"], row["refinement"]))


DAY = range(0, 86_400, 20)


@pytest.mark.parametrize(("content", "calls"), [("cells", 300), ("rows", 3 * 4_320 // 16 + 9)])
def test_a_batch_that_replays_a_day_costs_few_calls_of_the_store(content: str, calls: int) -> None:
    """4,320 slots of three cells, or rows: they are written, read again by the watermark, and removed."""
    store = CountingStore()
    found = results(content, [store] * 3, [[rows(DAY, 1)], [Watermark(50_000 * S)], [Watermark(90_000 * S)]])
    assert len(found) == 3 * (4_320 + 2)
    assert store.calls < calls
    assert not store.entries


@pytest.mark.parametrize("text", [1, 9_000])
@pytest.mark.parametrize("content", CONTENTS)
def test_late_rows_find_what_is_stored_in_whatever_run_it_is(content: str, text: int) -> None:
    """In runs of many slots, and in those of one or two; the results are those of one batch."""
    late: list[list[Step]] = [[rows(range(first, 300, step), text)] for first, step in ((1, 60), (40, 120), (0, 7))]
    batches: list[list[Step]] = [[rows(range(0, 300, 20), text)], *late, [Watermark(1_000 * S)]]
    whole: list[Step] = [step for batch in batches for step in batch]
    store = MemoryStore()
    assert results(content, [store] * len(batches), batches) == results(content, [MemoryStore()], [whole])
    assert not store.entries


def test_rows_of_one_slot_in_many_values_are_joined() -> None:
    """Forty batches of late rows, each of which makes the pane fire again."""
    store = MemoryStore()
    batches: list[list[Step]] = [[rows(range(0, 60, 20), 1), Watermark(100 * S)]]
    batches += [[rows(range(30, 31), 1), Watermark((101 + number) * S)] for number in range(40)]
    found = results("rows", [store] * len(batches), batches)
    assert max(len(row["n"]) for row in found) == 43
    assert len([kind for kind, _, _ in store.entries if kind == ROWS_KIND]) < 20


def test_a_pane_that_many_batches_add_rows_to_costs_each_of_them_the_same() -> None:
    """Rows of two slots in 200 batches: each is a value of its own, and the header does not list them one by one."""
    store, sizes = MemoryStore(), []
    for number in range(200):
        results("rows", [store], [[rows(range(0, 40, 20), 1), Watermark((number - 300) * S)]])
        sizes.append(len(store.header or b""))
    assert len(store.entries) == 200
    assert max(sizes) < min(sizes) + 20
    found = results("rows", [store], [[Watermark(1_000 * S)]])
    assert max(len(row["n"]) for row in found) == 400
    assert not store.entries
