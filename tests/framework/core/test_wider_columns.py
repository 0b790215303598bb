"""A column of the stream that got wider between two batches: the job goes on as if it had always been as wide."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from panekeeper import Batched, Count, Delta, Sliding, TimeInterval, Tumbling, agg
from panekeeper.framework.core.aggregates.binding import bind
from panekeeper.framework.core.job_spec import ARRIVAL_TIME, EVENT_TIME, JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.steps import Rows, Step, Tick, Watermark
from panekeeper.framework.declarations.windows import Window
from panekeeper.state.compatibility import Change, Compatibility, as_recorded, compare_declarations
from panekeeper.state.history import History, upgraded
from panekeeper.state.store import MemoryStore
from tests.framework.core.arrival.test_upgrades import recorded

INTEGERS: dict[str, agg.Aggregate] = {
    "n": agg.count("v"),
    "total": agg.sum("v"),
    "mean": agg.mean("v"),
    "spread": agg.stddev("v"),
}
ANY: dict[str, agg.Aggregate] = {
    "n": agg.count("v"),
    "who": agg.arg_max("v", "name"),
    "kinds": agg.approx_distinct("v"),
}
WIDER: list[tuple[pa.DataType, pa.DataType, dict[str, agg.Aggregate], list[Any]]] = [
    (pa.int8(), pa.int16(), INTEGERS | ANY, [-128, 0, 127]),
    (pa.int32(), pa.int64(), INTEGERS | ANY, [-(2**31), 2**31 - 1, 0, None]),
    (pa.float32(), pa.float64(), INTEGERS | ANY, [0.1, -0.0, 3e38, None, float("nan")]),
    (pa.decimal128(5, 2), pa.decimal128(9, 2), ANY, [Decimal("1.25"), Decimal("-999.99"), None]),
]
WINDOWS: list[Window] = [
    TimeInterval(60, creation_period=30),
    Tumbling(Count(4)),
    Sliding(evict=Count(5), trigger=Count(2)),
    Batched(every=2, retain=2),
    Tumbling(Delta("size", 3)),
    Sliding(evict=Count(4), trigger=Delta("size", 2)),
]


def job(window: Window, kind: pa.DataType, aggregates: dict[str, agg.Aggregate]) -> JobSpec:
    """A job of column `v` of this type."""
    size = kind if pa.types.is_integer(kind) else pa.int64()
    columns = pa.schema({"key": pa.string(), "v": kind, "name": pa.string(), "size": size})
    output = pa.schema([(name, bind(one, columns).output) for name, one in aggregates.items()])
    keys = pa.schema([columns.field("key")])
    return JobSpec(window=window, keys=keys, columns=columns, aggregates=aggregates, output=output)


def batch(spec: JobSpec, values: list[Any], second: int) -> list[Step]:
    """The steps of one micro-batch."""
    rows = [{"key": "a", "v": v, "name": f"{second} {at}", "size": second + at} for at, v in enumerate(values)]
    at = pa.array([second * 1_000_000] * len(rows), pa.int64())
    table = pa.Table.from_pylist(rows, schema=spec.columns)
    if isinstance(spec.window, TimeInterval):
        return [Rows(table.append_column(EVENT_TIME, at)), Watermark(second * 1_000_000)]
    return [Rows(table.append_column(ARRIVAL_TIME, at)), Tick(second * 1_000_000)]


def results(jobs: list[JobSpec], values: list[Any]) -> list[dict[str, Any]]:
    """The results of a key group: a batch, with each of the jobs in turn."""
    store, log = MemoryStore(), list[dict[str, Any]]()
    record = recorded(jobs[0])
    for number, spec in enumerate(jobs):
        if recorded(spec) != recorded(jobs[max(number - 1, 0)]):
            record = upgraded(record, recorded(spec), committed=number - 1, watermark_us=None)
        store = store.copy()
        declared = replace(spec, history=History.of(record))
        end = [Watermark(10**9)] if number == len(jobs) - 1 and isinstance(spec.window, TimeInterval) else []
        outcome = KeyGroupRunner(declared, store).run([*batch(spec, values, 20 * number + 20), *end])
        log += [] if outcome.results is None else outcome.results.to_pylist()
    return log


@pytest.mark.parametrize("others", [{}, {"names": agg.collect("name")}], ids=["partial results", "rows"])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize(("narrow", "wide", "aggregates", "values"), WIDER, ids=lambda one: str(one)[:20])
def test_results_are_those_of_a_job_whose_column_was_always_as_wide(
    window: Window,
    narrow: pa.DataType,
    wide: pa.DataType,
    aggregates: dict[str, agg.Aggregate],
    values: list[Any],
    others: dict[str, agg.Aggregate],
) -> None:
    """Partial results, stored rows and the values of policies are widened, and nothing of them changes."""
    old, new = job(window, narrow, aggregates | others), job(window, wide, aggregates | others)
    changes = compare_declarations(recorded(old), recorded(new))
    assert {one.compatibility for one in changes} == {Compatibility.COMPATIBLE}
    assert [one.item for one in changes if one.differences and "widened" in one.why]
    values = pa.array(values, narrow).to_pylist()
    log = results([old, old, new, new], values)
    assert log
    assert repr(log) == repr(results([new, new, new, new], values))


def refused(old: dict[str, Any], new: dict[str, Any]) -> list[Change]:
    """The changes that the stored state is not compatible with."""
    before, now = as_recorded(old, 1), as_recorded(new, 1)
    return [one for one in compare_declarations(before, now) if one.compatibility is not Compatibility.COMPATIBLE]


@pytest.mark.parametrize(
    ("old", "new", "cast"),
    [
        ("int64", "int32", "bigint"),
        ("int32", "double", "int"),
        ("decimal128(5, 2)", "decimal128(9, 3)", "decimal(5, 2)"),
        ("timestamp[us, tz=UTC]", "timestamp[us]", "timestamp"),
        ("struct<a: int32, b: map<string, bool>>", "struct<a: int64>", "struct<a: int, b: map<string, boolean>>"),
    ],
)
def test_a_column_of_another_type_is_refused_with_the_cast(old: str, new: str, cast: str) -> None:
    """One that is narrower, or computed with otherwise."""
    declared = {
        "window": {"kind": "sliding"},
        "aggregate": {"n": {"kind": "count", "columns": ["v"]}},
        "output": {"n": ""},
    }
    (change,) = refused(declared | {"column": {"v": old}}, declared | {"column": {"v": new}})
    expected = f'cast it in the stream as it was, .withColumn("v", F.col("v").cast("{cast}")); or flush'
    assert change.advice.startswith(expected)


@pytest.mark.parametrize("declared", [agg.max("v"), agg.first("v"), agg.collect("v")], ids=str)
def test_an_aggregate_whose_results_have_the_type_of_the_column_is_refused_with_the_cast(
    declared: agg.Aggregate,
) -> None:
    """The tables have a column of the narrower type. The advice brings it back."""
    old, new = (recorded(job(Tumbling(Count(2)), kind, {"best": declared})) for kind in (pa.int32(), pa.int64()))
    changes = [one for one in compare_declarations(old, new) if one.compatibility is not Compatibility.COMPATIBLE]
    assert [one.item for one in changes] == ["output best"]
    assert '.withColumn("v", F.col("v").cast("int"))' in changes[0].advice


def test_a_wider_partition_column_is_refused_with_the_cast() -> None:
    """Spark hashes an int otherwise than a bigint, so its rows would go to other key groups."""
    window = {"window": {"kind": "sliding"}, "column": {"k": "int32"}, "partition_by": {"k": "int32"}}
    wide = {"column": {"k": "int64"}, "partition_by": {"k": "int64"}}
    (change,) = refused(window, window | wide)
    assert change.item == "partition_by"
    assert '.withColumn("k", F.col("k").cast("int"))' in change.advice


def test_columns_of_a_further_port_are_widened_too() -> None:
    """They are stored in the same way."""
    port = {"window": {"kind": "sliding"}, "column": {"v": "int32"}}
    old = {**port, "port_1": port}
    assert refused(old, old | {"port_1": port | {"column": {"v": "int64"}}}) == []
    (change,) = refused(old, old | {"port_1": port | {"column": {"v": "int16"}}})
    assert '.withColumn("v", F.col("v").cast("int"))' in change.advice
