"""The comparison of tables: what counts as lost, doubled and wrong, and when its result is unknown."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import integration_tests.drills
from integration_tests.drills.expected.compare import ComparisonResult, TableComparison, compare_tables

HOW = {"log": TableComparison(columns=("sensor", "first", "n"), identity=2)}
ROWS = [("a", 1, 3), ("a", 4, 3), ("b", 2, 3)]


def delta_table(folder: Path, *files: list[tuple[Any, ...]], removed: tuple[int, ...] = ()) -> None:
    """Write a Delta table, one commit a file; a last commit removes the files in `removed`."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    for number, rows in enumerate(files):
        columns = [list(column) for column in zip(*rows, strict=True)]
        pq.write_table(pa.table(columns, names=["sensor", "first", "n"]), folder / f"{number}.parquet")
        (log / f"{number:020d}.json").write_text(json.dumps({"add": {"path": f"{number}.parquet"}}))
    if removed:
        lines = [json.dumps({"remove": {"path": f"{number}.parquet"}}) for number in removed]
        (log / f"{len(files):020d}.json").write_text("\n".join(lines))


def comparison(tmp_path: Path, *files: list[tuple[Any, ...]], **more: Any) -> ComparisonResult:
    """Compare a log that was written in these commits."""
    delta_table(tmp_path / "log", *files, **more)
    return compare_tables(tmp_path, {"log": ROWS}, HOW)


def test_the_same_rows_in_any_order_and_number_of_commits_pass(tmp_path: Path) -> None:
    """A table is a bag of rows."""
    found = comparison(tmp_path, [ROWS[2]], [ROWS[0], ROWS[1]])
    assert (found.outcome, found.rows) == ("passed", 3)


def test_files_that_a_later_commit_removed_do_not_count(tmp_path: Path) -> None:
    """MERGE and RESTORE leave such files in the folder."""
    assert comparison(tmp_path, [ROWS[0]], ROWS, removed=(0,)).outcome == "passed"


def test_a_shallow_copy_is_read_where_the_original_has_its_files(tmp_path: Path) -> None:
    """A clone of a savepoint is one; a file that is not on this host makes the result unknown."""
    delta_table(tmp_path / "the original", ROWS)
    log = tmp_path / "log" / "_delta_log"
    log.mkdir(parents=True)
    there = (tmp_path / "the original" / "0.parquet").as_uri().replace("file:///", "file:/")
    (log / f"{0:020d}.json").write_text(json.dumps({"add": {"path": there}}))
    assert compare_tables(tmp_path, {"log": ROWS}, HOW).outcome == "passed"
    (log / f"{0:020d}.json").write_text(json.dumps({"add": {"path": "s3a://bucket/0.parquet"}}))
    assert compare_tables(tmp_path, {"log": ROWS}, HOW).outcome == "unknown"


@pytest.mark.parametrize(
    ("rows", "counted"),
    [
        (ROWS[:2], (1, 0, 0)),
        ([*ROWS, ROWS[0], ROWS[0]], (0, 2, 0)),
        ([*ROWS[:2], ("b", 2, 99)], (0, 0, 1)),
        ([*ROWS, ("z", 9, 9)], (0, 0, 1)),
        ([ROWS[0], ROWS[0], ("b", 2, 4)], (1, 1, 1)),
    ],
)
def test_lost_doubled_and_wrong_rows_are_counted_separately(
    tmp_path: Path, rows: list[tuple[Any, ...]], counted: tuple[int, int, int]
) -> None:
    """A result with another value is wrong, and does not count as lost."""
    found = comparison(tmp_path, rows)
    assert found.outcome == "failed"
    assert (found.lost, found.doubled, found.wrong) == counted
    assert "log:" in found.why


def test_a_table_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    """No table, an incomplete log, a damaged file, an unsupported feature: neither passed nor failed."""
    assert compare_tables(tmp_path, {"log": ROWS}, HOW).outcome == "unknown"
    delta_table(tmp_path / "log", ROWS, ROWS)
    first = tmp_path / "log" / "_delta_log" / f"{0:020d}.json"
    first.unlink()
    assert "does not begin with version 0" in compare_tables(tmp_path, {"log": ROWS}, HOW).why
    first.write_text(json.dumps({"add": {"path": "0.parquet", "deletionVector": {"sizeInBytes": 1}}}))
    assert "deletion vectors" in compare_tables(tmp_path, {"log": ROWS}, HOW).why
    first.write_text(json.dumps({"add": {"path": "0.parquet"}}))
    (tmp_path / "log" / "0.parquet").write_bytes(b"not what it was")
    assert compare_tables(tmp_path, {"log": ROWS}, HOW).outcome == "unknown"


def test_nothing_to_compare_is_unknown(tmp_path: Path) -> None:
    """A drill without expected rows shows nothing."""
    delta_table(tmp_path / "log", ROWS, removed=(0,))
    assert compare_tables(tmp_path, {"log": []}, HOW).outcome == "unknown"


ORACLE = ("arrival_oracle", "compare", "history", "state_oracle")


@pytest.mark.parametrize("name", ORACLE)
def test_comparison_and_oracles_share_no_code_with_what_they_check(name: str) -> None:
    """They import nothing of `framework` or `state`, and of `recovery` only each other."""
    tree = ast.parse((Path(integration_tests.drills.__file__).parent / "expected" / f"{name}.py").read_text())
    typed = [node for one in tree.body if isinstance(one, ast.If) for node in ast.walk(one)]
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node not in typed}
    own = {f"integration_tests.drills.expected.{one}" for one in ORACLE}
    assert {one for one in imported if one.startswith(("framework", "state", "recovery"))} <= own
