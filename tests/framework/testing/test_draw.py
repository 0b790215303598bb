"""`draw`: what is in a picture, and which windows have an example."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from panekeeper import (
    AnyOf,
    Batched,
    Calendar,
    Count,
    Cumulate,
    DeclarationError,
    Delta,
    Punctuation,
    Session,
    Sliding,
    SlidingByRow,
    Time,
    TimeInterval,
    Tumbling,
    agg,
)
from panekeeper.testing import Clock, Drawing, Restart, Watermark, draw

RIDES: dict[str, Any] = {
    "window": TimeInterval(10, discard_age=5),
    "aggregates": {"n": agg.count(), "total": agg.sum("v")},
    "schema": "k string, t timestamp, v long",
    "partition_by": "k",
    "event_time": "t",
}


def texts(drawing: Drawing) -> list[str]:
    """What is written in a picture, in order."""
    return [one.text or "" for one in ET.fromstring(drawing.svg).iter() if one.tag.endswith("}text")]  # noqa: S314


def marks(drawing: Drawing, kind: str) -> int:
    """How many shapes of a kind it has, without the one of the legend."""
    return len(re.findall(rf'class="pk-{kind}"', drawing.svg)) - 1


@pytest.mark.parametrize(
    ("window", "fired"),
    [
        (TimeInterval("10 minutes", discard_age="5 minutes"), ["rows 2 → late: rows 3", "rows 2"]),
        (TimeInterval(10), ["rows 2", "rows 2"]),
        (
            TimeInterval(10, results="retracting", discard_age=5),
            ["rows 2 → takes back rows 2 → late: rows 3", "rows 2"],
        ),
        (Cumulate(10, 20), ["rows 2", "rows 5"]),
        (Calendar("day", zone="Europe/Berlin", discard_age="6 hours"), ["rows 2 → late: rows 3", "rows 2"]),
        (Session(10, discard_age=10), ["rows 2 → rows 4 → late: rows 5"]),
        (SlidingByRow(10, discard_age=10, right=False), ["rows 1", "late: rows 2", "rows 2 → late: rows 3", "rows 4"]),
        (SlidingByRow(10, discard_age=10, right=False, emit="on_close"), ["rows 1", "rows 2", "rows 3", "rows 4"]),
        (Tumbling(Count(3)), ["count: rows 3", "count: rows 3"]),
        (Tumbling(AnyOf(Count(3), Time(10))), ["count: rows 3", "count: rows 3", "time: rows 2"]),
        (Tumbling(Delta("temperature", 1.5)), ["delta: rows 3", "delta: rows 3"]),
        (Sliding(evict=Count(4), trigger=Count(4)), ["count: rows 4", "count: rows 4"]),
        (Batched(within=1.5, every=1.0), ["time: rows 4", "time: rows 6"]),
    ],
    ids=str,
)
def test_a_window_has_an_example_that_shows_what_it_fires(window: Any, fired: list[str]) -> None:
    """In order; the picture is the same each time."""
    drawing = draw(window)
    assert [text for text in texts(drawing) if re.search(r"rows \d", text)] == fired
    assert drawing == draw(window)
    assert drawing._repr_svg_() == drawing.svg
    assert "prefers-color-scheme:dark" in drawing.svg


def test_panes_slices_late_rows_and_refinements_are_drawn() -> None:
    """Of each partition, with the watermark of a script."""
    rows = [{"k": "a", "t": 1, "v": 2}, {"k": "<b>", "t": 3, "v": 4}, Watermark(12), {"k": "a", "t": 8, "v": 5}]
    drawing = draw(RIDES, [*rows, Restart(), Clock(5), Watermark(14), [{"k": "a", "t": 2}], Watermark(15), rows[0]])
    assert texts(drawing)[:15] == [
        *("row 00:00:01", "row 00:00:03", "watermark 00:00:12", "row 00:00:08", "restart", "+5s"),
        *("watermark 00:00:14", "row 00:00:02", "watermark 00:00:15", "row 00:00:01  LATE"),
        *("slices of event time", "00:00", "00:00:10"),
        *("<b> [00:00, 00:00:10)", "n 1, total 4"),
    ]
    assert texts(drawing)[15:17] == [
        "a [00:00, 00:00:10)",
        "n 1, total 2 → late: n 2, total 7 → late: n 3, total 7",
    ]
    assert [marks(drawing, kind) for kind in ("row", "late", "drop", "pane", "past")] == [2, 2, 3, 1, 8]


def test_without_a_watermark_it_follows_the_rows() -> None:
    """Less the delay, between micro-batches, as in a job."""
    rows = [{"k": "a", "t": 13, "v": 2}, {"k": "a", "t": 5, "v": 4}]
    assert [marks(draw(RIDES | {"watermark": delay}, rows), "late") for delay in (0, 9)] == [1, 0]


def test_a_session_that_became_part_of_another_one_says_so() -> None:
    """Its result was taken back; in a row of its own, if such are declared."""
    rows = [{"at": 10}, Watermark(16), {"at": 6}, Watermark(30)]
    shown = [text for text in texts(draw(Session(5, discard_age=20), rows)) if re.search(r"rows \d", text)]
    assert shown == ["late: rows 2", "rows 1 → replaced"]
    window = Session(5, discard_age=20, results="retracting")
    shown = [text for text in texts(draw(window, rows)) if re.search(r"rows \d", text)]
    assert shown == ["late: rows 2", "rows 1 → takes back rows 1 → replaced"]


@pytest.mark.parametrize(
    ("declaration", "rows", "words"),
    [
        (RIDES, None, "draw.. of a dict with aggregates has no rows; give them as the second argument"),
        (RIDES | {"aggregates": None, "operator": object()}, [], "with window and aggregates, .* a dict of window, "),
        (Count(3), None, "draw.. takes a window, .* or a dict .*; this is Count$"),
        (Session("pause"), None, "the gap is the column 'pause'; give a dict of the arguments of run.., and rows"),
        (
            Tumbling(Delta("at", "1 minute")),
            None,
            "the window goes by at; give a dict of the arguments of run.., and rows",
        ),
        (Tumbling(Punctuation()), None, "needs marks"),
        (
            TimeInterval(10),
            [{"when": 3}],
            "the unknown column 'when': those of a window alone are at and n; .* give a dict",
        ),
        (RIDES, [{"when": 3}], r"a row has the unknown column 'when' \(columns: k, t, v\)"),
        (RIDES | {"aggregates": [1]}, [{}], r"aggregates is \[1\]; give a dict, such as"),
    ],
)
def test_what_cannot_be_drawn_is_refused(declaration: Any, rows: Any, words: str) -> None:
    """It says what to give."""
    with pytest.raises(DeclarationError, match=words):
        draw(declaration, rows)
