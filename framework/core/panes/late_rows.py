"""What becomes of a row: it joins panes, lies in a gap between them, or is too late and dropped.

A late row joins those of its panes that are still open, and these fire again (docs/semantics.md sections 6.3 and 6.4).
The rule is the same for rows on their way to a key group and in it: it needs event times and a watermark, no more.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from panekeeper.framework.core.panes.geometry import Geometry
from panekeeper.framework.declarations.windows import TimeInterval
from panekeeper.state.records import NO_WATERMARK


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """Where rows belong, row by row: the slice, and the open panes `oldest..newest`.

    A row is `kept`, or `outside` in a gap between panes, or late. `oldest_of_all` is its oldest pane, open or not;
    `may_miss` says whether that is closed for some row.
    """

    slices: np.ndarray
    oldest: np.ndarray
    newest: np.ndarray
    kept: np.ndarray
    outside: np.ndarray
    oldest_of_all: np.ndarray
    may_miss: bool

    def only(self, rows: np.ndarray | slice) -> Assignment:
        """Return the assignment of some of the rows: a mask, or a range."""
        columns = {f.name: getattr(self, f.name) for f in fields(self)}
        some = {name: column[rows] for name, column in columns.items() if isinstance(column, np.ndarray)}
        return Assignment(**(columns | some))

    @property
    def late(self) -> np.ndarray:
        """Whether every pane of the row is closed, or the row is older than is taken."""
        late: np.ndarray = ~(self.kept | self.outside)
        return late

    def missed_panes(self, numbers: np.ndarray | None = None) -> int:
        """Return how many panes lack a row that joins others of its panes, added up over the rows (section 6.4).

        `numbers` says how many rows each entry stands for, one if not given.
        """
        if not self.may_miss:
            return 0
        missed = np.where(self.kept, self.oldest - self.oldest_of_all, 0)
        return int(missed.sum() if numbers is None else missed @ numbers)


def assign(
    window: TimeInterval, geometry: Geometry, times: np.ndarray, watermark: int, *, flushed: bool = False
) -> Assignment:
    """Assign rows by their event times. `late="tuple"` is applied before panes are looked at (section 6.4)."""
    slices = geometry.slices(times)
    assignable = np.full(len(times), not flushed)
    if not flushed and window.late == "tuple" and watermark != NO_WATERMARK:
        assignable = times >= watermark - geometry.age_at(watermark)
    return assign_slices(geometry, slices, watermark, assignable)


def assign_slices(geometry: Geometry, slices: np.ndarray, watermark: int, assignable: np.ndarray) -> Assignment:
    """Assign what lies in slices; `assignable` says of which entries panes are looked at at all."""
    low, high = (int(slices.min()), int(slices.max())) if len(slices) else (0, 0)
    newest, oldest_of_all = _panes_around(geometry, slices, low, high)
    first_open = first_open_pane(geometry, watermark)
    oldest = np.maximum(oldest_of_all, first_open)
    return Assignment(
        slices=slices,
        oldest=oldest,
        newest=newest,
        kept=assignable & (oldest <= newest),
        outside=assignable & (oldest_of_all > newest),
        oldest_of_all=oldest_of_all,
        may_miss=int(geometry.oldest_pane(np.array([low]))[0]) < first_open,
    )


def _panes_around(geometry: Geometry, slices: np.ndarray, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the newest and the oldest pane of each slice, open or not; computed once for each, if these are few.

    All slices are of `low` to `high`.
    """
    if high - low >= len(slices):
        return geometry.newest_pane(slices), geometry.oldest_pane(slices)
    distinct, place = np.arange(low, high + 1), slices - low
    return geometry.newest_pane(distinct)[place], geometry.oldest_pane(distinct)[place]


def first_open_pane(geometry: Geometry, watermark: int) -> int:
    """Return the oldest pane that is not closed at this watermark."""
    return geometry.last_closed(watermark) + 1
