"""Time-interval windows: which panes there are in one key group (docs/semantics.md section 6).

Decides when a pane completes and closes; which panes a row joins is in `late_rows`. What a pane holds, when its
partitions fire, and what a firing becomes is up to the parts of `protocol.py`. The steps are the same whatever these
are: assign, apply, decide, emit.

Only a greater watermark makes a pane complete. Whether a pane is closed depends on the watermark alone, also for a pane
of which nothing is stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

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
from panekeeper.framework.core.outlook import NONE, Outlook
from panekeeper.framework.core.panes.folding import NUMBER_COLUMN, SLICE_COLUMN
from panekeeper.framework.core.panes.late_rows import Assignment, assign, assign_slices
from panekeeper.framework.core.panes.open_panes import OpenPanes
from panekeeper.framework.core.panes.open_runs import Runs, runs_of
from panekeeper.framework.core.panes.protocol import PaneFirings, PanePairs, PaneTransition, PlacedRows
from panekeeper.framework.core.partition_keys import PartitionKeys
from panekeeper.framework.declarations.events import Reason
from panekeeper.framework.declarations.windows import TimeInterval
from panekeeper.state.records import NO_WATERMARK, IntervalRecord


@dataclass
class TimeIntervalWindow:
    """The panes of one key group for one micro-batch. What persists is in `record`, and in what `panes` hold."""

    window: TimeInterval
    record: IntervalRecord
    keys: PartitionKeys
    panes: OpenPanes
    firings: PaneFirings
    counts: RowCounts = field(default_factory=RowCounts)
    missed_panes: int = 0

    @property
    def watermark(self) -> int:
        """The largest watermark acted on, us."""
        return self.record.watermark

    @property
    def open_count(self) -> int:
        """How many panes are open."""
        return len(self.record.panes)

    @property
    def open_runs(self) -> Runs:
        """Which panes these are."""
        return runs_of(self.record.panes)

    def takes(self, table: pa.Table) -> np.ndarray:
        """Return whether each row joins a pane."""
        return self._assign(table.column(EVENT_TIME).to_numpy()).kept

    def on_rows(self, table: pa.Table) -> np.ndarray:
        """Process rows in arrival order: assign them to panes, drop late ones, add the others."""
        table, arrived = without_arrival_time(self.keys.with_normal_keys(table), self.record.clock)
        assigned = self._assign(table.column(EVENT_TIME).to_numpy())
        self.missed_panes += assigned.missed_panes()
        fates, codes = self._fates(assigned), self.keys.encode(table)
        self.firings.on_time(arrived, codes)
        changes = np.flatnonzero(np.diff(assigned.late)) + 1 if self.panes.output.has_ordered_drops else ()
        for start, stop in pairwise((0, *changes, table.num_rows)):
            part = slice(start, stop)
            self._drop_or_insert(table.slice(start, stop - start), codes[part], assigned.only(part), arrived)
        return fates

    def on_partial_rows(self, table: pa.Table) -> None:
        """Process partial rows, in arrival order, as the rows they stand for. Raises `ValueError` if one is late."""
        slices, numbers = table.column(SLICE_COLUMN).to_numpy(), table.column(NUMBER_COLUMN).to_numpy()
        is_open = np.full(len(slices), not self.record.flushed)
        assigned = assign_slices(self.panes.geometry, slices, self.record.watermark, is_open)
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
        self.firings.on_watermark(previous)
        transitions = [self._transition(pane, previous) for pane in sorted(self.record.panes)]
        self._carry_out([transition for transition in transitions if transition is not None])

    def on_tick(self, us: int) -> None:
        """Fire what is due by the wall clock."""
        if not self.record.flushed:
            self.firings.on_tick(us)

    def on_batch_end(self) -> None:
        """Fire what each micro-batch fires."""
        self.firings.on_batch_end()

    def on_flush(self) -> None:
        """Fire every pane that has new rows, with reason FLUSH, and close all panes for good."""
        transitions = [
            PaneTransition(
                pane=pane,
                completes=not self.record.panes[pane].complete,
                trigger=self.firings.at_watermark(pane, Reason.FLUSH, closes=True),
                close=True,
            )
            for pane in sorted(self.record.panes)
        ]
        self._carry_out(transitions)
        self.record.flushed = True

    def due(self) -> int | None:
        """Return the least watermark (us) at which a pane completes, fires again or closes; None if no pane is open."""
        deadlines = [
            self.panes.geometry.closing_watermark(pane) if state.complete else self.panes.ready(pane)
            for pane, state in self.record.panes.items()
        ]
        deadlines += self.firings.due()
        # A pane that was opened after its end completes at the next greater watermark, as does whatever is overdue.
        return max(min(deadlines), self.record.watermark + 1) if deadlines else None

    def open_pairs(self) -> PanePairs:
        """Return the partitions that have, or had, rows in open panes."""
        codes, panes = self.firings.pairs(np.array(sorted(self.record.panes), dtype=np.int64))
        some, place = np.unique(panes, return_inverse=True)
        ready, closing = (
            np.array([watermark(pane) for pane in some.tolist()], dtype=np.int64)[place]
            for watermark in (self.panes.ready, self.panes.geometry.closing_watermark)
        )
        return PanePairs(codes=codes, panes=panes, ready=ready, closing=closing)

    def outlook(self, pairs: PanePairs) -> Outlook:
        """Return what open pairs wait for; how many rows they have their contents know."""
        next_firings, after = self.firings.next(pairs), self.record.watermark + 1
        return Outlook(
            past=next_firings.past,
            start=self.panes.geometry.starts(pairs.panes),
            end=self.panes.geometry.ends(pairs.panes),
            fires_at=np.maximum(next_firings.at, after),
            closes_at=np.maximum(pairs.closing, after),
            next_rows=next_firings.rows,
            rows=np.full(len(pairs.codes), NONE),
        )

    def due_by_clock(self) -> int | None:
        """Return when the wall clock next makes a pane fire, us; None: never."""
        return self.firings.due_by_clock()

    def save(self) -> IntervalRecord:
        """Write the contents and return the record to be written as the header."""
        self.panes.contents.save()
        self.firings.save()
        return self.record

    # -- assign ----------------------------------------------------------------------------------------------

    def _assign(self, times: np.ndarray) -> Assignment:
        return assign(self.window, self.panes.geometry, times, self.record.watermark, flushed=self.record.flushed)

    def _fates(self, assigned: Assignment) -> np.ndarray:
        refines = np.zeros(len(assigned.kept), dtype=np.bool_)
        if self.record.watermark != NO_WATERMARK:
            ends = self.panes.geometry.ends(assigned.oldest[assigned.kept])
            refines[assigned.kept] = ends <= self.record.watermark
        return fates_of(assigned.kept, refines, assigned.outside)

    # -- apply -----------------------------------------------------------------------------------------------

    def _drop_or_insert(self, table: pa.Table, codes: np.ndarray, assigned: Assignment, arrived: int) -> None:
        if (late := assigned.late).any():
            by_pane, by_age = "every pane it belongs to is closed", "older than the discard age"
            rule = by_pane if self.window.late == "pane" else by_age
            self.panes.output.on_drop(
                table.filter(pa.array(late)), codes[late], lambda time: lateness_text(time, self.record, rule)
            )
        if not (kept := assigned.kept).all():
            table, codes, assigned = table.filter(pa.array(kept)), codes[kept], assigned.only(kept)
        if table.num_rows:
            self._insert(table, codes, assigned, None, arrived)

    def _insert(
        self, table: pa.Table, codes: np.ndarray, assigned: Assignment, numbers: np.ndarray | None, arrived: int
    ) -> None:
        """Open the panes of rows, or of partial rows for so many each, and add them."""
        self.panes.open_for(assigned.slices)
        rows = PlacedRows(table=table, codes=codes, assigned=assigned, numbers=numbers, arrived=arrived)
        self.firings.insert(rows)

    # -- decide ----------------------------------------------------------------------------------------------

    def _transition(self, pane: int, previous: int) -> PaneTransition | None:
        """Return what the watermark does to a pane, which stood at `previous` before; None: nothing."""
        state, watermark, ready = self.record.panes[pane], self.record.watermark, self.panes.ready(pane)
        completes = not state.complete and watermark >= ready
        closes = watermark >= self.panes.geometry.closing_watermark(pane)
        if completes or (state.complete and self.firings.has_new_rows(pane)):
            reason = Reason.WATERMARK if previous < ready else Reason.LATE
            trigger = self.firings.at_watermark(pane, reason, closes=closes)
        else:
            trigger = self.firings.before_end(pane, previous)
        close = closes and (state.complete or completes)
        if not (completes or trigger or close):
            return None
        return PaneTransition(pane=pane, completes=completes, trigger=trigger, close=close)

    # -- emit ------------------------------------------------------------------------------------------------

    def _carry_out(self, transitions: list[PaneTransition]) -> None:
        if closed := self.panes.carry_out(transitions):
            self.firings.remove(closed)
