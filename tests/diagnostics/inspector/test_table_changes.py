"""What differs between two tables, and what new results change in a log: integration tests have Spark say the same."""

from __future__ import annotations

from math import nan
from typing import Any

import pyarrow as pa

from panekeeper.diagnostics.inspector.table_changes import LogColumns, changes_of_open, changes_of_results
from panekeeper.recovery.rows_as_json import first_rows

OPEN = pa.schema([("k", pa.string()), ("pane_start", pa.int64()), ("x", pa.float64()), ("rows", pa.int64())])


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return the rows of a table as tuples, in order."""
    return [tuple(row.values()) for row in first_rows(table, table.num_rows)["rows"]]


def opened(*rows: tuple[Any, ...]) -> pa.Table:
    """Return rows of what is open: two columns that tell them apart, and two values."""
    return pa.table([*zip(*rows, strict=True)], schema=OPEN) if rows else OPEN.empty_table()


def test_what_came_went_and_changed_is_told_and_a_null_is_a_value_like_others() -> None:
    """A row whose values are the same, NULL among them, is no change; a key with NULL is the same key."""
    before = opened(("a", 1, 1.0, 1), (None, 1, None, 2), ("b", 1, None, 3), ("c", 1, nan, None))
    after = opened((None, 1, None, 2), ("b", 1, 4.0, 3), ("d", 1, 5.0, 1), ("c", 1, nan, None))
    found = changes_of_open(before, after, ["k", "pane_start"], ["x", "rows"])
    assert found.column_names == ["k", "pane_start", "change", "x", "x_before", "rows", "rows_before"]
    assert rows_of(found) == [
        ("a", 1, "went", None, 1.0, None, 1),
        ("b", 1, "changed", 4.0, None, 3, 3),
        ("d", 1, "came", 5.0, None, 1, None),
    ]
    assert changes_of_open(before, before, ["k", "pane_start"], ["x", "rows"]).num_rows == 0
    assert changes_of_open(opened(), opened(), ["k"], ["rows"]).num_rows == 0


LOG = pa.schema(
    [
        ("k", pa.string()),
        ("session_start", pa.int64()),
        ("n", pa.int64()),
        ("refinement", pa.int32()),
        ("reason", pa.string()),
        ("replaces", pa.list_(pa.int64())),
    ]
)
COLUMNS = LogColumns(["k", "session_start"], ["n"], "b")


def log(*rows: tuple[Any, ...]) -> pa.Table:
    """Return rows of a log."""
    return pa.table([*zip(*rows, strict=True)], schema=LOG)


def of_batches(rows: pa.Table, *batches: int) -> pa.Table:
    """Return rows with the batch that wrote each."""
    return rows.append_column("b", pa.array(batches, pa.int64()))


def test_a_result_is_shown_with_the_last_one_before_the_new_ones() -> None:
    """Of several firings the newest counts; one before the first of them is what it replaces."""
    old = log(("a", 1, 10, 0, "WATERMARK", None), ("a", 1, 11, 1, "LATE", None), ("b", 1, 5, 0, "WATERMARK", None))
    new = log(("a", 1, 12, 2, "LATE", None), ("a", 1, 13, 3, "LATE", None), ("c", 1, 7, 0, "WATERMARK", None))
    found = changes_of_results(of_batches(new, 4, 5, 5), pa.concat_tables([old, new]), COLUMNS, has_refinements=True)
    assert found.column_names == ["k", "session_start", "change", "batch", "refinement", "reason", "n", "n_before"]
    assert rows_of(found) == [("a", 1, "changed", 5, 3, "LATE", 13, 11), ("c", 1, "came", 5, 0, "WATERMARK", 7, None)]
    plain = changes_of_results(of_batches(new, 4, 5, 5), None, COLUMNS, has_refinements=False)
    assert [row[2:4] for row in rows_of(plain)] == [("came", 4), ("came", 5), ("came", 5)]
    assert "n_before" not in plain.column_names


def test_a_session_that_a_merge_has_taken_back_went_if_it_was_there_before() -> None:
    """One that came and was taken back between the two is no change."""
    old = log(("a", 3, 2, 0, "WATERMARK", None))
    new = log(("a", 5, 1, 0, "WATERMARK", None), ("a", 1, 4, 1, "LATE", [3, 5]))
    found = changes_of_results(of_batches(new, 4, 6), pa.concat_tables([old, new]), COLUMNS, has_refinements=True)
    assert rows_of(found) == [("a", 1, "changed", 6, 1, "LATE", 4, None), ("a", 3, "went", 6, None, None, None, 2)]


def test_rows_are_ordered_as_spark_orders_them() -> None:
    """NULL before all values, NaN after all numbers."""
    table = pa.table({"x": [nan, 1.0, None, -1.0], "k": [1, 2, 3, 4]})
    assert [row["k"] for row in first_rows(table, 9)["rows"]] == [3, 4, 2, 1]
    assert first_rows(table, 2)["more"]
