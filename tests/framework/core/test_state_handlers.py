"""State handlers on the pure core: what each batch calls, and what is kept."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper import (
    CheckpointReason,
    Count,
    StateContext,
    StateHandler,
    Time,
    Tumbling,
)
from panekeeper.framework.core.steps import Tick
from panekeeper.state.store import MemoryStore
from panekeeper.state.user_values import from_json, to_json
from tests.framework.core.handler_batches import KEYS, NotingHandler, rows, run, spec, totals


@pytest.fixture
def calls() -> list[tuple[Any, ...]]:
    """The calls that `Noted` handlers get."""
    NotingHandler.calls.clear()
    return NotingHandler.calls


def test_state_of_an_operators_own_goes_on_from_batch_to_batch() -> None:
    """The instance lives for one batch; what it wrote is what the next one finds."""
    made, store = spec(), MemoryStore()
    assert totals(run(made, store, 0, rows(("a", 1), ("a", 2)))) == [3]
    assert totals(run(made, store, 1, rows(("a", 4), ("a", 8)))) == [15]
    assert totals(run(made, store.copy(), 2, rows(("b", 16), ("b", 32)), run=2)) == [63]


def test_a_batch_that_is_run_again_finds_the_state_before_it() -> None:
    """A batch that failed left nothing behind, so that its second attempt gives the same."""
    made, store = spec(), MemoryStore()
    run(made, store, 0, rows(("a", 1), ("a", 2)))
    once, again = (run(made, store.copy(), 1, rows(("a", 4), ("a", 8)), attempt=n) for n in (1, 2))
    assert totals(once) == totals(again) == [15]


def test_handlers_are_called_in_the_order_of_their_registration(calls: list[tuple[Any, ...]]) -> None:
    """In every method; the checkpoint before the last one is retired by the next batch."""
    made, store = spec(NotingHandler("x"), NotingHandler("y")), MemoryStore()
    for number in range(3):
        run(made, store, number, Tick(number + 1))
    assert calls[:6] == [
        ("x", "drain", 0, "batch"),
        ("y", "drain", 0, "batch"),
        ("x", "checkpoint", 0, 1),
        ("y", "checkpoint", 0, 1),
        ("x", "close"),
        ("y", "close"),
    ]
    third = calls[-10:]
    assert third[:4] == [("x", "reset", 1, False), ("y", "reset", 1, False), ("x", "retire", 0), ("y", "retire", 0)]


def test_a_restart_is_distinguished_from_the_next_batch(calls: list[tuple[Any, ...]]) -> None:
    """`ctx.restarted` holds in the first batch of a run alone."""
    made, store = spec(NotingHandler()), MemoryStore()
    for number, of_run in enumerate((1, 1, 2, 2)):
        run(made, store, number, Tick(number + 1), run=of_run, no_batch_committed=of_run == 1)
    assert [call[3] for call in calls if call[1] == "reset"] == [False, True, False]


@pytest.mark.parametrize(
    ("of_run", "no_batch_committed", "is_initial"), [(1, True, False), (2, True, True), (2, False, False)]
)
def test_without_a_checkpoint_a_later_run_begins_again(
    calls: list[tuple[Any, ...]],
    of_run: int,
    no_batch_committed: bool,  # noqa: FBT001 -- of the cases
    is_initial: bool,  # noqa: FBT001 -- as above
) -> None:
    """Never at the very first start, nor for a group that only gets its first row late."""
    run(spec(NotingHandler()), MemoryStore(), 0, Tick(1), run=of_run, no_batch_committed=no_batch_committed)
    assert (("noted", "initial") in calls) is is_initial


def test_handlers_receive_the_reason_and_the_attempt(calls: list[tuple[Any, ...]]) -> None:
    """A drain can be distinguished from an ordinary batch, and a batch that is run again from a new one."""
    run(spec(NotingHandler()), MemoryStore(), 7, Tick(1), reason=CheckpointReason.DRAIN, attempt=3)
    assert calls[:2] == [("noted", "drain", 7, "drain"), ("noted", "checkpoint", 7, 3)]


class Evicting(StateHandler):
    """Evicts, when drained, the partitions that hold too little."""

    def drain(self, ctx: StateContext) -> None:
        if ctx.reason is CheckpointReason.DRAIN:
            for partition in ctx.partitions():
                if partition.tuples < 2:
                    ctx.evict_partition(partition.key)


def test_a_partition_can_be_evicted_in_drain() -> None:
    """Its content is in the event, all that is kept of it is removed, and its key begins as new."""
    made, store = spec(Evicting(), window=Tumbling(Count(3))), MemoryStore()
    run(made, store, 0, rows(("a", 1), ("a", 2), ("b", 4)))
    drained = run(made, store, 1, Tick(5), reason=CheckpointReason.DRAIN)
    assert drained.results is not None
    assert drained.results.select(["key", "total"]).to_pylist() == [{"key": "b", "total": 4}]
    assert (drained.open_panes, drained.kept_rows) == (1, 2)
    after = run(made, store, 2, rows(("b", 8), ("b", 16), ("b", 32), at=9))
    assert totals(after) == [4 + 56]


class Keeping(StateHandler):
    """Keeps what it is given."""

    kept: ClassVar[Any] = None
    found: ClassVar[Any] = None

    def checkpoint(self, ctx: StateContext) -> None:
        ctx.write("value", type(self).kept)

    def reset(self, ctx: StateContext) -> None:
        type(self).found = ctx.read("value")


class Counting(StateHandler):
    """Writes its list, and a part of it under another name, and changes it meanwhile."""

    found: ClassVar[Any] = None

    def checkpoint(self, ctx: StateContext) -> None:
        values = [1]
        ctx.write("first", values)
        values.append(2)
        ctx.write("both", {"values": values})
        values.clear()

    def reset(self, ctx: StateContext) -> None:
        type(self).found = (ctx.read("first"), ctx.read("both"))


def test_a_state_is_what_it_was_when_it_was_written() -> None:
    """Whatever the handler does afterwards to its lists and dicts."""
    store = MemoryStore()
    run(spec(Counting()), store, 0, Tick(1))
    run(spec(Counting()), store, 1, Tick(2))
    assert Counting.found == ([1], {"values": [1, 2]})


OFFSETS = st.integers(-86_340, 86_340).map(lambda seconds: timedelta(seconds=seconds))
FIXED = st.builds(timezone, OFFSETS) | st.builds(timezone, OFFSETS, st.text().map("local {}".format))
"""Zones that differ from UTC always by the same, some with a name of the user's own."""
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.dates()
    | st.floats(allow_nan=False).map(np.float64)
    | st.datetimes(timezones=st.none() | st.just(UTC) | st.timezones() | FIXED)
    | st.timedeltas()
    | st.decimals(allow_nan=False),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text(), inner)
        | st.dictionaries(st.tuples(st.integers(), st.text()), inner)
    ),
    max_leaves=8,
)


@given(value=PLAIN)
def test_typed_values_come_back_as_they_were(value: Any) -> None:
    """Equal, and of the same type, through the stored bytes."""
    assert repr(from_json(to_json(value))) == repr(value)
    store = MemoryStore()
    Keeping.kept = value
    run(spec(Keeping(), keys=KEYS), store, 0, Tick(1))
    run(spec(Keeping(), keys=KEYS), store, 1, Tick(2))
    assert repr(Keeping.found) == repr(value)


def test_tables_and_times_come_back_as_they_were() -> None:
    """Arrow tables keep their types; times keep their zone."""
    table = pa.table({"a": pa.array([1, None], pa.int16()), "b": [["x"], []]})
    for value in (
        table,
        datetime(2024, 5, 1, tzinfo=UTC),
        date(2024, 5, 1),
        timedelta(microseconds=1),
        Decimal("1.10"),
    ):
        store = MemoryStore()
        Keeping.kept = value
        run(spec(Keeping()), store, 0, Tick(1))
        run(spec(Keeping()), store, 1, Tick(2))
        assert Keeping.found == value


def test_fields_that_nobody_wrote_have_a_default() -> None:
    """A handler that joined later finds what it says itself."""
    found = StateContext(
        phase="reset",
        checkpoint=1,
        group=0,
        reason=CheckpointReason.BATCH,
        attempt=1,
        restarted=False,
        values={},
        windows=None,  # type: ignore[arg-type]  # reading needs no window
    )
    assert found.read("new", 5) == 5


class TimeRecorder(StateHandler):
    """Stores the time that it gets, and since when a partition has been idle."""

    received: ClassVar[list[Any]] = []

    def drain(self, ctx: StateContext) -> None:
        self.received.append((ctx.now, [ctx.now - one.last_insertion for one in ctx.partitions() if ctx.now]))


def test_a_drain_gives_handlers_the_time_and_lets_nothing_fall_due() -> None:
    """How long a partition has been idle is known, though no tick came; its timer waits for the next start."""
    TimeRecorder.received.clear()
    made, store = spec(TimeRecorder(), window=Tumbling(Time(10))), MemoryStore()
    run(made, store, 0, Tick(0), rows(("a", 1), at=1_000_000))
    drained = run(made, store, 1, reason=CheckpointReason.DRAIN, now_us=61_000_000)
    assert drained.results is None
    assert TimeRecorder.received[-1] == (datetime(1970, 1, 1, 0, 1, 1, tzinfo=UTC), [timedelta(seconds=60)])
