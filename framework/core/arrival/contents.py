"""What a window keeps of its tuples between batches: the rows, or only partial results of a tumbling aggregate.

Both take rounds from the window and hand what happened to the answer; which one serves is decided once, from the plan.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa

from framework.core.arrival.batched import insert_all_waiting
from framework.core.arrival.event_table import Cause, EventTable, Phase, timer_events
from framework.core.arrival.output import AggregateWindowOutput, FiringTable, WindowOutput
from framework.core.arrival.partitions import NEVER, Partitions
from framework.core.arrival.policies.evaluate import cuts_of, measured, rule
from framework.core.arrival.policies.starts import TICK
from framework.core.arrival.policies.tumbling import Tumbles, all_cut
from framework.core.arrival.round import Round, RoundRows
from framework.core.arrival.row_buffer import RowBuffer
from framework.core.arrival.tumbling_aggregates import TumblingAggregates
from framework.declarations.events import EventType, Reason
from framework.declarations.policies import Delta, Punctuation, Time
from framework.declarations.windows import ArrivalWindow, Batched, Sliding, Tumbling


class WindowContents(Protocol):
    """Keeps tuples, or what stands for them."""

    def needs_events(self, kind: EventType) -> bool:
        """Whether moments of this kind need be made at all."""
        ...

    def add_round(self, round_: Round) -> None:
        """Take the rows of a round."""
        ...

    def on_mark(self, codes: np.ndarray, at: int) -> None:
        """A window mark came."""
        ...

    def on_flush(self, codes: np.ndarray, at: int) -> None:
        """Fire what has not been shown."""
        ...

    def emit_contents(self, kind: EventType, codes: np.ndarray, at: np.ndarray) -> None:
        """Tell of something that shows whole contents."""
        ...

    def on_partition_created(self, events: list[EventTable]) -> None:
        """Tell of partitions that begin without a tuple."""
        ...

    def remove_partitions(self, codes: np.ndarray) -> None:
        """Nothing of these partitions is kept any longer."""
        ...

    def cap_arrival_times(self, now: int) -> None:
        """Nothing has arrived later than now."""
        ...

    def next_eviction(self, live: np.ndarray) -> int:
        """When the next tuple leaves by the clock, if anybody would hear of it."""
        ...


class RowContents:
    """Keeps the rows themselves."""

    def __init__(self, window: ArrivalWindow, buffer: RowBuffer, partitions: Partitions, output: WindowOutput) -> None:
        self._window = window
        self._buffer = buffer
        self._partitions = partitions
        self._output = output
        self.rewrite_all = False
        """The stored rows must be written anew: rows between those that stay were evicted, or arrival times changed."""

    def needs_events(self, kind: EventType) -> bool:
        """What the answer wants."""
        return self._output.needs_events(kind)

    def add_round(self, round_: Round) -> None:
        """Add the rows, ask the policies, answer, and let go of what is not wanted."""
        if round_.table.num_rows:
            self._buffer.append(round_.table, round_.at, round_.seq)
        offsets = self._buffer.offsets(len(round_.round_rows.old_counts))
        ruling = rule(
            self._window,
            round_.round_rows,
            self._buffer,
            offsets,
            self._partitions,
            is_last_at_instant=round_.is_last_at_instant,
        )
        events = round_.events
        if isinstance(self._window, Batched):
            events = [m for m in events if m.kind is not EventType.INSERTION]  # waiting tuples are not in yet
        self._output.emit([*events, *ruling.events], offsets)
        wanted = np.arange(len(self._buffer.codes)) - offsets[self._buffer.codes] >= ruling.begin[self._buffer.codes]
        for code, numbers in ruling.holes.items():
            wanted[offsets[code] : offsets[code + 1]] = False
            wanted[offsets[code] + numbers] = True
        self.rewrite_all |= bool(ruling.holes)
        self._buffer.retain(wanted)

    def on_mark(self, codes: np.ndarray, at: int) -> None:
        """Cut every partition of a punctuation window, empty ones too."""
        if isinstance(self._window, Tumbling) and isinstance(self._window.evict, Punctuation):
            self._tumble(codes, at, Reason.PUNCTUATION)

    def on_flush(self, codes: np.ndarray, at: int) -> None:
        """Cut, fire, or let everything in, by the kind of window."""
        partitions = self._partitions
        if isinstance(self._window, Tumbling):
            self._tumble(codes[partitions.size[codes] > 0], at, Reason.FLUSH)
        elif isinstance(self._window, Sliding):
            unseen = codes[partitions.since[codes] > 0]
            self._output.emit([self._whole_content_event(EventType.TRIGGER, unseen, at, Reason.FLUSH)], self._offsets())
        else:
            waiting = codes[partitions.waiting[codes] > 0]
            sizes = partitions.size.copy()
            updates = insert_all_waiting(waiting, sizes, at, partitions, self._window.retain)
            self._output.emit(updates.events(), self._offsets())
            partitions.inside[waiting], partitions.waiting[waiting] = sizes[waiting], 0

    def emit_contents(self, kind: EventType, codes: np.ndarray, at: np.ndarray) -> None:
        """Show the whole content of each partition."""
        if self._output.needs_events(kind):
            low = np.zeros(len(codes), dtype=np.int64)
            high = self._partitions.inside[codes]
            moment = timer_events(kind, (codes, at), low, high, cause=Cause.END, phase=Phase.PARTITION)
            self._output.emit([moment], self._offsets())

    def on_partition_created(self, events: list[EventTable]) -> None:
        """Tell of it: there is no content yet."""
        self._output.emit(events, self._offsets())

    def remove_partitions(self, codes: np.ndarray) -> None:
        """Drop the rows."""
        self._buffer.retain(~np.isin(self._buffer.codes, codes))

    def cap_arrival_times(self, now: int) -> None:
        """Change the arrival times of rows that seem to come from the future."""
        self.rewrite_all |= self._buffer.cap_arrival_times(now)

    def next_eviction(self, live: np.ndarray) -> int:
        """The oldest tuple's time, where tuples leave by the clock and the answer hears of evictions."""
        window = self._window
        if not isinstance(window, Sliding) or not isinstance(window.evict, Time):
            return NEVER
        if not self._output.needs_events(EventType.EVICTION) or not len(self._buffer.codes):
            return NEVER
        return int(self._buffer.at.min()) + window.evict.us + TICK

    def save(self) -> None:
        """Store the rows."""
        self._buffer.save(rewrite=self.rewrite_all)

    def _tumble(self, codes: np.ndarray, at: int, reason: Reason) -> None:
        tumbles = all_cut(codes, self._partitions.size, at, reason)
        self._output.emit([tumbles.events()], self._offsets())
        self.remove_partitions(codes)
        self._partitions.inside[codes] = 0

    def _whole_content_event(self, kind: EventType, codes: np.ndarray, at: int, reason: Reason) -> EventTable:
        low = np.zeros(len(codes), dtype=np.int64)
        instants = np.full(len(codes), at)
        high = self._partitions.inside[codes]
        return timer_events(kind, (codes, instants), low, high, cause=Cause.END, reason=reason)

    def _offsets(self) -> np.ndarray:
        return self._buffer.offsets(len(self._partitions.live))


class AggregateContents:
    """Keeps one partial result a partition: tumbling windows whose aggregates can all be folded."""

    def __init__(
        self, window: Tumbling, aggregates: TumblingAggregates, partitions: Partitions, output: AggregateWindowOutput
    ) -> None:
        self._window = window
        self._aggregates = aggregates
        self._partitions = partitions
        self._output = output

    def needs_events(self, kind: EventType) -> bool:
        """Tumbles only, and those are made here."""
        return False

    def add_round(self, round_: Round) -> None:
        """Fold the rows between the cuts."""
        policy, measure = self._window.evict, None
        if isinstance(policy, Delta):
            measure = measured(policy, round_.table.column(policy.attribute).to_numpy()[round_.order])
        tumbles = cuts_of(self._window, round_.round_rows, measure, self._partitions)
        self._emit(tumbles, self._aggregates.fold(round_.round_rows, tumbles, round_.table, round_.order, round_.seq))
        self._partitions.inside[:] = round_.round_rows.sizes - tumbles.final(len(round_.round_rows.old_counts))

    def on_mark(self, codes: np.ndarray, at: int) -> None:
        """Cut every partition of a punctuation window."""
        if isinstance(self._window.evict, Punctuation):
            self._tumble(codes, at, Reason.PUNCTUATION)

    def on_flush(self, codes: np.ndarray, at: int) -> None:
        """Cut what is open."""
        self._tumble(codes[self._partitions.size[codes] > 0], at, Reason.FLUSH)

    def emit_contents(self, kind: EventType, codes: np.ndarray, at: np.ndarray) -> None:
        """Aggregates answer tumbles only."""

    def on_partition_created(self, events: list[EventTable]) -> None:
        """Nothing to answer."""

    def remove_partitions(self, codes: np.ndarray) -> None:
        """Drop the partial results."""
        self._aggregates.remove_partitions(codes)

    def cap_arrival_times(self, now: int) -> None:
        """Partial results know no arrival times."""

    def next_eviction(self, live: np.ndarray) -> int:
        """Never: tuples leave by tumbles."""
        return NEVER

    def _tumble(self, codes: np.ndarray, at: int, reason: Reason) -> None:
        none = np.empty(0, dtype=np.int64)
        size = self._partitions.size
        still = RoundRows(code=none, position=none, at=none, old_counts=size, sizes=size, end_at=np.full(len(size), at))
        tumbles = all_cut(codes, size, at, reason)
        self._emit(tumbles, self._aggregates.fold(still, tumbles, self._aggregates.no_rows, none, none))
        self._partitions.inside[codes] = 0

    def _emit(self, tumbles: Tumbles, columns: list[pa.Array]) -> None:
        firings = FiringTable.of([tumbles.events()], EventType.EVICTION, empty=False)
        if len(firings.code):
            self._output.add_results(firings, [column.take(pa.array(firings.order)) for column in columns])
