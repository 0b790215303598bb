"""What Spark keeps of the control stream while a job runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from panekeeper import Count, JobFailed, Tumbling, agg, windowed
from panekeeper.framework.engine.clock import control_cleanup
from panekeeper.state.checkpoint.control_files import write_control_file
from panekeeper.state.checkpoint.folder import CONTROL_FOLDER, LocalFolder

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Readings
    from panekeeper import Job
    from panekeeper.framework.engine.job.query import QueryTrigger

COMPACT_EVERY = "spark.sql.streaming.fileSource.log.compactInterval"


@pytest.fixture
def often(readings: Readings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Spark compacts its logs at every third entry, and the job prunes them at every batch."""
    readings.spark.conf.set(COMPACT_EVERY, "3")
    monkeypatch.setattr(control_cleanup, "_EVERY", 1)
    monkeypatch.setattr(control_cleanup, "_KEPT", 4)
    monkeypatch.setattr(control_cleanup, "_KEPT_FILES", 0)
    yield
    readings.spark.conf.unset(COMPACT_EVERY)


def start(readings: Readings, trigger: QueryTrigger = "immediate") -> Job:
    """Start a job of pairs of readings, whose windows follow the wall clock and are never due."""
    stream = windowed(readings.stream(), name="pairs", partition_by="sensor", key_groups=2)
    counted = stream.window(Tumbling(Count(2))).aggregate(total=agg.sum("value"))
    job = counted.to_delta(readings.folder / "log").start(checkpoint=readings.checkpoint, trigger=trigger)
    readings.jobs.append(job)
    return job


@pytest.mark.usefixtures("often")
def test_ticks_leave_nothing_behind_and_no_row_is_lost_or_doubled(
    readings: Readings, fail_at: Callable[[str, int], None]
) -> None:
    """Not after a batch that fails either."""
    folder = LocalFolder(readings.epoch)
    readings.put(("a", "10:00:00", 1))
    job = start(readings)
    for _ in range(12):
        write_control_file(folder, "tick")
        job.process_available()
    compact = max(folder.path.glob("sources/1/*.compact"), key=lambda path: int(path.stem))
    assert len(compact.read_text().splitlines()) <= 1 + 4 + 3
    [seen] = control_cleanup._seen_files(job._run.query.streaming)
    assert len(seen) <= 3
    assert len(folder.names(CONTROL_FOLDER)) <= 3

    readings.put(("a", "10:00:01", 2))
    job.process_available()

    fail_at("after-delta-commit", max(readings.numbers("offsets")) + 1)
    readings.put(("a", "10:00:02", 4))
    with pytest.raises(JobFailed):
        job.process_available()
    job = start(readings)
    readings.put(("a", "10:00:03", 8))
    write_control_file(folder, "tick")
    job.process_available()
    job.stop()
    assert sorted(row["total"] for row in readings.rows("log")) == [3, 12]
    rows = [row["rows_in"] for row in readings.rows("log_metrics")]
    assert sum(rows) == 4


@pytest.mark.extended
def test_a_run_of_what_is_available_reads_no_control_file_again(readings: Readings) -> None:
    """Spark lists the files once then; what was removed meanwhile would be new to it, were it not in its map."""
    for values in ((1,), (2, 4, 8)):
        for value in values:
            readings.put(("a", "10:00:00", value))
        assert start(readings, "available_now").await_end(timeout=300)
    logs = (readings.epoch / "sources" / "1").glob("[0-9]*")
    read = [json.loads(line)["path"] for path in logs for line in path.read_text().splitlines()[1:]]
    assert len(read) == len({*read}) == 2
