"""Rows of sessions that are folded on their way to their key group."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given as given_by
from hypothesis import settings
from hypothesis import strategies as st

from panekeeper import agg
from panekeeper.framework.core.job_spec import EVENT_TIME
from panekeeper.framework.core.panes.folding import NUMBER_COLUMN
from panekeeper.framework.core.sessions import folding
from panekeeper.framework.core.sessions.folding import FIRST_TIME_COLUMN, LAST_TIME_COLUMN, SessionFolding
from panekeeper.framework.declarations.windows import Session
from tests.framework.core.sessions.session_runs import COLUMNS, Item, SessionRun, aggregate_spec

FOLDING = SessionFolding.of(aggregate_spec(Session("2 us"), total=agg.sum("v")))


def rows(*given: tuple[str, int]) -> pa.Table:
    """Rows of (key, time in us), each with the value 1."""
    table = pa.Table.from_pylist([{"k": key, "v": 1} for key, _ in given], schema=COLUMNS)
    return table.append_column(EVENT_TIME, pa.array([us for _, us in given], pa.int64()))


def test_rows_of_a_partition_that_are_near_each_other_become_one() -> None:
    """Each partial row stands where the first of its rows stood."""
    assert FOLDING is not None
    folded = FOLDING.fold(rows(("a", 5), ("b", 5), ("a", 3), ("b", 6), ("a", 9), ("a", 10)), 0)
    assert folded is not None
    found = folded.table.select(["k", FIRST_TIME_COLUMN, LAST_TIME_COLUMN, NUMBER_COLUMN])
    assert sorted(tuple(row.values()) for row in found.to_pylist()) == [("a", 3, 5, 2), ("a", 9, 10, 2), ("b", 5, 6, 2)]
    assert sorted(folded.first.tolist()) == [0, 1, 4]
    assert len(folded.rest) == 0


def test_partitions_with_a_row_that_is_late_by_itself_stay_rows() -> None:
    """Which rows came before that one decides whether it joins a session; other partitions do not depend on it."""
    assert FOLDING is not None
    given = rows(("a", 5), ("b", 5), ("a", 1), ("b", 6), ("a", 6), ("b", 7))
    folded = FOLDING.fold(given, 3)
    assert folded is not None
    assert folded.table.column("k").to_pylist() == ["b"]
    assert (folded.first.tolist(), folded.rest.tolist()) == ([1], [0, 2, 4])
    assert FOLDING.fold(given, 9) is None


ROW = st.tuples(st.sampled_from(["a", "a", "b", "c", None]), st.integers(-25, 12), st.integers(-5, 9))
BATCHES = st.lists(st.tuples(st.lists(ROW, max_size=12), st.integers(1, 15)), min_size=1, max_size=5)


@settings(deadline=None, max_examples=200)
@given_by(batches=BATCHES, age=st.sampled_from([0, 5]), groups=st.integers(1, 2))
def test_folded_rows_give_the_results_of_the_rows(batches: list[Any], age: int, groups: int) -> None:
    """Some rows of a batch are late, each batch has the watermark of the one before."""
    spec = aggregate_spec(Session(4, discard_age=age), n=agg.count(), total=agg.sum("v"), most=agg.max("f"))
    runs = [SessionRun(spec, groups=groups, folds=folds) for folds in (False, True)]
    now = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folding, "_LEAST_GAIN", 1)
        for given, step in batches:
            items: list[Item] = [("watermark", now), *(("row", key, now + by, v, None) for key, by, v in given)]
            now += step
            for run in runs:
                run.batch(items)
    for run in runs:
        run.batch([("watermark", now + 100)])
    rows_run, folded_run = runs
    assert sorted(map(repr, folded_run.results)) == sorted(map(repr, rows_run.results))
    assert sorted(folded_run.rejected) == sorted(rows_run.rejected)
    assert folded_run.counts == rows_run.counts
