"""What a window of panes is made of: what panes hold, when they fire, and what a firing becomes.

`window.py` takes the steps of a batch, and leaves these three duties to others. Which ones is chosen once, in
`batch.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.panes.late_rows import Assignment
from panekeeper.framework.core.panes.row_firings import FiringRows
from panekeeper.framework.core.past_firings import PastFirings
from panekeeper.framework.declarations.events import Reason
from panekeeper.state.records import PaneRecord


@dataclass(frozen=True, kw_only=True)
class PlacedRows:
    """Rows that join panes, or partial rows, in arrival order.

    Attributes:
        table: the rows.
        codes: the partition of each.
        assigned: the slice and the panes of each.
        numbers: how many rows each entry stands for; None: one.
        arrived: when they arrived, us by the wall clock.
    """

    table: pa.Table
    codes: np.ndarray
    assigned: Assignment
    numbers: np.ndarray | None
    arrived: int


@dataclass(frozen=True, kw_only=True)
class PaneTransition:
    """What one watermark, or the flush, does to one pane, in this order: full, trigger, close (section 6.2)."""

    pane: int
    completes: bool = False
    trigger: PaneFiring | None = None
    close: bool = False


@dataclass(frozen=True, kw_only=True)
class PaneFiring:
    """One firing of a pane. `past` are the partitions that fire; None means all with rows in it, for the first time.

    A partition that fires for the first time is full then, be it with the pane or later: what a partition receives does
    not depend on the other partitions of its key group.
    """

    reason: Reason
    past: PastFirings | None = None

    def completes(self, past: PastFirings) -> np.ndarray:
        """Return whether each of the partitions that fire does so as complete for the first time."""
        return np.full(len(past), False) if self.reason is Reason.EARLY else ~past.complete


@dataclass(frozen=True, kw_only=True)
class PanePairs:
    """Partitions in open panes, one entry each, those of a pane by code; the watermarks of its pane in us.

    Attributes:
        codes: the partition.
        panes: the pane.
        ready: the watermark at which that fires without further rules.
        closing: the one that closes it.
    """

    codes: np.ndarray
    panes: np.ndarray
    ready: np.ndarray
    closing: np.ndarray


@dataclass(frozen=True, kw_only=True)
class NextFirings:
    """What pairs have fired, the watermarks (us) at which they fire next, and after how many rows (`Outlook`)."""

    past: PastFirings
    at: np.ndarray
    rows: np.ndarray


class PaneContents(Protocol):
    """What panes hold, by (partition code, slice)."""

    def insert(self, table: pa.Table, codes: np.ndarray, slices: np.ndarray, seq: np.ndarray) -> None:
        """Add rows, or partial rows, in arrival order; `seq` are the arrival numbers of rows."""
        ...

    def holds(self, codes: np.ndarray, panes: np.ndarray) -> np.ndarray:
        """Return whether the partition has rows in the pane, pair by pair."""
        ...

    def pairs(self, panes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (codes, panes) of every partition present in each of these ascending panes."""
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


class PaneSource(Protocol):
    """What can compute the aggregates of (partition, pane) pairs."""

    def pairs(self, panes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (codes, panes) of every partition present in each of the panes."""
        ...

    def results(self, codes: np.ndarray, panes: np.ndarray) -> list[pa.Array]:
        """Return the finished aggregates of each pair."""
        ...

    def insert_firing(self, rows: FiringRows) -> list[pa.Array]:
        """Add rows, and return the finished aggregates of what fires at them, in the order of the firings."""
        ...


class PaneFirings(Protocol):
    """When the partitions of a pane fire, and what each of them has fired before.

    One that fires within a batch, as at a row, or by the wall clock, carries it out on the open panes itself.
    """

    def insert(self, rows: PlacedRows) -> None:
        """Add rows to open panes, note which partitions must fire for them, and fire those that do at once."""
        ...

    def on_time(self, now: int, codes: np.ndarray | None = None) -> None:
        """Fire what is due by the wall clock (us), of all partitions or of these."""
        ...

    def on_tick(self, us: int) -> None:
        """Fire what is due at a tick of the wall clock."""
        ...

    def on_watermark(self, previous: int) -> None:
        """Open the panes without rows that fire at the new watermark; `previous` (us) was the one before it."""
        ...

    def on_batch_end(self) -> None:
        """Fire what each micro-batch fires."""
        ...

    def has_new_rows(self, pane: int) -> bool:
        """Return whether a pane, which is complete, has rows for which it must fire at the next watermark."""
        ...

    def at_watermark(self, pane: int, reason: Reason, *, closes: bool) -> PaneFiring | None:
        """Note and return the firing of a pane that becomes complete, or is, or closes; None if none of it fires."""
        ...

    def before_end(self, pane: int, previous: int) -> PaneFiring | None:
        """Note and return what of a pane that is not complete fires as the watermark goes on; None if nothing does."""
        ...

    def remove(self, closed: Mapping[int, PaneRecord]) -> None:
        """Remove what is kept of panes that have closed."""
        ...

    def pairs(self, panes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (codes, panes) of every partition that has, or had, rows in each of these ascending open panes."""
        ...

    def next(self, pairs: PanePairs) -> NextFirings:
        """Return what open pairs have fired, and when they fire next."""
        ...

    def due(self) -> Iterable[int]:
        """Return the watermarks (us) at which something happens beside the ends and the closing of open panes."""
        ...

    def due_by_clock(self) -> int | None:
        """Return when the wall clock next makes a pane fire, us; None: never."""
        ...

    def save(self) -> None:
        """Write what changed to the store and the record."""
        ...


class PaneOutput(Protocol):
    """What events become: results of aggregates, of a join, or calls of an operator."""

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
