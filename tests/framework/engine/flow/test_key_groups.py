"""Results do not depend on the number of key groups: rows are packed for one, two or five, and put in order again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from panekeeper import (
    Batched,
    Count,
    Delta,
    Emit,
    Event,
    EventType,
    Operator,
    PartitionAge,
    Punctuation,
    Sliding,
    Time,
    TimeInterval,
    Tumbling,
)
from panekeeper.framework.core.job_spec import ARRIVAL_TIME, TIMESTAMP, JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.ordering import PortOrdering, to_steps
from panekeeper.framework.core.steps import Watermark
from panekeeper.framework.declarations.windows import Window
from panekeeper.framework.engine.flow.packing import (
    ARRIVAL_TIME_COLUMN,
    EVENT_TIME_COLUMN,
    KEY_GROUP_COLUMN,
    MARK,
    MARK_AFTER_ROW,
    MARK_TEXT,
    MARK_VALUE,
    REJECT_COLUMN,
    Packer,
)
from panekeeper.state.store import MemoryStore

KEYS = "abcdefg"
COLUMNS = pa.schema([("key", pa.string()), ("v", pa.int64())])
WINDOWS: list[Window] = [
    Tumbling(Time(4)),
    Tumbling(Count(2), partition_eviction=PartitionAge(5)),
    Tumbling(Punctuation()),
    Sliding(evict=Time(6), trigger=Time(4)),
    Sliding(evict=Time(6), trigger=Count(2)),
    Sliding(evict=Delta("v", 3), trigger=Time(5)),
    Batched(within=6, every=4),
    Batched(within=6, every=4, retain=2, partition_eviction=PartitionAge(7)),
]


class Narrator(Operator):
    """Emits each event as text."""

    events: ClassVar[frozenset[EventType]] = frozenset(EventType) - {EventType.DROP}

    def __init__(self, *, has_panes: bool) -> None:
        self.has_panes = has_panes

    def handle_event(self, event: Event, emit: Emit) -> None:
        """Emit what the event shows."""
        shown: list[Any] = [event.type.value, event.table.column("v").to_pylist()]
        if event.type is EventType.TRIGGER and self.has_panes:
            shown += [event.timing.value, event.index, str(event.reason)]
        emit(text=json.dumps(shown))


@dataclass(frozen=True)
class Batch:
    """A micro-batch: by input partition, its Arrow batches of (key, arrival or event time s, v, mark follows)."""

    parts: list[list[list[tuple[str, int, int, bool]]]]
    watermark: int


ROWS = st.lists(st.tuples(st.sampled_from(KEYS), st.integers(0, 40), st.integers(0, 9), st.booleans()), max_size=5)
BATCHES = st.lists(
    st.builds(Batch, parts=st.lists(st.lists(ROWS, max_size=3), max_size=3), watermark=st.integers(1, 60)), max_size=4
)


def arrow(rows: list[tuple[str, int, int, bool]], groups: int) -> pa.Table:
    """Rows as the intake makes them."""
    keys, seconds, values, marks = zip(*rows, strict=True)
    us = [second * 1_000_000 for second in seconds]
    arrays = {
        KEY_GROUP_COLUMN: pa.array([KEYS.index(key) % groups for key in keys], pa.int32()),
        EVENT_TIME_COLUMN: pa.array(us, pa.int64()).cast(TIMESTAMP),
        ARRIVAL_TIME_COLUMN: pa.array(us, pa.int64()),
        REJECT_COLUMN: pa.nulls(len(rows), pa.string()),
        "key": pa.array(keys),
        "v": pa.array(values, pa.int64()),
        MARK: pa.array([MARK_AFTER_ROW if mark else None for mark in marks], pa.string()),
        MARK_VALUE: pa.nulls(len(rows), pa.int64()),
        MARK_TEXT: pa.nulls(len(rows), pa.string()),
    }
    return pa.table(arrays)


def run(window: Window, batches: list[Batch], groups: int, *order_by: str, shuffle: Any) -> dict[str, list[Any]]:
    """What happens to each key, in order, with so many key groups."""
    spec = JobSpec(
        window=window,
        keys=pa.schema([COLUMNS.field("key")]),
        columns=COLUMNS,
        operator=Narrator(has_panes=isinstance(window, TimeInterval)),
        output=pa.schema([("text", pa.string())]),
    )
    packer = Packer(
        group_ids=tuple(range(groups)),
        carried_columns=COLUMNS,
        time=spec.time_column,
        marked=not order_by and not spec.has_panes,
        has_clock=spec.time_column == ARRIVAL_TIME and groups > 1,
        sorted_later=bool(order_by),
    )
    ordering = PortOrdering(
        columns=(*COLUMNS.names, spec.time_column), order_by=order_by, keys=spec.keys, has_stream_clock=True
    )
    stores = [MemoryStore() for _ in range(groups)]
    seen: dict[str, list[Any]] = {}
    for batch in batches:
        packed: list[SimpleNamespace] = []
        for part, arrow_batches in enumerate(batch.parts):
            at = 0
            for rows in filter(None, arrow_batches):
                batch_of_rows = packer.pack(arrow(rows, groups), part=part, at=at)
                packed += [SimpleNamespace(**row) for row in batch_of_rows.to_pylist()]
                at += len(rows)
        shuffle(packed)
        for group, store in enumerate(stores):
            steps = to_steps([row for row in packed if row.g == group], [ordering])
            moved = [Watermark(batch.watermark * 1_000_000)] if spec.has_panes else []
            results = KeyGroupRunner(spec, store).run([*moved, *steps]).results
            for row in [] if results is None else results.to_pylist():
                row.pop("firing", None)  # it only orders the results of a key
                seen.setdefault(row.pop("key"), []).append(row)
    return seen


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@example(
    batches=[
        Batch([[[("a", 0, 1, False), ("b", 3, 2, False)]], [[("a", 9, 3, False)]]], watermark=1),
        Batch([[[("b", 4, 4, False), ("b", 30, 4, True)]]], watermark=1),
    ],
    random=Random(1),
)
@settings(max_examples=15)
@given(batches=BATCHES, random=st.randoms())
def test_the_clock_of_arrival_times_is_one_for_all_key_groups(
    window: Window, batches: list[Batch], random: Any
) -> None:
    """Rows of any key move it, at their place; and the timetable of window batches begins with the first row of all."""
    one, *others = [run(window, batches, groups, shuffle=random.shuffle) for groups in (1, 2, 5)]
    assert others == [one, one]


@pytest.mark.parametrize("window", [WINDOWS[0], WINDOWS[-1]], ids=str)
@settings(max_examples=15)
@given(batches=BATCHES, random=st.randoms())
def test_it_is_one_for_all_key_groups_where_rows_are_sorted(window: Window, batches: list[Batch], random: Any) -> None:
    """By `order_by`, which begins with the arrival time: then no row of a micro-batch comes before an earlier one."""
    one, *others = [run(window, batches, groups, ARRIVAL_TIME, "v", shuffle=random.shuffle) for groups in (1, 2, 5)]
    assert others == [one, one]


@example(
    batches=[
        Batch([[[("a", 5, 1, False)]]], watermark=1),
        Batch([[[("b", 6, 2, False)]]], watermark=12),
        Batch([], watermark=13),
    ],
    random=Random(1),
)
@settings(max_examples=50)
@given(batches=BATCHES, random=st.randoms())
def test_the_events_of_a_pane_do_not_depend_on_who_shares_it(batches: list[Batch], random: Any) -> None:
    """A partition that is late from its first row on has the same events, whichever others are in its key group."""
    window = TimeInterval(10, creation_period=5, discard_age=20)
    one, *others = [run(window, batches, groups, shuffle=random.shuffle) for groups in (1, 2, 5)]
    assert others == [one, one]
