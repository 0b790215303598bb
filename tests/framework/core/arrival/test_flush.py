"""What leaves a window by evictions and by a flush is what has entered it, each row once."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from panekeeper import Batched, Count, Emit, Event, EventType, Operator, Sliding, Time
from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.steps import Flush, Rows, Step, Tick
from panekeeper.framework.declarations.windows import ArrivalWindow
from panekeeper.state.store import MemoryStore

COLUMNS = pa.schema({"k": pa.string(), "n": pa.int64()})
WINDOWS = {
    "batched by count": Batched(retain=2, every=3),
    "batched by count, few kept": Batched(retain=1, every=2),
    "batched by time": Batched(within=5, every=3),
    "batched by time, few kept": Batched(within=5, every=3, retain=2),
    "sliding by count": Sliding(evict=Count(2), trigger=Count(3)),
    "sliding by time": Sliding(evict=Time(4), trigger=Time(3)),
}


class Movements(Operator):
    """Emits each row that comes into the window, or leaves it."""

    events = frozenset({EventType.INSERTION, EventType.EVICTION, EventType.FINAL})

    def handle_event(self, event: Event, emit: Emit) -> None:
        for number in event.column("n").tolist():
            emit(what=event.type.value, n=number)


def booked(window: ArrivalWindow, keys: list[str], cut: int) -> dict[str, Counter[int]]:
    """The rows of each event type, of a row a second and a flush, in two batches."""
    output = pa.schema({"what": pa.string(), "n": pa.int64()})
    keyed = pa.schema([COLUMNS.field("k")])
    spec = JobSpec(window=window, keys=keyed, columns=COLUMNS, operator=Movements(), output=output)
    steps: list[Step] = []
    for number, key in enumerate(keys, 1):
        steps += [Tick(number * 1_000_000), Rows(pa.table({"k": [key], "n": [number]}, schema=COLUMNS))]
    store, found = MemoryStore(), dict[str, Counter[int]]()
    for part in (steps[: 2 * cut], [*steps[2 * cut :], Flush()]):
        results = KeyGroupRunner(spec, store).run(part).results
        store = store.copy()
        for row in [] if results is None else results.to_pylist():
            found.setdefault(row["what"], Counter())[row["n"]] += 1
    return found


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
@given(keys=st.lists(st.sampled_from("ab"), min_size=1, max_size=14), cut=st.integers(0, 14))
@example(keys=["a"] * 3, cut=0)
def test_each_row_that_entered_leaves_once(window: ArrivalWindow, keys: list[str], cut: int) -> None:
    """FINAL has what is left: neither a row that a last batch has evicted, nor one that never entered."""
    found = booked(window, keys, cut)
    left = found.get("eviction", Counter()) + found.get("final", Counter())
    assert found.get("insertion", Counter()) == left
