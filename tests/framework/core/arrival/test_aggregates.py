"""Aggregates of windows in arrival order against the naive model's contents, from partial results and from raw rows."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panekeeper import agg
from panekeeper.framework.core.aggregates.binding import bind
from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.steps import Rows, Step
from panekeeper.framework.declarations.windows import Batched, BatchedOutput
from panekeeper.framework.testing.play_vector import MemoryRun
from panekeeper.framework.testing.steps import TUPLE, split_into_batches
from panekeeper.framework.testing.vector import Vector, parse
from panekeeper.testing import Clock, run
from tests.framework.core.declared_aggregates import CONTENT, PARTIAL
from tests.model.aggregates import NAIVE
from tests.model.arrival_cases import POOLS, Pools, scripts
from tests.model.interval_cases import BATCH_SPLITS, restarts
from tests.model.time_intervals import exact
from tests.model.window_kinds import play_naively

ROUGHLY = PARTIAL | {"total": agg.sum("x"), "middle": agg.mean("x"), "spread": agg.stddev("x")}
TYPES = {"n": pa.int64(), "x": pa.float64(), "who": pa.string()}
VALUES: Pools = {
    **POOLS,
    "n": [None, 0, 1, 1, -9, 4],
    "x": [0.25, None, 3.0, 3.0, -1.5, math.nan, math.inf],
    "who": [None, "a", "b", "c", "d"],
}
ROUGH: Pools = {**VALUES, "x": [0.1, None, 1e9 / 3, -2.7e-5, 1e16, -1e16, 7.0]}

SHOWN: dict[BatchedOutput, str] = {"content": "trigger", "entered": "insertion", "left": "eviction"}
"""The event whose rows a batched window's aggregates are of, by stream."""

STREAMS: list[BatchedOutput] = list(SHOWN)

FEW = settings(max_examples=settings().max_examples // 3)


class AggregateRun(MemoryRun):
    """Plays a vector with aggregates in place of the recorder: the events are the rows of the result log."""

    def __init__(self, vector: Vector, aggregates: dict[str, agg.Aggregate]) -> None:
        super().__init__(vector)
        columns = pa.schema([*self.spec.columns, *(pa.field(name, kind) for name, kind in TYPES.items())])
        output = pa.schema([(name, bind(one, columns).output) for name, one in aggregates.items()])
        self.typed_spec = JobSpec(
            window=vector.window, keys=self.spec.keys, columns=columns, aggregates=aggregates, output=output
        )

    def run(self, steps: Iterable[Step]) -> list[dict[str, Any]]:
        outcome = KeyGroupRunner(self.typed_spec, self.store).run([typed(step) for step in steps])
        return [] if outcome.results is None else outcome.results.to_pylist()


def typed(step: Step) -> Step:
    """The same step with the values of its rows as columns."""
    if not isinstance(step, Rows):
        return step
    values = [json.loads(text) for text in step.table.column(TUPLE).to_pylist()]
    table = step.table
    for name, kind in TYPES.items():
        table = table.append_column(name, pa.array([value[name] for value in values], kind))
    return Rows(table)


def log(vector: Vector, aggregates: dict[str, agg.Aggregate], cut: Any, restart: Any) -> dict[str, list[str]]:
    """The result log: for each key, when it fired and with what, in order."""
    run = AggregateRun(vector, aggregates)
    rows: dict[str, list[str]] = {}
    for row in run.play(split_into_batches(vector.items, cut, restart)):
        at = pa.scalar(row["fired_at"], pa.timestamp("us", tz="UTC")).value
        row_text = [at, *(row[name] for name in aggregates)]
        rows.setdefault(row.get("key") or "null", []).append(repr(row_text))
    return rows


def expected(vector: dict[str, Any], stream: BatchedOutput, names: Iterable[str]) -> dict[str, list[str]]:
    """The result log that the naive window's events make; firings of nothing only from a batched window."""
    kind = vector["window"]["kind"]
    shown = {"tumbling": "eviction", "sliding": "trigger"}.get(kind, SHOWN[stream])
    rows: dict[str, list[str]] = {}
    for event in play_naively(vector, shows_empty=False):
        if event["event"] == shown and (event["tuples"] or kind == "batched"):
            row_text = [exact(event["at"]), *(NAIVE[name](event["tuples"]) for name in names)]
            rows.setdefault(json.dumps(event["key"]), []).append(repr(row_text))
    return rows


@pytest.mark.parametrize("aggregates", [PARTIAL, CONTENT], ids=["partial", "content"])
@FEW
@given(vector=scripts(pools=VALUES), stream=st.sampled_from(STREAMS), cut=BATCH_SPLITS, data=st.data())
def test_aggregates_are_those_of_the_naive_contents(
    aggregates: dict[str, agg.Aggregate], vector: dict[str, Any], stream: BatchedOutput, cut: Any, data: st.DataObject
) -> None:
    """Every firing has the aggregates of exactly the rows that the model shows, however batched and restarted."""
    parsed = parse(vector)
    if isinstance(parsed.window, Batched):
        window = dataclasses.replace(parsed.window, stream=stream)
        parsed = dataclasses.replace(parsed, window=window)
    got = log(parsed, aggregates, cut, data.draw(restarts(vector)))
    assert got == expected(vector, stream, aggregates)


# a row at 0 stays until 2: it enters at 1 and leaves at 2, which empties the window
@pytest.mark.parametrize(
    ("stream", "shown"),
    [("content", [(1, 1, 7), (2, 0, None)]), ("entered", [(1, 1, 7)]), ("left", [(2, 1, 7)])],
)
def test_only_the_content_of_a_batched_window_may_have_no_rows(stream: BatchedOutput, shown: list[Any]) -> None:
    """An update that empties it is a row with a count of 0; none entered, or none left, is no row."""
    window = Batched(within=1.5, every=1, stream=stream)
    aggregates = {"n": agg.count(), "total": agg.sum("v")}
    found = run(window, aggregates=aggregates, schema="v long", script=[[{"v": 7}], *[Clock(1)] * 4])
    assert [(row["fired_at"], row["n"], row["total"]) for row in found.in_seconds] == shown


# the trigger is due at 3 6 .. 21 24 27; down from 2 to 22; the rows arrive at 23 and 24 and stay for a second
@pytest.mark.parametrize("eviction", [{"policy": "time", "size": 1}, {"policy": "count", "size": 1}])
def test_the_timetable_of_an_idle_window_does_not_move_by_a_stop(eviction: dict[str, Any]) -> None:
    """No instant of a window without rows is overdue at the start: the next is 24, not 22 and a period."""
    vector: dict[str, Any] = {
        "window": {"kind": "sliding", "eviction": eviction, "trigger": {"policy": "time", "size": 3}},
        "input": [
            {"at": 2, "checkpoint": "1"},
            {"at": 22, "reset": "1"},
            {"at": 23, "value": {"age": 0, "n": 4, "x": 0.25, "who": "a"}},
            {"at": 24, "value": {"age": 0, "n": 1, "x": 3.0, "who": "b"}},
            {"advance_clock": 26},
        ],
    }
    got = log(parse(vector), PARTIAL, "whole", "none")
    assert [text.split(",")[0] for text in got["null"]] == ["[24000000"]
    assert got == expected(vector, "content", PARTIAL)


@pytest.mark.parametrize("aggregates", [ROUGHLY, ROUGHLY | CONTENT], ids=["partial", "content"])
@FEW
@given(vector=scripts(pools=ROUGH), cut=BATCH_SPLITS, data=st.data())
def test_no_split_changes_a_bit(
    aggregates: dict[str, agg.Aggregate], vector: dict[str, Any], cut: Any, data: st.DataObject
) -> None:
    """Sums, means and spreads of rough floats are the same to the last bit for all batches and restarts."""
    parsed = parse(vector)
    assert log(parsed, aggregates, cut, data.draw(restarts(vector))) == log(parsed, aggregates, "whole", "none")
