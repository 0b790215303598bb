"""What a process writes late, as it was paused until another one had taken over, changes no result."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from panekeeper import JobFailed, TimeInterval, agg, windowed
from panekeeper.framework.engine.flow import processor
from panekeeper.state.checkpoint.folder import prepared_file

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Readings
    from panekeeper import Job


def run(readings: Readings) -> Job:
    """Let a job that counts and sums for each minute process what is there."""
    stream = windowed(readings.stream(), name="readings", partition_by="sensor", event_time="at", key_groups=2)
    computed = stream.window(TimeInterval(60, discard_age=3600)).aggregate(total=agg.sum("value"), n=agg.count())
    job = computed.to_delta(readings.folder / "log").start(checkpoint=readings.checkpoint, trigger="available_now")
    assert job.await_end(timeout=300)
    return job


def test_rows_beside_a_record_that_comes_late_are_still_there(
    readings: Readings, fail_at: Callable[[str, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process may only be paused: the start that took over has kept them."""
    monkeypatch.setattr(processor, "DRIVER_BYTES", 0)
    for time, value in (("10:00:10", 1), ("10:01:30", 2)):
        readings.put(("a", time, value))
    run(readings)
    readings.put(("a", "10:05:40", 4))
    batch = readings.numbers("commits")[-1] + 2
    readings.put(("a", "10:06:40", 8))

    def fail(point: str) -> None:
        fail_at(point, batch)
        with pytest.raises(JobFailed):
            run(readings)

    fail("before-delta")
    prepared = readings.epoch / prepared_file(0, batch)
    record = prepared.read_bytes()
    assert [path for path in prepared.parent.iterdir() if path.is_dir()]
    prepared.unlink()
    fail("before-plan")
    prepared.write_bytes(record)
    run(readings).flush()
    assert sorted(row["total"] for row in readings.rows("log")) == [1, 2, 4, 8]
