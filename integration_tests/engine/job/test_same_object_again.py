"""A job that has ended, and is flushed by the object that started it, after another run has been on its checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from integration_tests.engine.readings import FILES, LOG
from panekeeper import CheckpointError, CheckpointInUse

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Readings


def test_a_job_is_not_started_again_by_its_object_after_another_run(readings: Readings) -> None:
    """Nothing that a start looks at is known to it: which tables, which order, which batch. A new start flushes it."""
    for rows in FILES[:2]:
        readings.put(*rows)
    first = readings.run()
    for rows in FILES[2:]:
        readings.put(*rows)
    second = readings.run()
    with pytest.raises(CheckpointError, match=r"another run has been on it; start the job again by its start\(\)"):
        first.flush()
    assert readings.log() == LOG
    second.flush()
    assert second.finished
    assert len(readings.log()) > len(LOG)


def test_a_command_is_given_to_its_own_run_only(readings: Readings) -> None:
    """The flush of a job that has ended would finish the job of another process, with what that has read by then."""
    readings.put(*FILES[0])
    first = readings.run()
    second = readings.start(trigger="immediate")
    try:
        pulse = sorted(path.name for path in (readings.checkpoint / "pulse").glob("*.json"))
        with pytest.raises(CheckpointInUse):
            first._launch.command("flush")
        assert sorted(path.name for path in (readings.checkpoint / "pulse").glob("*.json")) == pulse
    finally:
        second.stop()
    assert not second.finished
