"""Rows folded on their way: what becomes of them is the same as without, to the last bit."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper import TimeInterval, agg
from panekeeper.framework.core.job_spec import EVENT_TIME, TIMESTAMP, JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.ordering import PortOrdering, to_steps
from panekeeper.framework.core.panes.folding import PaneFolding
from panekeeper.framework.core.steps import BatchOutcome, PartialRows, Watermark
from panekeeper.framework.declarations.aggregates import Aggregate
from panekeeper.framework.engine.flow.packing import (
    EVENT_TIME_COLUMN,
    KEY_GROUP_COLUMN,
    REJECT_COLUMN,
    BatchWatermark,
    Packer,
)
from panekeeper.state.records import NO_WATERMARK
from panekeeper.state.store import MemoryStore

S = 1_000_000
KEYS = pa.schema([("key", pa.float64())])
COLUMNS = pa.schema([("key", pa.float64()), ("i", pa.int64()), ("f", pa.float64()), ("s", pa.string())])
FOLDED = {
    "rows": agg.count(),
    "numbers": agg.count("i"),
    "total": agg.sum("i"),
    "average": agg.mean("i"),
    "most": agg.max("f"),
    "least": agg.min("f"),
    "word": agg.max("s"),
}
OUTPUT = pa.schema(
    [
        ("rows", pa.int64()),
        ("numbers", pa.int64()),
        ("total", pa.int64()),
        ("average", pa.float64()),
        ("most", pa.float64()),
        ("least", pa.float64()),
        ("word", pa.string()),
    ]
)
GROUP = 12

Row = tuple[Any, int, Any, Any, Any]
"""(key, event time, i, f, s)"""


def spec(window: TimeInterval, aggregates: dict[str, Aggregate] | None = None, **options: Any) -> JobSpec:
    """A job with aggregates that fold and merge exactly, or with others."""
    options = {"aggregates": aggregates or FOLDED, "output": OUTPUT} | options
    return JobSpec(window=window, keys=KEYS, columns=COLUMNS, **options)


def frame(rows: list[Row]) -> pa.Table:
    """Rows as the intake gives them to the packer."""
    key, time, *values = zip(*rows, strict=True)
    carried = [pa.array(column, field.type) for column, field in zip((key, *values), COLUMNS, strict=True)]
    own = {
        KEY_GROUP_COLUMN: pa.array([0] * len(rows), pa.int32()),
        EVENT_TIME_COLUMN: pa.array(time, TIMESTAMP),
        REJECT_COLUMN: pa.nulls(len(rows), pa.string()),
    }
    return pa.table({**own, **dict(zip(COLUMNS.names, carried, strict=True))})


class OneGroup:
    """A job of one key group, whose rows may be folded when they are packed."""

    def __init__(self, job: JobSpec, folding: PaneFolding | None) -> None:
        self.job = job
        self.store = MemoryStore()
        self.packer = Packer(group_ids=(GROUP,), carried_columns=COLUMNS, time=EVENT_TIME, folding=folding)
        self.ordering = PortOrdering(columns=(*COLUMNS.names, EVENT_TIME), keys=KEYS)

    def run(self, parts: list[list[Row]], watermark: int, random: Random) -> BatchOutcome:
        """One micro-batch; each part is an input partition of its own."""
        packed = [
            SimpleNamespace(**row)
            for number, rows in enumerate(parts)
            for row in self.packer.pack(frame(rows), part=number, at=0, watermark=watermark).to_pylist()
        ]
        random.shuffle(packed)
        moved = [] if watermark == NO_WATERMARK else [Watermark(watermark)]
        done = KeyGroupRunner(self.job, self.store).run([*moved, *to_steps(packed, [self.ordering])])
        assert sum(row.n for row in packed) == done.counts["rows_in"] == sum(map(len, parts))
        return done


def bits(table: pa.Table | None) -> list[Any]:
    """Rows to compare, in an order of their own: floats by their bits."""
    if table is None:
        return []
    columns = [
        [struct.pack("<d", v) if isinstance(v, float) else v for v in column.to_pylist()] for column in table.columns
    ]
    return sorted(zip(*columns, strict=True), key=repr)


def whole(done: BatchOutcome) -> Any:
    """All that a batch did; which error of a kind comes first is nobody's business."""
    return {
        **vars(done),
        "errors": sorted((one.reason, one.kind, one.count) for one in done.errors),
        "results": bits(done.results),
        "rejected": bits(done.rejected),
    }


WINDOWS = st.builds(
    lambda duration, period, age, late: TimeInterval(duration, creation_period=period, discard_age=age, late=late),
    duration=st.integers(1, 6),
    period=st.integers(1, 8),
    age=st.integers(0, 8),
    late=st.sampled_from(["pane", "tuple"]),
)
KEY = (None, 0.0, -0.0, float("nan"))
VALUES = (
    (None, 1, -7, 2**62, -(2**63), 2**63 - 1),
    (None, 0.0, -0.0, 2.5, -2.5, float("nan"), float("inf")),
    (None, "", "a", "b"),
)


def some_rows(random: Random, first: int) -> list[Row]:
    """Enough rows in a few seconds for many of each partition and slice, some of them late."""
    seconds = random.randint(1, 8)
    times = [(first + random.randrange(seconds)) * S + random.randrange(S) for _ in range(random.randint(1, 60))]
    i, f, s = VALUES
    return [(random.choice(KEY), time, random.choice(i), random.choice(f), random.choice(s)) for time in times]


@given(window=WINDOWS, seed=st.integers(0, 2**32), gain=st.sampled_from([0, 2]))
def test_folded_rows_have_the_same_outcome(window: TimeInterval, seed: int, gain: int) -> None:
    """Results, late rows, counts and what is due are those of the rows themselves, batch by batch, to the last bit."""
    job = spec(window)
    folding = PaneFolding.of(job)
    assert folding is not None
    random = Random(seed)
    plain, folded = OneGroup(job, None), OneGroup(job, replace(folding, least_gain=gain))
    watermark = NO_WATERMARK
    for number in range(8):
        first = max(watermark, 0) // S + random.randint(-6, 3)
        parts = [some_rows(random, first) for _ in range(random.randint(0, 3))] if number < 6 else []
        assert whole(plain.run(parts, watermark, random)) == whole(folded.run(parts, watermark, random))
        watermark = max(watermark, 0) + random.randint(0, 4) * S + 60 * S * (number > 5) or NO_WATERMARK
    assert folded.store.entries.keys() == plain.store.entries.keys()


def test_late_rows_stay_rows_and_the_others_become_one_for_each_partition_and_slice() -> None:
    """What a partial row stands for is counted; late rows, and rows in a gap between panes, travel as they came."""
    job = spec(TimeInterval(2, creation_period=4))
    packer = OneGroup(job, PaneFolding.of(job)).packer
    rows: list[Row] = [(1.5, second * S, 1, 1.0, "a") for second in (4, 1, 5, 4, 6, 5, 4)]
    packed = packer.pack(frame(rows), part=0, at=0, watermark=3 * S).to_pylist()
    assert [(row["kind"], row["n"]) for row in packed] == [("partial", 5), ("rows", 2)]

    unknown = packer.pack(frame(rows), part=0, at=0, watermark=None).to_pylist()
    assert [(row["kind"], row["n"]) for row in unknown] == [("rows", 7)]


@pytest.mark.parametrize(("partitions", "kinds"), [(1_000, ["partial"]), (8_000, ["rows"])])
def test_rows_are_folded_where_there_are_several_in_a_cell(partitions: int, kinds: list[str]) -> None:
    """How many cells there are is estimated by a sample of the rows; where each has hardly two, folding costs more."""
    job = spec(TimeInterval(10))
    random = Random(partitions)
    rows: list[Row] = [(float(random.randrange(partitions)), n // 2_000 * 5 * S, 1, 1.0, "a") for n in range(8_000)]
    packed = OneGroup(job, PaneFolding.of(job)).packer.pack(frame(rows), part=0, at=0, watermark=NO_WATERMARK)
    assert sorted(set(packed.column("kind").to_pylist())) == kinds


@pytest.mark.parametrize(
    "aggregates",
    [
        {"one": agg.sum("f")},
        {"one": agg.mean("f")},
        {"one": agg.stddev("i")},
        {"one": agg.count(), "two": agg.collect("i")},
        {"one": agg.arg_max("i", "f")},
        {"one": agg.first("i")},
        {"one": agg.approx_distinct("s")},
    ],
)
def test_what_needs_rows_or_their_order_gets_rows(aggregates: dict[str, Aggregate]) -> None:
    """Sums of floats depend on their order, others on arrival numbers or rows: nothing is folded before the group."""
    assert PaneFolding.of(spec(TimeInterval(1), aggregates)) is None
    assert PaneFolding.of(spec(TimeInterval(1))) is not None


def test_a_partial_row_that_is_late_is_an_error() -> None:
    """It cannot happen to a checkpoint that nobody changed; a late row without its text would be lost."""
    job = spec(TimeInterval(1))
    group = OneGroup(job, PaneFolding.of(job))
    packed = group.packer.pack(frame([(1.5, S, 1, 1.0, "a")] * 3), part=0, at=0, watermark=NO_WATERMARK)
    (step,) = to_steps([SimpleNamespace(**row) for row in packed.to_pylist()], [group.ordering])
    assert isinstance(step, PartialRows)
    with pytest.raises(ValueError, match="folded at an older watermark"):
        KeyGroupRunner(job, group.store).run([Watermark(9 * S), step])


class Task:
    """The context of a task, as far as it is read."""

    def __init__(self, batch: int = 3, query: str = "q") -> None:
        self._properties = {"streaming.sql.batchId": str(batch), "sql.streaming.queryId": query}

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802 (Spark's name)
        """A property of the task's job."""
        return self._properties.get(name)


def test_the_watermark_of_a_batch_is_that_of_its_own_query_or_unknown(tmp_path: Path) -> None:
    """It is read from Spark's log of the batch; a checkpoint that is not there, or of another query, has none."""
    checkpoint = tmp_path / "checkpoint"
    reader = BatchWatermark.of(f"file://{checkpoint}")
    assert reader is not None
    assert reader.read(Task()) is None
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": "q"}))
    for batch, milliseconds in ((3, 7000), (4, 0)):
        lines = ["v1", json.dumps({"batchWatermarkMs": milliseconds}), "{}"]
        (checkpoint / "offsets" / str(batch)).write_text("\n".join(lines))
    (checkpoint / "offsets" / "5").write_text("v2\n{}\n{}")
    assert [reader.read(Task(batch)) for batch in (3, 4, 5, 6)] == [7 * S, NO_WATERMARK, None, None]
    assert reader.read(Task(query="another")) is None
    assert reader.read(None) is None
    assert BatchWatermark.of("s3a://bucket/checkpoint") is None
