# ruff: noqa: D102 -- what these methods mean is said once, in protocol.py
"""What a window keeps between batches: its rows, or only a partial result for each partition.

Both receive rounds from the window and give the events to the output. Which one serves is decided once, from the job
spec: partial results are enough for a tumbling window whose aggregates can all be folded.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.arrival.batched import insert_all_waiting
from panekeeper.framework.core.arrival.cells import ArrivalCells
from panekeeper.framework.core.arrival.event_table import Cause, EventTable, Phase, timer_events
from panekeeper.framework.core.arrival.output import AggregateArrivalOutput, FiringTable
from panekeeper.framework.core.arrival.partitions import Partitions
from panekeeper.framework.core.arrival.policies.evaluate import evaluate, tumbles_at_marks
from panekeeper.framework.core.arrival.policies.protocol import AllRows, Tumbles, tumble_all
from panekeeper.framework.core.arrival.policies.registry import running_policy
from panekeeper.framework.core.arrival.protocol import ArrivalOutput
from panekeeper.framework.core.arrival.round import Round, RoundRows
from panekeeper.framework.core.arrival.rows import ArrivalRows
from panekeeper.framework.declarations.events import EventType, Reason
from panekeeper.framework.declarations.windows import ArrivalWindow, Batched, Sliding, Tumbling
from panekeeper.state.records import NEVER


class RowContents:
    """Keeps the rows themselves."""

    def __init__(
        self, window: ArrivalWindow, buffer: ArrivalRows, partitions: Partitions, output: ArrivalOutput
    ) -> None:
        self._window = window
        self._buffer = buffer
        self._partitions = partitions
        self._output = output
        self.rewrite_all = False
        """Whether all stored rows must be written again: a row between two that stay was evicted, or an arrival time
        changed."""

    @property
    def fires_when_empty(self) -> bool:
        """Whether the output needs empty firings; an update of a batched window without rows is none."""
        kind = EventType.EVICTION if isinstance(self._window, Tumbling) else EventType.TRIGGER
        return not isinstance(self._window, Batched) and self._output.needs_empty(kind)

    def needs_events(self, kind: EventType) -> bool:
        return self._output.needs_events(kind)

    def add_round(self, round_: Round) -> None:
        """Add the rows, evaluate the policies, emit the events, and remove the rows that leave."""
        buffer = self._buffer
        if round_.table.num_rows:
            buffer.append(round_.table, round_.at, round_.seq)
        offsets = buffer.offsets(len(round_.round_rows.old_counts))
        rows = AllRows(codes=buffer.codes, at=buffer.at, offsets=offsets, column=buffer.column)
        result = evaluate(
            self._window, round_.round_rows, rows, self._partitions, is_last_at_instant=round_.is_last_at_instant
        )
        events = round_.events
        if isinstance(self._window, Batched):
            events = [table for table in events if table.kind is not EventType.INSERTION]  # waiting rows are outside
        self._output.emit([*events, *result.events], offsets)
        stays = self._is_at_or_after(result.begin, offsets)
        for code, positions in result.sparse.items():
            stays[offsets[code] : offsets[code + 1]] = False
            stays[offsets[code] + positions] = True
        self.rewrite_all |= bool(result.sparse)
        buffer.retain(stays)

    def on_mark(self, codes: np.ndarray, at: np.ndarray) -> None:
        """Tumble in every partition, empty ones too, if the window tumbles at marks."""
        if tumbles_at_marks(self._window):
            self._tumble(codes, at, Reason.PUNCTUATION)

    def on_flush(self, codes: np.ndarray, at: np.ndarray) -> None:
        """Tumble, fire, or insert all waiting rows, by the kind of window."""
        partitions = self._partitions
        if isinstance(self._window, Tumbling):
            some = partitions.size[codes] > 0
            self._tumble(codes[some], at[some], Reason.FLUSH)
        elif isinstance(self._window, Sliding):
            unseen = partitions.since[codes] > 0
            if self._window.when_full:
                unseen &= partitions.full[codes]
            event = self._whole_content_event(EventType.TRIGGER, codes[unseen], at[unseen], Reason.FLUSH)
            self._output.emit([event], self._offsets())
        else:
            some = partitions.waiting[codes] > 0
            sizes, offsets = partitions.size, self._offsets()
            updates = insert_all_waiting(codes[some], sizes, at[some], partitions, self._window.retain)
            self._output.emit(updates.events(), offsets)
            self._buffer.retain(self._is_at_or_after(updates.final(partitions, sizes), offsets))

    def emit_contents(self, kind: EventType, codes: np.ndarray, at: np.ndarray) -> None:
        if self._output.needs_events(kind):
            low = np.zeros(len(codes), dtype=np.int64)
            high = self._partitions.inside[codes]
            events = timer_events(kind, (codes, at), low, high, cause=Cause.END, phase=Phase.PARTITION)
            self._output.emit([events], self._offsets())

    def on_partition_created(self, events: list[EventTable]) -> None:
        self._output.emit(events, self._offsets())

    def remove_partitions(self, codes: np.ndarray) -> None:
        self._buffer.retain(~np.isin(self._buffer.codes, codes))

    def cap_arrival_times(self, now: int) -> None:
        """Change the arrival times of rows that arrived later than `now`, by a clock that went back."""
        self.rewrite_all |= self._buffer.cap_arrival_times(now)

    def next_eviction(self) -> int:
        """Return what the eviction policy of a sliding window says, if the output needs evictions."""
        if not isinstance(self._window, Sliding) or not len(self._buffer.codes):
            return NEVER
        if not self._output.needs_events(EventType.EVICTION):
            return NEVER
        return int(running_policy(self._window.evict).evicted_at(self._buffer.at).min())

    def save(self) -> None:
        self._buffer.save(rewrite=self.rewrite_all)

    def _tumble(self, codes: np.ndarray, at: np.ndarray, reason: Reason) -> None:
        tumbles = tumble_all(codes, self._partitions.size, at, reason)
        self._output.emit(tumbles.events(), self._offsets())
        self.remove_partitions(codes)
        self._partitions.inside[codes] = 0

    def _whole_content_event(self, kind: EventType, codes: np.ndarray, at: np.ndarray, reason: Reason) -> EventTable:
        low = np.zeros(len(codes), dtype=np.int64)
        high = self._partitions.inside[codes]
        return timer_events(kind, (codes, at), low, high, cause=Cause.END, reason=reason)

    def _offsets(self) -> np.ndarray:
        return self._buffer.offsets(len(self._partitions.live))

    def _is_at_or_after(self, begin: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Return for each row whether it is the one of this number in its partition, or a later one."""
        codes = self._buffer.codes
        stays: np.ndarray = np.arange(len(codes)) - offsets[codes] >= begin[codes]
        return stays


class CellContents:
    """Keeps one partial result a partition: for tumbling windows whose aggregates can all be folded."""

    def __init__(
        self, window: Tumbling, cells: ArrivalCells, partitions: Partitions, output: AggregateArrivalOutput
    ) -> None:
        self._window = window
        self._policy = running_policy(window.evict)
        self._cells = cells
        self._partitions = partitions
        self._output = output

    @property
    def fires_when_empty(self) -> bool:
        return self._output.fires_when_empty

    def needs_events(self, kind: EventType) -> bool:
        return False

    def add_round(self, round_: Round) -> None:
        rows, table = round_.round_rows, round_.table
        tumbles = self._policy.tumbles(rows, lambda name: table.column(name).to_numpy()[round_.order], self._partitions)
        self._emit(tumbles, self._cells.fold(rows, tumbles, table, round_.order, round_.seq))
        self._partitions.inside[:] = rows.sizes - tumbles.final_begin(len(rows.old_counts))

    def on_mark(self, codes: np.ndarray, at: np.ndarray) -> None:
        if tumbles_at_marks(self._window):
            self._tumble(codes, at, Reason.PUNCTUATION)

    def on_flush(self, codes: np.ndarray, at: np.ndarray) -> None:
        some = self._partitions.size[codes] > 0
        self._tumble(codes[some], at[some], Reason.FLUSH)

    def emit_contents(self, kind: EventType, codes: np.ndarray, at: np.ndarray) -> None:
        """Do nothing: aggregates have results of tumbles only."""

    def on_partition_created(self, events: list[EventTable]) -> None:
        """Do nothing: a window without rows has no result."""

    def remove_partitions(self, codes: np.ndarray) -> None:
        self._cells.remove_partitions(codes)

    def cap_arrival_times(self, now: int) -> None:
        """Do nothing: partial results have no arrival times."""

    def next_eviction(self) -> int:
        return NEVER

    def _tumble(self, codes: np.ndarray, at: np.ndarray, reason: Reason) -> None:
        none = np.empty(0, dtype=np.int64)
        size = self._partitions.size
        no_new = RoundRows.of(none, none, size, np.zeros_like(size), after_outage=False)
        tumbles = tumble_all(codes, size, at, reason)
        self._emit(tumbles, self._cells.fold(no_new, tumbles, self._cells.no_rows, none, none))
        self._partitions.inside[codes] = 0

    def _emit(self, tumbles: Tumbles, columns: list[pa.Array]) -> None:
        firings = FiringTable.of(tumbles.events(), EventType.EVICTION, empty=self._output.fires_when_empty)
        if len(firings.code):
            order = pa.array(tumbles.order_of_events[firings.order])
            self._output.add_results(firings, [column.take(order) for column in columns])
