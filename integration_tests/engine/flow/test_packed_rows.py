"""Rows on their way to the key groups: folded or not, in Arrow batches of any limits, the tables are the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from integration_tests.engine.test_results import FILES, LOG, REJECT
from panekeeper.framework.core.panes.folding import FoldedRows, PaneFolding
from panekeeper.framework.engine.flow.pipeline import InputPort

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Reading, Readings

MANY_IN_A_PANE: list[list[Reading]] = [
    [("a", "10:00:10", 1), ("a", "10:00:20", 2), ("b", "10:00:30", 4), ("b", "10:00:40", 8)],
    [("a", "10:02:30", 16), ("a", "10:02:31", 32)],
    [("a", "10:00:40", 64), ("a", "10:00:41", 128), ("c", "10:05:30", 256), ("c", "10:05:31", 512)],  # late, but taken
    [("a", "10:00:50", 1024), ("c", "10:09:00", 2048), ("c", "10:09:01", 4096)],  # the first one is too late
]
ARROW_LIMITS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.sql.execution.arrow.maxBytesPerBatch": "64MB",
}


def test_rows_are_folded_before_the_shuffle_and_late_ones_are_not(
    readings: Readings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watermark of each batch is found in its log; what is kept is folded, and what is too late keeps its text."""
    notes = tmp_path / "notes"

    class NotedFolding(PaneFolding):
        def fold(self, rows: pa.Table, watermark: int) -> FoldedRows | None:
            folded = super().fold(rows, watermark)
            with notes.open("a") as file:
                file.write(f"{0 if folded is None else folded.numbers.sum()} of {rows.num_rows}\n")
            return folded

    def noted(port: InputPort) -> PaneFolding:
        folding = PaneFolding.of(port.spec)
        assert folding is not None
        return NotedFolding(folding.window, folding.keys, folding.accumulators, folding.history)

    monkeypatch.setattr(InputPort, "folding", noted)
    for rows in MANY_IN_A_PANE[:2]:
        readings.put(*rows)
    readings.run()
    for rows in MANY_IN_A_PANE[2:]:
        readings.put(*rows)
    readings.run()

    assert notes.read_text().split("\n") == ["4 of 4", "2 of 2", "4 of 4", "2 of 3", ""]
    assert readings.log() == [
        ("a", "10:00", 3, 2, 0, "WATERMARK"),
        ("a", "10:00", 195, 4, 1, "LATE"),
        ("a", "10:02", 48, 2, 0, "WATERMARK"),
        ("b", "10:00", 12, 2, 0, "WATERMARK"),
        ("c", "10:05", 768, 2, 0, "WATERMARK"),
    ]
    (late,) = readings.rows("log_quarantine")
    assert (late["reason"], json.loads(late["row"])["value"]) == ("LATE", 1024)


@pytest.mark.extended
def test_the_limits_of_arrow_batches_in_a_session_of_ones_own_change_nothing(readings: Readings) -> None:
    """A session that sets other limits than ours, or keeps Spark's, has the same results: packing gathers batches."""
    before = {name: str(readings.spark.conf.get(name)) for name in ARROW_LIMITS}
    for name, limit in ARROW_LIMITS.items():
        readings.spark.conf.set(name, limit)
    try:
        for rows in FILES:
            readings.put(*rows)
        readings.run(reject=REJECT)
    finally:
        for name, limit in before.items():
            readings.spark.conf.set(name, limit)

    assert readings.log() == LOG
    assert len(readings.rows("log_quarantine")) == 3
