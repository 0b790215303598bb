"""`Cumulate`, by hand; the naive model has it, too (`test_properties.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from panekeeper import Cumulate, DeclarationError, TimeInterval, agg
from panekeeper.testing import Restart, Watermark, run

HOW: dict[str, Any] = {"schema": "k string, t timestamp, v long", "partition_by": "k", "event_time": "t"}


def panes(window: Any, *script: Any, **aggregates: Any) -> list[tuple[Any, ...]]:
    """Batch, bounds, values and refinement of each firing."""
    batches = [
        [{"k": "a", "t": time, "v": value} for time, value in item] if isinstance(item, list) else item
        for item in script
    ]
    found = run(window, aggregates=aggregates or {"total": agg.sum("v")}, script=batches, **HOW)
    names = [*(aggregates or ["total"]), "refinement"]
    return [
        (row["batch"], row["pane_start"], row["pane_end"], *(row[name] for name in names)) for row in found.in_seconds
    ]


@pytest.mark.parametrize("keeps_rows", [False, True], ids=["partial", "rows"])
def test_panes_begin_together_and_end_step_after_step(*, keeps_rows: bool) -> None:
    """From partial results and from rows, with a restart; a pane without a row of its own has those before.

    time    0    10   20   30 | 40
    rows    1: 1      25: 4     31: 8
    """
    script = ([(1, 1)], Restart(), Watermark(10), [(25, 4), (31, 8)], Watermark(20), Watermark(30), Watermark(60))
    aggregate = agg.collect("v") if keeps_rows else agg.sum("v")

    def shown(*values: int) -> Any:
        return list(values) if keeps_rows else sum(values)

    assert panes(Cumulate(10, 30), *script, total=aggregate) == [
        (2, 0, 10, shown(1), 0),
        (4, 0, 20, shown(1), 0),
        (5, 0, 30, shown(1, 4), 0),
        (6, 30, 40, shown(8), 0),
        (6, 30, 50, shown(8), 0),
        (6, 30, 60, shown(8), 0),
    ]


def test_a_late_row_refines_each_open_pane_that_it_is_in() -> None:
    """Those that it is not in stay as they are; a closed one takes nothing."""
    found = panes(
        Cumulate(10, 30, discard_age=15), [(1, 1), (12, 2)], Watermark(26), [(11, 4), (3, 8)], Watermark(31), [(9, 1)]
    )
    assert found == [
        (1, 0, 10, 1, 0),
        (1, 0, 20, 3, 0),
        (3, 0, 20, 15, 1),
        (3, 0, 30, 15, 0),
    ]


def test_the_last_pane_of_each_size_is_that_of_a_time_interval() -> None:
    """With the same offset, also before the epoch."""
    rows = [(time, 1) for time in range(-70, 200, 7)]
    every = panes(Cumulate(15, 60, interval_offset=20), rows, Watermark(1000))
    whole = panes(TimeInterval(60, interval_offset=20), rows, Watermark(1000))
    assert [one for one in every if one[2] - one[1] == 60] == whole
    assert {one[2] - one[1] for one in every} == {15, 30, 45, 60}


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda: Cumulate(0, 10), "step is 0; it must be greater than 0"),
        (lambda: Cumulate("-1 minute", 10), "step is '-1 minute'; it must be greater than 0"),
        (lambda: Cumulate(3, 10), "size is 10; it must be a whole number of steps of 3s"),
        (lambda: Cumulate(10, 5), "size is 5; it must be a whole number of steps of 10s"),
        (lambda: Cumulate(10, 0), "size is 0; it must be a whole number of steps"),
        (lambda: Cumulate("soon", 10), "step is 'soon', which is not a duration"),
        (lambda: Cumulate(5, 10, creation_period=5), "creation_period is 5; panes of Cumulate begin each size"),
        (lambda: Cumulate(5, 10, interval_offset=10), "interval_offset is 10; it must be in"),
        (lambda: Cumulate(5, 10, discard_age=-1), "discard_age is -1; it must not be negative"),
    ],
)
def test_what_cannot_be_is_refused(declare: Callable[[], Any], words: str) -> None:
    """Where it is declared."""
    with pytest.raises(DeclarationError, match=words):
        declare()


def test_two_declarations_are_equal_by_step_and_size_and_differ_from_overlapping_panes() -> None:
    """A checkpoint of one is refused for the other."""
    assert Cumulate(5, "10 seconds") == Cumulate(5, "10 seconds") != Cumulate(10, "10 seconds")
    assert str(Cumulate("1 hour", "1 day")) == "Cumulate('1 hour', '1 day')"
    plain, cumulated = TimeInterval(10, creation_period=5).declaration(), Cumulate(5, 10).declaration()
    assert cumulated == plain | {"cumulates": True}
