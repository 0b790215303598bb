"""Rows of random vectors for aggregates: the columns that `tests.model.aggregates` reads, as steps of a key group."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

from panekeeper import agg
from panekeeper.framework.core.aggregates.binding import bind
from panekeeper.framework.core.job_spec import EVENT_TIME, JobSpec
from panekeeper.framework.core.steps import Rows, Step, Watermark
from panekeeper.framework.testing.vector import Vector
from tests.model.time_intervals import exact

COLUMNS = pa.schema({"key": pa.string(), "n": pa.int64(), "x": pa.float64(), "who": pa.string()})
VALUES: dict[str, list[Any]] = {
    "n": [None, 0, 1, 1, -9, 4],
    "x": [0.25, None, 3.0, 3.0, -1.5, math.nan, math.inf],
    "who": [None, "a", "b", "c", "d"],
}


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


def text_keys(vector: dict[str, Any]) -> dict[str, Any]:
    """The vector with keys that fit a text column."""
    items = [i | {"key": None if i["key"] is None else repr(i["key"])} if "value" in i else i for i in vector["input"]]
    return vector | {"input": items}


def comparable(rows: list[tuple[Any, ...]]) -> list[str]:
    """Rows as sorted text: order between keys and panes is open, and NaN equals itself."""
    return sorted(map(repr, rows))


def us_of(instant: Any) -> int:
    """An instant of a result row in us since the epoch."""
    return int(pa.scalar(instant, pa.timestamp("us", tz="UTC")).value)
