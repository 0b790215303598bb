"""What happened in a round, as a table: which partition, what, when, and which range of its rows.

The order of events is documented (docs/semantics.md section 3.2): for each partition by time; at one instant what was
due before the rows, window batches after them; within one row by phase.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np

from panekeeper.framework.declarations.events import EventType, Reason


class Cause(IntEnum):
    """What an event is caused by, in the order at one instant."""

    BEGIN = 0
    DUE = 1
    ROW = 2
    BATCH = 3
    END = 4


class Phase(IntEnum):
    """The order of events within one row, or one due instant."""

    TRIGGER_BEFORE = 0
    FULL_BEFORE = 1
    EVICTION = 2
    INSERTION = 3
    FULL = 4
    TRIGGER = 5
    PARTITION = 6


@dataclass(frozen=True, kw_only=True)
class EventTable:
    """A table of events; all arrays have the same length.

    Attributes:
        code: partition.
        at: wall-clock instant, us.
        row: position of the row in its partition (0 for what is due).
        low, high: the range of the partition's rows that is the content of the event.
        kind: what happened.
        cause, phase: its place at its instant.
        reason: why it fired; an event with a reason is a firing.
        content: positions of the rows by index, where the content is not the range.
    """

    code: np.ndarray
    at: np.ndarray
    row: np.ndarray
    low: np.ndarray
    high: np.ndarray
    kind: EventType
    cause: Cause
    phase: Phase
    reason: Reason | None = None
    content: dict[int, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.code)

    def where(self, some: np.ndarray) -> EventTable:
        """Return some of the events."""
        place = np.cumsum(some) - 1
        arrays = {name: getattr(self, name)[some] for name in ("code", "at", "row", "low", "high")}
        content = {int(place[n]): rows for n, rows in self.content.items() if some[n]}
        return replace(self, **arrays, content=content)


def row_events(
    kind: EventType,
    phase: Phase,
    rows: tuple[np.ndarray, np.ndarray, np.ndarray],
    low: np.ndarray,
    high: np.ndarray,
    *,
    reason: Reason | None = None,
    content: dict[int, np.ndarray] | None = None,
) -> EventTable:
    """Return events caused by rows, given as (code, position, arrival time) of each."""
    code, row, at = rows
    return EventTable(
        code=code,
        at=at,
        row=row,
        low=low,
        high=high,
        kind=kind,
        cause=Cause.ROW,
        phase=phase,
        reason=reason,
        content=content or {},
    )


def timer_events(
    kind: EventType,
    instants: tuple[np.ndarray, np.ndarray],
    low: np.ndarray,
    high: np.ndarray,
    *,
    cause: Cause = Cause.DUE,
    phase: Phase = Phase.TRIGGER,
    reason: Reason | None = None,
    content: dict[int, np.ndarray] | None = None,
) -> EventTable:
    """Return events caused by the clock, given as (code, instant) of each."""
    code, at = instants
    return EventTable(
        code=code,
        at=at,
        row=np.zeros(len(code), dtype=np.int64),
        low=low,
        high=high,
        kind=kind,
        cause=cause,
        phase=phase,
        reason=reason,
        content=content or {},
    )


@dataclass(frozen=True)
class EventRow:
    """One event, taken out of its table."""

    code: int
    at: int
    low: int
    high: int
    kind: EventType
    reason: Reason | None
    content: np.ndarray | None


def in_documented_order(tables: list[EventTable]) -> list[EventRow]:
    """Return every event of several tables in the documented order."""
    parts = [t for t in tables if len(t)]
    if not parts:
        return []
    joined = [np.concatenate([getattr(t, name) for t in parts]) for name in ("code", "at", "row", "low", "high")]
    cause = np.concatenate([np.full(len(t), t.cause) for t in parts])
    phase = np.concatenate([np.full(len(t), t.phase) for t in parts])
    which = np.concatenate([np.full(len(t), n) for n, t in enumerate(parts)])
    inner = np.concatenate([np.arange(len(t)) for t in parts])
    code, at, row, low, high = joined
    order = np.lexsort((phase, row, cause, at, code))
    return [
        EventRow(int(code[i]), int(at[i]), int(low[i]), int(high[i]), part.kind, part.reason, part.content.get(k))
        for i in order.tolist()
        for part, k in [(parts[which[i]], int(inner[i]))]
    ]
