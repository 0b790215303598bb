# ruff: noqa: D102 -- what these methods mean is said once, in protocol.py
"""How events become result rows: of aggregates, or emitted by the operator; each with its partition and instant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.arrival.event_table import EventRow, EventTable, in_documented_order
from panekeeper.framework.core.arrival.rows import ArrivalRows
from panekeeper.framework.core.guarded_aggregates import bind_guarded
from panekeeper.framework.core.job_spec import TIMESTAMP, JobSpec
from panekeeper.framework.core.operator_calls import OperatorCalls, Origin, lazy_slice, lazy_take, one_row
from panekeeper.framework.core.partition_keys import PartitionKeys
from panekeeper.framework.core.quarantine import FiringPlace, Quarantine
from panekeeper.framework.core.result_rows import ResultRows
from panekeeper.framework.core.stable_order import stable_order
from panekeeper.framework.declarations.events import Event, EventType, Reason
from panekeeper.framework.declarations.operator import Operator
from panekeeper.framework.declarations.windows import ArrivalWindow, Batched, Tumbling
from panekeeper.state.records import SequenceRecord

_EVENT_OF_OUTPUT = {"content": EventType.TRIGGER, "entered": EventType.INSERTION, "left": EventType.EVICTION}


class ArrivalResults(ResultRows):
    """The result rows of a batch."""

    def __init__(self, spec: JobSpec, keys: PartitionKeys, record: SequenceRecord, quarantine: Quarantine) -> None:
        super().__init__(spec, keys, quarantine)
        self._record = record

    def add(
        self, codes: np.ndarray, at: np.ndarray, columns: list[pa.Array], marks: pa.Array, reasons: pa.Array
    ) -> None:
        """Add result rows; one entry of each argument a row, in the order in which they fired."""
        firings = self._record.firings + np.arange(len(codes), dtype=np.int64)
        self._record.firings += len(codes)
        self._add(codes, [pa.array(at).cast(TIMESTAMP)], columns, [pa.array(firings), marks, reasons])

    def add_drained(self, code: int, at: int, columns: dict[str, Any]) -> None:
        """Add a row that a state handler has emitted in `drain`, at the last time of the window."""
        row, reason = one_row(self._spec.output, columns), pa.array([Reason.DRAIN.value])
        self.add(np.array([code]), np.array([at]), row.columns, pa.array([False]), reason)


@dataclass(frozen=True)
class FiringTable:
    """The firings among the events, in the order of time, then partition."""

    code: np.ndarray
    at: np.ndarray
    low: np.ndarray
    high: np.ndarray
    reasons: pa.Array
    content: dict[int, np.ndarray]
    order: np.ndarray
    """Which of the given events each firing is."""

    def place(self, index: int) -> FiringPlace:
        """Return the place of one firing, for the quarantine."""
        return FiringPlace(int(self.code[index]), {"fired_at": int(self.at[index])})

    @classmethod
    def of(cls, tables: list[EventTable], kind: EventType, *, empty: bool) -> FiringTable:
        """Return the firings of one event type; those with an empty content only if `empty`."""
        picked = [t for t in tables if t.reason and t.kind is kind and len(t)]
        code, at, low, high, row = (
            np.concatenate([getattr(t, name) for t in picked]) if picked else np.empty(0, dtype=np.int64)
            for name in ("code", "at", "low", "high", "row")
        )
        begin = np.cumsum([0, *(len(t) for t in picked)])
        listed = {int(begin[n]) + k: numbers for n, t in enumerate(picked) for k, numbers in t.content.items()}
        order = stable_order(row, code, at)
        if not empty:
            order = order[high[order] > low[order]]
        place = {old: new for new, old in enumerate(order.tolist())} if listed else {}
        content = {place[old]: numbers for old, numbers in listed.items() if old in place}
        names = pa.array([t.reason.value for t in picked if t.reason], pa.string())
        reasons = names.take(pa.array(np.searchsorted(begin, order, side="right") - 1))
        return cls(code[order], at[order], low[order], high[order], reasons, content, order)


class AggregateArrivalOutput:
    """Computes the declared aggregates of the firings, for all firings of a round at once."""

    def __init__(self, spec: JobSpec, buffer: ArrivalRows, results: ArrivalResults) -> None:
        self._accumulators = bind_guarded(spec.aggregates or {}, spec.columns, results.quarantine)
        self._buffer = buffer
        self._results = results
        self._emits_window_marks = isinstance(spec.window, Tumbling)
        self.fires_when_empty = isinstance(spec.window, Batched) or passes_marks(spec.arrival_window)
        self._kind = EventType.EVICTION if self._emits_window_marks else EventType.TRIGGER
        if isinstance(spec.window, Batched):
            self._kind = _EVENT_OF_OUTPUT[spec.window.stream]

    def needs_empty(self, kind: EventType) -> bool:
        return self.fires_when_empty and kind is self._kind

    def needs_events(self, kind: EventType) -> bool:
        return kind is self._kind

    def emit(self, tables: list[EventTable], offsets: np.ndarray) -> None:
        firings = FiringTable.of(tables, self._kind, empty=self.fires_when_empty)
        if len(firings.code):
            self.add_results(firings, self._finish_aggregates(firings, offsets[firings.code]))

    def add_results(self, firings: FiringTable, columns: list[pa.Array]) -> None:
        """Add result rows; with aggregates, each row of a tumble ends it."""
        marks = pa.array(np.full(len(firings.code), self._emits_window_marks))
        self._results.add(firings.code, firings.at, columns, marks, firings.reasons)

    def _finish_aggregates(self, firings: FiringTable, begin: np.ndarray) -> list[pa.Array]:
        """Return the result of every aggregate for each firing.

        In which order partial results are merged depends on the rows of a firing alone, be its content a range or not.
        So results are the same to the last bit however the stream is split into micro-batches.
        """
        low, high = begin + firings.low, begin + firings.high
        rows = self._buffer.rows
        if firings.content:
            lists = [np.arange(a, b) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
            for index, numbers in firings.content.items():
                lists[index] = begin[index] + numbers
            ends = np.cumsum([0, *(len(x) for x in lists)])
            low, high = ends[:-1], ends[1:]
            rows = rows.take(pa.array(np.concatenate(lists)))
        return [accumulator.from_rows(rows, low, high, firings.place) for accumulator in self._accumulators]


class OperatorArrivalOutput:
    """Calls the operator with the events, one after the other, in the documented order."""

    def __init__(
        self, spec: JobSpec, operator: Operator, buffer: ArrivalRows, keys: PartitionKeys, results: ArrivalResults
    ) -> None:
        self._port = spec.port
        self._events = frozenset(operator.events)
        self._calls = OperatorCalls(spec, operator, results.quarantine, _place)
        self._buffer = buffer
        self._keys = keys
        self._results = results
        self._emits_window_marks = isinstance(spec.window, Tumbling)
        self._passes_marks = passes_marks(spec.arrival_window)

    def needs_empty(self, kind: EventType) -> bool:
        """Return whether the operator receives them, too."""
        return self.needs_events(kind)

    def needs_events(self, kind: EventType) -> bool:
        """Return whether the operator subscribed to them, or the log has a row of each."""
        return kind in self._events or (self._passes_marks and kind is EventType.EVICTION)

    def emit(self, tables: list[EventTable], offsets: np.ndarray) -> None:
        """Call the operator for each event that it subscribed to."""
        events = in_documented_order([t for t in tables if self.needs_events(t.kind)])
        if not events:
            return
        rows = self._buffer.take(np.arange(self._buffer.rows.num_rows))
        distinct = sorted({m.code for m in events})
        names = dict(zip(distinct, self._keys.values(distinct), strict=True))
        for event_row in events:
            self._call_operator(event_row, names[event_row.code], rows, int(offsets[event_row.code]))
        self._move_emitted_to_results()

    def _call_operator(self, event_row: EventRow, key: object, rows: pa.Table, begin: int) -> None:
        if event_row.content is None:
            content = lazy_slice(rows, begin + event_row.low, begin + event_row.high)
        else:
            content = lazy_take(rows, (begin + event_row.content).tolist())
        event = Event(event_row.kind, key, content, at_us=event_row.at, reason=event_row.reason, port=self._port)
        reason = event_row.reason.value if event_row.reason else None
        ends_window = self._emits_window_marks and event_row.kind is EventType.EVICTION
        origin = Origin(event_row.code, event_row.at, None, reason)
        if event_row.kind in self._events:
            self._calls.call(event, origin, ends_window=ends_window, always=self._passes_marks)
        else:
            self._calls.end_window(origin)

    def _move_emitted_to_results(self) -> None:
        for rows, origins in self._calls.pop_rows():
            codes, at, _, reasons, marks, _ = zip(*origins, strict=True)
            self._results.add(
                np.array(codes, dtype=np.int64),
                np.array(at, dtype=np.int64),
                rows.columns,
                pa.array(marks, pa.bool_()),
                pa.array(reasons, pa.string()),
            )


def passes_marks(window: ArrivalWindow) -> bool:
    """Return whether the log has a row of each tumble, with its window mark (docs/semantics.md section 2.5)."""
    return isinstance(window, Tumbling) and window.passes_marks


def _place(origin: Origin) -> FiringPlace:
    return FiringPlace(origin.code, {"fired_at": origin.instant_or_pane})
