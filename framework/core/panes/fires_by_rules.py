"""Panes with rules of their own: `emit="on_update"`, `early=`, `refire=`, `fires_when=`, `then=`, `results=`, `fill=`.

Each partition fires in each pane by itself, at a row, at a tick, at the end of a batch or at a watermark, so there is a
record of each cell, a partition in a pane (`firing_rules.py`). What a rule means is docs/semantics.md section 6.7.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.panes.fills import Fills
from panekeeper.framework.core.panes.firing_rules import CellFirings, next_multiple
from panekeeper.framework.core.panes.open_panes import OpenPanes, panes_of
from panekeeper.framework.core.panes.pane_index import Tally
from panekeeper.framework.core.panes.protocol import NextFirings, PaneFiring, PanePairs, PaneTransition, PlacedRows
from panekeeper.framework.core.panes.row_firings import FiringRows
from panekeeper.framework.core.stable_order import gather_ranges, stable_order
from panekeeper.framework.declarations.events import Reason
from panekeeper.state.records import NEVER, NO_WATERMARK, PaneRecord

_FIRST_TRIALS = 16
_MOST_TRIALS = 2**18
"""At how many rows of a cell a condition is tried at once; and about how many rows that takes in all cells together."""


class FiresByRules:
    """Fires the cells of one key group by the rules of the window."""

    def __init__(self, panes: OpenPanes, cells: CellFirings, fills: Fills | None = None) -> None:
        """`cells` has what each has fired before; `fills`, if panes without rows fire, which do."""
        self._panes = panes
        self._window = panes.window
        self._record = panes.record
        self._geometry = panes.geometry
        self._cells = cells
        self._fills = fills

    # -- rows ------------------------------------------------------------------------------------------------

    def insert(self, rows: PlacedRows) -> None:
        """Add rows, and fire cells at the rows at which they do."""
        assigned, codes, cells = rows.assigned, rows.codes, self._cells
        if self._window.fires_when is not None:
            panes, row_of = panes_of(assigned.oldest, assigned.newest)
            joined = cells.place(codes[row_of], panes)
            self._insert_by_condition(rows, panes, joined, row_of)
            return
        tally = Tally.of(codes, assigned.slices, rows.numbers)
        oldest = np.maximum(self._geometry.oldest_pane(tally.slices), self._panes.first_open)
        panes, of = panes_of(oldest, self._geometry.newest_pane(tally.slices))
        joined = cells.place(tally.codes[of], panes)
        if not cells.fire_within(joined, tally.counts[of]):
            cells.add_rows(joined, tally.counts[of], rows.arrived)
            self._panes.add(rows)
            return
        table, pairs, row_of = rows.table, tally.cells, np.arange(rows.table.num_rows)
        if len(of) > len(tally.codes):  # a row is in several panes
            begins = np.searchsorted(of, np.arange(len(tally.codes) + 1))
            pairs, offsets = gather_ranges(begins[pairs], begins[pairs + 1])
            row_of = np.repeat(row_of, np.diff(offsets))
        slices, oldest, newest = assigned.slices, assigned.oldest, assigned.newest
        seq = self._panes.arrival_numbers(table.num_rows)
        if self._window.keeps_panes_apart:
            table, codes, seq = table.take(pa.array(row_of)), codes[row_of], seq[row_of]
            slices = oldest = newest = panes[pairs]
            row_of = np.arange(len(pairs))
        firings, by_cell = cells.add_rows_that_fire(joined[pairs], row_of, rows.arrived)
        self._panes.output.on_firing_rows(
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

    def _insert_by_condition(
        self, placed: PlacedRows, panes: np.ndarray, joined: np.ndarray, row_of: np.ndarray
    ) -> None:
        """Add rows, pair by pair of row and pane, and fire a cell after each row at which the condition holds.

        Cells do not depend on each other. In each round some rows of every cell are tried at once, and those until the
        first one at which it fires are added.

        Args:
            placed: the rows.
            panes: the pane of each pair.
            joined: its cell.
            row_of: its row.
        """
        contents, codes = self._panes.contents, placed.codes[row_of]
        order = stable_order(joined)
        starts = np.flatnonzero(np.diff(joined[order], prepend=-1))
        ends = np.append(starts[1:], len(order))
        of_cells = order[starts]
        at, most = starts.copy(), _FIRST_TRIALS
        while (open_cells := np.flatnonzero(at < ends)).size:
            lengths = np.minimum(ends[open_cells] - at[open_cells], most)
            positions, offsets = gather_ranges(at[open_cells], at[open_cells] + lengths)
            pairs, local = order[positions], np.repeat(np.arange(len(open_cells)), lengths)
            rows = placed.table.take(pa.array(row_of[pairs]))
            here = of_cells[open_cells]
            holds = contents.condition_holds(rows, local, codes[here], panes[here])
            place = np.arange(len(pairs)) - offsets[:-1][local]
            first = np.minimum.reduceat(np.where(holds, place, len(pairs)), offsets[:-1])
            fires = first < len(pairs)
            added = np.where(fires, first + 1, lengths)
            some = np.flatnonzero(place < added[local])
            self._cells.add_rows(joined[pairs[some]], None, placed.arrived)
            seq = self._record.next_seq + row_of[pairs[some]]
            contents.insert(rows.take(pa.array(some)), codes[pairs[some]], panes[pairs[some]], seq)
            self._fire(self._cells.by_number(joined[here[fires]]))
            at[open_cells] += added
            allowed = max(_FIRST_TRIALS, int((_MOST_TRIALS / len(open_cells)) ** 0.5))
            most = min(2 * most, allowed) if not fires.any() else max(_FIRST_TRIALS, int(added.mean()))
        self._record.next_seq += placed.table.num_rows

    # -- wall clock and batches ------------------------------------------------------------------------------

    def on_time(self, now: int, codes: np.ndarray | None = None) -> None:
        """Fire what is due by the wall clock, of all partitions or of these."""
        if self._window.fires_by_clock:
            self._fire(self._cells.due(now, codes))

    def on_tick(self, us: int) -> None:
        """Fire what is due at a tick of the wall clock."""
        if self._window.fires_by_clock:
            self._record.clock = us if self._record.clock is None else max(us, self._record.clock)
            self.on_time(us)

    def on_batch_end(self) -> None:
        """Fire the panes that the batch changed, by `emit="on_update"`."""
        if self._window.emit == "on_update":
            self._fire([(pane, self._cells.unfired(pane)) for pane in sorted(self._record.unfired)])

    def _fire(self, cells_of_panes: Iterable[tuple[int, np.ndarray]]) -> None:
        """Fire some cells of some panes: early, or late where the pane is complete."""
        transitions = []
        for pane, fires in cells_of_panes:
            complete = self._geometry.end(pane) <= self._record.watermark
            reason = Reason.LATE if complete else Reason.EARLY
            trigger = self._firing_of(pane, fires, reason, complete=complete)
            transitions.append(PaneTransition(pane=pane, trigger=trigger))
        self._panes.carry_out(transitions)

    # -- watermarks ------------------------------------------------------------------------------------------

    def on_watermark(self, previous: int) -> None:
        """Open what has no rows and fires at this watermark, as cells that have never fired."""
        if (fills := self._fills) is None:
            return
        until = self._last_ready(self._record.watermark)
        with_rows = {
            pane: self._cells.past(self._cells.unfired(pane)).codes
            for pane in sorted(self._record.unfired)
            if self._panes.ready(pane) <= self._record.watermark
        }
        after = min(with_rows, default=until) - 1 if previous == NO_WATERMARK else self._last_ready(previous)
        if not with_rows and (fills.is_empty or after == until):
            return
        gaps = fills.gaps(after, until, with_rows)
        if not gaps:
            return
        for pane, _ in gaps:
            self._record.panes.setdefault(pane, PaneRecord())
        codes = np.concatenate([codes for _, codes in gaps])
        self._cells.place(codes, np.repeat([pane for pane, _ in gaps], [len(codes) for _, codes in gaps]))

    def _last_ready(self, watermark: int) -> int:
        """Return the newest pane that fires at this watermark, or an older one, without further rules."""
        if self._window.emit == "on_close":
            return self._geometry.last_closed(watermark)
        return self._geometry.last_ending_by(watermark)

    def has_new_rows(self, pane: int) -> bool:
        """Return whether a cell of the pane has rows since it last fired."""
        return pane in self._record.unfired

    def at_watermark(self, pane: int, reason: Reason, *, closes: bool) -> PaneFiring | None:
        """Note and return the firing of the cells of a pane that fire as complete, or have late rows."""
        fires = self._that_fire(pane, NEVER if closes else self._record.watermark + 1)
        return self._firing_of(pane, fires, reason, complete=True)

    def before_end(self, pane: int, previous: int) -> PaneFiring | None:
        """Note and return the early firing, if the watermark has passed a multiple of its period."""
        early, watermark = next_multiple(previous, self._early_period()), self._record.watermark
        if pane not in self._record.unfired or early > watermark:
            return None
        return self._firing_of(pane, self._that_fire(pane, watermark + 1, early), Reason.EARLY, complete=False)

    def _that_fire(self, pane: int, until: int, early: int = NEVER) -> np.ndarray:
        """Return the cells of a pane that fire at watermarks before `until`; `early` is the next for early firings."""
        cells = self._cells.of(pane)
        at = self._cells.fires_at(cells, self._panes.ready(pane), self._geometry.closing_watermark(pane), early)
        fires: np.ndarray = cells[at < until]
        return fires

    def _early_period(self) -> int | None:
        """Return by how much the watermark advances between early firings, us; None if nothing fires by that."""
        return None if self._window.early is None else self._window.early.event_time_us

    def _firing_of(self, pane: int, fires: np.ndarray, reason: Reason, *, complete: bool) -> PaneFiring | None:
        """Return the firing of some cells of a pane, which is noted; `complete`: the pane is, or becomes it now."""
        if not len(fires):
            return None
        firing = PaneFiring(reason=reason, past=self._cells.past(fires))
        self._cells.note_firing(pane, fires, complete=complete)
        return firing

    # -- what is kept ----------------------------------------------------------------------------------------

    def pairs(self, panes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the cells of these panes, also those that have forgotten their rows."""
        cells = self._cells.all_of(panes)
        return self._cells.past(cells).codes, self._cells.numbers(cells)

    def next(self, pairs: PanePairs) -> NextFirings:
        """Return what cells have fired, and when they do next by the watermark, the clock and their rows."""
        cells = self._cells.place(pairs.codes, pairs.panes)
        early = next_multiple(self._record.watermark, self._early_period())
        at = self._cells.fires_at(cells, pairs.ready, pairs.closing, early)
        return NextFirings(past=self._cells.past(cells), at=at, rows=self._cells.rows_to_fire(cells))

    def remove(self, closed: Mapping[int, PaneRecord]) -> None:
        """Remove the cells of panes that have closed."""
        self._cells.retain(np.array(sorted(self._record.panes), dtype=np.int64))

    def due(self) -> list[int]:
        """Return the watermarks at which panes without rows fire, late rows do, and early firings come."""
        after, watermarks = self._record.watermark + 1, []
        if (fill := self._next_fill()) is not None:
            watermarks.append(fill)
        complete = [self._record.panes[pane].complete for pane in self._record.unfired]
        if any(complete):
            watermarks.append(after)
        if not all(complete) and (period := self._early_period()):
            watermarks.append((self._record.watermark // period + 1) * period)
        return watermarks

    def _next_fill(self) -> int | None:
        """Return the least watermark (us) at which a pane without rows may fire; None if none will."""
        if self._record.fill_until is None or self._record.flushed:
            return None
        pane = self._last_ready(self._record.watermark) + 1
        return self._panes.ready(pane) if self._geometry.end(pane) <= self._record.fill_until else None

    def due_by_clock(self) -> int | None:
        """Return when the wall clock next makes a cell fire, us; None: never."""
        due = min(self._record.unfired.values(), default=NEVER)
        return None if due == NEVER else due

    def save(self) -> None:
        """Write the cells, and which panes without rows are to come."""
        if self._fills is not None and self._record.watermark != NO_WATERMARK:  # before it nothing fires, or is filled
            self._fills.save(self._last_ready(self._record.watermark) + 1)
        self._cells.save()
