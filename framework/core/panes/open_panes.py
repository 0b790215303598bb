"""The open panes of a key group: rows are added to them, and what was decided of them is carried out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.panes.geometry import Geometry
from panekeeper.framework.core.panes.late_rows import first_open_pane
from panekeeper.framework.core.panes.protocol import PaneContents, PaneOutput, PaneTransition, PlacedRows
from panekeeper.framework.core.stable_order import distinct, gather_ranges
from panekeeper.framework.declarations.windows import TimeInterval
from panekeeper.state.records import IntervalRecord, PaneRecord


@dataclass
class OpenPanes:
    """The open panes for one micro-batch. What persists is in `record` and `contents`."""

    window: TimeInterval
    record: IntervalRecord
    geometry: Geometry
    contents: PaneContents
    output: PaneOutput

    def ready(self, pane: int) -> int:
        """Return the watermark at which the pane fires for the first time without further rules."""
        return ready_watermark(self.window, self.geometry, pane)

    @property
    def first_open(self) -> int:
        """The oldest pane that is not closed."""
        return first_open_pane(self.geometry, self.record.watermark)

    def open_for(self, slices: np.ndarray) -> None:
        """Open the panes that have these slices."""
        in_order = distinct(slices)
        lows = np.maximum(self.geometry.oldest_pane(in_order), self.first_open).tolist()
        for low, high in zip(lows, self.geometry.newest_pane(in_order).tolist(), strict=True):
            for pane in range(low, high + 1):
                self.record.panes.setdefault(pane, PaneRecord())

    def add(self, rows: PlacedRows) -> None:
        """Add rows to what open panes hold."""
        table, codes, assigned = rows.table, rows.codes, rows.assigned
        seq = self.arrival_numbers(table.num_rows, None if rows.numbers is None else int(rows.numbers.sum()))
        if self.window.keeps_panes_apart:
            panes, row_of = panes_of(assigned.oldest, assigned.newest)
            self.contents.insert(table.take(pa.array(row_of)), codes[row_of], panes, seq[row_of])
        else:
            self.contents.insert(table, codes, assigned.slices, seq)
        self.output.on_insert(table, codes, assigned.oldest, assigned.newest)

    def arrival_numbers(self, entries: int, rows: int | None = None) -> np.ndarray:
        """Return the arrival numbers of new entries, which stand for so many rows, one each if None."""
        seq = self.record.next_seq + np.arange(entries, dtype=np.int64)
        self.record.next_seq += entries if rows is None else rows
        return seq

    def carry_out(self, transitions: Sequence[PaneTransition]) -> dict[int, PaneRecord]:
        """Complete, fire and close panes; return those that have closed, by number."""
        if not transitions:
            return {}
        self.output.on_transitions([*transitions])
        if self.window.forgets:
            for transition in transitions:
                if transition.trigger is not None and (past := transition.trigger.past) is not None:
                    self.contents.forget(past.codes, np.full(len(past), transition.pane))
        for transition in transitions:
            self.record.panes[transition.pane].complete |= transition.completes
        closed = {
            transition.pane: self.record.panes.pop(transition.pane) for transition in transitions if transition.close
        }
        if closed:
            self.contents.retain(np.fromiter(self.record.panes, dtype=np.int64))
        return closed


def ready_watermark(window: TimeInterval, geometry: Geometry, pane: int) -> int:
    """Return the watermark (us) at which a pane fires for the first time without further rules."""
    return geometry.closing_watermark(pane) if window.emit == "on_close" else geometry.end(pane)


def panes_of(oldest: np.ndarray, newest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (panes, places): each of the panes oldest..newest, and the place of its range."""
    if (oldest == newest).all():
        return oldest, np.arange(len(oldest))
    panes, offsets = gather_ranges(oldest, newest + 1)
    return panes, np.repeat(np.arange(len(oldest)), np.diff(offsets))
