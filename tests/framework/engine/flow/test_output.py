"""The packed output of a key group: segments of a bounded size, of which the driver gets few bytes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from panekeeper import TimeInterval, agg
from panekeeper.framework.core.group_batch import BatchRunner
from panekeeper.framework.core.job_spec import REJECTED_SCHEMA, JobSpec
from panekeeper.framework.core.packed_rows import from_segment, to_segment
from panekeeper.framework.core.steps import BatchOutcome
from panekeeper.framework.engine.flow.group_report import GroupReport
from panekeeper.framework.engine.flow.processor import _SEGMENT_BYTES, output_rows
from panekeeper.framework.engine.sink.batch_output import add_up

ROW_COUNTS = {"rows_in": 0, "admitted": 0, "refined_late": 0, "dropped_late": 0, "outside": 0, "repeated": 0}
SPEC = JobSpec(
    window=TimeInterval(60),
    keys=pa.schema([]),
    columns=pa.schema([("v", pa.int64())]),
    aggregates={"n": agg.count()},
    output=pa.schema([("n", pa.int64())]),
)


def output(results: pa.Table | None, refused: list[int], driver_bytes: int) -> list[Any]:
    """Output rows of a group with these results, and segments of so many refused rows on their way through."""
    packed: list[Any] = []
    for rows in refused:
        texts, none = ["x" * 100] * rows, [None] * rows
        table = pa.table([["BAD"] * rows, none, none, texts, none], schema=REJECTED_SCHEMA)
        packed.append(SimpleNamespace(kind="rejected", n=rows, part=0, body=to_segment(table)))
    batch = BatchRunner(spec=SPEC, orderings=()).in_order(packed, number=0, group=0)
    outcome = BatchOutcome(results=results, rejected=None, counts={**ROW_COUNTS, **batch.counts})
    return output_rows(SPEC, batch, outcome, driver_bytes=driver_bytes)


def test_what_the_driver_gets_of_a_group_is_bounded_however_many_segments_there_are() -> None:
    """Each is small, as those of many files of bad rows; all of them together are not."""
    for refused, expected in (([10], True), ([10] * 200, False)):
        rows = [row for row in output(None, refused, driver_bytes=50_000) if row.tag == "rejected"]
        assert {row.to_driver for row in rows} == {expected}
        assert all(len(row.body) < 50_000 for row in rows)
    everything = output(None, [10] * 200, driver_bytes=50_000)
    collected = [
        SimpleNamespace(tag=row.tag, n=row.n, hash=0, body=row.body if row.to_driver else None) for row in everything
    ]
    batch = add_up(0, collected)
    assert batch.output_counts == {"results": 0, "rejected": 2000}
    assert batch.driver_tables == {}


def test_results_are_cut_into_segments_of_a_bounded_size() -> None:
    """However many firings a batch has, none of their segments is larger than what Arrow and Spark can take."""
    results = pa.table({"n": pa.array(range(1_000_000), pa.int64()), "text": pa.array(["x" * 20] * 1_000_000)})
    rows = [row for row in output(results, [], driver_bytes=1 << 40) if row.tag == "results"]
    assert all(len(row.body) < 2 * _SEGMENT_BYTES for row in rows)
    assert sum(row.n for row in rows) == 1_000_000
    assert pa.concat_tables([from_segment(row.body) for row in rows]) == results


def test_the_counts_are_always_for_the_driver() -> None:
    """They are one small object for each group."""
    (counts,) = output(None, [], driver_bytes=0)
    assert (counts.tag, counts.to_driver) == ("counts", True)
    assert GroupReport.from_bytes(counts.body).counts["rows_in"] == 0


def test_equal_segments_do_not_cancel_in_the_hash_of_a_batch() -> None:
    """A batch of A, A and B is another one than C, C and B."""

    def hash_of(*hashes: int) -> int:
        rows = [SimpleNamespace(tag="results", n=1, hash=one, body=None) for one in hashes]
        return add_up(0, rows).hashes["results"]

    assert hash_of(7, 7, -3) != hash_of(9, 9, -3)
    assert hash_of(2**63 - 1, -3, 2**63 - 1) == hash_of(-3, 2**63 - 1, 2**63 - 1)
    assert hash_of() == 0
