"""What the charts of a report show, and what they leave out where there is no room."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper.diagnostics.report.charts import Series, bars, count_text, is_near_present, line, timeline, watermark
from panekeeper.diagnostics.report.figures import PaneLife

HOUR = 3_600_000_000
BAR = re.compile(r'class="pk-p-\w+" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)"')


def pane(start: int, end: int) -> PaneLife:
    """A pane that has fired."""
    return PaneLife(start=start, end=end, state="fired", partitions=1, firings=1, refinements=3, first=1, last=2)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 8)), min_size=1, max_size=40))
def test_bars_of_panes_never_cover_each_other(spans: list[tuple[int, int]]) -> None:
    """Whatever overlaps lies in another lane; no bar leaves the picture."""
    drawn = timeline([pane(start * HOUR, (start + size) * HOUR) for start, size in spans], 20 * HOUR, 900)
    ET.fromstring(drawn)  # noqa: S314 -- our own picture
    bars_drawn = sorted((float(y), float(x), float(width)) for x, y, width in BAR.findall(drawn))
    assert bars_drawn
    for (y, x, width), (lane, after, _) in pairwise(bars_drawn):
        assert lane > y or after >= x + width - 0.2
    assert all(x + width <= 900 for _, x, width in bars_drawn)


def test_a_narrow_picture_has_the_last_panes_only() -> None:
    """So many that each can be told apart."""
    panes = [pane(at * HOUR, (at + 1) * HOUR) for at in range(100)]
    wide, narrow = (len(BAR.findall(timeline(panes, None, width))) for width in (1112, 326))
    assert wide == 100
    assert 30 <= narrow <= 36


TICK = re.compile(r'text-anchor="(middle|end)">([^<]*)</text>')
SPANS = (1, 2, 7, 30, 100, 4_000, 40_000, 90_000, 4.3 * 86_400, 5 * 86_400, 40 * 86_400, 366 * 86_400, 699 * 86_400)
"""Seconds, and what was once drawn with the same text twice: fractions of a second, halves of a day, years."""


@pytest.mark.parametrize("seconds", SPANS)
@pytest.mark.parametrize("width", [326, 532, 1112])
def test_no_two_ticks_of_an_axis_in_time_look_the_same(seconds: float, width: int) -> None:
    """Neighbours have different texts, on the wall clock, for the watermark, and below panes."""
    first, span = 1_714_521_220_000_000, round(seconds * 1_000_000)
    marks = TICK.findall(watermark([(first, first), (first + span, first + span)], [], width))
    axes = [[text for of, text in marks if of == axis] for axis in ("middle", "end")]
    axes.append([text for _, text in TICK.findall(timeline([pane(first, first + span)], None, width))])
    assert any(axes)
    assert [both for texts in axes for both in pairwise(texts) if both[0] == both[1]] == []


@pytest.mark.parametrize(
    ("points", "near"),
    [
        ([(0, -10), (100, 95)], True),
        ([(0, -5_000_000), (100, -4_999_900)], False),
        ([(0, 0)], True),
        ([(0, 50), (100, 120)], False),
    ],
)
def test_the_present_is_drawn_where_the_watermark_is_near_it(points: list[tuple[int, int]], *, near: bool) -> None:
    """Of a replay of years ago it is not; nor of a watermark that is ahead of the clock."""
    assert is_near_present(points) is near
    drawn = watermark(points, [(20, 60)], 600)
    ET.fromstring(drawn)  # noqa: S314 -- as above
    assert ("pk-present" in drawn) is near
    assert "down for" in drawn


def test_counts_have_whole_lines_and_a_downtime_is_marked() -> None:
    """Between the batches where it was."""
    rows = Series(kind="admitted", name="in time", values=[1, 2])
    drawn = bars("Rows", ["0", "1"], [rows], 600, count_text, {1: "down for 9m"})
    ET.fromstring(drawn)  # noqa: S314 -- as above
    assert [text for text in (">0.5<", "down for 9m", "in time 2") if text in drawn] == ["down for 9m", "in time 2"]


def test_a_chart_of_nothing_is_a_chart() -> None:
    """Values that are not known are left out."""
    none = Series(kind="open", name="open", values=[None, None])
    for drawn in (line("Open", ["0", "1"], none, 600, count_text), bars("Open", ["0", "1"], [none], 600, count_text)):
        ET.fromstring(drawn)  # noqa: S314 -- as above
