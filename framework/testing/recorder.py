"""The operator that `play` runs: it receives every event and emits each as one row of JSON.

Both engines run the same operator, so what `play` returns passes through the code that every user's results pass.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pyarrow as pa

from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.declarations.events import Event, EventType
from panekeeper.framework.declarations.operator import Emit, Operator
from panekeeper.framework.declarations.windows import TimeInterval
from panekeeper.framework.testing.vector import RowItem, Vector
from panekeeper.framework.testing.window_fields import column_of

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
        events += [describe_drop(json.loads(text)) for text in rejected.column("row").to_pylist()]
    return events


def job_spec_for(vector: Vector) -> JobSpec:
    """Return the job spec of a vector, with the recorder as its operator."""
    key, text = pa.field(KEY, pa.string()), pa.field(TUPLE, pa.string())
    measures = [pa.field(column_of(name), measure_type(vector, name)) for name in vector.declared.attributes]
    return JobSpec(
        window=vector.window,
        keys=pa.schema([key] if vector.partitioned else []),
        columns=pa.schema([key, text, *measures] if vector.partitioned else [text, *measures]),
        operator=recorder_for(vector),
        output=OUTPUT,
    )


def recorder_for(vector: Vector) -> EventRecorder:
    """Return the recorder of a vector: time intervals have panes, other windows the wall clock."""
    return EventRecorder(timed=not isinstance(vector.window, TimeInterval))


def measure_type(vector: Vector, name: str) -> pa.DataType:
    """Return the type of a field that a delta policy reads: int64 if all values are whole and fit, else float64."""
    values = [item.measures[name] for item in vector.items if isinstance(item, RowItem)]
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
        return fields | {"at": in_seconds(event.at_us)}
    if event.type in _PANED:
        fields["pane"] = [in_seconds(event.pane.start_us), in_seconds(event.pane.end_us)]
    if event.type is EventType.TRIGGER:
        fields |= {"timing": event.timing.value, "index": event.index}
    return fields


def describe_drop(row: dict[str, Any]) -> dict[str, Any]:
    """Return the event of one dropped row, from its rejected row."""
    key = row.get(KEY)
    return {"event": "drop", "key": None if key is None else json.loads(key), "tuples": [json.loads(row[TUPLE])]}


def in_seconds(us: int) -> int | float:
    """Return microseconds as the JSON number of seconds: whole seconds are an int.

    >>> in_seconds(100_000_000), in_seconds(100_300_000)
    (100, 100.3)
    """
    return us // 1_000_000 if us % 1_000_000 == 0 else us / 1_000_000
