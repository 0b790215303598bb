"""What a window is: declarations, validated where they are written.

Nothing here runs. A declaration says what the user wants and refuses what cannot be [semantics 0.8]; the running
half is in `framework.core`.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from framework.durations import Duration, to_us
from framework.errors import DeclarationError

Late = Literal["pane", "tuple"]
"""When a late row is dropped: once every pane it belongs to is closed, or once it is older than the discard age."""


@dataclass(frozen=True)
class TimeInterval:
    """Panes of equal length in event time: `[k * period + offset, k * period + offset + duration)` [S0][S1].

    A pane completes, and fires, when the watermark reaches its end. Rows that come later still join it and make
    it fire again at the next advancing watermark, until the watermark reaches its end plus `discard_age`: then
    it is closed and forgotten.

    Args:
        interval_duration: length of a pane, > 0. All durations: seconds, `timedelta`, or `hours(1)`.
        creation_period: distance between the starts of adjacent panes, > 0; the duration if not given (panes
            that touch). Shorter makes panes overlap; longer leaves gaps, and a row in a gap joins no pane.
        discard_age: how long a complete pane still takes late rows, >= 0.
        interval_offset: a point in time that coincides with the start of a pane, in `[0, interval_duration)`.
        late: `"pane"` drops a late row only if every pane it belongs to is closed; `"tuple"` drops it once it is
            older than the watermark by more than `discard_age` [semantics 0.3].

    Raises:
        DeclarationError: a duration out of its range; the message names the value and the rule.

    >>> TimeInterval(3600, creation_period=1200, discard_age=6 * 3600).period_us
    1200000000
    """

    interval_duration: Duration
    _: KW_ONLY
    creation_period: Duration | None = None
    discard_age: Duration = 0
    interval_offset: Duration = 0
    late: Late = "pane"

    def __post_init__(self) -> None:
        if self.duration_us <= 0:
            raise DeclarationError(f"interval_duration is {self.interval_duration!r}; it must be greater than 0 [S0]")
        if self.period_us <= 0:
            raise DeclarationError(f"creation_period is {self.creation_period!r}; it must be greater than 0 [S0]")
        if self.age_us < 0:
            raise DeclarationError(f"discard_age is {self.discard_age!r}; it must not be negative [S0]")
        if not 0 <= self.offset_us < self.duration_us:
            raise DeclarationError(
                f"interval_offset is {self.interval_offset!r}; it must be in [0, interval_duration) = "
                f"[0, {self.duration_us / 1e6:g} s) [S0]"
            )
        if self.late not in ("pane", "tuple"):
            raise DeclarationError(f"late is {self.late!r}; it must be 'pane' or 'tuple'")

    @property
    def duration_us(self) -> int:
        """Length of a pane, us."""
        return to_us(self.interval_duration, "interval_duration")

    @property
    def period_us(self) -> int:
        """Distance between the starts of adjacent panes, us."""
        if self.creation_period is None:
            return self.duration_us
        return to_us(self.creation_period, "creation_period")

    @property
    def age_us(self) -> int:
        """How long a complete pane takes late rows, us of event time."""
        return to_us(self.discard_age, "discard_age")

    @property
    def offset_us(self) -> int:
        """A start of a pane, us after the epoch."""
        return to_us(self.interval_offset, "interval_offset")

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint."""
        return {
            "kind": "timeInterval",
            "interval_duration_us": self.duration_us,
            "creation_period_us": self.period_us,
            "discard_age_us": self.age_us,
            "interval_offset_us": self.offset_us,
            "late": self.late,
        }
