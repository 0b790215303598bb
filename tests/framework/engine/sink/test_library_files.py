"""What small commits write: every type, and checkpoints of the log."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from panekeeper.framework.engine.sink.library_rules import UnsupportedTable
from panekeeper.framework.engine.sink.library_table import LibraryTable

APP = "readings/log@0123456789ab#0"
TIME = pa.timestamp("us", tz="UTC")
LOG = pa.schema([("sensor", pa.string())])


def make(folder: Path, schema: pa.Schema, **properties: str) -> str:
    """A new table."""
    DeltaTable.create(folder, schema=schema, configuration={f"delta.{name}": one for name, one in properties.items()})
    return str(folder)


def test_every_type_of_a_result_comes_back_as_it_was(tmp_path: Path) -> None:
    """Nested ones, nulls, the last microsecond, and times that only 64 bits limit."""
    far = pa.array([2**62, -(2**62), 999_999, None], pa.int64()).cast(TIME)
    nested = pa.struct([("x", pa.list_(pa.int32())), ("y", TIME)])
    columns: dict[str, pa.Array] = {
        "bool": pa.array([True, False, True, None]),
        "byte": pa.array([-128, 127, 0, None], pa.int8()),
        "short": pa.array([-(2**15), 2**15 - 1, 0, None], pa.int16()),
        "int": pa.array([-(2**31), 2**31 - 1, 0, None], pa.int32()),
        "long": pa.array([-(2**63), 2**63 - 1, 0, None], pa.int64()),
        "float": pa.array([1.5, float("inf"), -0.0, None], pa.float32()),
        "double": pa.array([0.1, float("-inf"), 5e-324, None], pa.float64()),
        "decimal": pa.array([Decimal("12345678901234567890.12"), Decimal("-0.01"), None, None], pa.decimal128(38, 2)),
        "string": pa.array(["", "é" * 50, "\U0001f600", None]),
        "binary": pa.array([b"", b"\x00\xff", b"x" * 50, None]),
        "date": pa.array([date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31), None]),
        "time": far,
        "list": pa.array([[1.0, None], [], [float("inf")], None], pa.list_(pa.float64())),
        "map": pa.array([[("a", 1)], [], [("b", None)], None], pa.map_(pa.string(), pa.int64())),
        "struct": pa.array(
            [{"x": [1], "y": datetime(2024, 1, 1, tzinfo=UTC)}, {"x": None, "y": None}, None, None], nested
        ),
        'a.b "c" `d`': pa.array(["x", "y", None, None]),
    }
    rows = pa.table(columns).append_column("refinement", pa.array([0, 0, 0, 0], pa.int32()))
    rows = rows.append_column("key", pa.array([1, 2, 3, 4]))
    commits = LibraryTable(make(tmp_path / "types", rows.schema))
    commits.append(rows.select(rows.column_names[::-1]), APP, 0)
    newer = rows.set_column(rows.column_names.index("refinement"), "refinement", pa.array([1, 0, 1, 0], pa.int32()))
    commits.merge(newer, APP, 1, keys=["key"], newer_by="refinement")
    found = DeltaTable(tmp_path / "types").to_pyarrow_table().sort_by("key")
    for name in rows.drop_columns("refinement").column_names:
        assert found.column(name).cast(rows.schema.field(name).type).equals(rows.column(name)), name
    assert found.column("refinement").to_pylist() == [1, 0, 1, 0]


def test_a_checkpoint_of_the_log_is_written_where_spark_would_and_old_commits_go(tmp_path: Path) -> None:
    """At each multiple of the table's interval; commits go when they are older than the table keeps them."""
    path = make(tmp_path / "log", LOG, checkpointInterval="4", logRetentionDuration="interval 1 days")
    log = Path(path) / "_delta_log"
    stale = log / "._last_checkpoint.crc"  # Hadoop's checksum of the pointer that Spark wrote before
    stale.write_bytes(b"x")
    commits = LibraryTable(path)
    for version in range(9):
        commits.append(pa.table({"sensor": [f"s{version}"]}, schema=LOG), APP, version)
        if version == 5:
            long_ago = time.time() - 3 * 86400
            for file in log.glob("*0000[0-5].*"):
                os.utime(file, (long_ago, long_ago))
    names = {file.name for file in log.iterdir()}
    assert {name[:20].lstrip("0") for name in names if "checkpoint.parquet" in name} == {"4", "8"}
    assert json.loads((log / "_last_checkpoint").read_text())["version"] == 8
    assert not stale.exists()
    assert {f"{n:020d}.json" for n in range(4)}.isdisjoint(names)
    assert {f"{n:020d}.json" for n in range(4, 10)} <= names
    assert sorted(DeltaTable(path).to_pyarrow_table().column("sensor").to_pylist()) == [f"s{n}" for n in range(9)]
    assert not LibraryTable(path).append(pa.table({"sensor": ["again"]}, schema=LOG), APP, 8)


def limits(path: str) -> dict[str, tuple[Any, Any]]:
    """Column -> least and greatest value, by the statistics of the newest file in the log."""
    commit = Path(path) / f"_delta_log/{DeltaTable(path).version():020d}.json"
    (added,) = [one["add"] for line in commit.read_text().splitlines() if "add" in (one := json.loads(line))]
    statistics = json.loads(added["stats"])
    return {name: (least, statistics["maxValues"].get(name)) for name, least in statistics["minValues"].items()}


VALUES: dict[str, pa.Array] = {
    "nan": pa.array([1.5, float("nan")]),
    "nan32": pa.array([1.5, float("nan")], pa.float32()),
    "cents": pa.array([Decimal("1234567890123456.78"), Decimal(0)], pa.decimal128(18, 2)),
    "account": pa.array([Decimal(10**20 + 1), Decimal(0)], pa.decimal128(38, 0)),
    "worst": pa.array([{"delay": float("nan")}, {"delay": 1.0}]),
}


@pytest.mark.parametrize("name", VALUES)
def test_no_statistics_leave_out_a_value(tmp_path: Path, name: str) -> None:
    """By such limits a query for the value would skip the file, and the row would be in no result."""
    rows = pa.table({name: VALUES[name], "key": [1, 2], "refinement": [0, 0]})
    path = make(tmp_path / "log", rows.schema)
    commits = LibraryTable(path)
    commits.append(rows, APP, 0)
    assert limits(path) == {"key": (1, 2), "refinement": (0, 0)}
    commits.merge(rows.slice(0, 1), APP, 1, keys=["key"], newer_by="refinement")
    assert limits(path) == {"key": (1, 2), "refinement": (0, 0)}


def test_a_column_has_statistics_where_they_are_exact(tmp_path: Path) -> None:
    """They are what a query skips files by. A merge cannot see whether the file that it replaces has NaN."""
    price = pa.array([Decimal("999999999999.99"), Decimal("-0.01")], pa.decimal128(14, 2))
    rows = pa.table({"a.b": ["x", "y"], "price": price, "load": [1.5, -2.0], "n": [1, 1]})
    path = make(tmp_path / "log", rows.schema)
    commits = LibraryTable(path)
    commits.append(rows, APP, 0)
    exact = {"a.b": ("x", "y"), "price": (-0.01, 999999999999.99), "n": (1, 1)}
    assert limits(path) == exact | {"load": (-2.0, 1.5)}
    commits.merge(rows, APP, 1, keys=["a.b"], newer_by="n")
    assert limits(path) == exact


@pytest.mark.parametrize("days", [2**31 - 1, -(2**31), 96_000_000])
def test_a_date_beyond_what_the_library_knows_is_written_or_left_to_spark(tmp_path: Path, days: int) -> None:
    """It panics where it writes the limits of such a column; Spark takes any date. Other dates have their limits."""
    rows = pa.table({"key": [1], "day": pa.array([days], pa.int32()).cast(pa.date32()), "n": [0]})
    path = make(tmp_path / "log", rows.schema)
    commits = LibraryTable(path)
    assert commits.append(rows, APP, 0)
    assert limits(path) == {"key": (1, 1), "n": (0, 0)}
    stored = DeltaTable(path).to_pyarrow_table().column("day").combine_chunks().cast(pa.int32()).to_pylist()
    assert stored == [days]
    with pytest.raises(UnsupportedTable, match="by a defect of its own"):
        commits.merge(rows, APP, 1, keys=["key"], newer_by="n")
    near = rows.set_column(1, "day", pa.array([date(2026, 3, 1)]))
    commits.append(near, APP, 2)
    assert limits(path)["day"] == ("2026-03-01", "2026-03-01")
