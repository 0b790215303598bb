"""Session windows: which sessions there are in one key group (docs/semantics.md section 15).

Decides when a session completes, fires again and closes; which session a row joins is in `joins`. What a session holds
is up to `contents`, and what a firing becomes is up to `output`: assign, apply, decide, emit, as for panes.

A session fires once the watermark has reached its end, and again if it has rows that no firing had. One that a late row
has prolonged beyond the watermark waits for its new end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.event_time_batch import (
    RowCounts,
    RowFate,
    fates_of,
    folded_too_early,
    lateness_text,
    without_arrival_time,
)
from panekeeper.framework.core.job_spec import EVENT_TIME
from panekeeper.framework.core.panes.firing_rules import next_instant, next_multiple, rows_between
from panekeeper.framework.core.panes.folding import NUMBER_COLUMN
from panekeeper.framework.core.panes.open_runs import Runs
from panekeeper.framework.core.panes.row_firings import fired_before
from panekeeper.framework.core.partition_keys import PartitionKeys
from panekeeper.framework.core.sessions.folding import FIRST_TIME_COLUMN, LAST_TIME_COLUMN, REFINING_COLUMN
from panekeeper.framework.core.sessions.gaps import gaps_of
from panekeeper.framework.core.sessions.joins import Join, Joined, JoinsInOrder, connected
from panekeeper.framework.core.sessions.leaves import Leaves
from panekeeper.framework.core.sessions.open_table import OpenSessions, SessionColumns
from panekeeper.framework.core.sessions.protocol import SessionContents, SessionOutput, SessionTransitions
from panekeeper.framework.core.sessions.storage import SessionStorage
from panekeeper.framework.core.sessions.times import SessionTimes
from panekeeper.framework.core.stable_order import distinct, stable_order
from panekeeper.framework.declarations.events import Reason
from panekeeper.framework.declarations.windows import Session
from panekeeper.state.records import NEVER, SessionRecord
from panekeeper.state.store import KeyGroupStore

_LATE = -1


@dataclass
class SessionWindow:
    """The sessions of one key group for one micro-batch. What persists is in `record`, the leaves and `contents`."""

    window: Session
    record: SessionRecord
    keys: PartitionKeys
    store: KeyGroupStore
    leaves: Leaves
    contents: SessionContents
    output: SessionOutput
    taken_back: pa.Schema | None = None
    """The result columns, where a firing takes back the results before."""
    counts: RowCounts = field(default_factory=RowCounts)
    missed_panes: int = 0
    """Never more: a session that is closed is not known any more, so no row is known to lack in it."""

    def __post_init__(self) -> None:
        self.open = OpenSessions(self.keys, fires_by_clock=self.window.fires_by_clock, taken_back=self.taken_back)
        self.storage = SessionStorage(self.store, self.leaves, self.open, self.contents)

    @property
    def watermark(self) -> int:
        """The largest watermark acted on, us."""
        return self.record.watermark

    def takes(self, table: pa.Table) -> np.ndarray:
        """Return whether each row, by itself, is not too late, and has a gap."""
        gaps = gaps_of(self.window, table)
        taken: np.ndarray = (gaps > 0) & ~self._is_closed(table.column(EVENT_TIME).to_numpy() + gaps)
        return taken

    def on_rows(self, table: pa.Table) -> np.ndarray:
        """Process rows in arrival order: join them to sessions, drop late ones."""
        table, arrived = without_arrival_time(self.keys.with_normal_keys(table), self.record.clock)
        gaps = gaps_of(self.window, table)
        times = table.column(EVENT_TIME).to_numpy()
        fates = np.full(table.num_rows, RowFate.OUTSIDE)
        if (without := gaps <= 0).any():
            self.output.on_no_session(table.filter(pa.array(without)), lambda _: "its gap is null, or not positive")
            table, times, gaps = table.filter(pa.array(~without)), times[~without], gaps[~without]
        if not table.num_rows:
            return fates
        codes, ends = self.keys.encode(table), times + gaps
        late = self._is_closed(ends)
        self.storage.load_around(codes, times, ends)
        self._fire_due(arrived, codes)
        rows = SessionColumns.of_rows(codes, times, times, ends, arrived=arrived)
        fires, joins = self._fires_after(rows, late), np.zeros(len(codes), dtype=np.bool_)
        if fires is None:
            joins[:] = self._join_rows(table, rows, late) >= 0
        else:
            for some in _rounds(codes, fires):
                joined = self._join_rows(table.take(pa.array(some)), rows.take(some), late[some])
                self._fire_by_rule(distinct(joined[fires[some]]))
                joins[some] = joined >= 0
        # Those that come when a session of their own would be complete refine the one that they join.
        fates[~without] = fates_of(joins, rows.end <= self.record.watermark)
        return fates

    def _join_rows(self, table: pa.Table, rows: SessionColumns, late: np.ndarray) -> np.ndarray:
        """Join rows, and return where the session of each is then; -1 for one that is dropped."""
        if self.output.needs_every_join:
            return self._join_one_by_one(table, rows, late)
        at, labels = self._labels(rows, late)
        kept = labels[len(at) :] != _LATE
        if not kept.all():
            dropped = table.filter(pa.array(~kept))
            self.output.on_drop(dropped, rows.codes[~kept], self._lateness)
        joined = np.full(len(rows), -1)
        if kept.any():
            labels = np.concatenate([labels[: len(at)], labels[len(at) :][kept]])
            joined[kept] = self._insert(table.filter(pa.array(kept)), rows.take(kept), at, labels)
        return joined

    def on_partial_rows(self, table: pa.Table) -> None:
        """Process partial rows, in arrival order, as the rows they stand for. Raises `ValueError` if one is late."""
        first, last = (table.column(name).to_numpy() for name in (FIRST_TIME_COLUMN, LAST_TIME_COLUMN))
        numbers, codes = table.column(NUMBER_COLUMN).to_numpy(), self.keys.encode(table)
        gap = self.window.gap_us
        assert gap is not None
        if self._is_closed(first + gap).any():
            raise folded_too_early(self.record.watermark)
        self.storage.load_around(codes, first, last + gap)
        rows = SessionColumns.of_rows(codes, first, last, last + gap, numbers)
        at, labels = self._labels(rows, np.zeros(len(codes), dtype=np.bool_))
        refining = table.column(REFINING_COLUMN).to_numpy()
        self.counts.add(np.full(len(numbers), RowFate.ADMITTED), numbers - refining)
        self.counts.add(np.full(len(numbers), RowFate.REFINED_LATE), refining)
        self._insert(table, rows, at, labels)

    def on_watermark(self, watermark: int) -> None:
        """Complete, fire and close sessions. A watermark (us) that is not greater is ignored."""
        if watermark <= self.record.watermark or self.record.flushed:
            return
        previous, self.record.watermark = self.record.watermark, watermark
        self.storage.load_due(watermark)
        times = self._times
        is_first = (times.ready > previous) | (self.window.emit == "on_close")
        reasons = np.where(is_first, Reason.WATERMARK.value, Reason.LATE.value)
        self._apply(times.fires_at <= watermark, times.closes_at <= watermark, reasons)
        if next_multiple(previous, times.early_period) <= watermark:
            self._fire_by_rule(np.flatnonzero(self._times.fire_early))

    def on_tick(self, us: int) -> None:
        """Fire what is due by the wall clock."""
        if self.window.fires_by_clock and not self.record.flushed:
            self.record.clock = us if self.record.clock is None else max(us, self.record.clock)
            self.storage.load_due_by_clock(us)
            self._fire_due(us)

    def on_flush(self) -> None:
        """Fire every session that has new rows, with reason FLUSH, and close all for good."""
        if not self.record.flushed:
            self.storage.load_due(NEVER)
            every = np.ones(len(self.open), dtype=np.bool_)
            self._apply(self._times.wait, every, np.full(len(every), Reason.FLUSH.value))
        self.record.flushed = True

    def on_batch_end(self) -> None:
        """Fire the sessions that the batch changed, by `emit="on_update"`."""
        if self.window.emit == "on_update":
            self._fire_by_rule(np.flatnonzero(self.open.columns.new))

    def due(self) -> int | None:
        """Return the least watermark (us) at which a session completes, fires again or closes; None: none is open."""
        due = self.leaves.due
        return None if due is None else max(due, self.record.watermark + 1)

    def due_by_clock(self) -> int | None:
        """Return when the wall clock next makes a session fire, us; None: never."""
        return self.leaves.due_by_clock

    @property
    def open_count(self) -> int:
        """Number of open sessions, once saved."""
        return self.leaves.all_sessions

    @property
    def open_runs(self) -> Runs:
        """Return none: what is open is of one partition, and has no number."""
        return ()

    def save(self) -> SessionRecord:
        """Write what changed and return the record to be written as the header."""
        times, due = self._times, self._times.due
        waits = times.are_over & (due > self.record.watermark) & (self.open.columns.due == NEVER)
        self.storage.archive(np.flatnonzero(waits), due)
        self.storage.save(self._times.due)
        return self.record

    # -- assign ----------------------------------------------------------------------------------------------

    def _is_closed(self, ends: np.ndarray) -> np.ndarray:
        """Return whether sessions that end there are closed."""
        if self.record.flushed:
            return np.ones(len(ends), dtype=np.bool_)
        closed: np.ndarray = ends + self.window.age_us <= self.record.watermark
        return closed

    def _labels(self, rows: SessionColumns, late: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (positions of sessions, labels of these and of the rows): what has one label is one session.

        A row that is too late has the label `_LATE`.
        """
        at, held = self._beside(rows.codes)
        both = held.plus(rows)
        parts = connected(both.codes, both.first, both.end)
        in_order = np.zeros(int(parts.max(initial=-1)) + 1, dtype=np.bool_)
        in_order[parts[len(at) :][late]] = True
        most = self.window.max_duration_us
        if most is not None:
            order = stable_order(parts)
            begins = np.searchsorted(parts[order], np.arange(len(in_order)))
            first, last = (
                how.reduceat(times[order], begins) for how, times in ((np.minimum, both.first), (np.maximum, both.last))
            )
            in_order |= last - first >= most
        if in_order.any():
            return at, self._labels_in_order(parts, both, len(at), np.flatnonzero(in_order[parts]), late)
        return at, parts

    def _beside(self, codes: np.ndarray) -> tuple[np.ndarray, SessionColumns]:
        """Return the open sessions of these partitions, and where they are."""
        touched = np.zeros(self.keys.count, dtype=np.bool_)
        touched[codes] = True
        at = np.flatnonzero(touched[self.open.columns.codes])
        return at, self.open.columns.take(at)

    def _labels_in_order(
        self, parts: np.ndarray, both: SessionColumns, sessions: int, some: np.ndarray, late: np.ndarray
    ) -> np.ndarray:
        """Return the labels of sessions and rows, of which `some` are joined in arrival order; others as `parts`."""
        rows = some[some >= sessions]
        joins = JoinsInOrder(self.window.max_duration_us)
        row_joins, held = self._joins_of(parts, both, sessions, some, late, joins)
        own = [_LATE if join.session is None else join.session.label for join in row_joins]
        base, labels = int(parts.max()) + 1, parts.copy()
        labels[held] = [base + joins.label_of(label) for label in range(len(held))]
        labels[rows] = [_LATE if label == _LATE else base + joins.label_of(label) for label in own]
        return labels

    def _joins_of(
        self,
        parts: np.ndarray,
        both: SessionColumns,
        sessions: int,
        some: np.ndarray,
        late: np.ndarray,
        joins: JoinsInOrder | None = None,
    ) -> tuple[Iterator[Join], np.ndarray]:
        """Return what becomes of some rows, one by one, and the sessions beside them: their labels are the places."""
        held, rows = some[some < sessions], some[some >= sessions]
        joins = joins or JoinsInOrder(self.window.max_duration_us)
        joins.add_sessions(parts[held], both.first[held], both.last[held], both.end[held])
        given = zip(
            *(column.tolist() for column in (rows, parts[rows], both.first[rows], both.end[rows])),
            late[rows - sessions].tolist(),
            strict=True,
        )
        return joins.join(given), held

    def _lateness(self, time: int | None) -> str:
        rule = "a session of its own is closed, and it joins none that is open"
        return lateness_text(time, self.record, rule)

    # -- apply -----------------------------------------------------------------------------------------------

    def _insert(self, table: pa.Table, rows: SessionColumns, at: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Add rows, and return where the session of each is then."""
        self._insert_contents(table, rows)
        return self._join(at, rows, labels)

    def _join(self, at: np.ndarray, rows: SessionColumns, labels: np.ndarray) -> np.ndarray:
        joined, columns = self.open.join(at, rows, labels), self.open.columns
        columns.complete &= self._times.are_over
        self.storage.note_changed(rows.codes)
        if self.window.fires_by_clock:
            self._set_clock(distinct(joined), int(rows.arrived[0]))
        return joined

    def _set_clock(self, made: np.ndarray, now: int) -> None:
        """Set when sessions that rows have joined now (us) fire by the clock."""
        columns, early = self.open.columns, ~self._times.are_over[made]
        columns.due[made] = NEVER
        for rule, some in ((self.window.early, early), (self.window.refire, columns.complete[made])):
            if rule is not None and rule.period_us is not None:
                at = made[some]
                columns.due[at] = next_instant(columns.arrived[at], rule.period_us, now)

    def _insert_contents(self, table: pa.Table, rows: SessionColumns) -> None:
        seq = self.record.next_seq + np.arange(table.num_rows, dtype=np.int64)
        self.record.next_seq += int(rows.new.sum())
        self.contents.insert(table, rows.codes, rows.first, seq)

    def _join_one_by_one(self, table: pa.Table, rows: SessionColumns, late: np.ndarray) -> np.ndarray:
        """Join rows in arrival order, for an operator that handles each; return as `_join_rows`."""
        at, held = self._beside(rows.codes)
        joins = JoinsInOrder(self.window.max_duration_us)
        joins.add_sessions(held.codes, held.first, held.last, held.end)
        columns = (np.arange(len(rows)), rows.codes, rows.first, rows.end, late)
        labels, begin = list[int](), 0

        def insert_until(end: int) -> None:
            nonlocal begin
            kept = begin + np.flatnonzero(np.array(labels[begin:end], dtype=np.int64) != _LATE)
            if len(kept):
                self._insert_contents(table.take(pa.array(kept)), rows.take(kept))
            begin = end

        for join in joins.join(zip(*(column.tolist() for column in columns), strict=True)):
            row, code = table.slice(join.row, 1), int(rows.codes[join.row])
            if join.session is None:
                self.output.on_drop(row, rows.codes[join.row : join.row + 1], self._lateness)
            else:
                if join.merged:
                    self.output.on_merge(code, join.merged, join.session, partial(insert_until, join.row))
                self.output.on_insert(row, code, join.session)
            labels.append(_LATE if join.session is None else join.session.label)
        insert_until(len(rows))
        kept = np.array(labels, dtype=np.int64) != _LATE
        joined = np.full(len(rows), -1)
        if kept.any():
            final = [
                joins.label_of(label) for label in (*range(len(at)), *(label for label in labels if label != _LATE))
            ]
            joined[kept] = self._join(at, rows.take(kept), np.array(final, dtype=np.int64))
        return joined

    def _fires_after(self, rows: SessionColumns, late_rows: np.ndarray) -> np.ndarray | None:
        """Return after which rows their session fires, by the number of its rows; None if it is after none.

        Only rows of sessions that may get so many are looked at one by one.
        """
        if not self.window.fires_at_rows:
            return None
        every = rows_between(self.window.early, self.window.refire)
        at, held = self._beside(rows.codes)
        both = held.plus(rows)
        parts = connected(both.codes, both.first, both.end)
        least = min(number for of_phase in every for number in of_phase if number)
        some = np.flatnonzero((np.bincount(parts, both.new) >= least)[parts])
        if not len(some):
            return None
        joins, own = self._joins_of(parts, both, len(at), some, late_rows)
        state = dict(enumerate(zip(both.new[own].tolist(), both.complete[own].tolist(), strict=True)))
        fires = np.zeros(len(rows), dtype=np.bool_)
        for join in joins:
            if join.session is None:
                continue
            became = [state.pop(session.label, (0, False)) for session in join.merged or (join.session,)]
            number, complete = sum(new for new, _ in became) + 1, any(was_complete for _, was_complete in became)
            is_over = self._end_of(join.session) <= self.record.watermark
            complete &= is_over
            fires[join.row - len(at)] = 0 < every[is_over][complete] <= number
            state[join.session.label] = (0 if fires[join.row - len(at)] else number, complete)
        return fires if fires.any() else None

    def _end_of(self, session: Joined) -> int:
        most = self.window.max_duration_us
        return session.end if most is None else min(session.end, session.first + most)

    # -- decide and emit -------------------------------------------------------------------------------------

    @property
    def _times(self) -> SessionTimes:
        """When the sessions in memory complete, fire and close."""
        return SessionTimes(self.window, self.open.columns, self.record.watermark)

    def _fire_by_rule(self, at: np.ndarray) -> None:
        """Fire the sessions at these positions: early, or late where the watermark has reached their ends."""
        if len(at):
            fires = np.zeros(len(self.open), dtype=np.bool_)
            fires[at] = True
            is_over = self._times.are_over
            reasons = np.where(is_over, Reason.LATE.value, Reason.EARLY.value)
            self._apply(fires, np.zeros(len(fires), dtype=np.bool_), reasons, complete=is_over)

    def _fire_due(self, now: int, codes: np.ndarray | None = None) -> None:
        """Fire what is due by the wall clock, of all partitions or of these."""
        if self.window.fires_by_clock:
            due = self.open.columns.due <= now
            self._fire_by_rule(np.flatnonzero(due if codes is None else due & np.isin(self.open.columns.codes, codes)))

    def _apply(
        self, fires: np.ndarray, closes: np.ndarray, reasons: np.ndarray, *, complete: np.ndarray | None = None
    ) -> None:
        """Fire and close sessions; `complete` says which of them fire as complete, all if None."""
        at = np.flatnonzero(fires | closes)
        if not len(at):
            return
        columns, ends = self.open.columns, self._times.ends
        at = at[stable_order(columns.codes[at], columns.first[at], ends[at])]
        sessions, fired = columns.take(at), at[fires[at]]
        sessions.end = ends[at]
        self.storage.note_changed(sessions.codes)
        values = self.output.on_transitions(
            SessionTransitions(
                sessions=sessions,
                fires=fires[at],
                closes=closes[at],
                reasons=pa.array(reasons[at].tolist(), pa.string()),
                standing=self.open.standing(at),
            )
        )
        if self.window.forgets:
            self.contents.forget(columns.take(fired))
        if len(fired):
            shown = [pa.array(column[fired]) for column in (ends, columns.last, columns.fired)] if values else []
            as_complete = np.ones(len(fired), dtype=np.bool_) if complete is None else complete[fired]
            self.open.fire(fired, complete=as_complete, shown=[*shown, *values])
        if closes.any():
            gone = columns.take(closes)
            self.contents.remove(gone)
            self.open.remove(closes)


def _rounds(codes: np.ndarray, fires: np.ndarray) -> Iterator[np.ndarray]:
    """Yield rows round by round: of each partition those until the next one after which something fires."""
    number = fired_before(codes, fires)
    order = stable_order(number)
    yield from np.split(order, np.flatnonzero(np.diff(number[order])) + 1)
