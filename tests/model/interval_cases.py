"""Random cases for the property tests: small windows and a narrow range of time, so that edges meet all the time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

KEYS = [None, "a", "a", 7]
MARKS = [{"punct": "window"}, {"punct": "final"}, {"advance_clock": 5}]
UNITS = [1, 0.1, 0.000001, 60]
"""Seconds of one step of time: whole, decimal, finest, coarse."""

Pools = Mapping[str, Sequence[Any]]
"""What the values of a row are picked from, by name."""


def duration_of(steps: int, unit: float) -> int | float:
    """So many steps as a JSON number of seconds: the decimal nearest to the product."""
    exact = round(steps * unit, 6)
    return int(exact) if exact == int(exact) else exact


@st.composite
def windows(draw: st.DrawFn, unit: float) -> dict[str, Any]:
    """A time-interval window: the period smaller or larger than the duration, dividing it or not."""
    duration = draw(st.sampled_from([1, 2, 3, 4, 6, 7, 8, 12]))
    window: dict[str, Any] = {
        "kind": "timeInterval",
        "intervalDuration": duration_of(duration, unit),
        "discardAge": duration_of(draw(st.sampled_from([0, 2, 5, 30])), unit),
        "intervalOffset": duration_of(draw(st.integers(0, duration - 1)), unit),
        "event_time": "ts",
        "late": draw(st.sampled_from(["pane", "tuple"])),
        "partitioned": draw(st.booleans()),
    }
    if draw(st.sampled_from([False, False, False, True])):
        steps = draw(st.sampled_from([one for one in (1, 2, 3, 4) if duration % one == 0]))
        return window | {"cumulates": True, "creationPeriod": duration_of(duration // steps, unit)}
    period = draw(st.sampled_from([None, 1, 2, 3, 4, 5, 6, 10]))
    return window if period is None else window | {"creationPeriod": duration_of(period, unit)}


def inputs(unit: float, pools: Pools, codes: list[int]) -> list[dict[str, Any]]:
    """Input items: rows on both sides of a watermark that mostly rises, sometimes stays or falls.

    Everything is a distance from the watermark so far, which begins before the epoch: late rows, complete panes and
    edges that meet are the rule, not a lucky find. Each item is read off one number, which is quick to draw.
    """
    items: list[dict[str, Any]] = []
    now = -8
    for code in codes:
        digits = DigitReader(code)
        kind = digits.pick("tttttttttttwwwwm")
        if kind == "t":
            time = {"ts": duration_of(now + digits.pick(range(-6, 5)), unit)}
            items.append(
                {"key": digits.pick(KEYS), "value": time | {n: digits.pick(pool) for n, pool in pools.items()}}
            )
        elif kind == "w":
            now += digits.pick([1, 2, 3, 6, 0, -3])
            items.append({"watermark": duration_of(now, unit)})
        else:
            items.append(digits.pick(MARKS))
    return items


@dataclass
class DigitReader:
    """A number read digit by digit, each to the base of what is picked from."""

    rest: int

    def pick(self, pool: Sequence[Any]) -> Any:
        """One of the pool."""
        self.rest, at = divmod(self.rest, len(pool))
        return pool[at]


CODES = st.integers(0, 2**31)
LONG = st.lists(CODES, min_size=20, max_size=40)


@st.composite
def vectors(draw: st.DrawFn, pools: Pools | None = None) -> dict[str, Any]:
    """A whole vector without `expect`."""
    unit = draw(st.sampled_from(UNITS))
    codes = draw(st.one_of(st.lists(CODES, max_size=6), LONG, LONG, LONG))
    return {"window": draw(windows(unit)), "input": inputs(unit, pools or {"n": range(4)}, codes)}


BATCH_SPLITS = st.sampled_from(["whole", "each"]) | st.integers(0, 50)


@st.composite
def restarts(draw: st.DrawFn, vector: dict[str, Any]) -> Any:
    """Where the process restarts."""
    positions = range(len(vector["input"]))
    some = st.lists(st.sampled_from(positions), max_size=4) if positions else st.just([])
    return draw(st.sampled_from(["none", "each"]) | some)
