"""Random cases for the property tests: small windows and a narrow stretch of time, so that edges meet all the time."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

KEYS = [None, "a", "b", 7, 7.0, ""]
UNITS = [1, 0.1, 0.000001, 60]
"""Seconds of one step of time: whole, decimal, finest, coarse."""


def stretch(steps: int, unit: float) -> int | float:
    """So many steps as a JSON number of seconds: the decimal nearest to the product."""
    exact = round(steps * unit, 6)
    return int(exact) if exact == int(exact) else exact


@st.composite
def windows(draw: st.DrawFn, unit: float) -> dict[str, Any]:
    """A time-interval window: the period smaller or larger than the duration, dividing it or not."""
    duration = draw(st.integers(1, 12))
    window: dict[str, Any] = {
        "kind": "timeInterval",
        "intervalDuration": stretch(duration, unit),
        "discardAge": stretch(draw(st.sampled_from([0, 0, 1, 3, 10])), unit),
        "intervalOffset": stretch(draw(st.integers(0, duration - 1)), unit),
        "event_time": "ts",
        "late": draw(st.sampled_from(["pane", "tuple"])),
        "partitioned": draw(st.booleans()),
    }
    period = draw(st.none() | st.integers(1, 15))
    return window if period is None else window | {"creationPeriod": stretch(period, unit)}


def tuples(unit: float, values: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """One tuple with a key, an event time around the epoch, and the given values."""
    time = st.integers(-15, 40).map(lambda steps: stretch(steps, unit))
    return st.fixed_dictionaries({"key": st.sampled_from(KEYS), "value": st.fixed_dictionaries({"ts": time} | values)})


def inputs(unit: float, values: dict[str, st.SearchStrategy[Any]], most: int = 25) -> st.SearchStrategy[list[Any]]:
    """Input items, mostly tuples, in no order; watermarks rise, repeat and fall."""
    watermark = st.integers(-18, 60).map(lambda steps: {"watermark": stretch(steps, unit)})
    mark = st.sampled_from([{"punct": "window"}, {"punct": "final"}, {"advance_clock": 5}])
    tuple_ = tuples(unit, values)
    return st.lists(st.one_of(tuple_, tuple_, tuple_, watermark, watermark, mark), max_size=most)


@st.composite
def vectors(draw: st.DrawFn, values: dict[str, st.SearchStrategy[Any]] | None = None) -> dict[str, Any]:
    """A whole vector without `expect`."""
    unit = draw(st.sampled_from(UNITS))
    return {"window": draw(windows(unit)), "input": draw(inputs(unit, values or {"n": st.integers(0, 3)}))}


CUTS = st.sampled_from(["whole", "each"]) | st.integers(0, 50)


@st.composite
def restarts(draw: st.DrawFn, vector: dict[str, Any]) -> Any:
    """Where the process restarts."""
    positions = range(len(vector["input"]))
    some = st.lists(st.sampled_from(positions), max_size=4) if positions else st.just([])
    return draw(st.sampled_from(["none", "each"]) | some)
