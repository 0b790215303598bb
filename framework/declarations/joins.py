"""How rows of two streams are joined: which columns must be equal, how far times may be apart, who goes out alone.

`panekeeper.framework.core.joins` has what runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from panekeeper.framework.declarations.display import Called
from panekeeper.framework.declarations.durations import Duration, to_us
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.firing import require_one_of
from panekeeper.framework.declarations.policies import require_age
from panekeeper.framework.declarations.windows import TimeInterval
from panekeeper.state.duration_text import rounded_us_text

JoinKind = Literal["inner", "left", "right", "full"]
"""Whose rows go out with nulls if they have no match: none, those of port 0, of port 1, or of both."""

PaneJoinKind = JoinKind | Literal["semi", "anti"]
"""Of panes also: only the rows of port 0 that have a match, or that have none."""

_ALONE: Mapping[str, tuple[bool, bool]] = {
    "inner": (False, False),
    "left": (True, False),
    "right": (False, True),
    "full": (True, True),
    "semi": (False, False),
    "anti": (True, False),
}


@dataclass(frozen=True, kw_only=True)
class Join:
    """Which rows of two ports match, and what a result row has of them.

    Attributes:
        how: whose rows go out without a match.
        equal: the columns of each port that must be equal, in the same order: first the partition columns.
        columns: the other columns of each port -> the result columns that they become.
    """

    how: PaneJoinKind
    equal: tuple[tuple[str, ...], tuple[str, ...]]
    columns: tuple[Mapping[str, str], Mapping[str, str]]

    def goes_out_alone(self, port: int) -> bool:
        """Return whether a row of this port without a match is a result."""
        return _ALONE[self.how][port]

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint, beside partition and result columns."""
        return {"how": self.how, "equal": [list(names) for names in self.equal]}


def require_kind(how: object, *, of_panes: bool) -> None:
    """Raise `DeclarationError` for what is no kind of join, of panes or of rows within a time."""
    require_one_of(tuple(_ALONE) if of_panes else ("inner", "left", "right", "full"), how, "how")


def require_equal_panes(windows: Sequence[object]) -> None:
    """Raise `DeclarationError` unless these are the same time interval, which fires when it is complete or closes."""
    first = windows[0]
    for port, window in enumerate(windows):
        if not isinstance(window, TimeInterval):
            raise DeclarationError(
                f"join() joins panes, and the window of port {port} is {window!r}; give both streams the same "
                "TimeInterval, or join rows by their times with join_within()"
            )
        if isinstance(first, TimeInterval) and window.declaration() != first.declaration():
            raise DeclarationError(
                f"join() joins equal panes, and port 0 has {first!r}, port {port} {window!r}; give both the same window"
            )
        if window.keeps_firings:
            raise DeclarationError(
                f"the window is {window!r}, but join() fires when a pane is complete for both streams; leave out "
                "early, refire, results, fires_when, fill and emit='on_update'"
            )


@dataclass(frozen=True)
class Within(Called):
    """A row of port 0 at t meets the rows of port 1 at `[t - before, t + after]`, both ends among them.

    It stands in the place of a window on both ports. The watermark of both is one.

    Args:
        before: how much earlier a row of port 1 may be; less than 0 if it has to be later.
        after: how much later it may be; less than 0 if it has to be earlier.
        discard_age: how far a row may lie behind the watermark before it is dropped as late, >= 0.

    Raises:
        DeclarationError: no time is in the range, or a negative discard age.
    """

    before: Duration
    after: Duration
    _: KW_ONLY
    discard_age: Duration = 0

    def __post_init__(self) -> None:
        if self.before_us + self.after_us < 0:
            raise DeclarationError(
                f"before is {rounded_us_text(self.before_us)} and after {rounded_us_text(self.after_us)}, so "
                "no time is in [t - before, t + after]; their sum must not be negative"
            )
        require_age(self.discard_age)

    @property
    def before_us(self) -> int:
        """How much earlier a row of port 1 may be, in microseconds."""
        return to_us(self.before, "before")

    @property
    def after_us(self) -> int:
        """How much later a row of port 1 may be, in microseconds."""
        return to_us(self.after, "after")

    @property
    def age_us(self) -> int:
        """How far behind the watermark a row is still taken, in microseconds."""
        return to_us(self.discard_age, "discard_age")

    @property
    def reach_us(self) -> int:
        """How far behind the watermark a row may be that is not late, in microseconds."""
        return self.age_us

    def reach(self, port: int) -> tuple[int, int]:
        """Return how far before and after a row of this port its partners may be, in microseconds."""
        return (self.after_us, self.before_us) if port else (self.before_us, self.after_us)

    def hold_us(self, port: int) -> int:
        """Return how far behind the watermark a row of this port still is of use, in microseconds.

        So long a row of the other port may come that is not late, and meets it.
        """
        return max(self.reach(port)[1], 0) + self.age_us

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint."""
        return {
            "kind": "within",
            "before_us": self.before_us,
            "after_us": self.after_us,
            "discard_age_us": self.age_us,
        }
