"""What both engines share: how items become micro-batches of steps, and what happens becomes the events of a vector.

Both engines run the same operator, `EventRecorder`, so what `play` returns passes through the code that every user's
results pass.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pyarrow as pa

from panekeeper.framework.core.job_spec import EVENT_TIME, JobSpec
from panekeeper.framework.core.steps import EvictPartitions, Mark, Rows, Step, Tick, Watermark
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.events import Event, EventType
from panekeeper.framework.declarations.operator import Emit, Operator
from panekeeper.framework.declarations.windows import ArrivalWindow
from panekeeper.framework.testing.vector import Item, Vector, column_of

BatchSplit = Literal["whole", "each"] | int
"""How the input is split into micro-batches; an int seeds a random split."""

Restart = Literal["none", "each"] | list[int]
"""After which input items (positions from 0) the process stops and resumes."""


@dataclass(frozen=True, kw_only=True)
class VectorBatch:
    """One micro-batch. A checkpoint or a reset is one of its own: both act on the state between batches.

    Attributes:
        items: its items, in order.
        restart: whether the process stops after it.
    """

    items: tuple[Item, ...]
    restart: bool


def split_into_batches(items: Sequence[Item], cut: BatchSplit, restart_after: Restart) -> list[VectorBatch]:
    """Split the items into micro-batches, as `play` is told to. Raises `DeclarationError` for other values."""
    count = len(items)
    every: dict[Any, set[int]] = {"none": set(), "whole": set(), "each": set(range(count))}
    if isinstance(restart_after, list) and all(0 <= position < count for position in restart_after):
        restarts = set(restart_after)
    elif restart_after in ("none", "each"):
        restarts = every[restart_after]
    else:
        raise DeclarationError(
            f'restart_after is {restart_after!r}; it must be "none", "each" or a list of positions of input items, '
            f"0 to {count - 1}"
        )
    if cut in ("whole", "each"):
        ends = every[cut] | restarts
    elif isinstance(cut, int) and not isinstance(cut, bool):
        chance = random.Random(cut)  # noqa: S311 -- a seed makes the same split again, nothing secret
        ends = set(chance.sample(range(count), chance.randint(0, count))) | restarts
    else:
        raise DeclarationError(f'cut is {cut!r}; it must be "whole", "each" or an int')
    for number, item in enumerate(items):
        if item.is_between_batches:
            ends |= {number - 1, number}
    batches, first = [], 0
    for end in sorted(end for end in ends | {count - 1} if end >= 0):
        batches.append(VectorBatch(items=tuple(items[first : end + 1]), restart=end in restarts))
        first = end + 1
    return batches


KEY = "key"
"""Partition column of a played vector: the key as JSON text; null for a null key."""

TUPLE = "tuple"
"""Column with an input row as JSON text."""

_PANED = {EventType.INSERTION, EventType.TRIGGER, EventType.INITIAL_FULL, EventType.CLOSE}


class EventRecorder(Operator):
    """Emits every event, in the shape of a vector's `expect`, with its number in the micro-batch.

    Only DROP is left out: it belongs to no pane, so nothing can be emitted for it. A dropped row is read from the
    rejected rows, as by a user.
    """

    events: ClassVar[frozenset[EventType]] = frozenset(EventType) - {EventType.DROP}

    def __init__(self, *, timed: bool = False) -> None:
        self.timed = timed
        """Whether events have an instant of the wall clock, instead of panes."""
        self.count = 0  # not stored: only orders the rows of one micro-batch

    def handle_event(self, event: Event, emit: Emit) -> None:
        """Emit the event as one row."""
        emit(number=self.count, event=json.dumps(describe_event(event, timed=self.timed)))
        self.count += 1


OUTPUT = pa.schema([pa.field("number", pa.int64()), pa.field("event", pa.string())])
"""Columns that the recorder emits."""


def read_events(results: pa.Table | None, rejected: pa.Table | None) -> list[dict[str, Any]]:
    """Return the events of one micro-batch: what the recorder emitted, in order, then the rows that were dropped."""
    events: list[dict[str, Any]] = []
    if results is not None:
        events += [json.loads(text) for text in results.sort_by("number").column("event").to_pylist()]
    if rejected is not None:
        for row in map(json.loads, rejected.column("row").to_pylist()):
            key = row.get(KEY)
            key = None if key is None else json.loads(key)
            events.append({"event": "drop", "key": key, "tuples": [json.loads(row[TUPLE])]})
    return events


def job_spec_for(vector: Vector) -> JobSpec:
    """Return the job spec of a vector, with the recorder as its operator."""
    key, text = pa.field(KEY, pa.string()), pa.field(TUPLE, pa.string())
    measures = [pa.field(column_of(name), measure_type(vector, name)) for name in vector.attributes]
    return JobSpec(
        window=vector.window,
        keys=pa.schema([key] if vector.partitioned else []),
        columns=pa.schema([key, text, *measures] if vector.partitioned else [text, *measures]),
        operator=recorder_for(vector),
        output=OUTPUT,
    )


def recorder_for(vector: Vector) -> EventRecorder:
    """Return the recorder of a vector: windows in event time have panes, those in arrival order the wall clock."""
    return EventRecorder(timed=isinstance(vector.window, ArrivalWindow))


def measure_type(vector: Vector, name: str) -> pa.DataType:
    """Return the type of a field that a delta policy reads: int64 if all values are whole and fit, else float64."""
    values = [item.measures[name] for item in vector.items if item.kind == "value"]
    whole = all(isinstance(value, int) and abs(value) < 2**63 for value in values)
    return pa.int64() if whole else pa.float64()


def describe_event(event: Event, *, timed: bool = False) -> dict[str, Any]:
    """Return an event in the shape of `expect`."""
    tuples = [json.loads(text) for text in event.table.column(TUPLE).to_pylist()]
    fields: dict[str, Any] = {
        "event": event.type.value,
        "key": None if event.key is None else json.loads(event.key),
        "tuples": tuples,
    }
    if timed:
        return fields | {"at": _in_seconds(event.at_us)}
    if event.type in _PANED:
        fields["pane"] = [_in_seconds(event.pane.start_us), _in_seconds(event.pane.end_us)]
    if event.type is EventType.TRIGGER:
        fields |= {"timing": event.timing.value, "index": event.index}
    return fields


def _in_seconds(us: int) -> int | float:
    """Return microseconds as the JSON number of seconds: whole seconds are an int."""
    return us // 1_000_000 if us % 1_000_000 == 0 else us / 1_000_000


def items_to_steps(items: Iterable[Item], columns: pa.Schema) -> Iterator[Step]:
    """Return the steps of one micro-batch: neighbouring rows of one instant in one table, a tick for each new time."""
    waiting: list[Item] = []
    clock: int | None = None
    for item in items:
        at_us = None if item.kind == "advance_clock" else item.at_us
        step = _step(item)
        if waiting and (step is not None or at_us not in (None, clock)):
            yield Rows(_table(waiting, columns))
            waiting = []
        if at_us is not None and at_us != clock:
            yield Tick(at_us)
            clock = at_us
        if item.kind == "value":
            waiting.append(item)
        elif step is not None:
            yield step
    if waiting:
        yield Rows(_table(waiting, columns))


def _step(item: Item) -> Step | None:
    match item.kind:
        case "watermark":
            return Watermark(item.value)
        case "advance_clock":
            return Tick(item.value, is_last_at_instant=True)
        case "punct":
            return Mark(item.value)
        case "evict_partition":
            return EvictPartitions(pa.table({KEY: pa.array([item.value], pa.string())}))
    return None


def _table(tuples: list[Item], columns: pa.Schema) -> pa.Table:
    """Return the rows as a table of these columns, with the event time if they have one."""
    values: dict[str, list[Any]] = {KEY: [item.key for item in tuples], TUPLE: [item.value for item in tuples]}
    for name in tuples[0].measures:
        values[column_of(name)] = [item.measures[name] for item in tuples]
    table = pa.table([pa.array(values[f.name], f.type) for f in columns], schema=columns)
    if tuples[0].time_us is None:
        return table
    return table.append_column(EVENT_TIME, pa.array([item.time_us for item in tuples], pa.int64()))
