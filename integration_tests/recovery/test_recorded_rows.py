"""Rows that a real job has read, read again by the offsets in its checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from integration_tests.engine.readings import FILES
from panekeeper import CheckpointError
from panekeeper.diagnostics.inspector.opened import opened
from panekeeper.recovery.errors import RowsGone
from panekeeper.recovery.jobs.recorded_rows import recorded_batches

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Readings


def test_the_rows_of_one_batch_or_a_range_are_read_again_and_what_the_processor_got(readings: Readings) -> None:
    """Also of a batch that only moves the watermark; the control rows of the first one have the time of the start.

    A batch that is not there, or a file that is gone, is refused.
    """
    for rows in FILES:
        readings.put(*rows)
    readings.run()
    with opened(readings.checkpoint, spark=readings.spark) as state:
        recorded = recorded_batches(state.files, readings.declare())
    read = [
        recorded.rows(lambda df: df.toArrow().column("value").to_pylist(), first=n, last=n)
        for n in range(recorded.first, recorded.last + 1)
    ]
    assert read == [*([value for _, _, value in rows] for rows in FILES), []]
    assert recorded.rows(lambda df: df.count(), last=recorded.last) == sum(map(len, FILES))
    places = recorded.rows(
        lambda df: {row.file_path[-9:] for row in df.collect()},
        first=1,
        last=2,
        declared=lambda df: df.select("_metadata.file_path"),
    )
    assert places == {"0001.json", "0002.json"}
    first, second = (recorded.packed(lambda df: df.toArrow().to_pylist(), n) for n in (0, 1))
    assert sorted(one["kind"] for one in first) == ["rejected", *["resume"] * 2, "rows"]
    assert [one["kind"] for one in second] == ["rows", "rows"]
    assert recorded.watermark_ms(0) == 0 < recorded.watermark_ms(1)
    with pytest.raises(CheckpointError, match=r"batch 9 of .* is not committed; the last one is 4"):
        recorded.rows(lambda df: df.count(), first=9, last=9)
    (readings.folder / "in" / "0001.json").unlink()
    with pytest.raises(RowsGone, match=r"1 of the 1 files .* are gone, the first one is .*/0001\.json"):
        recorded.rows(lambda df: df.count(), first=1, last=1)
