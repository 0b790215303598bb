"""When do some sessions complete, fire and close, as they are now? All in us (docs/semantics.md section 15).

The window fires and closes what these times say, its leaves keep the next of them, and who looks at a key group from
outside is told the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from panekeeper.framework.core.outlook import NONE, Outlook
from panekeeper.framework.core.panes.firing_rules import next_multiple, rows_between
from panekeeper.framework.core.sessions.open_table import SessionColumns
from panekeeper.framework.declarations.windows import Session
from panekeeper.state.records import NEVER


@dataclass(frozen=True)
class SessionTimes:
    """The times of some sessions at a watermark (us)."""

    window: Session
    sessions: SessionColumns
    watermark: int

    @property
    def ends(self) -> np.ndarray:
        """When each completes: at the latest at its first row and the longest duration."""
        most = self.window.max_duration_us
        return self.sessions.end if most is None else np.minimum(self.sessions.end, self.sessions.first + most)

    @property
    def are_over(self) -> np.ndarray:
        """Whether the watermark has reached the end of each."""
        over: np.ndarray = self.ends <= self.watermark
        return over

    @property
    def closes_at(self) -> np.ndarray:
        """The watermark that closes each."""
        return self.ends + self.window.age_us

    @property
    def ready(self) -> np.ndarray:
        """The watermark at which each fires without further rules."""
        return self.closes_at if self.window.emit == "on_close" else self.ends

    @property
    def wait(self) -> np.ndarray:
        """Whether each has something to fire once the watermark is there."""
        return self.sessions.past.waits

    @property
    def fires_at(self) -> np.ndarray:
        """The watermark at which each fires as complete, or one before, if any greater makes it; `NEVER`: at none."""
        fires = self.ready
        if self.window.refire is not None:
            fires = np.where(self.sessions.complete, self.closes_at, fires)
        return np.where(self.wait, fires, NEVER)

    @property
    def fire_early(self) -> np.ndarray:
        """Whether each fires at the next watermark at which sessions fire early."""
        early: np.ndarray = (self.sessions.new > 0) & ~self.sessions.complete
        return early

    @property
    def early_period(self) -> int | None:
        """By how much the watermark advances between early firings; None if nothing fires by that."""
        return None if self.window.early is None else self.window.early.event_time_us

    @property
    def due(self) -> np.ndarray:
        """The watermark at which each has something to do."""
        due, period = np.where(self.wait, self.fires_at, self.closes_at), self.early_period
        if period is not None:
            due = np.where(self.fire_early, np.minimum(due, (self.watermark // period + 1) * period), due)
        return due

    def outlook(self) -> Outlook:
        """Return what each waits for; how many rows one has is known until it has fired."""
        some, after = self.sessions, self.watermark + 1
        early = np.where(self.fire_early, next_multiple(self.watermark, self.early_period), NEVER)
        every = np.array(rows_between(self.window.early, self.window.refire))
        between = every[self.are_over.astype(np.int8), some.complete.astype(np.int8)]
        return Outlook(
            past=some.past,
            start=some.first,
            end=self.ends,
            fires_at=np.maximum(np.minimum(self.fires_at, early), after),
            closes_at=np.maximum(self.closes_at, after),
            next_rows=np.where(between > 0, np.maximum(between - some.new, 1), NONE),
            rows=np.where(some.fired == 0, some.new, NONE),
        )
