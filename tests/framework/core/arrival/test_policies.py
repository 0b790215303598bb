"""Policies of a user's own: each gives what the built-in one gives that it repeats."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper import (
    Batched,
    Count,
    DeclarationError,
    Delta,
    PartitionCount,
    PartitionUse,
    Sliding,
    Tumbling,
    TupleCount,
    UserPolicy,
    agg,
)
from panekeeper.framework.core.job_spec import ARRIVAL_TIME, JobSpec, OnError
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.steps import Flush, Rows, Step
from panekeeper.framework.declarations.errors import InputError
from panekeeper.framework.declarations.policies import Policy
from panekeeper.framework.declarations.windows import ArrivalWindow
from panekeeper.state.store import MemoryStore

COLUMNS = pa.schema([("key", pa.string()), ("v", pa.int64())])
KEYS = pa.schema([("key", pa.string())])
AGGREGATES = {"n": agg.count(), "total": agg.sum("v")}
OUTPUT = pa.schema([("n", pa.int64()), ("total", pa.int64())])


@dataclass(frozen=True)
class UserCount(UserPolicy):
    """`Count` again, row by row."""

    attribute: str
    size: int
    tumbles_after = True

    def tumble(self, state: float | None, value: float) -> tuple[bool, float | None]:
        return self.fire(state, value)

    def evict(self, content: Sequence[float], value: float) -> int:
        return max(len(content) + 1 - self.size, 0)

    def fire(self, state: float | None, value: float) -> tuple[bool, float | None]:
        count = (state or 0) + 1
        return count == self.size, count % self.size


@dataclass(frozen=True)
class UserDelta(UserPolicy):
    """`Delta` again as an eviction policy of tumbling windows."""

    attribute: str
    size: int

    def tumble(self, state: float | None, value: float) -> tuple[bool, float | None]:
        return (False, value) if state is None else (value - state > self.size, state)


@dataclass(frozen=True)
class UserPartitionCount(UserPolicy):
    """`PartitionCount` again."""

    size: int

    def evict_partitions(self, partitions: Sequence[PartitionUse]) -> Sequence[int]:
        excess = len(partitions) - self.size
        rows = [*(use.rows for use in partitions), 1]
        leading = next(position for position, count in enumerate(rows) if count)
        return range(max(excess, leading)) if excess > 0 else []


@dataclass(frozen=True)
class UserTupleCount(UserPolicy):
    """`TupleCount` again."""

    size: int

    def evict_partitions(self, partitions: Sequence[PartitionUse]) -> Sequence[int]:
        left = sum(use.rows for use in partitions)
        evicted = []
        for position, use in enumerate(partitions):
            if left > self.size:
                evicted.append(position)
                left -= use.rows
        return evicted


@dataclass(frozen=True)
class Faulty(UserPolicy):
    """Returns what is given."""

    attribute: str
    returned: Any

    def evict(self, content: Sequence[float], value: float) -> int:
        returned: int = self.returned
        return returned

    def fire(self, state: float | None, value: float) -> tuple[bool, float | None]:
        returned: tuple[bool, float | None] = self.returned
        return returned

    def evict_partitions(self, partitions: Sequence[PartitionUse]) -> Sequence[int]:
        returned: Sequence[int] = self.returned
        return returned


@dataclass(frozen=True)
class HalfOfThem(UserPolicy):
    """Half of the rows leave, which is a whole number for every second content only."""

    attribute: str

    def evict(self, content: Sequence[float], value: float) -> int:
        half: int = len(content) / 2  # type: ignore[assignment]  # as a user may get it wrong
        return half


def results(
    window: ArrivalWindow, batches: Sequence[Sequence[tuple[str, int]]], on_error: OnError = None, **computed: Any
) -> list[Any]:
    """The result log without its reasons, batch by batch, each after a restart, with a flush at the end."""
    aggregates = computed or AGGREGATES
    output = pa.schema([("values", pa.list_(pa.int64()))]) if computed else OUTPUT
    spec = JobSpec(window=window, keys=KEYS, columns=COLUMNS, aggregates=aggregates, output=output, on_error=on_error)
    store, log, arrived = MemoryStore(), list[Any](), 0
    steps: list[list[Step]] = []
    for batch in batches:
        times = pa.array(range(arrived, arrived + len(batch)), pa.int64())
        table = pa.table([[key for key, _ in batch], [v for _, v in batch]], schema=COLUMNS)
        steps.append([Rows(table.append_column(ARRIVAL_TIME, times))])
        arrived += len(batch)
    steps.append([Flush()])
    for of_batch in steps:
        spec, store = pickle.loads(pickle.dumps(spec)), store.copy()  # noqa: S301 -- our own bytes
        outcome = KeyGroupRunner(spec, store).run(of_batch)
        log += [] if outcome.results is None else outcome.results.drop_columns(["reason", "firing"]).to_pylist()
    return log


ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), max_size=12)
PAIRS = [
    (Tumbling(Count(3)), Tumbling(UserCount("v", 3))),
    (Tumbling(Delta("v", 2)), Tumbling(UserDelta("v", 2))),
    (Sliding(evict=Count(3)), Sliding(evict=UserCount("v", 3))),
    (Sliding(evict=Count(3), trigger=Count(2)), Sliding(evict=Count(3), trigger=UserCount("v", 2))),
    (Sliding(evict=Delta("v", 2), trigger=Count(2)), Sliding(evict=Delta("v", 2), trigger=UserCount("v", 2))),
    (Sliding(evict=Count(4), trigger=Delta("v", 1)), Sliding(evict=UserCount("v", 4), trigger=Delta("v", 1))),
]
LIMITS = [(PartitionCount(2), UserPartitionCount(2)), (TupleCount(3), UserTupleCount(3))]
LIMITED: list[Callable[[Policy], ArrivalWindow]] = [
    lambda limit: Tumbling(Count(2), partition_eviction=limit),
    lambda limit: Sliding(evict=Count(2), trigger=Count(2), partition_eviction=limit),
    lambda limit: Batched(retain=2, every=2, partition_eviction=limit),
]


@pytest.mark.parametrize(("built_in", "own"), PAIRS, ids=str)
@pytest.mark.parametrize("computed", [{}, {"values": agg.collect("v")}], ids=["partial results", "rows"])
@given(batches=st.lists(ROWS, max_size=4))
def test_a_users_policy_gives_what_the_built_in_one_gives(
    built_in: ArrivalWindow, own: ArrivalWindow, computed: dict[str, Any], batches: list[list[tuple[str, int]]]
) -> None:
    """In every role, whatever is kept between batches, after restarts, and what is left at the end."""
    assert results(own, batches, **computed) == results(built_in, batches, **computed)


@pytest.mark.parametrize("window", LIMITED, ids=["tumbling", "sliding", "batched"])
@pytest.mark.parametrize(("built_in", "own"), LIMITS, ids=str)
@given(batches=st.lists(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 9)), max_size=12), max_size=4))
def test_a_users_partition_eviction_gives_what_the_built_in_one_gives(
    window: Callable[[Policy], ArrivalWindow],
    built_in: Policy,
    own: Policy,
    batches: list[list[tuple[str, int]]],
) -> None:
    """In every kind of window, after restarts, and what is left at the end."""
    assert results(window(own), batches) == results(window(built_in), batches)


def test_a_policy_in_a_role_that_it_does_not_define_is_refused() -> None:
    """Where the window is declared; the error names the missing method."""
    with pytest.raises(DeclarationError, match=r"must define evict\(\)"):
        Sliding(evict=UserDelta("v", 1))
    with pytest.raises(DeclarationError, match=r"must define fire\(\)"):
        Sliding(evict=Count(1), trigger=UserDelta("v", 1))
    with pytest.raises(DeclarationError, match=r"must define tumble\(\)"):
        Tumbling(Faulty("v", 0))
    with pytest.raises(DeclarationError, match=r"to evict partitions it must define evict_partitions\(\)"):
        Tumbling(Count(1), partition_eviction=UserDelta("v", 1))
    with pytest.raises(DeclarationError, match="must be the name of a column"):
        Tumbling(UserDelta("", 1))


def test_a_policy_that_returns_what_cannot_be_is_an_error() -> None:
    """More rows than there are, or a state that cannot be stored: what it returned is treated as if it had raised."""
    with pytest.raises(InputError, match=r"evict\(\) returned 5 for a content of 0 rows"):
        results(Sliding(evict=Faulty("v", 5)), [[("a", 1)]], "fail")
    with pytest.raises(InputError, match=r"evict\(\) returned 0.5 for a content of 1 rows"):
        results(Sliding(evict=HalfOfThem("v")), [[("a", 1), ("a", 2)]], "fail")
    for returned in ([1], [0, 0], [-1]):
        with pytest.raises(InputError, match=r"evict_partitions\(\) returned .* for 1 partitions"):
            results(Tumbling(Count(2), partition_eviction=Faulty("v", returned)), [[("a", 1)]], "fail")
    with_error = results(Tumbling(Count(2), partition_eviction=Faulty("v", [1])), [[("a", 1), ("a", 2)]])
    assert with_error == results(Tumbling(Count(2)), [[("a", 1), ("a", 2)]])
    with pytest.raises(InputError, match="returned the state 'x'"):
        results(Sliding(evict=Count(1), trigger=Faulty("v", (False, "x"))), [[("a", 1)]], "fail")


@dataclass(frozen=True)
class Text(UserPolicy):
    """Fires when the text of its state is that of a float: what is stored is one."""

    attribute: str

    def fire(self, state: float | None, value: float) -> tuple[bool, float | None]:
        return str(state) == "1.0", 1


def test_a_state_is_the_same_number_within_a_batch_and_after_a_restart() -> None:
    """An integer is a float from the next row on, as it is once it was stored."""
    window, rows = Sliding(evict=Count(1), trigger=Text("v")), [("a", 1), ("a", 2), ("a", 3)]
    assert results(window, [rows]) == results(window, [[row] for row in rows])


def test_the_declaration_of_a_users_policy_has_its_class_and_fields() -> None:
    """So that another one is refused on the checkpoint; fields that are slots count, too."""
    policy = UserCount("v", 3)
    assert policy.declaration() == {
        "policy": "user",
        "class": "UserCount",
        "parameters": {field.name: getattr(policy, field.name) for field in fields(policy)},
    }

    @dataclass(frozen=True, slots=True)
    class Slotted(UserPolicy):
        attribute: str
        size: int

    assert Slotted("v", 3).declaration()["parameters"] == {"attribute": "v", "size": 3}
