"""Aggregates of random windows against the naive model's trigger contents, from partial sums and from raw rows."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.core.aggregates.binding import bind
from framework.core.job_spec import EVENT_TIME, JobSpec
from framework.core.key_group import KeyGroupRunner
from framework.core.steps import Rows, Step, Watermark
from framework.testing.vector import Vector, parse
from panekeeper import agg
from state.store import MemoryStore
from tests.framework.core.declared_aggregates import CONTENT, PARTIAL
from tests.model.aggregates import firings
from tests.model.interval_cases import vectors
from tests.model.time_intervals import NaiveTimeInterval, exact

COLUMNS = pa.schema({"key": pa.string(), "n": pa.int64(), "x": pa.float64(), "who": pa.string()})
VALUES: dict[str, list[Any]] = {
    "n": [None, 0, 1, 1, -9, 4],
    "x": [0.25, None, 3.0, 3.0, -1.5, math.nan, math.inf],
    "who": [None, "a", "b", "c", "d"],
}
ROUGH = VALUES | {"x": [0.1, None, 1e9 / 3, -2.7e-5, 1e16, -1e16, 7.0]}


def spec(vector: Vector, aggregates: dict[str, agg.Aggregate]) -> JobSpec:
    """A job spec for the rows of `VALUES`, partitioned by the column `key` if the vector is."""
    output = pa.schema([(name, bind(one, COLUMNS).output) for name, one in aggregates.items()])
    keys = pa.schema([COLUMNS.field("key")] if vector.partitioned else [])
    return JobSpec(window=vector.window, keys=keys, columns=COLUMNS, aggregates=aggregates, output=output)


def step(item: dict[str, Any]) -> Step | None:
    """The step of one input item; None for marks, which mean nothing here."""
    if "watermark" in item:
        return Watermark(exact(item["watermark"]))
    if "value" not in item:
        return None
    value = item["value"]
    row = {"key": item["key"]} | {name: value[name] for name in ("n", "x", "who")} | {EVENT_TIME: exact(value["ts"])}
    return Rows(pa.Table.from_pylist([row], schema=COLUMNS.append(pa.field(EVENT_TIME, pa.int64()))))


def merged(steps: list[Step]) -> list[Step]:
    """The same steps with neighbouring rows in one table."""
    out: list[Step] = []
    for one in steps:
        if isinstance(one, Rows) and out and isinstance(out[-1], Rows):
            out[-1] = Rows(pa.concat_tables([out[-1].table, one.table]))
        else:
            out.append(one)
    return out


def run(spec: JobSpec, steps: list[Step], splits: set[int]) -> tuple[list[dict[str, Any]], MemoryStore]:
    """The result log, batch by batch; each batch has a new runner on a copy of the store."""
    store, first = MemoryStore(), 0
    log: list[dict[str, Any]] = []
    for end in sorted(splits | {len(steps)}):
        store = store.copy()
        outcome = KeyGroupRunner(spec, store).run(merged(steps[first:end]))
        log += outcome.results.to_pylist() if outcome.results is not None else []
        first = end
    return log, store


def text_keys(vector: dict[str, Any]) -> dict[str, Any]:
    """The vector with keys that fit a text column."""
    items = [i | {"key": None if i["key"] is None else repr(i["key"])} if "value" in i else i for i in vector["input"]]
    return vector | {"input": items}


def comparable(rows: list[tuple[Any, ...]]) -> list[str]:
    """Rows as sorted text: order between keys and panes is open, and NaN equals itself."""
    return sorted(map(repr, rows))


@pytest.mark.parametrize("aggregates", [PARTIAL, CONTENT], ids=["partial", "content"])
@given(vector=vectors(VALUES).map(text_keys), data=st.data())
def test_aggregates_are_those_of_the_naive_contents(
    aggregates: dict[str, agg.Aggregate], vector: dict[str, Any], data: st.DataObject
) -> None:
    """Every firing has the aggregates of exactly the rows that the model's trigger shows, however batched."""
    expected = firings(NaiveTimeInterval(vector["window"]).play(vector["input"]), list(aggregates))
    steps = [one for item in vector["input"] if (one := step(item))]
    splits = data.draw(st.sets(st.integers(0, len(steps))))
    log, _ = run(spec(parse(vector), aggregates), steps, splits)
    got = [(r.get("key"), _us(r["pane_start"]), r["refinement"], *(r[name] for name in aggregates)) for r in log]
    assert comparable(got) == comparable(expected)


@pytest.mark.parametrize("aggregates", [PARTIAL, CONTENT], ids=["partial", "content"])
@given(vector=vectors(ROUGH).map(text_keys), data=st.data())
def test_no_split_changes_a_bit(
    aggregates: dict[str, agg.Aggregate], vector: dict[str, Any], data: st.DataObject
) -> None:
    """Sums, means and spreads of rough floats are the same to the last bit for all batches, and nothing is left."""
    rough = aggregates | {"total": agg.sum("x"), "middle": agg.mean("x"), "spread": agg.stddev("x")}
    steps = [one for item in vector["input"] if (one := step(item))] + [Watermark(exact(100_000))]
    declared_job = spec(parse(vector), rough)
    whole, _ = run(declared_job, steps, set())
    split, store = run(declared_job, steps, data.draw(st.sets(st.integers(0, len(steps)))))
    assert comparable([tuple(row.values()) for row in split]) == comparable([tuple(row.values()) for row in whole])
    assert store.entries == {}


def _us(instant: Any) -> int:
    return int(pa.scalar(instant, pa.timestamp("us", tz="UTC")).value)
