"""Where panes and slices are: arithmetic on event time, in whole microseconds.

Panes overlap, slices do not. A slice is the time between two neighbouring pane boundaries (the greatest common divisor
of duration and period, counted from the offset), so every pane is a range of whole slices and every row is kept once,
however many panes it belongs to. Slices are kept in slots of a few, each slot being one stored value.

Panes have no lower bound: pane k exists for every integer k, and nothing special happens near the epoch
(docs/decisions/0003-panes-near-the-epoch.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from panekeeper.framework.core.panes.calendar import CalendarPanes
from panekeeper.framework.core.stable_order import distinct, gather_ranges
from panekeeper.framework.declarations.calendar import Calendar
from panekeeper.framework.declarations.windows import Cumulate, TimeInterval
from panekeeper.state.history import ClosedPanes, History
from panekeeper.state.records import NO_WATERMARK

_SLOTS_A_PANE = 8
"""A pane is read back as about this many stored values: fewer would be rewritten too often, more read too slowly."""


@dataclass(frozen=True)
class Geometry:
    """The lattice of panes, slices and slots of one time-interval window. All methods are pure."""

    duration: int
    period: int
    offset: int
    discard_age: int
    closed: ClosedPanes | None = None
    """What was closed when the discard age changed (docs/semantics.md section 13.1)."""

    @classmethod
    def of(cls, window: TimeInterval, history: History | None = None) -> Geometry:
        """Return the geometry of a declared window; whole periods in the offset only number the panes otherwise."""
        history = history or History()
        closed = history.closed
        if isinstance(window, Calendar):
            former = history.former_zone_data(window.zone)
            calendar = CalendarPanes.of(window.unit, window.start, window.zone_data, former)
            return CalendarGeometry(1, 1, 0, window.age_us, closed, calendar=calendar)
        if isinstance(window, Cumulate):
            return CumulatedGeometry(window.duration_us, window.period_us, window.offset_us, window.age_us, closed)
        return cls(window.duration_us, window.period_us, window.offset_us % window.period_us, window.age_us, closed)

    @property
    def slice_us(self) -> int:
        """Length of a slice."""
        return math.gcd(self.duration, self.period)

    @property
    def slices_a_pane(self) -> int:
        """How many slices make a pane."""
        return self.duration // self.slice_us

    @property
    def slices_a_period(self) -> int:
        """How many slices lie between the starts of adjacent panes."""
        return self.period // self.slice_us

    @property
    def slices_a_slot(self) -> int:
        """How many slices share one stored value."""
        return max(1, self.slices_a_pane // _SLOTS_A_PANE)

    def start(self, pane: int) -> int:
        """Return the first instant of pane k."""
        return pane * self.period + self.offset

    def starts(self, panes: np.ndarray) -> np.ndarray:
        """Return the first instant of each pane."""
        return panes * self.period + self.offset

    def end(self, pane: int) -> int:
        """Return the first instant after pane k."""
        return self.start(pane) + self.duration

    def ends(self, panes: np.ndarray) -> np.ndarray:
        """Return the first instant after each pane."""
        return self.starts(panes) + self.duration

    def last_ending_by(self, time: int) -> int:
        """Return the newest pane that ends at this time or before."""
        return (time - self.duration - self.offset) // self.period

    def closing_watermark(self, pane: int) -> int:
        """Return the watermark that closes pane k (docs/semantics.md section 6.2)."""
        end = self.end(pane)
        if self.closed is None:
            return end + self.discard_age
        return end if end <= self.closed.end_us else max(end + self.discard_age, self.closed.watermark_us + 1)

    def age_at(self, watermark: int) -> int:
        """Return the discard age at this watermark."""
        if self.closed is None or watermark > self.closed.watermark_us:
            return self.discard_age
        return self.closed.age_us

    def last_closed(self, watermark: int) -> int:
        """Return the newest pane that this watermark has closed; all older ones are closed, too. At none, none is."""
        if watermark == NO_WATERMARK:
            return NO_WATERMARK
        end = watermark - self.age_at(watermark)
        end = end if self.closed is None else max(end, self.closed.end_us)
        return self.last_ending_by(end)

    def first_from(self, start: int) -> int:
        """Return the first pane from a recorded start on (`History.begins`)."""
        return -((self.offset - start) // self.period)

    def slices(self, times: np.ndarray) -> np.ndarray:
        """Return the slice of each event time."""
        return (times - self.offset) // self.slice_us

    def newest_pane(self, slices: np.ndarray) -> np.ndarray:
        """Return the newest pane that starts at or before each slice."""
        return slices // self.slices_a_period

    def oldest_pane(self, slices: np.ndarray) -> np.ndarray:
        """The oldest pane that still holds each slice; greater than `newest_pane` in a gap between panes."""
        oldest: np.ndarray = (slices - self.slices_a_pane) // self.slices_a_period + 1
        return oldest

    def slice_range(self, panes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First slice of each pane, and the first after it."""
        first = panes * self.slices_a_period
        return first, first + self.slices_a_pane

    def slots(self, slices: np.ndarray) -> np.ndarray:
        """Return the slot in which each slice is stored."""
        return slices // self.slices_a_slot

    def slots_of_panes(self, panes: np.ndarray) -> np.ndarray:
        """Return every slot that holds a part of these panes, ascending; none if there is no pane."""
        first, end = self.slice_range(panes)
        low, high = self.slots(first), self.slots(end - 1)
        return distinct(gather_ranges(low, high + 1)[0])


class CumulatedGeometry(Geometry):
    """Panes that begin together, one for each step, and end one step after another: `period` is the step.

    Of each `duration` the panes are numbered by their ends, and so they are over all: pane k ends k + 1 steps after the
    offset. A step is a slice, so a row is kept once.
    """

    def start(self, pane: int) -> int:
        """Return the first instant of pane k."""
        return pane // self.slices_a_pane * self.duration + self.offset

    def starts(self, panes: np.ndarray) -> np.ndarray:
        """Return the first instant of each pane."""
        return panes // self.slices_a_pane * self.duration + self.offset

    def end(self, pane: int) -> int:
        """Return the first instant after pane k."""
        return (pane + 1) * self.period + self.offset

    def ends(self, panes: np.ndarray) -> np.ndarray:
        """Return the first instant after each pane."""
        return (panes + 1) * self.period + self.offset

    def last_ending_by(self, time: int) -> int:
        """Return the newest pane that ends at this time or before."""
        return (time - self.offset) // self.period - 1

    def first_from(self, start: int) -> int:
        """Return the first pane from a recorded start on."""
        return -((self.offset - start) // self.duration) * self.slices_a_pane

    def newest_pane(self, slices: np.ndarray) -> np.ndarray:
        """Return the newest pane that holds each slice: the one that ends last."""
        return slices // self.slices_a_pane * self.slices_a_pane + self.slices_a_pane - 1

    def oldest_pane(self, slices: np.ndarray) -> np.ndarray:
        """Return the oldest pane that holds each slice: the one that ends with it."""
        return slices

    def slice_range(self, panes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First slice of each pane, and the first after it."""
        return panes // self.slices_a_pane * self.slices_a_pane, panes + 1


@dataclass(frozen=True)
class CalendarGeometry(Geometry):
    """Panes of a calendar, each of which is one slice of the same number: so duration and period are 1 slice."""

    calendar: CalendarPanes = field(kw_only=True)

    def start(self, pane: int) -> int:
        """Return the first instant of pane k."""
        return int(self.starts(np.array([pane]))[0])

    def starts(self, panes: np.ndarray) -> np.ndarray:
        """Return the first instant of each pane."""
        return self.calendar.starts(panes)

    def end(self, pane: int) -> int:
        """Return the first instant after pane k."""
        return self.start(pane + 1)

    def ends(self, panes: np.ndarray) -> np.ndarray:
        """Return the first instant after each pane."""
        return self.calendar.starts(panes + 1)

    def last_ending_by(self, time: int) -> int:
        """Return the newest pane that ends at this time or before."""
        return int(self.slices(np.array([time]))[0]) - 1

    def first_from(self, start: int) -> int:
        """Return the first pane from a recorded start on: that of a calendar is recorded by its number."""
        return start

    def slices(self, times: np.ndarray) -> np.ndarray:
        """Return the slice of each event time."""
        return self.calendar.numbers(times)
