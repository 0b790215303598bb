"""What an operator of a time interval emits does not depend on where the rows are cut, also where it raises for one."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from panekeeper import Emit, Event, EventType, Operator, StateHandler, TimeInterval
from panekeeper.framework.core.job_spec import ARRIVAL_TIME, EVENT_TIME, JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.state_handlers import BatchCheckpoint
from panekeeper.framework.core.steps import Rows, Watermark
from panekeeper.state.handler import StateContext
from panekeeper.state.store import MemoryStore
from tests.framework.core.quarantine_batches import COLUMNS, KEYS, S, bad, rows

LATE = Watermark(50 * S)


class Picky(Operator):
    """Emits each row, but for one that it cannot handle."""

    def __init__(self, kind: EventType) -> None:
        self.events = frozenset({kind})  # type: ignore[misc]  # of the class, for a user

    def handle_event(self, event: Event, emit: Emit) -> None:
        for value in event.column("v").tolist():
            if value == 2:
                raise ValueError("two is bad")
            emit(v=value)


class Counting(Operator, StateHandler):
    """Emits how many rows it has seen, but for one that it cannot handle."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.INSERTION})

    def __init__(self) -> None:
        self.count = 0

    def handle_event(self, event: Event, emit: Emit) -> None:
        for value in event.column("v").tolist():
            self.count += 1
            if value == 2:
                raise ValueError("two is bad")
            emit(v=self.count)

    def checkpoint(self, ctx: StateContext) -> None:
        ctx.write("count", self.count)

    def reset(self, ctx: StateContext) -> None:
        self.count = ctx.read("count")


class Numbering(Operator, StateHandler):
    """Emits a number for each row of an event: the numbers of a key, across its panes, and of what is too late."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.INSERTION, EventType.DROP})

    def __init__(self) -> None:
        self.count = dict[str, int]()

    def handle_event(self, event: Event, emit: Emit) -> None:
        for value in event.column("v").tolist():
            self.count[event.key] = self.count.get(event.key, 0) + 1
            pane = -1 if event.type is EventType.DROP else event.pane.start_us // S
            emit(v=1_000_000 * value + 1000 * pane + self.count[event.key])

    def checkpoint(self, ctx: StateContext) -> None:
        ctx.write("count", self.count)

    def reset(self, ctx: StateContext) -> None:
        self.count = ctx.read("count")


def emitted(operator: Operator, cuts: tuple[int, ...], *before: Any, **options: Any) -> tuple[list[int], int]:
    """What is emitted for the rows 1, 2 and 3 of one pane, and how many errors there are."""
    spec = JobSpec(
        window=TimeInterval(10, discard_age=0),
        keys=KEYS,
        columns=COLUMNS,
        operator=operator,
        handlers=(operator,) if isinstance(operator, StateHandler) else (),
        output=pa.schema([("v", pa.int64())]),
        **options,
    )
    given = [rows(*[("a", value) for value in (1, 2, 3)[low:high]]) for low, high in pairwise((0, *cuts, 3))]
    store, errors = MemoryStore(), 0
    found: list[int] = []
    for number, step in enumerate([*before, *given]):
        own = Rows(step.table.drop_columns([ARRIVAL_TIME])) if isinstance(step, Rows) else step
        done = KeyGroupRunner(spec, store, BatchCheckpoint(checkpoint=number, group=0)).run([own])
        found += [] if done.results is None else done.results.column("v").to_pylist()
        errors += sum(one["reason"] == "USER_ERROR" for one in bad(done))
    return found, errors


@pytest.mark.parametrize("cuts", [(), (1,), (2,), (1, 2)], ids=str)
@pytest.mark.parametrize("kind", [EventType.INSERTION, EventType.DROP])
def test_only_what_was_emitted_for_the_row_is_left_out(kind: EventType, cuts: tuple[int, ...]) -> None:
    """Of neighbours that came with it in one event, too; a late row is an event of its own."""
    before = [rows(("a", 9)), LATE] if kind is EventType.DROP else []
    assert emitted(Picky(kind), cuts, *before) == ([1, 3], 1)


@pytest.mark.parametrize("cuts", [(), (1,), (2,), (1, 2)], ids=str)
def test_with_state_no_row_is_handled_twice(cuts: tuple[int, ...]) -> None:
    """What the operator changed before it raised stays: so it gets the rows one by one from the beginning."""
    assert emitted(Counting(), cuts, on_error="quarantine") == ([1, 3], 1)


@pytest.mark.parametrize("cuts", [cuts for n in range(1, 5) for cuts in combinations(range(1, 6), n)], ids=str)
def test_with_state_events_of_a_partition_come_in_the_order_of_its_rows(cuts: tuple[int, ...]) -> None:
    """In each pane of a row, the newest first, and so does DROP: state across panes is the same wherever a cut is."""
    given = [("a", 100, 1), ("a", 101, 2), ("b", 102, 3), ("a", 5, 4), ("a", 112, 5), ("b", 103, 6)]

    def numbered(cuts: tuple[int, ...]) -> list[int]:
        operator, store = Numbering(), MemoryStore()
        spec = JobSpec(
            window=TimeInterval(20, creation_period=10, discard_age=0),
            keys=KEYS,
            columns=COLUMNS,
            operator=operator,
            handlers=(operator,),
            output=pa.schema([("v", pa.int64())]),
        )
        found: list[int] = []
        parts = [_rows(given[low:high]) for low, high in pairwise((0, *cuts, len(given)))]
        steps: list[Rows | Watermark] = [Watermark(90 * S), *parts]
        for number, step in enumerate(steps):
            done = KeyGroupRunner(spec, store, BatchCheckpoint(checkpoint=number, group=0)).run([step])
            found += [] if done.results is None else done.results.column("v").to_pylist()
        return sorted(found)

    assert numbered(cuts) == numbered((1, 2, 3, 4, 5))


def _rows(given: list[tuple[str, int, int]]) -> Rows:
    """Rows of a key, an event time in seconds and a value."""
    table = rows(*[(key, value) for key, _, value in given]).table.drop_columns([ARRIVAL_TIME])
    times = pa.array([time * S for _, time, _ in given], table.schema.field(EVENT_TIME).type)
    return Rows(table.set_column(table.schema.get_field_index(EVENT_TIME), EVENT_TIME, times))
