"""The newest row of each pane among the results of a batch, which the view takes."""

from __future__ import annotations

import pyarrow as pa

from panekeeper.framework.engine.sink.table_writer import last_of_each_pane


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
