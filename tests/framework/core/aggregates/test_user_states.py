"""The state of a user's aggregate is after each row what a batch that ends there would store."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from panekeeper import Count, Sliding, TimeInterval, Tumbling, agg
from panekeeper.framework.core.aggregates.user import as_stored
from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.steps import Rows, Step, Tick
from panekeeper.framework.declarations.windows import Window
from panekeeper.state.store import MemoryStore
from tests.framework.core.quarantine_batches import END, S, bad, job, rows, run, values

MONEY = pa.struct([("sum", pa.decimal128(10, 2)), ("n", pa.int32())])


class Sum(agg.UserAggregate):
    """The sum of integers, in a state of some type."""

    def __init__(self, state: Any) -> None:
        self.state = state  # type: ignore[misc]  # of the class, for a user

    def zero(self) -> Any:
        return 0

    def add(self, state: Any, value: int) -> Any:
        return state + value

    def merge(self, a: Any, b: Any) -> Any:
        return a + b

    def result(self, state: Any) -> int:
        return int(state)


class Parts(Sum):
    """The sum as the first of some floats, which it gets as integers."""

    def zero(self) -> list[int]:
        return [0, 0]

    def add(self, state: list[float], value: int) -> tuple[float, float]:
        return state[0] + value, state[1] + 1

    def result(self, state: list[float]) -> int:
        return int(state[0])


class Money(Sum):
    """The sum of thousandths, of which only hundredths are stored."""

    def zero(self) -> dict[str, Any]:
        return {"n": 0, "sum": Decimal(0)}

    def add(self, state: dict[str, Any], value: int) -> dict[str, Any]:
        return {"sum": state["sum"] + Decimal(value) / 1000, "n": state["n"] + value}

    def result(self, state: dict[str, Any]) -> int:
        return int(state["sum"] * 100) + int(state["n"])


STATES = {
    "int64": Sum(int),
    "int32": Sum("int32"),
    "float": Sum(float),
    "decimal": Sum(pa.decimal128(11, 0)),
    "list": Parts(list[float]),
    "struct": Money(MONEY),
}
WINDOWS: dict[str, Window] = {"panes": TimeInterval(10), "tumbling": Tumbling(Count(6))}
VALUES = st.sampled_from([1, 2, 5, -5, 10, 2**31 - 1, -(2**31), 2**53 - 1, 2**62, -(2**62)])


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("user", STATES.values(), ids=STATES)
@example(given_rows=[("a", 2**62), ("a", 2**62), ("b", 1), ("a", -(2**62))], split=1)
@example(given_rows=[("a", 2**53 - 1), ("a", 2), ("a", -5)], split=1)
@given(given_rows=st.lists(st.tuples(st.sampled_from("ab"), VALUES), min_size=1, max_size=12), split=st.integers(1, 5))
def test_neither_a_cut_nor_another_partition_changes_a_result(
    window: Window, user: Sum, given_rows: list[tuple[str, int]], split: int
) -> None:
    """Sums that leave the range and come back, integers that become floats, and what is refused, are the same."""
    spec = job(window, mine=agg.user(user, "v", output="int64"))

    def outcome(size: int, keys: str = "ab") -> tuple[list[tuple[str, Any]], list[str]]:
        store = MemoryStore()
        results: list[tuple[str, Any]] = []
        refused: list[str] = []
        kept = [one for one in given_rows if one[0] in keys]
        steps: list[list[Step]] = [[Tick(S), rows(*kept[first : first + size])] for first in range(0, len(kept), size)]
        if spec.has_panes:
            steps.append([END])
        for batch in steps:
            done = run(spec, store, *batch)
            results += (
                [] if done.results is None else [(key, v) for key, vs in values(done, "mine").items() for v in vs]
            )
            refused += [one["row"] for one in bad(done)]
        return sorted(results), sorted(refused)

    whole = outcome(len(given_rows))
    assert outcome(split) == whole
    (results, refused), (others, others_refused) = (outcome(split, key) for key in "ab")
    assert (sorted(results + others), sorted(refused + others_refused)) == whole


@pytest.mark.parametrize("cut", [1, 2, 5])
def test_a_state_that_is_a_value_of_its_row_changes_no_row(cut: int) -> None:
    """The next rows would be added to it, and what leaves the window be taken from it, in the row itself."""

    class Joined(agg.UserAggregate):
        def zero(self) -> None:
            return None

        def add(self, state: list[int] | None, value: list[int]) -> list[int]:
            if state is None:
                return value
            state.extend(value)
            return state

        def remove(self, state: list[int], value: list[int]) -> list[int]:
            del state[: len(value)]
            return state

        def result(self, state: list[int] | None) -> list[int] | None:
            return state

    lists = pa.list_(pa.int64())
    columns = pa.schema([("v", lists)])
    spec = JobSpec(
        window=Sliding(evict=Count(2)),
        keys=pa.schema([]),
        columns=columns,
        aggregates={"all": agg.user(Joined(), "v", output=lists)},
        output=pa.schema([("all", lists)]),
    )
    store = MemoryStore()
    found: list[Any] = []
    for first in range(0, 5, cut):
        batch = pa.table({"v": [[n] for n in range(first, min(first + cut, 5))]}, schema=columns)
        done = KeyGroupRunner(spec, store).run([Tick(0), Rows(batch)])
        found += [] if done.results is None else done.results.column("all").to_pylist()
    assert found == [[0], [0, 1], [1, 2], [2, 3], [3, 4]]


@pytest.mark.parametrize(
    ("kind", "value", "is_same"),
    [
        (pa.int8(), -128, True),
        (pa.int8(), -129, False),
        (pa.uint8(), 255, True),
        (pa.uint8(), -1, False),
        (pa.int64(), True, False),
        (pa.float64(), 1.5, True),
        (pa.float64(), 1, False),
        (pa.bool_(), True, True),
        (pa.string(), "text", True),
        (pa.string(), "\ud800", False),
        (pa.string(), b"text", False),
        (pa.binary(), b"text", True),
        (pa.binary(), "text", False),
        (pa.list_(pa.int64()), [], True),
        (pa.list_(pa.int64()), [1, None], True),
        (pa.list_(pa.int64()), [1, 2**63], False),
        (pa.list_(pa.int64()), (1,), False),
        (pa.list_(pa.list_(pa.string())), [["a"], None], True),
        (pa.list_(pa.list_(pa.string())), [["a"], [b"a"]], False),
        (pa.struct([("a", pa.int64()), ("b", pa.string())]), {"a": 1, "b": None}, True),
        (pa.struct([("a", pa.int64()), ("b", pa.string())]), {"b": "", "a": 1}, False),
        (pa.struct([("a", pa.int64())]), {"a": 1, "b": 2}, False),
        (pa.timestamp("us"), 0, False),
    ],
)
def test_what_is_read_back_as_it_was_needs_no_look_by_arrow(kind: pa.DataType, value: Any, *, is_same: bool) -> None:
    """Everything else becomes what Arrow makes of it, or is refused."""
    assert as_stored(kind)(value) is is_same
    if is_same:
        assert pa.array([value], kind).to_pylist() == [value]
