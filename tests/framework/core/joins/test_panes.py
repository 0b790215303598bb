"""Joins of panes, by hand, and the example of Flink's window joins."""

from __future__ import annotations

from typing import Any

import pytest

from panekeeper.framework.declarations.joins import PaneJoinKind
from panekeeper.framework.declarations.windows import TimeInterval
from tests.framework.core.joins.join_batches import FLUSH, Groups, Item, left, right, spec, watermark


def shown(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Pane, key, both values, refinement and reason of each row, sorted."""
    found = [
        (int(row["pane_start"].timestamp()), row["key"], row["a"], row.get("b"), row["refinement"], row["reason"])
        for row in rows
    ]
    return sorted(found, key=str)


def play(window: TimeInterval, how: PaneJoinKind, *batches: list[Item]) -> list[list[tuple[Any, ...]]]:
    """The results of each micro-batch, with a restart before each."""
    job = Groups(spec(window, how))
    return [shown(job.run(batch)) for batch in batches]


@pytest.mark.parametrize(
    ("how", "first", "second"),
    [
        ("inner", [("3", 3, 13)], []),
        ("left", [("1", 1, None), ("3", 3, 13)], [("2", 2, None)]),
        ("right", [("2", None, 12), ("3", 3, 13)], [("4", None, 14)]),
        ("full", [("1", 1, None), ("2", None, 12), ("3", 3, 13)], [("2", 2, None), ("4", None, 14)]),
        ("semi", [("3", 3, None)], []),
        ("anti", [("1", 1, None)], [("2", 2, None)]),
    ],
)
def test_the_example_of_flinks_window_joins(how: PaneJoinKind, first: list[Any], second: list[Any]) -> None:
    """Tumbling windows of five minutes, of "Window Join" in Flink's documentation of SQL.

    left    L1 (key 1) at 12:02, L2 (key 2) at 12:06, L3 (key 3) at 12:03
    right   R2 (key 2) at 12:01, R3 (key 3) at 12:04, R4 (key 4) at 12:05
    """
    rows = [left("1", 120, 1), left("2", 360, 2), left("3", 180, 3)]
    rows += [right("2", 60, 12), right("3", 240, 13), right("4", 300, 14)]
    found = play(TimeInterval("5 minutes"), how, rows, [watermark(300)], [watermark(600)])
    panes = [[(start, *pair, 0, "WATERMARK") for pair in pairs] for start, pairs in ((0, first), (300, second))]
    assert found == [[], *panes]


def test_a_late_row_makes_a_match_of_a_row_of_nulls() -> None:
    """The key fires again, as a whole and by itself, with a higher refinement: the highest holds."""
    window = TimeInterval(10, discard_age=20)
    found = play(
        window,
        "left",
        [left("k", 1, 1), left("k", 2, 2), left("m", 3, 3), watermark(10)],
        [right("k", 4, 10)],
        [watermark(11)],
        [right("k", 5, 11), watermark(30)],
    )
    assert found == [
        [(0, "k", 1, None, 0, "WATERMARK"), (0, "k", 2, None, 0, "WATERMARK"), (0, "m", 3, None, 0, "WATERMARK")],
        [],
        [(0, "k", 1, 10, 1, "LATE"), (0, "k", 2, 10, 1, "LATE")],
        [(0, "k", a, b, 2, "LATE") for a in (1, 2) for b in (10, 11)],
    ]


def test_a_late_row_takes_back_what_had_no_match() -> None:
    """A firing of an anti join that has no rows any more is one row of nulls; else the rows before would still hold."""
    window = TimeInterval(10, discard_age=20)
    found = play(window, "anti", [left("k", 1, 1), watermark(10)], [right("k", 4, 10), watermark(11)])
    assert found == [[(0, "k", 1, None, 0, "WATERMARK")], [(0, "k", None, None, 1, "LATE")]]


def test_a_row_that_is_too_late_is_quarantined_with_the_columns_of_its_stream() -> None:
    """By the rule of panes, and with its port."""
    job = Groups(spec(TimeInterval(10), "full"))
    assert job.run([left("k", 1, 1), watermark(10)]) != []
    assert job.run([right("k", 2, 10), left("k", 3, 4)]) == []
    assert job.late == [(0, '{"key":"k","kind":0,"a":4}'), (1, '{"name":"k","kind":0,"b":10}')]


def test_a_flush_joins_what_is_open() -> None:
    """With reason FLUSH."""
    assert play(TimeInterval(10), "inner", [left("k", 1, 1), right("k", 2, 10), FLUSH]) == [
        [(0, "k", 1, 10, 0, "FLUSH")]
    ]
