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

    A row is `kept`, or `outside` in a gap between panes, or late.
    """

    slices: np.ndarray
    oldest: np.ndarray
    newest: np.ndarray
    kept: np.ndarray
    outside: np.ndarray

    def only(self, rows: np.ndarray | slice) -> Assignment:
        """Return the assignment of some of the rows: a mask, or a range."""
        return Assignment(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    @property
    def late(self) -> np.ndarray:
        """Whether every pane of the row is closed, or the row is older than is taken."""
        late: np.ndarray = ~(self.kept | self.outside)
        return late


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
    newest, oldest_of_all = _panes_around(geometry, slices)
    oldest = np.maximum(oldest_of_all, first_open_pane(geometry, watermark))
    return Assignment(
        slices=slices,
        oldest=oldest,
        newest=newest,
        kept=assignable & (oldest <= newest),
        outside=assignable & (oldest_of_all > newest),
    )


def _panes_around(geometry: Geometry, slices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the newest and the oldest pane of each slice, open or not; computed once for each, if these are few."""
    low, high = (int(slices.min()), int(slices.max())) if len(slices) else (0, 0)
    if high - low >= len(slices):
        return geometry.newest_pane(slices), geometry.oldest_pane(slices)
    distinct, place = np.arange(low, high + 1), slices - low
    return geometry.newest_pane(distinct)[place], geometry.oldest_pane(distinct)[place]


def first_open_pane(geometry: Geometry, watermark: int) -> int:
    """Return the oldest pane that is not closed at this watermark."""
    return geometry.last_closed(watermark) + 1
