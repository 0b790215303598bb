"""Which panes are settled, and with what: against a second, naive computation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper import Calendar, Cumulate, DeclarationError, Every, Session, TimeInterval, agg
from panekeeper.framework.core.job_spec import EVENT_TIME, JobSpec
from panekeeper.framework.core.panes.geometry import Geometry
from panekeeper.framework.core.partition_keys import PartitionKeys
from panekeeper.framework.testing.run import declared_job
from panekeeper.framework.testing.scripted_stream import ScriptedStream
from panekeeper.recovery.settle.panes import (
    ROWS,
    Outcome,
    are_among,
    are_closed,
    complete_results,
    pairs_of,
    require_supported,
    settled,
)
from panekeeper.state.records import IntervalRecord, PaneRecord
from panekeeper.testing import Watermark, run

SCHEMA = "k string, at timestamp, v long, x double"
AGGREGATES = {
    "n": agg.count(),
    "total": agg.sum("v"),
    "mean": agg.mean("x"),
    "first": agg.first("v"),
    "all": agg.collect("v"),
}
WINDOWS = (
    TimeInterval(10),
    TimeInterval(10, creation_period=4, discard_age=5),
    TimeInterval(6, creation_period=10, interval_offset=3),
    TimeInterval(10, late="tuple", discard_age=20),
    TimeInterval(10, emit="on_close", discard_age=7),
    TimeInterval(10, early=Every(rows=2), refire=Every(rows=2), discard_age=12),
    TimeInterval(10, emit="on_update"),
    Cumulate(5, 20, discard_age=3),
)
ROWS_IN = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.integers(-30, 60), st.integers(-5, 5)), min_size=1, max_size=14
)
Row = tuple[str | None, int, int]


def declared(window: Any, **options: Any) -> dict[str, Any]:
    """What `run` takes."""
    given = {"aggregates": AGGREGATES, "schema": SCHEMA, "partition_by": "k", "event_time": "at", **options}
    return {"window": window, **given}


def spec_of(window: Any, **options: Any) -> JobSpec:
    """The spec of the same job."""
    job = declared_job(**declared(window, **options))
    return job.computation([ScriptedStream(port.columns) for port in job.ports])._pipeline.spec


def segment(spec: JobSpec, rows: list[Row]) -> pa.Table:
    """Rows as the intake makes them."""
    columns = {"k": [k for k, _, _ in rows], "v": [v for _, _, v in rows], "x": [v / 3 for _, _, v in rows]}
    table = pa.Table.from_pydict({name: columns[name] for name in spec.columns.names}, schema=spec.columns)
    return table.append_column(EVENT_TIME, pa.array([at * 10**6 for _, at, _ in rows], pa.int64()))


def as_dicts(rows: list[Row]) -> list[dict[str, Any]]:
    """Rows of a script."""
    return [{"k": k, "at": at, "v": v, "x": v / 3} for k, at, v in rows]


def panes_of(window: Any, at: int) -> list[tuple[int, int]]:
    """The panes that a time is in, by trying all around it."""
    geometry = Geometry.of(window)
    found = [(geometry.start(pane), geometry.end(pane)) for pane in range(-60, 60)]
    return [(start, end) for start, end in found if start <= at * 10**6 < end]


def naive(window: Any, rows: list[Row]) -> dict[tuple[Any, int, int], dict[str, Any]]:
    """(key, start, end) -> the result of the pane, of rows in the order of their times."""
    contents: dict[tuple[Any, int, int], list[int]] = {}
    for k, at, v in sorted(rows, key=lambda row: (row[1], row[2])):
        for start, end in panes_of(window, at):
            contents.setdefault((k, start, end), []).append(v)
    return {
        place: {
            "n": len(vs),
            "total": sum(vs),
            "mean": pytest.approx(sum(v / 3 for v in vs) / len(vs), abs=1e-12),
            "first": vs[0],
            "all": vs,
        }
        for place, vs in contents.items()
    }


def by_pane(table: pa.Table) -> dict[tuple[Any, int, int], dict[str, Any]]:
    """(key, start, end) -> the newest result in a table."""
    found: dict[tuple[Any, int, int], dict[str, Any]] = {}
    edges = [table.column(name).cast(pa.int64()).to_pylist() for name in ("pane_start", "pane_end")]
    for row, start, end in zip(table.to_pylist(), *edges, strict=True):
        place = (row["k"], start, end)
        if place not in found or found[place]["refinement"] <= row["refinement"]:
            found[place] = row
    return found


def results(row: dict[str, Any]) -> dict[str, Any]:
    """The columns that are computed."""
    return {name: row[name] for name in AGGREGATES}


@given(st.sampled_from(WINDOWS), ROWS_IN, st.lists(st.tuples(st.integers(1, 14), st.integers(-20, 100)), max_size=4))
def test_settled_panes_are_as_if_no_row_had_been_late(
    window: Any, rows: list[Row], cuts: list[tuple[int, int]]
) -> None:
    """However the rows were cut and dropped. Other panes keep what they have, and to settle again adds nothing."""
    script: list[Any] = []
    start, watermark = 0, -1000
    for size, step in cuts:
        script.append(as_dicts(rows[start : start + size]))
        start, watermark = start + size, max(watermark, step)
        script.append(Watermark(watermark))
    script += [as_dicts(rows[start:]), Watermark(watermark)]
    log = run(**declared(window), script=script)
    spec, geometry, keys = spec_of(window), Geometry.of(window), PartitionKeys(spec_of(window).keys)
    late = [row for row in log.quarantine if row["reason"] == "LATE"]
    quarantined = segment(spec, [(row["row"]["k"], int(row["event_time"].timestamp()), 0) for row in late])
    pairs = pairs_of(geometry, keys, quarantined.append_column(ROWS, pa.array([1] * len(late), pa.int64())))
    closed = are_closed(geometry, pairs.panes, watermark * 10**6, [])
    waiting = {int(place): Outcome.OPEN for place in np.flatnonzero(~closed)}
    before = pa.Table.from_pylist([{**row} for row in log], schema=spec.results_schema)
    after = complete_results(spec, segment(spec, rows[::-1]))

    panes, rows_of = settled(spec, keys, pairs, waiting, before, None, after)
    new = rows_of.log
    assert rows_of.view == new

    wanted, was = naive(window, rows), by_pane(before)
    assert sum(one.rows for one in panes) == sum(len(panes_of(window, int(r["event_time"].timestamp()))) for r in late)
    changed = by_pane(new)
    assert len(changed) == new.num_rows
    for pane, is_closed, code, number in zip(panes, closed, pairs.codes, pairs.panes, strict=True):
        place = (keys.values([code])[0], geometry.start(number), geometry.end(number))
        if not is_closed:
            assert (pane.outcome, pane.after) == (Outcome.OPEN, None)
            assert place not in changed
        elif place in changed:
            row = changed[place]
            assert (results(row), row["reason"], row["is_final"]) == (wanted[place], "SETTLED", False)
            assert row["refinement"] == (was[place]["refinement"] + 1 if place in was else 0) == pane.refinement
            assert pane.outcome is Outcome.SETTLED
        else:
            assert pane.outcome is Outcome.UNCHANGED
            assert results(was[place]) == wanted[place]
    both = pa.concat_tables([before, new])
    again, nothing = settled(spec, keys, pairs, waiting, both, None, after)
    assert nothing.log.num_rows == nothing.view.num_rows == 0
    assert {one.outcome for one in again} <= {Outcome.UNCHANGED, Outcome.OPEN}


def test_rows_of_another_job_and_panes_without_rows_are_told_apart() -> None:
    """A shared quarantine has rows of other jobs, which are no panes here; a source that has lost all rows is told."""
    window = TimeInterval(10)
    spec, keys = spec_of(window), PartitionKeys(spec_of(window).keys)
    quarantined = segment(spec, [("a", 5, 0), ("other", 5, 0)])
    pairs = pairs_of(Geometry.of(window), keys, quarantined.append_column(ROWS, pa.array([2, 1], pa.int64())))
    before = run(**declared(window), script=[as_dicts([("a", 1, 1)]), Watermark(10)])
    was = pa.Table.from_pylist([{**row} for row in before], schema=spec.results_schema)
    panes, new = settled(spec, keys, pairs, {}, was, None, spec.results_schema.empty_table())
    assert [(one.key, one.rows, one.outcome, one.after) for one in panes] == [({"k": "a"}, 2, Outcome.NO_ROWS, None)]
    assert new.log.num_rows == 0


def test_the_view_gets_what_a_kill_or_a_reset_has_left_out_of_it() -> None:
    """A log that is ahead of the view gets no second row; results from before a reset are none of the view's.

    Of a log without a view it is not known then which result is the last one.
    """
    window = TimeInterval(10)
    spec, keys = spec_of(window), PartitionKeys(spec_of(window).keys)
    rows: list[Row] = [("a", 1, 1), ("a", 5, 2)]
    late = segment(spec, rows[1:]).append_column(ROWS, pa.array([1], pa.int64()))
    pairs, after = pairs_of(Geometry.of(window), keys, late), complete_results(spec, segment(spec, rows))
    fired = run(**declared(window), script=[as_dicts(rows[:1]), Watermark(10)])
    view = pa.Table.from_pylist([{**row} for row in fired], schema=spec.results_schema)
    _, first = settled(spec, keys, pairs, {}, view, view, after)
    assert first.log.column("refinement").to_pylist() == [1]

    killed = pa.concat_tables([view, first.log])
    (pane,), second = settled(spec, keys, pairs, {}, killed, view, after)
    assert (pane.outcome, pane.refinement, second.log.num_rows) == (Outcome.SETTLED, 1, 0)
    assert second.view == first.log

    log = pa.concat_tables([view, view])  # reset, and run again, when nothing was settled
    _, reset = settled(spec, keys, pairs, {}, log, view, after)
    assert reset.log.column("refinement").to_pylist() == reset.view.column("refinement").to_pylist() == [1]
    with pytest.raises(DeclarationError, match="as after a reset, so the last one is not known"):
        settled(spec, keys, pairs, {}, log, None, after)
    log = pa.concat_tables([killed, view])  # reset when it was
    (pane,), reset = settled(spec, keys, pairs, {}, log, view, after)
    assert (pane.outcome, pane.before, reset.view) == (
        Outcome.SETTLED,
        view.select(spec.output.names).to_pylist()[0],
        first.log,
    )


def test_panes_with_rows_that_were_ahead_of_the_clock_are_told() -> None:
    """By partition and pane."""
    window = TimeInterval(10)
    spec, keys = spec_of(window), PartitionKeys(spec_of(window).keys)
    late, ahead = (
        pairs_of(
            Geometry.of(window), keys, segment(spec, rows).append_column(ROWS, pa.array([1] * len(rows), pa.int64()))
        )
        for rows in ([("a", 5, 0), ("a", 15, 0), (None, 25, 0)], [("b", 5, 0), ("a", 19, 0), (None, 21, 0)])
    )
    assert are_among(late, ahead).tolist() == [False, True, True]


def test_a_pane_is_closed_by_the_watermark_unless_a_key_group_has_it() -> None:
    """Of several key groups without a watermark of Spark's the one that is behind decides; a flush closes all."""
    geometry, panes = Geometry.of(TimeInterval(10, discard_age=5)), np.array([0, 1, 2])
    behind, ahead = IntervalRecord(watermark=15 * 10**6), IntervalRecord(watermark=40 * 10**6)
    assert are_closed(geometry, panes, None, [behind, ahead]).tolist() == [True, False, False]
    assert are_closed(geometry, panes, 25 * 10**6, [behind, ahead]).tolist() == [True, True, False]
    has_it = IntervalRecord(watermark=40 * 10**6, panes={1: PaneRecord()})
    assert are_closed(geometry, panes, 40 * 10**6, [has_it]).tolist() == [True, False, True]
    assert are_closed(geometry, panes, None, []).tolist() == [False] * 3
    for one in (geometry, Geometry.of(Calendar("day", zone="Asia/Kathmandu"))):  # no watermark has come
        assert are_closed(one, panes, None, [IntervalRecord()]).tolist() == [False] * 3
    assert are_closed(geometry, panes, None, [IntervalRecord(flushed=True)]).tolist() == [True] * 3


def test_a_day_of_a_calendar_and_a_job_without_partitions_are_settled() -> None:
    """The bounds are those of the zone; without partition columns there is one partition."""
    window = Calendar("day", zone="America/New_York")
    options = {"partition_by": (), "aggregates": {"n": agg.count()}}
    spec = spec_of(window, **options)
    found = complete_results(spec, pa.table({EVENT_TIME: pa.array([1362722400 * 10**6] * 3, pa.int64())}))
    (row,) = found.to_pylist()
    assert (f"{row['pane_start']:%d %H}", f"{row['pane_end']:%d %H}", row["n"]) == ("08 05", "09 05", 3)


@pytest.mark.parametrize(
    ("window", "what"),
    [
        (Session(10), "a window of the kind Session"),
        (TimeInterval(10, results="retracting"), "results='retracting'"),
        (TimeInterval(10, fill="null", fill_for=30), "fill='null'"),
        (TimeInterval(10, fires_when="n > 2"), "fires_when='n > 2'"),
    ],
)
def test_windows_that_cannot_be_settled_are_refused(window: Any, what: str) -> None:
    """The message names what it is."""
    with pytest.raises(DeclarationError, match=f"the job has {what}, of which late rows cannot be settled"):
        require_supported(spec_of(window, aggregates={"n": agg.count()}))
