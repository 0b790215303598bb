"""Tumbling, sliding and batched windows: rounds, clock, marks and partition eviction of one key group [S2][S3][S4].

A round takes the new rows and the clock as far as `until`, partition by partition: what is due before a tuple
happens before it. Policies answer with cursors (`starts`, `fires`, `tumbling`, `batched`); this file decides what a
round is and what remains after it. The clock is data: it only ever comes from ticks and arrival times.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from framework.core.arrival import partition_eviction as evicting
from framework.core.arrival.batched import overdue
from framework.core.arrival.contents import Keeper
from framework.core.arrival.event_table import Class, Moments, Phase, at_instants, at_rows
from framework.core.arrival.outage_counts import Tally
from framework.core.arrival.partitions import NEVER, Partitions
from framework.core.arrival.policies.evaluate import first_due, timer_period
from framework.core.arrival.round import Round, Stretch, stop_timers
from framework.core.job_spec import ARRIVAL_TIME, JobSpec
from framework.core.partition_keys import PartitionKeys
from framework.declarations.events import EventType
from framework.declarations.policies import PartitionAge, Time
from framework.declarations.windows import Batched, Sliding
from state.records import NO_WATERMARK, SequenceRecord

_NONE = np.empty(0, dtype=np.int64)


class SequenceWindow:
    """The machine of one key group for one micro-batch; all that lasts is in the record and what `keeper` stores."""

    def __init__(
        self, spec: JobSpec, record: SequenceRecord, keys: PartitionKeys, partitions: Partitions, keeper: Keeper
    ) -> None:
        self._spec = spec
        self._window = spec.arrival_window
        self._record = record
        self._keys = keys
        self._partitions = partitions
        self._keeper = keeper
        self._empty = spec.columns.empty_table()
        self.rows_in = 0
        self.late_us: int | None = None
        """How long after its instant the most overdue work was done."""
        self.outage: dict[str, int] | None = None
        """What the first tick after the process was down did, by name; None in a batch without one."""

    # -- what comes in ---------------------------------------------------------------------------------------

    def on_rows(self, table: pa.Table) -> None:
        """Take tuples in arrival order, what was due before each of them first."""
        at = self._arrivals(table)
        self._begin(int(at[0]))
        self.rows_in += table.num_rows
        table = table.select(self._spec.columns.names)
        codes = self._keys.encode(table)
        self._partitions.grow()
        for rows in evicting.portions(self._window.partition_eviction, codes, at, self._partitions):
            part = table if len(rows) == table.num_rows else table.take(pa.array(rows))
            end = int(at[rows[-1]]) if evicting.by_count(self._window) else int(at[-1])
            self._round(part, codes[rows], at[rows], end)
            self._evict(evicting.too_many(self._window.partition_eviction, self._partitions), end)

    def on_tick(self, now: int, *, resume: bool, is_last_at_instant: bool) -> None:
        """Do what is due. A clock that goes back waits: nothing fires twice."""
        self._begin(now)
        if self._record.final or (now < self._record.clock and not resume):
            return
        before = Tally.of(self._record, self._partitions) if resume else None
        if now < self._record.clock:
            self._turn_back(now)
        due = self.due()
        if due is not None and due <= now:
            self.late_us = max(self.late_us or 0, now - due)
        overdue = int(np.count_nonzero(self._partitions.live & (self._partitions.due <= now)))
        once = resume and self._window.catch_up != "each"
        if resume and self._window.catch_up == "skip":
            self._skip(now)
        self._round(self._empty, _NONE, _NONE, now, once=once, is_last_at_instant=is_last_at_instant)
        if before is not None:
            self.outage = Tally.of(self._record, self._partitions).since(before, overdue=overdue, now=now)

    def on_mark(self, kind: str) -> None:
        """A window mark cuts a punctuation window; the final mark stops all timers [semantics 5.2]."""
        if kind == "window":
            self._keeper.mark(np.flatnonzero(self._partitions.live), self._record.clock)
        elif not self._record.final:
            # No more tuples come at this instant: a batch that is due at it need not wait for them.
            self._round(self._empty, _NONE, _NONE, self._record.clock, is_last_at_instant=True)
            self._record.final = True
            self._tell_all(EventType.FINAL)
            stop_timers(self._partitions)

    def on_evict(self, keys: pa.Table) -> None:
        """Let go of these partitions, if they are there [S3]."""
        codes = self._keys.encode(keys)
        self._partitions.grow()
        self._evict(codes[self._partitions.live[codes]], self._record.clock)

    def on_flush(self) -> None:
        """Fire what has not been shown yet, marked FLUSH, tell the operator FINAL, and end for good."""
        live = np.flatnonzero(self._partitions.live)
        self._keeper.flush(live, self._record.clock)
        self._tell_all(EventType.FINAL)
        self._keeper.forget(live)
        self._partitions.clear(live)
        self._record.flushed = self._record.final = True

    @property
    def flushed(self) -> bool:
        """Whether the window takes no more tuples."""
        return self._record.flushed

    def due(self) -> int | None:
        """The next wall-clock instant (us) at which something happens by itself; None if nothing will."""
        live = self._partitions.live
        soonest = int(self._partitions.due[live].min(initial=NEVER))
        if isinstance(self._window.partition_eviction, PartitionAge) and live.any():
            soonest = min(soonest, int(self._partitions.last_at[live].min()) + self._window.partition_eviction.us)
        soonest = min(soonest, self._keeper.next_eviction(live))
        return None if soonest == NEVER or self._record.final else soonest

    # -- a round ---------------------------------------------------------------------------------------------

    def _round(
        self,
        table: pa.Table,
        codes: np.ndarray,
        at: np.ndarray,
        end: int,
        *,
        once: bool = False,
        is_last_at_instant: bool = False,
    ) -> None:
        born = self._create(codes, at)
        seq = self._record.next_seq + np.arange(table.num_rows, dtype=np.int64)
        self._record.next_seq += table.num_rows
        self._partitions.last_at[codes], self._partitions.last_seq[codes] = at, seq
        until, gone, gone_at = self._ends(end, once=once, is_last_at_instant=is_last_at_instant)
        order = np.argsort(codes, kind="stable")
        held = self._partitions.size
        sizes = held + np.bincount(codes, minlength=len(held))
        first = np.searchsorted(codes[order], np.arange(len(held)))
        number = held[codes[order]] + np.arange(len(order)) - first[codes[order]]
        stretch = Stretch(
            code=codes[order], number=number, at=at[order], held=held, sizes=sizes, until=until, once=once
        )
        moments = [*born, self._inserted(stretch)] if self._keeper.hears(EventType.INSERTION) else born
        self._keeper.round(
            Round(
                stretch=stretch,
                table=table,
                at=at,
                seq=seq,
                order=order,
                moments=moments,
                is_last_at_instant=is_last_at_instant,
            )
        )
        self._record.clock = max(self._record.clock, end)
        self._evict(gone, gone_at)

    def _create(self, codes: np.ndarray, at: np.ndarray) -> list[Moments]:
        """Begin the partitions that the rows are the first of; a window by time starts out full [semantics 3.1]."""
        distinct, first = np.unique(codes, return_index=True)
        new = ~self._partitions.live[distinct]
        return self._live_from(distinct[new], at[first[new]])

    def _live_from(self, codes: np.ndarray, at: np.ndarray) -> list[Moments]:
        full = isinstance(self._window, Sliding) and isinstance(self._window.evict, Time)
        self._partitions.create(codes, first_due(self._window, self._record.ready, at), full=full)
        self._partitions.last_at[codes] = at
        if self._record.final:
            stop_timers(self._partitions)
        if not full or not len(codes):
            return []
        none = np.zeros(len(codes), dtype=np.int64)
        return [at_instants(EventType.INITIAL_FULL, (codes, at), none, none, klass=Class.BEGIN, phase=Phase.FULL)]

    def _inserted(self, stretch: Stretch) -> Moments:
        return at_rows(EventType.INSERTION, Phase.INSERTION, stretch.rows, stretch.number, stretch.number + 1)

    def _ends(self, end: int, *, once: bool, is_last_at_instant: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The last instant of the round for each partition; the partitions whose age ends it, and when.

        What is overdue goes now, not in the past. A partition goes before the batch of that very instant, which
        waits for tuples: only what is due earlier is in its round, even if the round is `closed`.
        """
        until = np.full(len(self._partitions.live), end)
        if not isinstance(self._window.partition_eviction, PartitionAge) or self._record.final:
            return until, _NONE, _NONE
        due = self._partitions.last_at + self._window.partition_eviction.us
        gone = np.flatnonzero(self._partitions.live & (due <= end))
        if once:
            return until, gone, until[gone]
        until[gone] = due[gone] - is_last_at_instant if isinstance(self._window, Batched) else due[gone]
        return until, gone, due[gone]

    def _evict(self, codes: np.ndarray, at: np.ndarray | int) -> None:
        """Partitions go: one event with all they hold, then nothing of them is left."""
        if not len(codes):
            return
        self._keeper.tell(EventType.PARTITION_EVICTION, codes, np.broadcast_to(at, len(codes)))
        self._keeper.forget(codes)
        self._partitions.clear(codes)
        if not len(self._keys.schema):
            self._live_from(codes, np.full(len(codes), self._record.clock))

    def _tell_all(self, kind: EventType) -> None:
        live = np.flatnonzero(self._partitions.live)
        self._keeper.tell(kind, live, np.full(len(live), self._record.clock))

    # -- the clock -------------------------------------------------------------------------------------------

    def _arrivals(self, table: pa.Table) -> np.ndarray:
        """Arrival times: declared ones never go back, others are what the clock last said."""
        if ARRIVAL_TIME in table.column_names:
            at = table.column(ARRIVAL_TIME).to_numpy()
        else:
            at = np.full(table.num_rows, max(self._record.clock, 0))
        return np.maximum.accumulate(np.maximum(at, self._record.clock))

    def _begin(self, now: int) -> None:
        """The window is ready for input from the first time it is told; without partitions, it has one from then on."""
        if self._record.ready != NO_WATERMARK:
            return
        self._record.ready = self._record.clock = now
        if not len(self._keys.schema):
            self._partitions.grow()
            born = self._live_from(np.zeros(1, dtype=np.int64), np.array([now]))
            self._keeper.born(born)

    def _turn_back(self, now: int) -> None:
        """The clock is behind what was stored: timers wait a whole period [semantics 7], and nothing lies ahead of it.

        A tuple that seems to have arrived later than now is taken to have arrived now; so with the last insertion,
        and with the creation of the window. Batches keep to the timetable that begins there.
        """
        self._record.clock = now
        self._record.ready = min(self._record.ready, now)
        self._partitions.last_at = np.minimum(self._partitions.last_at, now)
        self._keeper.turn_back(now)
        period = timer_period(self._window)
        if period is not None:
            latest = first_due(self._window, self._record.ready, np.array([now]))
            self._partitions.due = np.minimum(self._partitions.due, latest)

    def _skip(self, now: int) -> None:
        """Let overdue timers pass without firing; the next period counts from now, batches keep to their timetable."""
        period = timer_period(self._window)
        if period is None:
            return
        if isinstance(self._window, Batched):
            overdue(period, self._partitions, np.full(len(self._partitions.live), now))
        else:
            late = self._partitions.live & (self._partitions.due <= now)
            self._partitions.due[late] = now + period
