"""What a column does not take is not cut off, be it a part of a number or a field: it is in the quarantine."""

from __future__ import annotations

from collections import deque
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from panekeeper import Count, Emit, Event, EventType, Operator, Sliding, TimeInterval, Tumbling, agg
from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.core.operator_calls import EmitBuffer
from panekeeper.framework.core.steps import Tick
from panekeeper.framework.declarations.windows import Window
from panekeeper.state.store import MemoryStore
from tests.framework.core.quarantine_batches import COLUMNS, END, KEYS, S, bad, job, rows, run, values

INT = pa.int64()
PAIR = pa.struct([("n", INT), ("share", pa.float64())])
PANES = TimeInterval(10)
WINDOWS = {"panes": PANES, "tumbling": Tumbling(Count(2)), "sliding": Sliding(evict=Count(2), trigger=Count(2))}


class Half(agg.UserAggregate):
    """Half of the sum, which is no whole number where the sum is odd."""

    def zero(self) -> int:
        return 0

    def add(self, state: int, value: int) -> int:
        return state + value

    def result(self, state: int) -> float:
        return state / 2


class Halves(agg.UserAggregate):
    """Half of each value, added to a state that is declared as a whole number."""

    state = int

    def zero(self) -> float:
        return 0

    def add(self, state: float, value: int) -> float:
        return state + value / 2

    def merge(self, a: float, b: float) -> float:
        return a + b

    def result(self, state: float) -> int:
        return int(state)


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_a_result_that_is_no_whole_number_is_null_where_one_is_declared(window: Window) -> None:
    """A whole one is taken, whatever Python calls it."""
    spec = job(window, half=agg.user(Half(), "v", output="int64"))
    done = run(spec, MemoryStore(), Tick(S), rows(("a", 1), ("b", 1), ("a", 2), ("b", 3)), END)
    assert values(done, "half") == {"a": [None], "b": [2]}
    assert [one["reason"] for one in bad(done)] == ["USER_ERROR"]
    assert "1.5 is no whole number, and would be cut off to be of type int64" in bad(done)[0]["detail"]


@pytest.mark.parametrize("split", [1, 2, 4])
def test_a_state_that_is_no_whole_number_does_not_depend_on_the_batches(split: int) -> None:
    """It was cut off at the end of each batch. The row is left out, as one that add() refuses."""
    spec = job(PANES, mine=agg.user(Halves(), "v", output="int64"))
    store, given, refused = MemoryStore(), [("a", 1), ("a", 1), ("a", 2), ("a", 3)], []
    for first in range(0, len(given), split):
        refused += bad(run(spec, store, rows(*given[first : first + split])))
    assert values(run(spec, store, END), "mine") == {"a": [1]}
    assert [one["row"] for one in refused] == [f'{{"key":"a","v":{n}}}' for n in (1, 1, 3)]


class Emitting(Operator):
    """Emits the mean as a whole number."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.TRIGGER})

    def handle_event(self, event: Event, emit: Emit) -> None:
        emit(mean=sum(event.column("v")) / 2)


def test_an_emitted_number_that_is_no_whole_one_is_in_the_quarantine() -> None:
    """As one that is emitted in a table."""
    spec = JobSpec(window=PANES, keys=KEYS, columns=COLUMNS, operator=Emitting(), output=pa.schema([("mean", INT)]))
    done = run(spec, MemoryStore(), rows(("a", 1), ("b", 1), ("a", 2), ("b", 3)), END)
    assert values(done, "mean") == {"b": [2]}
    assert ["1.5 is no whole number" in one["detail"] for one in bad(done)] == [True]


FITS: list[tuple[pa.DataType, Any]] = [
    (INT, 2.0),
    (INT, Decimal("1e30") - Decimal("1e30")),
    (pa.float64(), 1.5),
    (pa.list_(INT), [1, None, 2.0]),
    (pa.list_(INT), np.array([1.0, 2.0])),
    (pa.list_(INT), pd.Series([1.0, 2.0])),
    (pa.list_(INT), deque([1, None])),
    (pa.list_(pa.string()), {"a"}),
    (PAIR, {"n": 1, "share": 0.5}),
    (PAIR, {"n": 1}),
    (PAIR, {}),
    (PAIR, (1, 0.5)),
    (PAIR, [("n", 1), ("share", 0.5)]),
    (pa.map_(pa.string(), INT), {"a": 1}),
    (pa.map_(pa.string(), INT), [("a", 1)]),
    (INT, None),
    (pa.list_(pa.list_(INT)), [None, [None]]),
]
MISFITS: list[tuple[pa.DataType, Any]] = [
    (INT, 1.5),
    (pa.int8(), np.float32(1.5)),
    (INT, Decimal("1.5")),
    (pa.date32(), 1.5),
    (pa.timestamp("us", tz="UTC"), 1.7e9 + 0.25),
    (pa.list_(INT), [1, 1.5]),
    (pa.list_(INT), np.array([1.0, 1.5])),
    (pa.list_(INT), pd.Series([1.0, 1.5])),
    (pa.list_(INT), {1.5}),
    (pa.list_(INT), deque([1.5])),
    (pa.list_(INT), {"a": 1.5}.values()),
    (pa.list_(pa.list_(INT)), [pd.Series([1.5])]),
    (PAIR, {"n": 1.5}),
    (PAIR, (1.5, 0.5)),
    (PAIR, [("n", 1.5), ("share", 0.5)]),
    (PAIR, {"n": 1, "share": 0.5, "more": 0.5}),
    (PAIR, [("n", 1), ("share", 0.5), ("more", 0.5)]),
    (pa.list_(pa.struct([("share", pa.float64())])), [{"Share": 0.5}]),
    (pa.map_(pa.string(), INT), {"a": 1.5}),
    (pa.map_(INT, pa.string()), [(1.5, "a")]),
    (pa.list_(pa.struct([("n", pa.list_(INT))])), [{"n": [1.5]}]),
    (pa.list_(INT), 1.5),
    (pa.struct([("n", INT)]), "n"),
    (pa.map_(pa.string(), INT), [1.5]),
]


@pytest.mark.parametrize(("kind", "value"), FITS, ids=str)
def test_what_a_column_takes(kind: pa.DataType, value: Any) -> None:
    """Whole numbers in any form, any number where no whole one is declared, structs of fields that are declared."""
    emitted = EmitBuffer(pa.schema([("n", kind)]))
    emitted(n=value)
    assert (len(emitted.pop_rows()), emitted.pop_misfits()) == (1, [])


@pytest.mark.parametrize(("kind", "value"), MISFITS, ids=str)
def test_what_a_column_does_not_take(kind: pa.DataType, value: Any) -> None:
    """However deep it is."""
    emitted = EmitBuffer(pa.schema([("n", kind)]))
    emitted(n=value)
    assert (emitted.pop_rows(), len(emitted.pop_misfits())) == ([], 1)
