"""Time-interval windows: which panes there are in one key group (docs/semantics.md section 6).

Decides when a pane completes, fires again and closes; which panes a row joins is in `late_rows`. What a pane holds is
up to `contents`, and what a firing becomes is up to `output`. The steps are the same for partial aggregates in
slices and for the rows of an operator: assign, apply, decide, emit.

Only a greater watermark makes a pane fire. Whether a pane is closed depends on the watermark alone, also for a pane of
which nothing is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.event_time_batch import (
    RowCounts,
    fates_of,
    folded_too_early,
    lateness_text,
    without_arrival_time,
)
from panekeeper.framework.core.job_spec import EVENT_TIME
from panekeeper.framework.core.panes.fills import Fills
from panekeeper.framework.core.panes.firing_rules import CellFirings, passes_multiple
from panekeeper.framework.core.panes.geometry import Geometry
from panekeeper.framework.core.panes.late_rows import Assignment, assign, assign_slices, first_open_pane
from panekeeper.framework.core.panes.open_runs import Runs, runs_of
from panekeeper.framework.core.panes.pane_index import CellIndex, Tally
from panekeeper.framework.core.panes.partial_rows import NUMBER_COLUMN, SLICE_COLUMN
from panekeeper.framework.core.panes.refinements import FiringCounts, PendingRefinements
from panekeeper.framework.core.panes.row_firings import FiringRows
from panekeeper.framework.core.partition_keys import PartitionKeys
from panekeeper.framework.core.stable_order import distinct, gather_ranges, stable_order
from panekeeper.framework.declarations.events import Reason
from panekeeper.framework.declarations.windows import TimeInterval
from panekeeper.state.records import NEVER, NO_WATERMARK, IntervalRecord, PaneRecord

_FIRST_TRIALS = 16
_MOST_TRIALS = 2**18
"""At how many rows of a cell a condition is tried at once; and about how many rows that takes in all cells together."""


@dataclass(frozen=True, kw_only=True)
class PaneTransition:
    """What one watermark, or the flush, does to one pane, in this order: full, trigger, close (section 6.2)."""

    pane: int
    completes: bool = False
    trigger: PaneFiring | None = None
    close: bool = False


@dataclass(frozen=True, kw_only=True)
class PaneFiring:
    """One firing of a pane. `codes` are the partitions with rows since the last one; None means all partitions.

    A partition that fires for the first time is full then, be it with the pane or later: what a partition receives does
    not depend on the other partitions of its key group.
    """

    reason: Reason
    codes: np.ndarray | None = None
    refinements: np.ndarray | None = None
    """How often each of `codes` fired before; 0 for all where `codes` is None."""
    completes: np.ndarray | None = None
    """Whether each of `codes` fires as complete for the first time; None: those that never fired before."""
    filled: np.ndarray | None = None
    """Whether each of `codes` fires without ever having had a row; None: none does."""


class PaneContents(Protocol):
    """What panes hold, by (partition code, slice)."""

    def insert(self, table: pa.Table, codes: np.ndarray, slices: np.ndarray, seq: np.ndarray) -> None:
        """Add rows, or partial rows, in arrival order; `seq` are the arrival numbers of rows."""
        ...

    def holds(self, codes: np.ndarray, panes: np.ndarray) -> np.ndarray:
        """Return whether the partition has rows in the pane, pair by pair."""
        ...

    def retain(self, open_panes: np.ndarray) -> None:
        """Remove every slot that holds no part of an open pane."""
        ...

    def condition_holds(self, rows: pa.Table, cells: np.ndarray, codes: np.ndarray, panes: np.ndarray) -> np.ndarray:
        """Return whether `fires_when` would hold after each of these rows; only where panes have such a condition."""
        ...

    def forget(self, codes: np.ndarray, panes: np.ndarray) -> None:
        """Remove what partitions hold in panes, pair by pair; only where panes keep it apart from each other."""
        ...

    def save(self) -> None:
        """Write what changed to the store."""
        ...


class PaneOutput(Protocol):
    """What events become: results of aggregates, or calls of an operator."""

    @property
    def has_ordered_drops(self) -> bool:
        """Whether rows that are too late are handled between those before and after them."""
        ...

    def on_insert(self, table: pa.Table, codes: np.ndarray, oldest: np.ndarray, newest: np.ndarray) -> None:
        """Handle rows that joined the panes oldest..newest (row by row)."""
        ...

    def on_firing_rows(self, rows: FiringRows) -> None:
        """Add rows to what panes hold, and handle them and what fires at them."""
        ...

    def on_drop(self, table: pa.Table, codes: np.ndarray, detail: Callable[[int | None], str]) -> None:
        """Handle rows that are too late; `detail(event time)` is a text that says by how much."""
        ...

    def on_transitions(self, transitions: list[PaneTransition]) -> None:
        """Handle panes that complete, fire or close, in the order of their ends."""
        ...


@dataclass
class TimeIntervalWindow:
    """The panes of one key group for one micro-batch. What persists is in `record`, `contents` and `firing_counts`."""

    window: TimeInterval
    record: IntervalRecord
    keys: PartitionKeys
    contents: PaneContents
    output: PaneOutput
    firing_counts: FiringCounts
    geometry: Geometry
    cells: CellFirings | None = None
    """What each partition has fired in each pane, where a rule needs it; else `pending` and `firing_counts` do."""
    fills: Fills | None = None
    """Which panes without rows fire, where they do; then there are `cells`, too."""
    counts: RowCounts = field(default_factory=RowCounts)
    missed_panes: int = 0

    def __post_init__(self) -> None:
        self.pending = PendingRefinements.restore(self.record.pending, self.keys)

    @property
    def watermark(self) -> int:
        """The largest watermark acted on, us."""
        return self.record.watermark

    def takes(self, table: pa.Table) -> np.ndarray:
        """Return whether each row joins a pane."""
        return self._assign(table.column(EVENT_TIME).to_numpy()).kept

    def on_rows(self, table: pa.Table) -> np.ndarray:
        """Process rows in arrival order: assign them to panes, drop late ones, note what must fire again."""
        table, arrived = without_arrival_time(self.keys.with_normal_keys(table), self.record.clock)
        assigned = self._assign(table.column(EVENT_TIME).to_numpy())
        self.missed_panes += assigned.missed_panes()
        fates, codes = self._fates(assigned), self.keys.encode(table)
        self._fire_due(arrived, distinct(codes))
        changes = np.flatnonzero(np.diff(assigned.late)) + 1 if self.output.has_ordered_drops else ()
        for start, stop in pairwise((0, *changes, table.num_rows)):
            part = slice(start, stop)
            self._drop_or_insert(table.slice(start, stop - start), codes[part], assigned.only(part), arrived)
        return fates

    def _drop_or_insert(self, table: pa.Table, codes: np.ndarray, assigned: Assignment, arrived: int) -> None:
        if (late := assigned.late).any():
            by_pane, by_age = "every pane it belongs to is closed", "older than the discard age"
            rule = by_pane if self.window.late == "pane" else by_age
            self.output.on_drop(
                table.filter(pa.array(late)), codes[late], lambda time: lateness_text(time, self.record, rule)
            )
        if not (kept := assigned.kept).all():
            table, codes, assigned = table.filter(pa.array(kept)), codes[kept], assigned.only(kept)
        if table.num_rows:
            self._insert(table, codes, assigned, None, arrived)

    def on_partial_rows(self, table: pa.Table) -> None:
        """Process partial rows, in arrival order, as the rows they stand for. Raises `ValueError` if one is late."""
        slices, numbers = table.column(SLICE_COLUMN).to_numpy(), table.column(NUMBER_COLUMN).to_numpy()
        is_open = np.full(len(slices), not self.record.flushed)
        assigned = assign_slices(self.geometry, slices, self.record.watermark, is_open)
        if not assigned.kept.all():
            raise folded_too_early(self.record.watermark)
        self.counts.add(self._fates(assigned), numbers)
        self.missed_panes += assigned.missed_panes(numbers)
        self._insert(table, self.keys.encode(table), assigned, numbers, self.record.clock or 0)

    def on_watermark(self, watermark: int) -> None:
        """Complete, fire and close panes. A watermark (us) that is not greater is ignored (section 6.2)."""
        if watermark <= self.record.watermark or self.record.flushed:
            return
        previous, self.record.watermark = self.record.watermark, watermark
        if self.fills is not None and self.cells is not None:
            self._fill(self.fills, self.cells, previous)
        transitions = [self._transition(pane, previous) for pane in sorted(self.record.panes)]
        self._apply([transition for transition in transitions if transition is not None])

    def on_tick(self, us: int) -> None:
        """Fire what is due by the wall clock."""
        if self.window.fires_by_clock and not self.record.flushed:
            self.record.clock = us if self.record.clock is None else max(us, self.record.clock)
            self._fire_due(us)

    def on_flush(self) -> None:
        """Fire every pane that has new rows, with reason FLUSH, and close all panes for good."""
        transitions = []
        for pane in sorted(self.record.panes):
            state = self.record.panes[pane]
            transitions.append(
                PaneTransition(
                    pane=pane,
                    completes=not state.complete,
                    trigger=self._firing(pane, state, Reason.FLUSH, closes=True),
                    close=True,
                )
            )
        self._apply(transitions)
        self.record.flushed = True

    def on_batch_end(self) -> None:
        """Fire the panes that the batch changed, by `emit="on_update"`."""
        if self.window.emit != "on_update" or self.cells is None:
            return
        self._fire(self.cells, [(pane, self.cells.unfired(pane)) for pane in sorted(self.record.unfired)])

    def due(self) -> int | None:
        """Return the least watermark (us) at which a pane completes, fires again or closes; None if no pane is open."""
        deadlines = [] if (fills := self._next_fill()) is None else [fills]
        if not self.record.panes:
            return deadlines[0] if deadlines else None
        deadlines += [
            self.geometry.closing_watermark(pane) if state.complete else self._ready(pane)
            for pane, state in self.record.panes.items()
        ]
        complete = [self.record.panes[pane].complete for pane in self.record.unfired]
        if self.pending or any(complete) or self._has_late_created_pane():
            deadlines.append(self.record.watermark + 1)
        if not all(complete) and (period := self._early_period()):
            deadlines.append((self.record.watermark // period + 1) * period)
        return max(min(deadlines), self.record.watermark + 1)

    @property
    def open_count(self) -> int:
        """How many panes are open."""
        return len(self.record.panes)

    @property
    def open_runs(self) -> Runs:
        """Which panes these are."""
        return runs_of(self.record.panes)

    def due_by_clock(self) -> int | None:
        """Return when the wall clock next makes a pane fire, us; None: never."""
        due = min(self.record.unfired.values(), default=NEVER)
        return None if due == NEVER else due

    def save(self) -> IntervalRecord:
        """Write the contents and return the record to be written as the header."""
        self.contents.save()
        if self.fills is not None and self.record.watermark != NO_WATERMARK:  # before it nothing fires, or is filled
            self.fills.save(self._last_ready(self.record.watermark) + 1)
        if self.cells is not None:
            self.cells.save()
        self.record.pending = self.pending.store(self.keys)
        return self.record

    # -- assign ----------------------------------------------------------------------------------------------

    def _assign(self, times: np.ndarray) -> Assignment:
        return assign(self.window, self.geometry, times, self.record.watermark, flushed=self.record.flushed)

    def _fates(self, assigned: Assignment) -> np.ndarray:
        refines = np.zeros(len(assigned.kept), dtype=np.bool_)
        if self.record.watermark != NO_WATERMARK:
            ends = self.geometry.ends(assigned.oldest[assigned.kept])
            refines[assigned.kept] = ends <= self.record.watermark
        return fates_of(assigned.kept, refines, assigned.outside)

    # -- apply -----------------------------------------------------------------------------------------------

    def _insert(
        self, table: pa.Table, codes: np.ndarray, assigned: Assignment, numbers: np.ndarray | None, arrived: int
    ) -> None:
        """Add rows, or partial rows for so many each."""
        slices = assigned.slices
        if self.cells is None:
            overdue = self.geometry.ends(assigned.oldest) <= self.record.watermark
            if overdue.any():
                self._mark_pending(codes[overdue], slices[overdue])
        in_order = distinct(slices)
        first_open = first_open_pane(self.geometry, self.record.watermark)
        lows = np.maximum(self.geometry.oldest_pane(in_order), first_open).tolist()
        for low, high in zip(lows, self.geometry.newest_pane(in_order).tolist(), strict=True):
            for pane in range(low, high + 1):
                self.record.panes.setdefault(pane, PaneRecord())
        if self.cells is None:
            self._join(table, codes, assigned, numbers)
        else:
            self._join_by_rules(self.cells, table, codes, assigned, numbers, arrived)

    def _join_by_rules(
        self,
        cells: CellFirings,
        table: pa.Table,
        codes: np.ndarray,
        assigned: Assignment,
        numbers: np.ndarray | None,
        arrived: int,
    ) -> None:
        """Add rows, and fire cells at the rows at which they do."""
        if self.window.fires_when is not None:
            panes, row_of = _pairs(assigned.oldest, assigned.newest)
            joined = cells.place(codes[row_of], panes)
            self._join_by_condition(cells, table, codes[row_of], panes, joined, row_of, arrived)
            return
        tally = Tally.of(codes, assigned.slices, numbers)
        first_open = first_open_pane(self.geometry, self.record.watermark)
        oldest = np.maximum(self.geometry.oldest_pane(tally.slices), first_open)
        panes, of = _pairs(oldest, self.geometry.newest_pane(tally.slices))
        joined = cells.place(tally.codes[of], panes)
        if not cells.fire_within(joined, tally.counts[of]):
            cells.add_rows(joined, tally.counts[of], arrived)
            self._join(table, codes, assigned, numbers)
            return
        pairs, row_of = tally.cells, np.arange(table.num_rows)
        if len(of) > len(tally.codes):  # a row is in several panes
            begins = np.searchsorted(of, np.arange(len(tally.codes) + 1))
            pairs, offsets = gather_ranges(begins[pairs], begins[pairs + 1])
            row_of = np.repeat(row_of, np.diff(offsets))
        slices, oldest, newest, seq = assigned.slices, assigned.oldest, assigned.newest, self._numbers(table.num_rows)
        if self.window.keeps_panes_apart:
            table, codes, seq = table.take(pa.array(row_of)), codes[row_of], seq[row_of]
            slices = oldest = newest = panes[pairs]
            row_of = np.arange(len(pairs))
        firings, by_cell = cells.add_rows_that_fire(joined[pairs], row_of, arrived)
        self.output.on_firing_rows(
            FiringRows(
                table=table,
                codes=codes,
                slices=slices,
                oldest=oldest,
                newest=newest,
                seq=seq,
                firings=firings,
                by_cell=by_cell,
            )
        )

    def _join_by_condition(
        self,
        cells: CellFirings,
        table: pa.Table,
        codes: np.ndarray,
        panes: np.ndarray,
        joined: np.ndarray,
        row_of: np.ndarray,
        arrived: int,
    ) -> None:
        """Add rows, pair by pair of row and pane, and fire a cell after each row at which the condition holds.

        Cells do not depend on each other. In each round some rows of every cell are tried at once, and those until the
        first one at which it fires are added.
        """
        order = stable_order(joined)
        starts = np.flatnonzero(np.diff(joined[order], prepend=-1))
        ends = np.append(starts[1:], len(order))
        of_cells = order[starts]
        at, most = starts.copy(), _FIRST_TRIALS
        while (open_cells := np.flatnonzero(at < ends)).size:
            lengths = np.minimum(ends[open_cells] - at[open_cells], most)
            positions, offsets = gather_ranges(at[open_cells], at[open_cells] + lengths)
            pairs, local = order[positions], np.repeat(np.arange(len(open_cells)), lengths)
            rows = table.take(pa.array(row_of[pairs]))
            here = of_cells[open_cells]
            holds = self.contents.condition_holds(rows, local, codes[here], panes[here])
            place = np.arange(len(pairs)) - offsets[:-1][local]
            first = np.minimum.reduceat(np.where(holds, place, len(pairs)), offsets[:-1])
            fires = first < len(pairs)
            added = np.where(fires, first + 1, lengths)
            some = np.flatnonzero(place < added[local])
            cells.add_rows(joined[pairs[some]], None, arrived)
            seq = self.record.next_seq + row_of[pairs[some]]
            self.contents.insert(rows.take(pa.array(some)), codes[pairs[some]], panes[pairs[some]], seq)
            self._fire(cells, cells.by_number(joined[here[fires]]))
            at[open_cells] += added
            allowed = max(_FIRST_TRIALS, int((_MOST_TRIALS / len(open_cells)) ** 0.5))
            most = min(2 * most, allowed) if not fires.any() else max(_FIRST_TRIALS, int(added.mean()))
        self.record.next_seq += table.num_rows

    def _join(self, table: pa.Table, codes: np.ndarray, assigned: Assignment, numbers: np.ndarray | None) -> None:
        seq = self._numbers(table.num_rows, table.num_rows if numbers is None else int(numbers.sum()))
        if self.window.keeps_panes_apart:
            panes, row_of = _pairs(assigned.oldest, assigned.newest)
            self.contents.insert(table.take(pa.array(row_of)), codes[row_of], panes, seq[row_of])
        else:
            self.contents.insert(table, codes, assigned.slices, seq)
        self.output.on_insert(table, codes, assigned.oldest, assigned.newest)

    def _numbers(self, entries: int, rows: int | None = None) -> np.ndarray:
        """Return the arrival numbers of new entries, which stand for so many rows, one each if None."""
        seq = self.record.next_seq + np.arange(entries, dtype=np.int64)
        self.record.next_seq += entries if rows is None else rows
        return seq

    def _mark_pending(self, codes: np.ndarray, slices: np.ndarray) -> None:
        """Note the partitions that must fire again, and whether they have fired before; called before the insertion."""
        complete = np.array(sorted(pane for pane, state in self.record.panes.items() if state.complete), dtype=np.int64)
        codes, panes = CellIndex(codes, slices, self.geometry).pairs(complete)
        fresh = ~self.pending.have(codes, panes)
        codes, panes = codes[fresh], panes[fresh]
        if len(codes):
            self.pending.add(codes, panes, self.contents.holds(codes, panes))

    # -- decide ----------------------------------------------------------------------------------------------

    def _transition(self, pane: int, previous: int) -> PaneTransition | None:
        state, watermark, ready = self.record.panes[pane], self.record.watermark, self._ready(pane)
        completes = not state.complete and watermark >= ready
        trigger = None
        if completes or (state.complete and (self.pending.has(pane) or pane in self.record.unfired)):
            reason = Reason.WATERMARK if previous < ready else Reason.LATE
            closes = watermark >= self.geometry.closing_watermark(pane)
            trigger = self._firing(pane, state, reason, closes=closes)
        elif self.cells is not None and pane in self.record.unfired:
            period = self._early_period()
            if period and passes_multiple(previous, watermark, period):
                trigger = self._firing_of(self.cells, pane, self.cells.unfired(pane), Reason.EARLY, complete=False)
        close = watermark >= self.geometry.closing_watermark(pane) and (state.complete or completes)
        if not (completes or trigger or close):
            return None
        return PaneTransition(pane=pane, completes=completes, trigger=trigger, close=close)

    def _fill(self, fills: Fills, cells: CellFirings, previous: int) -> None:
        """Open what has no rows and fires at this watermark, as cells that have never fired."""
        until = self._last_ready(self.record.watermark)
        with_rows = {
            pane: cells.codes(cells.unfired(pane))
            for pane in sorted(self.record.unfired)
            if self._ready(pane) <= self.record.watermark
        }
        after = min(with_rows, default=until) - 1 if previous == NO_WATERMARK else self._last_ready(previous)
        if not with_rows and (fills.is_empty or after == until):
            return
        found = fills.gaps(after, until, with_rows)
        if not found:
            return
        for pane, _ in found:
            self.record.panes.setdefault(pane, PaneRecord())
        codes = np.concatenate([codes for _, codes in found])
        cells.place(codes, np.repeat([pane for pane, _ in found], [len(codes) for _, codes in found]))

    def _last_ready(self, watermark: int) -> int:
        """Return the newest pane that fires at this watermark, or an older one, without further rules."""
        if self.window.emit == "on_close":
            return self.geometry.last_closed(watermark)
        return self.geometry.last_ending_by(watermark)

    def _next_fill(self) -> int | None:
        """Return the least watermark (us) at which a pane without rows may fire; None if none will."""
        if self.record.fill_until is None or self.record.flushed:
            return None
        pane = self._last_ready(self.record.watermark) + 1
        return self._ready(pane) if self.geometry.end(pane) <= self.record.fill_until else None

    def _ready(self, pane: int) -> int:
        """Return the watermark at which the pane fires for the first time without further rules."""
        return self.geometry.closing_watermark(pane) if self.window.emit == "on_close" else self.geometry.end(pane)

    def _firing(self, pane: int, state: PaneRecord, reason: Reason, *, closes: bool) -> PaneFiring | None:
        if self.cells is not None:
            cells = self.cells.at_watermark(pane, closes=closes)
            return self._firing_of(self.cells, pane, cells, reason, complete=True)
        if not state.complete:
            return PaneFiring(reason=reason)
        if not self.pending.has(pane):
            return None
        codes, before = self.pending.of(pane)
        refinements = self.firing_counts.read(pane, codes, before, has_counts=state.has_counts)
        return PaneFiring(reason=reason, codes=codes, refinements=refinements)

    def _early_period(self) -> int | None:
        """Return by how much the watermark advances between early firings, us; None if nothing fires by that."""
        return None if self.window.early is None else self.window.early.event_time_us

    def _fire_due(self, now: int, codes: np.ndarray | None = None) -> None:
        """Fire what is due by the wall clock, of all partitions or of these."""
        if self.cells is not None and self.window.fires_by_clock:
            self._fire(self.cells, self.cells.due(now, codes))

    def _fire(self, cells: CellFirings, found: Iterable[tuple[int, np.ndarray]]) -> None:
        """Fire some cells of some panes: early, or late where the pane is complete."""
        transitions = []
        for pane, fires in found:
            complete = self.geometry.end(pane) <= self.record.watermark
            reason = Reason.LATE if complete else Reason.EARLY
            trigger = self._firing_of(cells, pane, fires, reason, complete=complete)
            transitions.append(PaneTransition(pane=pane, trigger=trigger))
        self._apply(transitions)

    def _firing_of(
        self, cells: CellFirings, pane: int, fires: np.ndarray, reason: Reason, *, complete: bool
    ) -> PaneFiring | None:
        """Return the firing of some cells of a pane, which is noted; `complete`: the pane is, or becomes it now."""
        if not len(fires):
            return None
        firing = PaneFiring(
            reason=reason,
            codes=cells.codes(fires),
            refinements=cells.fired(fires),
            completes=cells.never_complete(fires) & complete,
            filled=None if self.fills is None else cells.are_filled(fires),
        )
        cells.note_firing(pane, fires, complete=complete)
        return firing

    # -- emit ------------------------------------------------------------------------------------------------

    def _apply(self, transitions: list[PaneTransition]) -> None:
        if not transitions:
            return
        self.output.on_transitions(transitions)
        if self.window.forgets:
            fired = [(t.pane, t.trigger.codes) for t in transitions if t.trigger and t.trigger.codes is not None]
            for pane, codes in fired:
                self.contents.forget(codes, np.full(len(codes), pane))
        for transition in transitions:
            state = self.record.panes[transition.pane]
            state.complete |= transition.completes
            if transition.trigger:
                self._record_firing(transition.pane, state, transition.trigger, closing=transition.close)
            if transition.close:
                if state.has_counts:
                    self.firing_counts.remove(transition.pane)
                del self.record.panes[transition.pane]
        if any(transition.close for transition in transitions):
            self.contents.retain(np.fromiter(self.record.panes, dtype=np.int64))
            if self.cells is not None:
                self.cells.retain(np.array(sorted(self.record.panes), dtype=np.int64))

    def _record_firing(self, pane: int, state: PaneRecord, trigger: PaneFiring, *, closing: bool) -> None:
        if self.cells is not None:
            return
        self.pending.clear(pane)
        if trigger.codes is not None and trigger.refinements is not None and not closing:
            self.firing_counts.write(pane, trigger.codes, trigger.refinements + 1, has_counts=state.has_counts)
            state.has_counts = True

    def _has_late_created_pane(self) -> bool:
        """Return whether a pane was created after its end: it completes at the next greater watermark."""
        watermark = self.record.watermark
        return any(not s.complete and self._ready(p) <= watermark for p, s in self.record.panes.items())


def _pairs(oldest: np.ndarray, newest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (panes, places): each of the panes oldest..newest, and the place of its range."""
    if (oldest == newest).all():
        return oldest, np.arange(len(oldest))
    panes, offsets = gather_ranges(oldest, newest + 1)
    return panes, np.repeat(np.arange(len(oldest)), np.diff(offsets))
