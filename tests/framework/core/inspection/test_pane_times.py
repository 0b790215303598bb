"""Where a pane lies, and when it fires and closes, is what its window says of it while it is open."""

from __future__ import annotations

from typing import Any

import pytest

from panekeeper import Calendar, Cumulate, Every, Session, SlidingByRow, TimeInterval
from panekeeper.framework.core.inspection.open_work import open_work
from panekeeper.framework.core.inspection.pane_times import panes_with, times_of
from panekeeper.framework.declarations.windows import Window
from panekeeper.state.store import MemoryStore
from tests.framework.core.inspection.test_open_panes import port_of
from tests.framework.core.panes.firings import rows, run, spec_of, watermark

US = 1_000_000


def held_of(window: Window, *batches: Any) -> tuple[Any, list[dict[str, Any]]]:
    """The port, and what is open after these batches."""
    spec, store = spec_of(window), MemoryStore()
    run(spec, batches, store)
    port = port_of(spec)
    return port, open_work(port, store).to_pylist()


@pytest.mark.parametrize(
    "window",
    [
        TimeInterval(20, creation_period=5, discard_age=30, interval_offset=3),
        TimeInterval(20, discard_age=30, emit="on_close"),
        Cumulate(5, 20, discard_age=30),
        Calendar("day", zone="Europe/Berlin", discard_age=30),
        Session(10, discard_age=30),
        Session(10, max_duration=15, discard_age=30, early=Every(rows=9)),
        Session(10, discard_age=30, emit="on_close"),
        SlidingByRow(10, discard_age=30),
        SlidingByRow(10, discard_age=30, emit="on_close"),
    ],
    ids=str,
)
def test_a_pane_lies_and_closes_as_its_window_says(window: Window) -> None:
    """Of every open one: it has its first instant, fires when it is ready, and closes at the watermark that is told."""
    port, held = held_of(window, [rows(("a", 1, 5), ("a", 8, 1), ("b", 17, 1), ("b", 40, 1)), watermark(1)])
    assert held
    bounds = {key: [(one["pane_start"], one["pane_end"]) for one in held if one["k"] == key] for key in "ab"}
    for one in held:
        times = times_of(port, one["pane_start"], one["pane_end"])
        assert (times.start, times.end) == (one["pane_start"], one["pane_end"])
        assert times.closes == one["closes_at"]
        assert times.ready == one["fires_at"]
        assert times.after - times.end == isinstance(window, SlidingByRow)
        assert (times.start, times.end) in panes_with(port, one["pane_start"], bounds[one["k"]])
        found = panes_with(port, times.after, bounds[one["k"]])
        assert (times.start, times.end) not in found


def test_a_gap_between_panes_is_in_none_and_a_row_has_the_window_that_ends_at_it_first() -> None:
    """Also where the state has nothing."""
    port, _ = held_of(TimeInterval(5, creation_period=20))
    assert panes_with(port, 7 * US, []) == []
    assert panes_with(port, 21 * US, []) == [(20 * US, 25 * US)]
    port, held = held_of(SlidingByRow(10), [rows(("a", 1, 1), ("a", 5, 1))])
    known = [(one["pane_start"], one["pane_end"]) for one in held]
    assert panes_with(port, 5 * US, known)[0] == (-5 * US, 5 * US)
    assert panes_with(port, 3 * US, []) == [(-7 * US, 3 * US)]
