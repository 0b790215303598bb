"""The state that is looked at is read in this process, without a session; and by Spark what cannot be."""

from __future__ import annotations

import logging
import subprocess
import zipfile
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from panekeeper.diagnostics.inspector import opened as inspector
from panekeeper.diagnostics.inspector.opened import Opened, opened
from panekeeper.diagnostics.inspector.panes import _by_partition, live_partitions, open_panes
from panekeeper.diagnostics.inspector.stored import read_group, read_groups
from panekeeper.recovery.rows_as_json import as_fields
from panekeeper.recovery.storage.files import LocalFiles
from tests.project.sources import ROOT

FROZEN = ROOT / "integration_tests" / "frozen" / "state_1.tar.gz"
SMALL = ROOT / "tests" / "state" / "spark_files" / "checkpoint.zip"
DAY = "2024-05-01T"


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a place with frozen savepoints, where no session can be had."""
    subprocess.run(["tar", "-xf", FROZEN, "-C", tmp_path], check=True)
    monkeypatch.setattr(inspector, "session_for", lambda *_: pytest.fail("a session was asked for"))
    return tmp_path / "saved"


def test_open_panes_of_a_savepoint_need_no_session(saved: Path) -> None:
    """They are those of the readings in `integration_tests/frozen/jobs.py`, as the wall clock of the day says."""
    found: Any
    with opened(saved, savepoint="panes") as state:
        found, number = open_panes(state)
        of_b: Any = open_panes(state, {"sensor": "b"})[0]
        of_z: Any = open_panes(state, {"sensor": "z"})
    rows = [as_fields(row) for row in found.to_pylist()]
    shown = [(row["sensor"], row["pane_start"].removeprefix(DAY), row["rows"], row["state"]) for row in rows]
    assert sorted(shown) == [
        ("a", "10:00:00Z", 3, "late"),
        ("a", "10:01:00Z", 2, "late"),
        ("b", "10:00:00Z", 1, "late"),
        ("b", "10:02:00Z", 1, "open"),
    ]
    assert number == 3
    assert sorted(row["rows"] for row in of_b.to_pylist()) == [1, 1]
    assert (of_z[0].num_rows, of_z[1]) == (0, 0)


def test_live_partitions_of_a_savepoint_need_no_session(saved: Path) -> None:
    """Of panes they are added up; of windows in arrival order each has its rows."""
    columns = ("sensor", "open", "rows", "unfired")
    panes = live(saved, "panes")
    assert sorted(tuple(row.values()) for row in panes.select(columns).to_pylist()) == [("a", 2, 5, 0), ("b", 2, 2, 1)]
    for name, rows in {"tumbling": {"a": 2, "b": 2}, "sliding": {"a": 4, "b": 1}, "batched": {"a": 3, "b": 2}}.items():
        assert {row["sensor"]: row["rows"] for row in live(saved, name).to_pylist()} == rows


def live(saved: Path, name: str) -> Any:
    """Return the live partitions in a savepoint."""
    with opened(saved, savepoint=name) as state:
        return live_partitions(state)


def test_of_a_job_without_partition_columns_there_is_a_row_also_of_nothing() -> None:
    """As Spark has it: no open pane, none with new rows, and how many rows is not known."""
    kinds = {"rows": pa.int64(), "unfired": pa.bool_()}
    kinds |= dict.fromkeys(("pane_start", "pane_end", "fires_at", "watermark"), pa.timestamp("us", "UTC"))
    nothing = pa.schema(kinds.items()).empty_table()
    (row,) = _by_partition(nothing, []).to_pylist()
    assert (row["open"], row["rows"], row["unfired"], row["pane_start"]) == (0, None, 0, None)
    two = pa.table({"rows": [1, None], "unfired": [True, False]} | {name: [1, 2] for name in [*kinds][2:]})
    (row,) = _by_partition(two, []).to_pylist()
    assert (row["open"], row["rows"], row["unfired"], row["pane_start"], row["pane_end"]) == (2, None, 1, 1, 2)


def looked_at(folder: Path) -> Opened:
    """Return the state of a small real job as of its last batch."""
    with zipfile.ZipFile(SMALL) as packed:
        packed.extractall(folder)
    anything = cast("Any", None)
    return Opened(session=anything, files=LocalFiles(folder), record=anything, ports=[], batch=14, first=10, tables={})


def test_what_cannot_be_read_here_is_left_to_spark_and_the_log_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """All of it, also where one of several partitions can be read: never some of the rows."""
    state = looked_at(tmp_path)
    whole = read_groups(state, ["header"], len)
    assert whole == [1] * 4
    assert read_group(state, ["header"], 12) is not None
    (damaged,) = (tmp_path / "state" / "0" / "3").glob("15_*.changelog")
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with caplog.at_level(logging.INFO, "panekeeper.inspector"):
        assert read_groups(state, ["header"], len) is None
    assert f"by Spark: state/0/3/{damaged.name} ends within" in caplog.text
    assert read_group(state, ["header"], 12) is not None
    assert read_group(state, ["header"], 0) is None
