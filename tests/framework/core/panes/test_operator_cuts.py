"""What an operator of a time interval emits does not depend on where the rows are cut, also where it raises for one."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from framework.core.job_spec import ARRIVAL_TIME, JobSpec
from framework.core.key_group import KeyGroupRunner
from framework.core.state_handlers import BatchCheckpoint
from framework.core.steps import Rows, Watermark
from panekeeper import Emit, Event, EventType, Operator, StateHandler, TimeInterval
from state.handler import StateContext
from state.store import MemoryStore
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
