"""A job that fails in the batch that fires panes and brings a row to the quarantine, and what is recorded of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from integration_tests.engine.readings import FILES
from panekeeper import JobFailed
from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.state.checkpoint.job_record import read_record
from panekeeper.state.prepared import PreparedBatch, read_prepared

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Readings


def fail_in_batch_2(readings: Readings, fail_at: Callable[[str, int], None], point: str, **options: Any) -> None:
    """Run a job that fails at a point of the batch that fires panes, and brings a row to the quarantine."""
    fail_at(point, 2)
    with pytest.raises(JobFailed):
        readings.run(**options)


def recorded(readings: Readings, number: int) -> PreparedBatch | None:
    """What is recorded of a batch."""
    folder = LocalFolder(readings.epoch)
    record = read_record(folder)
    assert record is not None
    return read_prepared(folder, 0, number)


def reasons(readings: Readings) -> list[str]:
    """The reasons in the quarantine."""
    return sorted(row["reason"] for row in readings.rows("log_quarantine"))


@pytest.fixture
def story(readings: Readings) -> Readings:
    """The readings, and one without a time in batch 2."""
    for number, rows in enumerate(FILES):
        readings.put(*rows, *([("d", None, 3)] if number == 2 else []))
    return readings
