"""Tumbling, sliding and batched windows: rounds, clock, marks and partition eviction of one key group.

A round processes new rows and advances the clock to its end, which a partition may have of its own: what is due before
a row happens before it. What happens in a round is up to the policies; what a round is, and what remains after it, is
decided here. The clock is data: it comes from ticks and arrival times alone (docs/semantics.md section 1).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.arrival.event_table import Cause, EventTable, Phase, row_events, timer_events
from panekeeper.framework.core.arrival.partitions import Partitions
from panekeeper.framework.core.arrival.policies.evaluate import first_due, starts_full, timer_period
from panekeeper.framework.core.arrival.policies.protocol import RunningPolicy
from panekeeper.framework.core.arrival.policies.registry import running_policy
from panekeeper.framework.core.arrival.protocol import ArrivalContents
from panekeeper.framework.core.arrival.round import Round, RoundRows, ends_of, stop_timers
from panekeeper.framework.core.arrival.timers import Timers
from panekeeper.framework.core.job_spec import ARRIVAL_TIME, REST, JobSpec
from panekeeper.framework.core.partition_keys import PartitionKeys
from panekeeper.framework.core.stable_order import changes, stable_order
from panekeeper.framework.declarations.events import EventType
from panekeeper.framework.declarations.windows import Batched
from panekeeper.state.records import NEVER, NO_WATERMARK, SequenceRecord


def split_into_rounds(
    policy: RunningPolicy | None, codes: np.ndarray, at: np.ndarray, partitions: Partitions
) -> Iterator[np.ndarray]:
    """Yield the positions of the rows of each round: no partition is evicted before the last of them."""
    if policy is None:
        yield np.arange(len(codes))
    elif policy.partition_age_us is not None:
        yield from _split_by_age(policy.partition_age_us, codes, at, partitions)
    else:
        begin = 0
        while begin < len(codes):
            end = policy.rows_within_limit(codes, begin, partitions)
            yield np.arange(begin, end)
            begin = end


def _split_by_age(age: int, codes: np.ndarray, at: np.ndarray, partitions: Partitions) -> Iterator[np.ndarray]:
    """Yield rounds: a row whose partition has aged out by then is in the next one, where its key begins as new."""
    order = stable_order(codes)
    code, time = codes[order], at[order]
    first = changes(code)
    before = np.where(first, np.where(partitions.live[code], partitions.last_at[code], time), np.roll(time, 1))
    passed = np.cumsum(time - before >= age)
    start = np.flatnonzero(first)
    base = np.repeat(np.where(first, passed - (time - before >= age), 0)[start], np.diff(np.append(start, len(code))))
    rounds = np.empty(len(code), dtype=np.int64)
    rounds[order] = passed - base
    for number in range(int(rounds.max(initial=0)) + 1):
        yield np.flatnonzero(rounds == number)


def age_out(
    age: int | None, ends: np.ndarray, partitions: Partitions, *, after_outage: bool, waits: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the last instant (us) of a round for each partition; the partitions that age out in it, and when.

    What is overdue is evicted now, not in the past. A partition is evicted before the window batch of that instant,
    which waits for rows: only what is due earlier is in its round, even if no more rows of the instant come (`waits`).

    Args:
        age: at which a partition is evicted, us; None if none is.
        ends: the last instant of the round for each partition, by code, if it stays.
        partitions: with the last insertions of the round.
        after_outage: whether what is overdue happens now.
        waits: whether the round has the window batches of its last instant, too.
    """
    if age is None:
        none = np.empty(0, dtype=np.int64)
        return ends, none, none
    due = partitions.leave_at(age)
    aged_out = np.flatnonzero(partitions.live & (due <= ends))
    if after_outage:
        return ends, aged_out, ends[aged_out]
    end_at = ends.copy()
    end_at[aged_out] = due[aged_out] - waits
    return end_at, aged_out, due[aged_out]


_NONE = np.empty(0, dtype=np.int64)


class ArrivalOrderWindow:
    """The window of one key group for one micro-batch. What persists is in the record, and in what `contents` store."""

    def __init__(
        self,
        spec: JobSpec,
        record: SequenceRecord,
        keys: PartitionKeys,
        partitions: Partitions,
        contents: ArrivalContents,
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
        """What the first tick after the process was down did; None in a batch without one. `timers` that were overdue,
        `results` that they led to, `tuples` (rows) and `partitions` evicted, `back_us` by which the clock went back.
        """

    def on_rows(self, table: pa.Table, *, has_stream_clock: bool = True) -> None:
        """Process rows in arrival order, each after what was due before it.

        By the wall clock a row moves the time of its own partition only: no other key group receives it, and what
        happens to a partition does not depend on those that share its group (docs/semantics.md section 10.1).
        """
        at, policy = self._arrival_times(table), self._partition_eviction
        self._set_ready(begin := int(at[0]))
        self.rows_in += table.num_rows
        rest = [REST] if REST in table.column_names else []  # of a row that a function refuses
        table = self._keys.with_normal_keys(table.select([*self._spec.columns.names, *rest]))
        codes = self._keys.encode(table)
        self._partitions.grow()
        limit = policy if self._partition_age is None else None
        some, ends = self._every, np.full(len(self._every), at[-1])
        moves_all = has_stream_clock or limit is not None  # by a limit, one key group has all partitions
        if not moves_all:
            at, some = np.maximum(at, self._now(codes)), ~some
            some[codes] = True
            ends = ends_of(some, begin)
            ends[codes] = at  # the last assignment stays
        self._timers.pass_idle(begin, some)
        if not has_stream_clock:  # rows may come before the clock does
            self._run_outage(begin, some & self._timers.too_late(begin))
            self._catch_up(begin, some)
        for rows in split_into_rounds(policy, codes, at, self._partitions):
            part = table if len(rows) == table.num_rows else table.take(pa.array(rows))
            if limit is not None:
                ends = np.full(len(ends), at[rows[-1]])
            self._run_round(part, codes[rows], at[rows], ends)
            if limit is not None:
                self._evict(limit.partitions_over_limit(self._partitions), int(at[rows[-1]]))
        if moves_all:
            self._record.clock = max(self._record.clock, int(at[-1]))

    def on_tick(self, now: int, *, resume: bool, is_last_at_instant: bool) -> None:
        """Do what is due at `now` (us). After a clock went back nothing is due until it has caught up.

        `resume` marks the first tick after the process was down.
        """
        self._set_ready(now)
        if self._record.final or (now < self._record.clock and not resume):
            return
        self._timers.pass_idle(now, self._every)
        before = (self._counts(), self._partitions.latest(self._record.clock)) if resume else None
        if resume and now < self._partitions.latest(self._record.clock):
            self._handle_clock_back(now)
        due = self.due()
        if due is not None and due <= now:
            self.late_us = max(self.late_us or 0, now - due)
        overdue = int(np.count_nonzero(self._partitions.live & (self._partitions.due <= now)))
        late = self._every if resume and self._window.catch_up != "each" else self._timers.too_late(now)
        self._run_until(now, late, is_last_at_instant=is_last_at_instant)
        if before is not None:
            counts, clock = before
            firings, rows, partitions = (done - held for done, held in zip(self._counts(), counts, strict=True))
            self.outage = {
                "timers": overdue,
                "results": firings,
                "tuples": -rows,
                "partitions": -partitions,
                "back_us": 0 if clock == NO_WATERMARK else max(0, clock - now),
            }

    def _counts(self) -> tuple[int, int, int]:
        """Return the numbers of firings so far, of kept rows and of partitions."""
        live = self._partitions.live
        return self._record.firings, int(self._partitions.size[live].sum()), int(np.count_nonzero(live))

    def _run_until(self, now: int, late: np.ndarray, *, is_last_at_instant: bool = False) -> None:
        """Do what is due by now in every partition; in those that are late by an outage, what `catch_up` says."""
        self._run_outage(now, late, is_last_at_instant=is_last_at_instant)
        if (others := ~late).any():
            self._catch_up(now, others)
            self._pass(now, others, is_last_at_instant=is_last_at_instant)
        self._record.clock = max(self._record.clock, now)

    def _run_outage(self, now: int, late: np.ndarray, *, is_last_at_instant: bool = False) -> None:
        if late.any():
            if self._window.catch_up == "skip":
                self._timers.skip_overdue(now, late)
            self._pass(now, late, after_outage=True, is_last_at_instant=is_last_at_instant)

    def _catch_up(self, now: int, some: np.ndarray) -> None:
        """Run rounds without rows until what is left to do by `now` fits into one; none, unless each period fires."""
        while (end := self._timers.end_of_round(now, some)) < now:
            self._pass(end, some)

    def _pass(self, end: int, some: np.ndarray, **how: bool) -> None:
        """Run a round without rows, of some partitions."""
        self._run_round(self._no_rows, _NONE, _NONE, ends_of(some, end), **how)

    def on_arrival_clock(self, now: int) -> None:
        """Do what is due at `now` (us), the arrival time of a row that may be in another key group."""
        self._set_ready(now)
        self._timers.pass_idle(now, self._every)
        if not self._record.final and now > self._record.clock:
            self._pass(now, self._every)
            self._record.clock = now

    def on_mark(self, kind: str, at_us: int | None = None) -> None:
        """Handle a mark: at a window mark a punctuation window tumbles; the final mark stops all timers (section 5.3).

        `at_us` is when it arrived, where that is the time of its batch: each key group learns of the batch by the mark.
        """
        if kind == "window":
            if at_us is not None and at_us > self._record.clock and not self._record.final:
                self._set_ready(at_us)
                self._timers.pass_idle(at_us, self._every)
                self._run_until(at_us, self._timers.too_late(at_us))
            live = np.flatnonzero(self._partitions.live)
            self._contents.on_mark(live, self._now(live))
        elif not self._record.final:
            # No more rows come at this instant: a window batch that is due at it need not wait for them.
            self._pass(self._record.clock, self._every, is_last_at_instant=True)
            self._record.final = True
            self._emit_for_all_partitions(EventType.FINAL)
            stop_timers(self._partitions)

    def on_evict_partitions(self, keys: pa.Table) -> None:
        """Evict these partitions, if they are live."""
        codes = self._keys.encode(self._keys.with_normal_keys(keys))
        self._partitions.grow()
        codes = codes[self._partitions.live[codes]]
        self._evict(codes, self._now(codes))

    def on_flush(self) -> None:
        """Fire what no firing has shown yet, with reason FLUSH, emit FINAL, and take no more rows."""
        live = np.flatnonzero(self._partitions.live)
        self._contents.on_flush(live, self._now(live))
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
        soonest = min(self._timers.next_due(), self._contents.next_eviction())
        if self._partition_age is not None and live.any():
            soonest = min(soonest, int(self._partitions.leave_at(self._partition_age)[live].min()))
        return None if soonest == NEVER or self._record.final else soonest

    def _run_round(
        self,
        table: pa.Table,
        codes: np.ndarray,
        at: np.ndarray,
        ends: np.ndarray,
        *,
        after_outage: bool = False,
        is_last_at_instant: bool = False,
    ) -> None:
        """Run a round with these rows, which ends at an instant (us) of its own for each partition, by code."""
        events = self._create(codes, at)
        seq = self._record.next_seq + np.arange(table.num_rows, dtype=np.int64)
        self._record.next_seq += table.num_rows
        self._partitions.last_at[codes], self._partitions.last_seq[codes] = at, seq
        age = None if self._record.final else self._partition_age
        waits = isinstance(self._window, Batched) and is_last_at_instant
        end_at, aged_out, aged_out_at = age_out(age, ends, self._partitions, after_outage=after_outage, waits=waits)
        order = stable_order(codes)
        rows = RoundRows.of(codes[order], at[order], self._partitions.size, end_at, after_outage=after_outage)
        if self._contents.needs_events(EventType.INSERTION):
            inserted = row_events(EventType.INSERTION, Phase.INSERTION, rows.rows, rows.position, rows.position + 1)
            events = [*events, inserted]
        round_ = Round(
            round_rows=rows,
            table=table,
            at=at,
            seq=seq,
            order=order,
            events=events,
            is_last_at_instant=is_last_at_instant,
        )
        self._contents.add_round(round_)
        self._evict(aged_out, aged_out_at)

    def _create(self, codes: np.ndarray, at: np.ndarray) -> list[EventTable]:
        """Create the partitions that have their first row here; return their INITIAL_FULL, if they start full."""
        first_row = np.full(len(self._partitions.live), -1)
        first_row[codes[::-1]] = np.arange(len(codes))[::-1]  # the last assignment stays
        distinct = np.flatnonzero(first_row >= 0)
        new = distinct[~self._partitions.live[distinct]]
        return self._create_events(new, at[first_row[new]])

    def _create_events(self, codes: np.ndarray, at: np.ndarray) -> list[EventTable]:
        full = starts_full(self._window)
        self._partitions.create(codes, first_due(self._window, self._partitions, self._record.ready, at), full=full)
        self._partitions.last_at[codes] = at
        if self._record.final:
            stop_timers(self._partitions)
        if not full or not len(codes):
            return []
        none = np.zeros(len(codes), dtype=np.int64)
        return [timer_events(EventType.INITIAL_FULL, (codes, at), none, none, cause=Cause.BEGIN, phase=Phase.FULL)]

    def _evict(self, codes: np.ndarray, at: np.ndarray | int) -> None:
        """Evict partitions: one event with the whole content, then all that is kept of them is removed."""
        if not len(codes):
            return
        self._contents.emit_contents(EventType.PARTITION_EVICTION, codes, np.broadcast_to(at, len(codes)))
        self._contents.remove_partitions(codes)
        self._partitions.clear(codes)
        if not len(self._keys.schema):
            self._create_events(codes, np.broadcast_to(at, len(codes)))

    def _emit_for_all_partitions(self, kind: EventType) -> None:
        live = np.flatnonzero(self._partitions.live)
        self._contents.emit_contents(kind, live, self._now(live))

    @property
    def _every(self) -> np.ndarray:
        return np.ones(len(self._partitions.live), dtype=bool)

    def _now(self, codes: np.ndarray) -> np.ndarray:
        return self._partitions.now(codes, self._record.clock)

    def _arrival_times(self, table: pa.Table) -> np.ndarray:
        """Arrival times: declared ones never go back, others are what the clock last said."""
        at = np.full(table.num_rows, max(self._record.clock, 0))
        if ARRIVAL_TIME in table.column_names:
            at = table.column(ARRIVAL_TIME).to_numpy()
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
        """Handle a clock that is behind what is stored: timers wait a whole period, and nothing is ahead of the clock.

        A row that arrived later than now is taken to have arrived now, and so is the last insertion, and the creation
        of the window. Window batches keep to the grid that begins there (docs/semantics.md section 7).
        """
        partitions = self._partitions
        ahead = np.flatnonzero((partitions.last_at > now) | (now < self._record.clock))
        self._record.clock, self._record.ready = min(self._record.clock, now), min(self._record.ready, now)
        partitions.last_at = np.minimum(partitions.last_at, now)
        self._contents.cap_arrival_times(now)
        if timer_period(self._window) is not None:
            latest = first_due(self._window, partitions, self._record.ready, np.array([now]))
            partitions.due[ahead] = np.minimum(partitions.due[ahead], latest)
