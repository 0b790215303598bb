"""Tumbling, sliding and batched windows: rounds, clock, marks and partition eviction of one key group.

A round processes new rows and advances the clock to its end, which a partition may have of its own: what is due before
a row happens before it. What happens in a round is up to the policies; what a round is, and what remains after it, is
decided here. The clock is data: it comes from ticks and arrival times alone (docs/semantics.md section 1).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from framework.core.arrival.contents import WindowContents
from framework.core.arrival.event_table import Cause, EventTable, Phase, row_events, timer_events
from framework.core.arrival.outage_counts import OutageCounts
from framework.core.arrival.partition_eviction import split_into_rounds
from framework.core.arrival.partitions import NEVER, Partitions
from framework.core.arrival.policies.evaluate import first_due, starts_full, timer_period
from framework.core.arrival.policies.registry import running_policy
from framework.core.arrival.round import Round, RoundRows, stop_timers
from framework.core.arrival.timers import Timers
from framework.core.job_spec import ARRIVAL_TIME, JobSpec
from framework.core.partition_keys import PartitionKeys
from framework.core.stable_order import stable_order
from framework.declarations.events import EventType
from framework.declarations.windows import Batched
from state.records import NO_WATERMARK, SequenceRecord

_NONE = np.empty(0, dtype=np.int64)


class ArrivalWindowRunner:
    """The window of one key group for one micro-batch. What persists is in the record, and in what `contents` store."""

    def __init__(
        self,
        spec: JobSpec,
        record: SequenceRecord,
        keys: PartitionKeys,
        partitions: Partitions,
        contents: WindowContents,
    ) -> None:
        self._spec = spec
        self._window = window = spec.arrival_window
        limit = window.partition_eviction
        self._partition_eviction = None if limit is None else running_policy(limit)
        self._partition_age = None if self._partition_eviction is None else self._partition_eviction.partition_age_us
        self._record = record
        self._keys = keys
        self._partitions = partitions
        self._contents = contents
        self._timers = Timers(window, partitions, contents)
        self._no_rows = spec.columns.empty_table()
        self.rows_in = 0
        self.late_us: int | None = None
        """How long after its instant the most overdue work was done."""
        self.outage: dict[str, int] | None = None
        """What the first tick after the process was down did, by name; None in a batch without one."""

    def on_rows(self, table: pa.Table, *, has_stream_clock: bool = True) -> None:
        """Process rows in arrival order, each after what was due before it."""
        at = self._arrival_times(table)
        self._begin_at(int(at[0]), has_stream_clock=has_stream_clock)
        self.rows_in += table.num_rows
        table = self._keys.with_normal_keys(table.select(self._spec.columns.names))
        codes = self._keys.encode(table)
        self._partitions.grow()
        policy = self._partition_eviction
        for rows in split_into_rounds(policy, codes, at, self._partitions):
            part = table if len(rows) == table.num_rows else table.take(pa.array(rows))
            if policy is None or self._partition_age is not None:
                self._run_round(part, codes[rows], at[rows], int(at[-1]))
            else:
                end = int(at[rows[-1]])
                self._run_round(part, codes[rows], at[rows], end)
                self._evict(policy.partitions_over_limit(self._partitions), end)

    def _begin_at(self, now: int, *, has_stream_clock: bool) -> None:
        self._set_ready(now)
        self._timers.pass_idle(now)
        if not has_stream_clock:  # rows and marks may come before the clock does
            if self._timers.is_outage(now):
                self._run_overdue(now, after_outage=True)
            self._catch_up(now)

    def on_tick(self, now: int, *, resume: bool, is_last_at_instant: bool) -> None:
        """Do what is due at `now` (us). After a clock went back nothing is due until it has caught up.

        `resume` marks the first tick after the process was down.
        """
        self._set_ready(now)
        if self._record.final or (now < self._record.clock and not resume):
            return
        self._timers.pass_idle(self._record.clock if resume else now)
        before = OutageCounts.of(self._record, self._partitions) if resume else None
        if now < self._record.clock:
            self._handle_clock_back(now)
        due = self.due()
        if due is not None and due <= now:
            self.late_us = max(self.late_us or 0, now - due)
        overdue = int(np.count_nonzero(self._partitions.live & (self._partitions.due <= now)))
        after_outage = self._window.catch_up != "each" and (resume or self._timers.is_outage(now))
        self._catch_up(now)
        self._run_overdue(now, after_outage=after_outage, is_last_at_instant=is_last_at_instant)
        if before is not None:
            self.outage = OutageCounts.of(self._record, self._partitions).difference_to(
                before, overdue=overdue, now=now
            )

    def _catch_up(self, now: int) -> None:
        """Run rounds without rows until what is left to do by `now` fits into one; none, unless each period fires."""
        while (end := self._timers.end_of_round(now)) < now:
            self._run_round(self._no_rows, _NONE, _NONE, end)

    def _run_overdue(self, now: int, *, after_outage: bool, is_last_at_instant: bool = False) -> None:
        """Run a round without rows; after an outage, as `catch_up` says."""
        if after_outage and self._window.catch_up == "skip":
            self._timers.skip_overdue(now)
        self._run_round(
            self._no_rows, _NONE, _NONE, now, after_outage=after_outage, is_last_at_instant=is_last_at_instant
        )

    def on_arrival_clock(self, now: int) -> None:
        """Do what is due at `now` (us), the arrival time of a row that may be in another key group."""
        self._begin_at(now, has_stream_clock=True)
        if not self._record.final and now > self._record.clock:
            self._run_round(self._no_rows, _NONE, _NONE, now)

    def on_mark(self, kind: str, at_us: int | None = None) -> None:
        """Handle a mark: at a window mark a punctuation window tumbles; the final mark stops all timers (section 5.3).

        `at_us` is when it arrived, where that is the time of its batch: each key group learns of the batch by the mark.
        """
        if kind == "window":
            if at_us is not None and at_us > self._record.clock:
                self._begin_at(at_us, has_stream_clock=False)
                self.on_arrival_clock(at_us)
            self._contents.on_mark(np.flatnonzero(self._partitions.live), self._record.clock)
        elif not self._record.final:
            # No more rows come at this instant: a window batch that is due at it need not wait for them.
            self._run_round(self._no_rows, _NONE, _NONE, self._record.clock, is_last_at_instant=True)
            self._record.final = True
            self._emit_for_all_partitions(EventType.FINAL)
            stop_timers(self._partitions)

    def on_evict_partitions(self, keys: pa.Table) -> None:
        """Evict these partitions, if they are live."""
        codes = self._keys.encode(self._keys.with_normal_keys(keys))
        self._partitions.grow()
        self._evict(codes[self._partitions.live[codes]], self._record.clock)

    def on_flush(self) -> None:
        """Fire what no firing has shown yet, with reason FLUSH, emit FINAL, and take no more rows."""
        live = np.flatnonzero(self._partitions.live)
        self._contents.on_flush(live, self._record.clock)
        self._emit_for_all_partitions(EventType.FINAL)
        self._contents.remove_partitions(live)
        self._partitions.clear(live)
        self._record.flushed = self._record.final = True

    @property
    def flushed(self) -> bool:
        """Whether the window takes no more rows."""
        return self._record.flushed

    def due(self) -> int | None:
        """Return the next wall-clock instant (us) at which something happens without a row; None without a timer."""
        live = self._partitions.live
        soonest = self._timers.next_due()
        if self._partition_age is not None and live.any():
            soonest = min(soonest, int(self._partitions.last_at[live].min()) + self._partition_age)
        soonest = min(soonest, self._contents.next_eviction())
        return None if soonest == NEVER or self._record.final else soonest

    def _run_round(
        self,
        table: pa.Table,
        codes: np.ndarray,
        at: np.ndarray,
        end: int,
        *,
        after_outage: bool = False,
        is_last_at_instant: bool = False,
    ) -> None:
        created = self._create(codes, at)
        seq = self._record.next_seq + np.arange(table.num_rows, dtype=np.int64)
        self._record.next_seq += table.num_rows
        self._partitions.last_at[codes], self._partitions.last_seq[codes] = at, seq
        end_at, aged_out, aged_out_at = self._round_ends(
            end, after_outage=after_outage, is_last_at_instant=is_last_at_instant
        )
        order = stable_order(codes)
        old_counts = self._partitions.size
        round_rows = RoundRows.of(codes[order], at[order], old_counts, end_at, after_outage=after_outage)
        events = created
        if self._contents.needs_events(EventType.INSERTION):
            events = [*created, self._insertion_events(round_rows)]
        self._contents.add_round(
            Round(
                round_rows=round_rows,
                table=table,
                at=at,
                seq=seq,
                order=order,
                events=events,
                is_last_at_instant=is_last_at_instant,
            )
        )
        self._record.clock = max(self._record.clock, end)
        self._evict(aged_out, aged_out_at)

    def _create(self, codes: np.ndarray, at: np.ndarray) -> list[EventTable]:
        """Create the partitions that have their first row here; return their INITIAL_FULL, if they start full."""
        first_row = np.full(len(self._partitions.live), -1)
        first_row[codes[::-1]] = np.arange(len(codes))[::-1]  # the last assignment stays
        distinct = np.flatnonzero(first_row >= 0)
        first = first_row[distinct]
        new = ~self._partitions.live[distinct]
        return self._create_events(distinct[new], at[first[new]])

    def _create_events(self, codes: np.ndarray, at: np.ndarray) -> list[EventTable]:
        full = starts_full(self._window)
        self._partitions.create(codes, first_due(self._window, self._record.ready, at), full=full)
        self._partitions.last_at[codes] = at
        if self._record.final:
            stop_timers(self._partitions)
        if not full or not len(codes):
            return []
        none = np.zeros(len(codes), dtype=np.int64)
        return [timer_events(EventType.INITIAL_FULL, (codes, at), none, none, cause=Cause.BEGIN, phase=Phase.FULL)]

    def _insertion_events(self, round_rows: RoundRows) -> EventTable:
        return row_events(
            EventType.INSERTION, Phase.INSERTION, round_rows.rows, round_rows.position, round_rows.position + 1
        )

    def _round_ends(
        self, end: int, *, after_outage: bool, is_last_at_instant: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the last instant (us) of the round for each partition; the partitions that age out in it, and when.

        What is overdue is evicted now, not in the past. A partition is evicted before the window batch of that instant,
        which waits for rows: only what is due earlier is in its round, even if no more rows of the instant come.
        """
        end_at = np.full(len(self._partitions.live), end)
        if self._partition_age is None or self._record.final:
            return end_at, _NONE, _NONE
        due = self._partitions.last_at + self._partition_age
        aged_out = np.flatnonzero(self._partitions.live & (due <= end))
        if after_outage:
            return end_at, aged_out, end_at[aged_out]
        end_at[aged_out] = due[aged_out] - is_last_at_instant if isinstance(self._window, Batched) else due[aged_out]
        return end_at, aged_out, due[aged_out]

    def _evict(self, codes: np.ndarray, at: np.ndarray | int) -> None:
        """Evict partitions: one event with the whole content, then all that is kept of them is removed."""
        if not len(codes):
            return
        self._contents.emit_contents(EventType.PARTITION_EVICTION, codes, np.broadcast_to(at, len(codes)))
        self._contents.remove_partitions(codes)
        self._partitions.clear(codes)
        if not len(self._keys.schema):
            self._create_events(codes, np.full(len(codes), self._record.clock))

    def _emit_for_all_partitions(self, kind: EventType) -> None:
        live = np.flatnonzero(self._partitions.live)
        self._contents.emit_contents(kind, live, np.full(len(live), self._record.clock))

    def _arrival_times(self, table: pa.Table) -> np.ndarray:
        """Arrival times: declared ones never go back, others are what the clock last said."""
        if ARRIVAL_TIME in table.column_names:
            at = table.column(ARRIVAL_TIME).to_numpy()
        else:
            at = np.full(table.num_rows, max(self._record.clock, 0))
        return np.maximum.accumulate(np.maximum(at, self._record.clock))

    def _set_ready(self, now: int) -> None:
        """Make the window ready at the first time it gets; without partitioning, its one partition is created then."""
        if self._record.ready != NO_WATERMARK:
            return
        self._record.ready = self._record.clock = now
        if not len(self._keys.schema):
            self._partitions.grow()
            created = self._create_events(np.zeros(1, dtype=np.int64), np.array([now]))
            self._contents.on_partition_created(created)

    def _handle_clock_back(self, now: int) -> None:
        """Handle a clock that is behind the stored one: timers wait a whole period, and nothing is ahead of the clock.

        A row that arrived later than now is taken to have arrived now, and so is the last insertion, and the creation
        of the window. Window batches keep to the grid that begins there (docs/semantics.md section 7).
        """
        self._record.clock = now
        self._record.ready = min(self._record.ready, now)
        self._partitions.last_at = np.minimum(self._partitions.last_at, now)
        self._contents.cap_arrival_times(now)
        period = timer_period(self._window)
        if period is not None:
            latest = first_due(self._window, self._record.ready, np.array([now]))
            self._partitions.due = np.minimum(self._partitions.due, latest)
