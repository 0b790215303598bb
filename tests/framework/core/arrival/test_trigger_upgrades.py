"""A sliding window whose trigger gets another size between two batches: when it fires, against a loop over the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper import Count, Delta, Sliding, Time, agg
from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.steps import Flush, Rows, Step, Tick
from panekeeper.state.compatibility import Compatibility, as_recorded, compare_declarations
from panekeeper.state.store import MemoryStore

COLUMNS = pa.schema({"n": pa.int64()})
SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=4)
VALUES = st.lists(st.integers(-3, 9), max_size=8)
POLICIES = {"count": Count, "delta": lambda size: Delta("n", size), "time": Time}


def declared(kind: str, size: int) -> JobSpec:
    """A job that counts the rows of a window which evicts none of them."""
    window = Sliding(evict=Count(1000), trigger=POLICIES[kind](size))
    output = pa.schema({"rows": pa.int64()})
    return JobSpec(window=window, keys=pa.schema([]), columns=COLUMNS, aggregates={"rows": agg.count()}, output=output)


def run(kind: str, parts: Sequence[tuple[int, Sequence[int]]], *, flush: bool = False) -> list[int]:
    """How many rows there were at each firing. Each part is a trigger size, and values; one row a second."""
    store, second = MemoryStore(), 0
    log: list[int] = []
    for number, (size, values) in enumerate(parts, 1):
        steps: list[Step] = []
        for value in values:
            second += 1
            steps += [Tick(second * 1_000_000), Rows(pa.table({"n": [value]}, schema=COLUMNS))]
        if flush and number == len(parts):
            steps.append(Flush())
        outcome = KeyGroupRunner(declared(kind, size), store).run(steps)
        store = store.copy()
        log += [] if outcome.results is None else outcome.results.column("rows").to_pylist()
    return log


def by_count(parts: Sequence[tuple[int, Sequence[int]]]) -> Iterator[int]:
    """With each row whose number since the last firing is a multiple of the size."""
    rows = since = 0
    for size, values in parts:
        for _ in values:
            rows, since = rows + 1, since + 1
            if since % size == 0:
                yield rows
                since = 0


def by_delta(parts: Sequence[tuple[int, Sequence[int]]]) -> Iterator[int]:
    """Before each value that exceeds that of the last firing by more than the size."""
    rows, base = 0, None
    for size, values in parts:
        for value in values:
            if base is None or value > base + size:
                if base is not None:
                    yield rows
                base = value
            rows += 1


def by_time(parts: Sequence[tuple[int, Sequence[int]]]) -> Iterator[int]:
    """When it is due, before a row of that second: a period after the last firing, or after the first row."""
    rows = second = 0
    due = None
    for size, values in parts:
        for _ in values:
            second += 1
            due = second + size if due is None else due
            while due <= second:
                if rows:
                    yield rows
                due += size
            rows += 1


EXPECTED = {"count": by_count, "delta": by_delta, "time": by_time}


@pytest.mark.parametrize("kind", EXPECTED)
@given(data=st.data())
def test_another_size_counts_from_the_last_firing(kind: str, data: st.DataObject) -> None:
    """A smaller and a larger one, in any order, wherever the rows were split."""
    parts = [(size, data.draw(VALUES)) for size in data.draw(SIZES)]
    if not any(values for _, values in parts[:1]):
        parts[0] = (parts[0][0], [0])
    firings = [*EXPECTED[kind](parts)]
    assert run(kind, parts) == firings
    rows = sum(len(values) for _, values in parts)
    has_unseen = rows > max(firings, default=0)
    assert run(kind, parts, flush=True) == firings + [rows] * has_unseen


def test_rows_are_counted_from_the_last_firing_also_where_a_size_was_passed_by() -> None:
    """Six rows, and a size of three: neither a flush nor a third size takes them for rows that have fired."""
    rows = [0] * 6
    assert run("count", [(10, rows), (3, [])], flush=True) == [6]
    assert run("count", [(10, rows), (3, []), (10, rows)]) == [10]
    assert run("count", [(10, rows), (3, [0]), (7, [0])]) == []
    assert run("count", [(4, rows[:3]), (3, [0]), (4, rows)]) == [8]


def recorded(trigger: Any, kept: int = 5) -> dict[str, Any]:
    """The recorded declaration of a sliding window."""
    return as_recorded({"window": Sliding(evict=Count(kept), trigger=trigger).declaration()}, 1)


def test_only_the_size_of_a_trigger_may_change() -> None:
    """Not its policy or its column, and not what a window evicts."""

    def compatible(old: dict[str, Any], new: dict[str, Any]) -> bool:
        return all(one.compatibility is Compatibility.COMPATIBLE for one in compare_declarations(old, new))

    assert compatible(recorded(Count(2)), recorded(Count(9)))
    assert compatible(recorded(Time(2)), recorded(Time(9)))
    assert compatible(recorded(Delta("n", 2)), recorded(Delta("n", 1.5)))
    assert not compatible(recorded(Count(2)), recorded(Time(2)))
    assert not compatible(recorded(Delta("n", 2)), recorded(Delta("m", 2)))
    assert not compatible(recorded(Count(2)), recorded(Count(2), kept=6))
