"""Which rows of a batch a table gets, beside how they are committed."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

from panekeeper.framework.core.job_spec import REJECTED_SCHEMA, TIMESTAMP
from panekeeper.framework.engine.sink.library_table import REPLACED
from panekeeper.framework.engine.sink.table_writer import _rows, last_of_each_pane, with_replaced
from panekeeper.state.prepared import PreparedBatch


def test_the_last_row_of_each_pane_stays_whatever_the_results_are_called() -> None:
    """Null is a key like any other; a user may call a result as a column of our own elsewhere."""
    rows = [(None, 1, 10, 0), ("a", 1, 20, 0), (None, 1, 30, 1), ("a", 2, 40, 0)]
    names = ("sensor", "pane_start", "_row", "refinement")
    results = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])
    newest = last_of_each_pane(results, ["sensor", "pane_start"]).to_pylist()
    assert sorted(row["_row"] for row in newest) == [20, 30, 40]
    assert [row["_row"] for row in last_of_each_pane(results, []).to_pylist()] == [40]
    for key in ("_row", "_row_max", "row", "row_max", "key_1"):
        renamed = results.rename_columns([key, "pane_start", "value", "refinement"])
        assert last_of_each_pane(renamed, [key, "pane_start"]).num_rows == 3


def test_rows_of_the_quarantine_say_when_they_got_there() -> None:
    """Their batch, and its time in the metrics: the same however often they are written."""
    at = datetime(2026, 3, 1, tzinfo=UTC)
    rejected = pa.table([["LATE"] * 2, [None] * 2, [None] * 2, ["{}"] * 2, ["f"] * 2], schema=REJECTED_SCHEMA)
    metrics = pa.table({"batch": [4], "batch_time": pa.array([at], TIMESTAMP)})
    batch = PreparedBatch(number=4, epoch=0, spark_commit="", rows={"rejected": rejected, "metrics": metrics}, job="b")
    rows = _rows(batch, "rejected", None)
    assert isinstance(rows, pa.Table)
    assert rows.column_names == [*REJECTED_SCHEMA.names, "batch", "quarantined_at"]
    assert rows.select(["batch", "quarantined_at"]).to_pylist() == [{"batch": 4, "quarantined_at": at}] * 2
    assert _rows(batch, "metrics", None) == metrics


def test_what_a_row_replaces_goes_before_it() -> None:
    """The newest of a batch decides: a row that came after one that was replaced stays, one before it does not."""
    rows = [("a", 30, [], 0), ("b", 30, [], 0), ("a", 0, [30, 60], 1), ("a", 60, [], 0)]
    names = ("sensor", "session_start", "replaces", "refinement")
    types = [pa.string(), pa.int64(), pa.list_(pa.int64()), pa.int32()]
    columns = [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), types, strict=True)]
    results, key = pa.table(columns, names=list(names)), ["sensor", "session_start"]
    newest = last_of_each_pane(with_replaced(results, key, "replaces"), key).to_pylist()
    seen = sorted((one["sensor"], one["session_start"], one[REPLACED]) for one in newest)
    assert seen == [("a", 0, False), ("a", 30, True), ("a", 60, False), ("b", 30, False)]
    assert with_replaced(results.slice(0, 2), key, "replaces").column_names == list(names)
