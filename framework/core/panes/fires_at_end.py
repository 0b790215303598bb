"""Panes without rules of their own: each fires at its end, and again for the partitions that late rows have reached.

So nothing is kept of a pane that has fired but that it has, and of its partitions only what `refinements.py` keeps: it
is small, and none is looked at but those with late rows (docs/semantics.md section 6.2).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from panekeeper.framework.core.outlook import NONE
from panekeeper.framework.core.panes.open_panes import OpenPanes
from panekeeper.framework.core.panes.pane_index import CellIndex
from panekeeper.framework.core.panes.protocol import NextFirings, PaneFiring, PanePairs, PlacedRows
from panekeeper.framework.core.panes.refinements import Refinements
from panekeeper.framework.declarations.events import Reason
from panekeeper.state.records import NEVER, PaneRecord


class FiresAtEnd:
    """Fires the panes of one key group at watermarks alone."""

    def __init__(self, panes: OpenPanes, refinements: Refinements) -> None:
        """`refinements` has what fires again, and what that has fired before."""
        self._panes = panes
        self._record = panes.record
        self._refinements = refinements

    def insert(self, rows: PlacedRows) -> None:
        """Note the partitions of complete panes that must fire again for these rows, and add them."""
        overdue = self._panes.geometry.ends(rows.assigned.oldest) <= self._record.watermark
        if overdue.any():
            self._note_pending(rows.codes[overdue], rows.assigned.slices[overdue])
        self._panes.add(rows)

    def _note_pending(self, codes: np.ndarray, slices: np.ndarray) -> None:
        """Note which partitions must fire again, and whether they have fired before; called before the insertion."""
        complete = np.array(
            sorted(pane for pane, state in self._record.panes.items() if state.complete), dtype=np.int64
        )
        codes, panes = CellIndex(codes, slices, self._panes.geometry).pairs(complete)
        fresh = ~self._refinements.have(codes, panes)
        codes, panes = codes[fresh], panes[fresh]
        if len(codes):
            self._refinements.add(codes, panes, self._panes.contents.holds(codes, panes))

    def on_time(self, now: int, codes: np.ndarray | None = None) -> None:
        """Do nothing: nothing is due by the wall clock."""

    def on_tick(self, us: int) -> None:
        """Do nothing: nothing is due by the wall clock."""

    def on_watermark(self, previous: int) -> None:
        """Do nothing: what has no rows does not fire."""

    def on_batch_end(self) -> None:
        """Do nothing: no batch makes a pane fire."""

    def has_new_rows(self, pane: int) -> bool:
        """Return whether late rows have come since the pane fired."""
        return self._refinements.has(pane)

    def at_watermark(self, pane: int, reason: Reason, *, closes: bool) -> PaneFiring | None:
        """Note and return the firing of all partitions, or of those with late rows."""
        if not self._record.panes[pane].complete:
            return PaneFiring(reason=reason)
        if not self._refinements.has(pane):
            return None
        past = self._refinements.past(pane)
        self._refinements.note_firing(pane, past, closes=closes)
        return PaneFiring(reason=reason, past=past)

    def before_end(self, pane: int, previous: int) -> PaneFiring | None:
        """Return None: no pane fires before its end."""
        return None

    def pairs(self, panes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the partitions that have rows in each of these panes."""
        return self._panes.contents.pairs(panes)

    def next(self, pairs: PanePairs) -> NextFirings:
        """Return what pairs have fired; what has not yet, or has late rows, fires as its pane does, or has done."""
        past = self._refinements.past_of(pairs.codes, pairs.panes)
        none = np.full(len(past), NONE)
        return NextFirings(past=past, at=np.where(past.waits, pairs.ready, NEVER), rows=none)

    def remove(self, closed: Mapping[int, PaneRecord]) -> None:
        """Remove the counts of panes that have closed."""
        for pane, state in closed.items():
            self._refinements.remove(pane, state)

    def due(self) -> list[int]:
        """Return the next watermark, if late rows wait for it."""
        return [self._record.watermark + 1] if self._refinements else []

    def due_by_clock(self) -> int | None:
        """Return None: nothing is due by the wall clock."""
        return None

    def save(self) -> None:
        """Note in the record what late rows wait for."""
        self._refinements.save()
