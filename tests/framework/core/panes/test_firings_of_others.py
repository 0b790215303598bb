"""Firings that the test suites of other systems expect, as facts: what comes in, what comes out, and where ours differ.

Beam: `sdks/python/apache_beam/testing/data/trigger_transcripts.yaml`. Its elements are their times. It processes a
bundle of elements at once, and looks at its triggers after it; here a pane fires exactly at its row.

Flink: `ContinuousEventTimeTriggerTest.java`. Its harness says when a trigger fires; the elements here are their times.
"""

from __future__ import annotations

from typing import Any

from panekeeper import Every, TimeInterval, agg
from panekeeper.framework.core.steps import Step
from tests.framework.core.panes.firings import rows, run, shown, spec_of, watermark


def elements(*times: int) -> Step:
    """Elements that are their own times, of one key."""
    return rows(*(("k", time, time) for time in times))


def values(window: TimeInterval, *batches: list[Step]) -> list[tuple[Any, ...]]:
    """Each firing: start of its pane, its elements in order, reason, number, and whether it is the last."""
    log = run(spec_of(window, values=agg.collect("v")), batches)
    found = shown(log, "values", "reason", "refinement", "is_final")
    return [(int(start), sorted(one), *others) for _, start, one, *others in found]


def test_beam_fixed_default() -> None:
    """`fixed_default`: two panes fire at a watermark after both."""
    assert values(TimeInterval(10), [elements(1, 2, 3, 10, 11)], [watermark(25)]) == [
        (0, [1, 2, 3], "WATERMARK", 0, True),
        (10, [10, 11], "WATERMARK", 0, True),
    ]


def test_beam_fixed_default_late_data() -> None:
    """`fixed_default_late_data`: a late element fires its pane again, with all its elements; here as rows fire late."""
    window = TimeInterval(10, discard_age=1000, refire=Every(rows=1))
    assert values(window, [elements(1, 2, 3, 10, 11, 25)], [watermark(100)], [elements(7)]) == [
        (0, [1, 2, 3], "WATERMARK", 0, False),
        (10, [10, 11], "WATERMARK", 0, False),
        (20, [25], "WATERMARK", 0, False),
        (0, [1, 2, 3, 7], "LATE", 1, False),
    ]


def test_beam_known_late_data_watermark() -> None:
    """`known_late_data_watermark`: elements behind the watermark whose pane is not complete are not late."""
    assert values(TimeInterval(10), [watermark(5), elements(2, 3, 7, 8)], [watermark(11)]) == [
        (0, [2, 3, 7, 8], "WATERMARK", 0, True)
    ]


def test_beam_early_late() -> None:
    """`early_late_sessions`, in one pane: early at each second element, late at each third; the numbers go on.

    Beam fires with 1, 2, 3 for the first bundle, then with the fifth element: its count begins anew with each firing of
    a bundle. Here the second and the fourth element fire, wherever the bundles end.
    """
    window = TimeInterval(20, discard_age=1000, early=Every(rows=2), refire=Every(rows=3))
    early = [[elements(1, 2, 3)], [elements(4)], [elements(5)], [elements(6)], [watermark(100)]]
    assert values(window, *early, [elements(1)], [elements(3, 4)]) == [
        (0, [1, 2], "EARLY", 0, False),
        (0, [1, 2, 3, 4], "EARLY", 1, False),
        (0, [1, 2, 3, 4, 5, 6], "EARLY", 2, False),
        (0, [1, 2, 3, 4, 5, 6], "WATERMARK", 3, False),
        (0, [1, 1, 2, 3, 3, 4, 4, 5, 6], "LATE", 4, False),
    ]


def test_beam_discarding_early_fixed() -> None:
    """`discarding_early_fixed`: each firing has the elements since the one before; the last may have none.

    Beam has 1, 2, 3 in the first firing, and 4, 5 in the next, as bundles end there.
    """
    window = TimeInterval(10, early=Every(rows=2), results="discarding")
    batches = [[elements(1, 2, 3)], [elements(4)], [elements(14)], [elements(5)], [elements(18)], [elements(6)]]
    log = run(spec_of(window), [*batches, [watermark(100)]])
    assert [row[1:] for row in shown(log, "n", "sum", "reason", "refinement")] == [
        (0, 2, 1 + 2, "EARLY", 0),
        (0, 2, 3 + 4, "EARLY", 1),
        (10, 2, 14 + 18, "EARLY", 0),
        (0, 2, 5 + 6, "EARLY", 2),
        (0, 0, None, "WATERMARK", 3),
        (10, 0, None, "WATERMARK", 1),
    ]


def test_flink_window_separation_and_firing() -> None:
    """`testWindowSeparationAndFiring`: with an interval of an hour, two panes of 2 fire at their ends only."""
    window = TimeInterval(2, early=Every(event_time="1 hour"))
    batches = [[elements(1, 1, 1), elements(2, 2)], [watermark(1)], [watermark(2)], [watermark(3)], [watermark(4)]]
    assert values(window, *batches) == [
        (0, [1, 1, 1], "WATERMARK", 0, True),
        (2, [2, 2], "WATERMARK", 0, True),
    ]


def test_flink_late_element_triggers_immediately() -> None:
    """`testLateElementTriggersImmediately`, where the pane has fired; the interval counts no more there.

    Flink's element is the first of its window. Here that fires as complete, so at the next advancing watermark.
    """
    window = TimeInterval(2, discard_age=1000, early=Every(event_time="1 hour"), refire=Every(rows=1))
    assert values(window, [elements(1)], [watermark(2)], [elements(1)]) == [
        (0, [1], "WATERMARK", 0, False),
        (0, [1, 1], "LATE", 1, False),
    ]
    assert values(window, [watermark(2)], [elements(1)]) == []
    assert values(window, [watermark(2)], [elements(1)], [watermark(3)]) == [(0, [1], "LATE", 0, False)]
