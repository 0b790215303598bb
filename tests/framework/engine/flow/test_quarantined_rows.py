"""Rows that get into the quarantine on their way have all columns of the stream, and others travel without."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, Literal

import pyarrow as pa
import pytest

from panekeeper import Count, Session, TimeInterval, Tumbling, agg
from panekeeper.framework.core.job_spec import EVENT_TIME, REST, REST_AS_JSON, JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.ordering import PortOrdering, to_steps
from panekeeper.framework.core.packed_rows import from_segment
from panekeeper.framework.core.steps import Tick, Watermark
from panekeeper.framework.declarations.aggregates import Aggregate
from panekeeper.framework.declarations.windows import Window
from panekeeper.framework.engine.flow.packing import (
    EVENT_TIME_COLUMN,
    KEY_GROUP_COLUMN,
    REJECT_COLUMN,
    REST_COLUMN,
    Packer,
)
from panekeeper.state.store import MemoryStore

S = 1_000_000
PANES = TimeInterval("10 s")
KEYS = pa.schema([("key", pa.string())])
COLUMNS = pa.schema([("key", pa.string()), ("v", pa.int64())])


class Refusing(agg.UserAggregate):
    """Refuses negative values; partial results are stored, so it gets each row once."""

    state = int

    def zero(self) -> int:
        return 0

    def add(self, state: int, value: int) -> int:
        if value < 0:
            raise ValueError("negative")
        return state + value

    def merge(self, a: int, b: int) -> int:
        return a + b

    def result(self, state: int) -> int:
        return state


def spec(window: Window = PANES, **aggregates: Aggregate) -> JobSpec:
    """A job with these aggregates."""
    output = pa.schema([(name, pa.int64()) for name in aggregates])
    return JobSpec(window=window, keys=KEYS, columns=COLUMNS, aggregates=aggregates, output=output)


def packed(
    given: list[tuple[int, int]], watermark: int | None, rest: Literal["late", "all"] | None = "late"
) -> list[Any]:
    """Pack rows of (second, value), each in a group of its own if the seconds differ."""
    seconds, values = zip(*given, strict=True)
    further = {"note": [f"at {second}" for second in seconds], REST_AS_JSON: ['{"i":"INTERVAL"}'] * len(given)}
    columns = {
        KEY_GROUP_COLUMN: pa.array([0 if second < 20 else 1 for second in seconds], pa.int32()),
        EVENT_TIME_COLUMN: pa.array([second * S for second in seconds]).cast(pa.timestamp("us", tz="UTC")),
        REJECT_COLUMN: pa.nulls(len(given), pa.string()),
        REST_COLUMN: pa.StructArray.from_arrays([pa.array(one) for one in further.values()], [*further]),
        "key": pa.array(["k"] * len(given)),
        "v": pa.array(values, pa.int64()),
    }
    packer = Packer(group_ids=(0, 1), carried_columns=COLUMNS, time=EVENT_TIME, rest=rest)
    batch = packer.pack(pa.table(columns), part=0, at=0, watermark=watermark)
    return [SimpleNamespace(**row) for row in batch.to_pylist()]


def quarantined(spec: JobSpec, rows: list[Any], at: int) -> list[dict[str, Any]]:
    """Process the rows in one key group, at a watermark or an instant; return what of them is in the quarantine."""
    steps = to_steps(rows, [PortOrdering(columns=(*COLUMNS.names, EVENT_TIME), keys=KEYS)])
    clock = Watermark(at) if spec.uses_event_time else Tick(at)
    done = KeyGroupRunner(spec, MemoryStore()).run([clock, *steps])
    return [] if done.rejected is None else [json.loads(text) for text in done.rejected.column("row").to_pylist()]


def test_a_late_row_has_all_columns_whatever_the_aggregate_reads() -> None:
    """Those that the job reads, those that it does not, and those that only Spark writes as JSON."""
    rows = packed([(1, 5), (12, 6)], watermark=10 * S)
    assert quarantined(spec(n=agg.count()), rows, 10 * S) == [{"key": "k", "v": 5, "note": "at 1", "i": "INTERVAL"}]


@pytest.mark.parametrize("window", [PANES, Session("10 s"), Tumbling(Count(2))], ids=["panes", "session", "tumbling"])
def test_a_row_that_a_function_refuses_has_all_columns(window: Window) -> None:
    """It is not late, so every row of such a job brings them."""
    rows = packed([(12, 6), (12, -1)], watermark=None, rest="all")
    found = quarantined(spec(window, own=agg.user(Refusing(), "v", output="int64")), rows, 10 * S)
    assert found == [{"key": "k", "v": -1, "note": "at 12", "i": "INTERVAL"}]


@pytest.mark.parametrize(("watermark", "brings"), [(None, {0, 1}), (10 * S, {0}), (-(2**63), set())])
def test_only_segments_with_a_row_behind_the_watermark_bring_more_than_the_job_reads(
    watermark: int | None, brings: set[int]
) -> None:
    """Where the watermark cannot be read, all do."""
    rows = packed([(1, 5), (12, 6), (25, 7)], watermark)
    assert {row.g for row in rows if REST in from_segment(row.body).column_names} == brings
