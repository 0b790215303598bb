"""Where does a pane lie, and when does it fire and close, also one of which nothing is stored? All in us."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from panekeeper.framework.core.by_row.times import ByRowTimes
from panekeeper.framework.core.inspection.recorded import RecordedPort
from panekeeper.framework.core.panes.geometry import Geometry
from panekeeper.framework.core.panes.open_panes import ready_watermark
from panekeeper.framework.core.sessions.open_table import SessionColumns
from panekeeper.framework.core.sessions.times import SessionTimes
from panekeeper.framework.declarations.windows import Session, SlidingByRow, TimeInterval
from panekeeper.state.records import NO_WATERMARK


@dataclass(frozen=True)
class PaneTimes:
    """A pane, session or window by row, by its bounds as results have them.

    Attributes:
        start: its first instant.
        end: the first instant after it; of a window by row its last one.
        after: the first instant after it.
        ready: the watermark at which it fires without further rules.
        closes: the watermark that closes it.
    """

    start: int
    end: int
    after: int
    ready: int
    closes: int


def times_of(port: RecordedPort, start: int, end: int) -> PaneTimes:
    """Return the times of the pane with these bounds, of a port with panes, sessions or windows by row."""
    window = port.declared
    if isinstance(window, TimeInterval):
        geometry = Geometry.of(window, port.history)
        pane = geometry.last_ending_by(end)
        return PaneTimes(start, end, end, ready_watermark(window, geometry, pane), geometry.closing_watermark(pane))
    first, last = np.array([start]), np.array([end])
    if isinstance(window, SlidingByRow):
        times = ByRowTimes(window)
        return PaneTimes(start, end, end + 1, int(times.ready(last)[0]), int(times.closing(last)[0]))
    assert isinstance(window, Session)
    session = SessionTimes(window, SessionColumns.of_rows(np.zeros(1, np.int64), first, first, last), NO_WATERMARK)
    return PaneTimes(start, end, end, int(session.ready[0]), int(session.closes_at[0]))


def panes_with(port: RecordedPort, at: int, held: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the bounds of the panes that have an instant, the oldest first; of windows by row that of a row first.

    `held` are those of which the state has something: sessions, and windows by row, are known by their rows alone.
    """
    window = port.declared
    if isinstance(window, TimeInterval):
        geometry = Geometry.of(window, port.history)
        slices = geometry.slices(np.array([at], dtype=np.int64))
        panes = range(int(geometry.oldest_pane(slices)[0]), int(geometry.newest_pane(slices)[0]) + 1)
        return [(geometry.start(pane), geometry.end(pane)) for pane in panes]
    if isinstance(window, SlidingByRow):
        own = (at - window.difference_us, at)
        return [own, *(bounds for bounds in sorted(held) if bounds[0] <= at <= bounds[1] and bounds != own)]
    return [bounds for bounds in held if bounds[0] <= at < bounds[1]]
