"""Segments: split by key group and marks when packed, put together again in their order of arrival."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper.framework.core.job_spec import ARRIVAL_TIME, EVENT_TIME, TIMESTAMP
from panekeeper.framework.core.ordering import PortOrdering, to_steps
from panekeeper.framework.core.packed_rows import AFTER_ALL_PARTITIONS, BEFORE_ALL_PARTITIONS, from_segment
from panekeeper.framework.core.steps import EventTimeProgress, Flush, Mark, Rows, Tick, Watermark
from panekeeper.framework.declarations.errors import InputError
from panekeeper.framework.engine.flow.packing import (
    ARRIVAL_TIME_COLUMN,
    EVENT_TIME_COLUMN,
    KEY_GROUP_COLUMN,
    REJECT_COLUMN,
    Packer,
)
from panekeeper.framework.engine.flow.spark_watermark import ceil_ms

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
IDS = (12, 6, 2)
CARRIED = pa.schema([pa.field("v", pa.int64())])


def frame(rows: list[tuple[int, int]], *, bad: dict[int, str] | None = None, **columns: list[Any]) -> pa.Table:
    """Rows of (group, v), the event time of each being its v; `bad` gives rows a reason."""
    bad = bad or {}
    rejected = [
        json.dumps({"reason": bad[i], "event_time": 7, "row": f"row {i}"}) if i in bad else None
        for i in range(len(rows))
    ]
    arrays = {
        KEY_GROUP_COLUMN: pa.array([group for group, _ in rows], pa.int32()),
        EVENT_TIME_COLUMN: pa.array([None if i in bad else v for i, (_, v) in enumerate(rows)], TIMESTAMP),
        REJECT_COLUMN: pa.array(rejected, pa.string()),
        "v": pa.array([v for _, v in rows], pa.int32()),
        **{name: pa.array(values) for name, values in columns.items()},
    }
    return pa.table(arrays)


def packer(**options: Any) -> Packer:
    """A packer of `v` and event time for three groups."""
    return Packer(**{"group_ids": IDS, "carried_columns": CARRIED, "time": EVENT_TIME} | options)


def batches_of(*tables: pa.Table) -> Iterator[pa.RecordBatch]:
    """What Spark hands over of an input partition."""
    return (batch for table in tables for batch in table.to_batches())


def packed_rows(*batches: pa.RecordBatch) -> list[SimpleNamespace]:
    """Packed rows as the processor gets them."""
    return [SimpleNamespace(**row) for batch in batches for row in batch.to_pylist()]


def received(rows: list[SimpleNamespace], group: int, *order_by: str) -> list[Any]:
    """What one group receives, in order: the values of `v` for rows, the step itself for a mark."""
    port = PortOrdering(columns=("v",), order_by=order_by, keys=pa.schema([]))
    steps = to_steps([row for row in rows if row.g == IDS[group]], [port])
    return [step.table["v"].to_pylist() if isinstance(step, Rows) else step for step in steps]


def test_rows_are_split_by_group_and_keep_their_order() -> None:
    """Each group gets one segment, its rows in the order of the input, with event time as a number."""
    rows = packed_rows(packer().pack(frame([(1, 10), (0, 20), (1, 30), (1, 40)]), part=3, at=100))

    assert [(row.g, row.kind, row.part, row.pos, row.n) for row in rows] == [
        (12, "rows", 3, 100, 1),
        (6, "rows", 3, 100, 3),
    ]
    assert from_segment(rows[1].body).to_pydict() == {"v": [10, 30, 40], EVENT_TIME: [10, 30, 40]}
    assert from_segment(rows[1].body).schema.field("v").type == pa.int64()


def test_rejected_rows_travel_separately() -> None:
    """A rejected row leaves the segment and goes along with its reason; alone, it makes no segment of rows."""
    rows = packed_rows(packer().pack(frame([(0, 1), (0, 2), (2, 3)], bad={0: "WHY", 2: "NOT"}), part=0, at=0))

    assert [(row.g, row.kind, row.n) for row in rows] == [(12, "rejected", 1), (2, "rejected", 1), (12, "rows", 1)]
    assert from_segment(rows[0].body).to_pylist() == [
        {
            "reason": "WHY",
            "detail": None,
            "event_time": EPOCH + timedelta(microseconds=7),
            "row": "row 0",
            "source": None,
        }
    ]


def test_rows_carry_their_arrival_if_the_windows_need_it() -> None:
    """Windows of the wall clock get the time at which each row arrived, us, in a column of its own."""
    packed = Packer(group_ids=IDS, carried_columns=CARRIED, time=ARRIVAL_TIME).pack(
        frame([(0, 1), (0, 2)], _pk_arrived=[5, 9]), part=0, at=0
    )
    assert [from_segment(row.body).column(ARRIVAL_TIME).to_pylist() for row in packed_rows(packed)] == [[5, 9]]


def test_a_bad_row_can_fail_the_batch() -> None:
    """The error counts the bad rows, shows the first and says what to do."""
    with pytest.raises(InputError, match=r'2 bad row\(s\), the first one WHY: row 1; .* on_error="quarantine"'):
        packer(fail_on_error=True).pack(frame([(0, 1), (0, 2), (0, 3)], bad={1: "WHY", 2: "NOT"}), part=0, at=0)


def test_marks_split_the_segments_of_their_partition() -> None:
    """A mark reaches every group at its place between the rows."""
    batch = frame(
        [(0, 1), (0, 2), (0, 0), (1, 3), (0, 4), (0, 0)],
        _mark=[None, None, "watermark", None, None, "window"],
        _mark_value=[None, None, 7, None, None, None],
        _mark_text=[None] * 6,
    )
    rows = packed_rows(packer(marked=True).pack(batch, part=0, at=0))

    assert received(rows, 0) == [[1, 2], Watermark(7), [4], Mark("window")]
    assert received(rows, 1) == [Watermark(7), [3], Mark("window")]
    assert received(rows, 2) == [Watermark(7), Mark("window")]


def test_a_mark_has_the_time_of_its_batch_where_rows_have_it() -> None:
    """So it is the same in a group without a row in the batch."""
    marks: dict[str, list[Any]] = {"_mark": [None, "window"], "_mark_value": [None] * 2, "_mark_text": [None] * 2}
    batch = frame([(0, 1), (0, 0)], bad=None, **{ARRIVAL_TIME_COLUMN: [9, 9], **marks})
    rows = packed_rows(packer(marked=True, has_batch_time=True).pack(batch, part=0, at=0))

    assert received(rows, 1) == [Mark("window", 9)]


@given(st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 99))), max_size=4), st.randoms())
def test_the_shuffle_keeps_the_arrival_order(parts: list[list[tuple[int, int]]], random: Any) -> None:
    """However the shuffle mixes the segments, a group receives its rows by input partition and position."""
    rows: list[SimpleNamespace] = []
    for part, given_rows in enumerate(parts):
        for at in range(0, len(given_rows), 2):
            rows += packed_rows(packer().pack(frame(given_rows[at : at + 2]), part=part, at=at))
    random.shuffle(rows)

    for group in range(len(IDS)):
        wanted = [v for part in parts for g, v in part if g == group]
        assert received(rows, group) == ([wanted] if wanted else [])


@given(st.lists(st.integers(1, 400), min_size=1, max_size=6), st.randoms())
def test_how_the_input_is_split_into_arrow_batches_changes_nothing(lengths: list[int], random: Any) -> None:
    """Small Arrow batches are gathered and long segments split; a group receives the same rows in the same order."""
    kilobyte = CARRIED.append(pa.field("text", pa.string()))
    given_rows = [(n % 3 and 1, n) for n in range(sum(lengths))]
    table = frame(given_rows, text=[f"{n:01000}" for n in range(len(given_rows))])
    parts, start = [], 0
    for length in lengths:
        parts.append(table.slice(start, length))
        start += length
    rows = packed_rows(*packer(carried_columns=kilobyte)(batches_of(*parts)))
    random.shuffle(rows)

    assert all(len(row.body) < 2**17 + 2**11 for row in rows)
    for group in range(len(IDS)):
        wanted = [v for g, v in given_rows if g == group]
        assert received(rows, group) == ([wanted] if wanted else [])


def test_small_arrow_batches_become_one_segment() -> None:
    """A segment for each Arrow batch of Spark's would be too small to be fast."""
    rows = packed_rows(*packer()(batches_of(*(frame([(0, n)]) for n in range(50)))))
    assert [(row.kind, row.pos, row.n) for row in rows] == [("rows", 0, 50)]


def test_time_comes_before_the_rows_and_a_flush_after_them() -> None:
    """Ticks of the control stream precede every input partition, a flush follows; order_by sorts in between."""
    rows = packed_rows(packer().pack(frame([(0, 9), (0, 3)]), part=0, at=0))
    rows.append(
        SimpleNamespace(g=12, port=0, kind="flush", lot=None, part=AFTER_ALL_PARTITIONS, pos=5, n=80, body=None)
    )
    rows.append(
        SimpleNamespace(g=12, port=0, kind="tick", lot=None, part=BEFORE_ALL_PARTITIONS, pos=4, n=77, body=None)
    )

    assert received(rows, 0) == [Tick(77), [9, 3], Tick(80), Flush()]
    assert received(rows, 0, "v") == [Tick(77), [3, 9], Tick(80), Flush()]


def test_ports_are_processed_one_after_the_other_and_the_clock_before_all() -> None:
    """Whichever task read them; a port whose stream has its own time gets no ticks, all receive a flush."""
    ports = [
        PortOrdering(columns=("v",), keys=pa.schema([])),
        PortOrdering(columns=("v",), keys=pa.schema([]), has_stream_clock=True),
        PortOrdering(columns=("v",), order_by=("v",), keys=pa.schema([])),
    ]
    rows = [
        SimpleNamespace(g=12, port=0, kind="flush", lot=None, part=AFTER_ALL_PARTITIONS, pos=5, n=80, body=None),
        *packed_rows(packer(port=2).pack(frame([(0, 9), (0, 3)]), part=0, at=0)),
        *packed_rows(packer(port=1).pack(frame([(0, 8), (0, 4)]), part=1, at=0)),
        *packed_rows(packer(port=0).pack(frame([(0, 7)]), part=2, at=0)),
        SimpleNamespace(g=12, port=0, kind="tick", lot=None, part=BEFORE_ALL_PARTITIONS, pos=4, n=77, body=None),
    ]
    steps = [step for step in to_steps(rows, ports) if not isinstance(step, Rows)]
    assert steps == [Tick(77), Tick(77, port=2), Tick(80), Tick(80, port=2), Flush(), Flush(1), Flush(2)]
    tables = [(step.port, step.table["v"].to_pylist()) for step in to_steps(rows, ports) if isinstance(step, Rows)]
    assert tables == [(0, [7]), (1, [8, 4]), (2, [3, 9])]


def test_every_group_receives_the_watermark_of_each_of_several_ports() -> None:
    """The greatest of its input partitions, less the port's delay, after the rows; a rejected row does not count."""
    ports = [PortOrdering(columns=("v",), keys=pa.schema([]))] * 2
    batches = [
        *packer(port=1, watermark_delay_us=5)(
            batches_of(frame([(0, 30), (0, 20)]), frame([(1, 40), (0, 99)], bad={1: "WHY"}))
        ),
        *packer(port=0, watermark_delay_us=0)(batches_of(frame([(2, 50)]))),
        *packer(port=0, watermark_delay_us=0)(batches_of(frame([(2, 7)], bad={0: "WHY"}))),
        packer(port=1, watermark_delay_us=5).pack_progress({"": 10}, part=9, at=0),
    ]
    progress = [to_steps([row for row in packed_rows(*batches) if row.g == group], ports)[-1] for group in IDS]
    assert progress == [EventTimeProgress((((0, ""), 50), ((1, ""), 35)))] * len(IDS)


def test_every_group_receives_how_far_each_partition_of_a_source_has_come_and_when() -> None:
    """Also of one that several tasks read, or one task with others; a port that tells neither is one source."""
    ports = [PortOrdering(columns=("v",), keys=pa.schema([]))] * 2
    by_partition = packer(watermark_delay_us=5, by_partition=True, tells_when=True)
    batches = [
        *by_partition(
            batches_of(
                frame([(0, 30), (1, 70)], _pk_source=["t-0", "t-1"], _pk_arrived=[900, 900]),
                frame([(0, 40), (0, 99)], bad={1: "WHY"}, _pk_source=["t-0", "t-2"], _pk_arrived=[900, 900]),
            )
        ),
        *by_partition(batches_of(frame([(0, 60), (0, 20)], _pk_source=["t-1", "t-0"], _pk_arrived=[900, 900]))),
        *packer(port=1, watermark_delay_us=0)(batches_of(frame([(2, 50)]))),
    ]
    progress = [to_steps([row for row in packed_rows(*batches) if row.g == group], ports)[-1] for group in IDS]
    reached = (((0, "t-0"), 35), ((0, "t-1"), 65), ((1, ""), 50))
    assert progress == [EventTimeProgress(reached, at_us=900)] * len(IDS)


@given(st.integers(-(10**15), 10**15))
def test_a_timer_never_comes_before_its_time(us: int) -> None:
    """Spark's watermark has milliseconds: the timer stands at the first that is not before the due instant."""
    assert 0 <= ceil_ms(us) * 1000 - us < 1000
