"""What a process writes late, as it was paused until another one had taken over, changes no result."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from integration_tests.selection import first_before_release
from panekeeper import CheckpointInUse, JobFailed, TimeInterval, agg, windowed
from panekeeper.framework.engine.flow import processor
from panekeeper.framework.engine.job.batch_journal import BatchJournal
from panekeeper.state.checkpoint.folder import JOB_FILE, prepared_file

if TYPE_CHECKING:
    from pathlib import Path

    from integration_tests.engine.conftest import Readings
    from panekeeper import Job
    from panekeeper.framework.builder.outputs import DeltaJob
    from panekeeper.state.prepared import PreparedBatch

Fail = Callable[[str, int], None]


def declared(readings: Readings, *added: str, **tables: Any) -> DeltaJob:
    """Counts and sums for each minute, with these aggregates added."""
    stream = windowed(readings.stream(), name="readings", partition_by="sensor", event_time="at", key_groups=2)
    more: dict[str, Any] = {name: agg.count() for name in added}
    by_minute = stream.window(TimeInterval(60, discard_age=3600))
    return by_minute.aggregate(total=agg.sum("value"), n=agg.count(), **more).to_delta(
        readings.folder / "log", **tables
    )


def run(readings: Readings, *added: str, **tables: Any) -> Job:
    """Let the job process what is there."""
    job = declared(readings, *added, **tables).start(checkpoint=readings.checkpoint, trigger="available_now")
    assert job.await_end(timeout=300)
    return job


def fail(readings: Readings, fail_at: Fail, point: str, batch: int, *added: str, **tables: Any) -> None:
    """Let the job fail at a point of a batch."""
    fail_at(point, batch)
    with pytest.raises(JobFailed):
        run(readings, *added, **tables)


def counts(readings: Readings, minute: str) -> list[tuple[Any, ...]]:
    """(total, n, count that was added) in the newest row of a pane."""
    rows = [row for row in readings.rows("log") if f"{row['pane_start']:%H:%M}" == minute]
    last = max(row["refinement"] for row in rows)
    return [(row["total"], row["n"], row["more"]) for row in rows if row["refinement"] == last]


def not_recorded(readings: Readings, fail_at: Fail, batch: int, *added: str, **tables: Any) -> tuple[Path, bytes]:
    """Let a process compute a batch and pause before it records it, and another one, with these aggregates, begin it.

    Returns:
        The file that the first one records when it goes on, and its content.
    """
    fail(readings, fail_at, "before-delta", batch, **tables)
    prepared = readings.epoch / prepared_file(0, batch)
    record = prepared.read_bytes()
    prepared.unlink()
    fail(readings, fail_at, "before-plan", batch, *added, **tables)
    return prepared, record


def begin(readings: Readings, **tables: Any) -> int:
    """Run a job as it was first declared, and return the number of its next batch, which opens a pane."""
    readings.put(("a", "10:00:10", 1))
    readings.put(("a", "10:01:30", 2))
    run(readings, **tables)
    readings.put(("a", "10:05:40", 4))
    return readings.numbers("commits")[-1] + 1


@pytest.mark.parametrize(
    "late",
    [
        "record of a batch",
        "declaration",
        pytest.param("record of a batch, in a start", marks=pytest.mark.extended),
    ],
)
def test_an_added_aggregate_begins_after_the_panes_of_a_process_that_was_paused(
    readings: Readings, fail_at: Fail, late: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One had computed a batch by the old declaration, and records it late; another one was to record the new one.

    Each stands in the checkpoint after the other declaration was in force. A pane with rows from before has no count
    of the added aggregate: one of the rows that came since would be wrong.
    """
    batch = begin(readings)
    job = readings.epoch / JOB_FILE
    if late != "declaration":
        prepared, record = not_recorded(readings, fail_at, batch, "more")
        complete = BatchJournal.complete

        def record_and_complete(journal: BatchJournal) -> PreparedBatch | None:
            prepared.write_bytes(record)
            monkeypatch.setattr(BatchJournal, "complete", complete)
            return complete(journal)

        if late == "record of a batch":
            prepared.write_bytes(record)
        else:
            monkeypatch.setattr(BatchJournal, "complete", record_and_complete)
            with pytest.raises(CheckpointInUse, match="It is completed; start the job again"):
                run(readings, "more")
    else:
        before = job.read_bytes()
        fail_at("during-upgrade", 2)
        with pytest.raises(ConnectionError):
            run(readings, "more")
        recorded = job.read_bytes()
        assert recorded != before
        job.write_bytes(before)
        run(readings)
        job.write_bytes(recorded)
    readings.put(("a", "10:05:50", 8))
    readings.put(("a", "10:07:00", 16))
    run(readings, "more").flush()
    assert counts(readings, "10:05") == [(12, 2, None)]
    assert counts(readings, "10:07") == [(16, 1, 1)]
    assert sum(row["rows_in"] for row in readings.rows("log_metrics")) == 5


@pytest.mark.release  # the new program is tested to do so
def test_the_old_program_goes_on_where_a_declaration_was_recorded_late(readings: Readings, fail_at: Fail) -> None:
    """The table has the column of the new one by then, which stays empty."""
    prepared, record = not_recorded(readings, fail_at, begin(readings), "more")
    prepared.write_bytes(record)
    readings.put(("a", "10:05:50", 8))
    run(readings).flush()
    assert counts(readings, "10:05") == [(12, 2, None)]


@pytest.mark.parametrize("cluster_by", first_before_release(((),), (("sensor",),)))
def test_rows_that_are_recorded_late_lack_a_column_that_the_tables_have_got(
    readings: Readings, fail_at: Fail, cluster_by: tuple[str, ...]
) -> None:
    """It is null in them, be they merged without Spark or, as into a clustered view, by Spark."""
    view: dict[str, Any] = {"view": readings.folder / "view", "cluster_by": cluster_by}
    batch = begin(readings, **view) + 1
    readings.put(("a", "10:06:40", 8))
    prepared, record = not_recorded(readings, fail_at, batch, "more", **view)
    prepared.write_bytes(record)
    run(readings, "more", **view).flush()
    for table in ("log", "view"):
        assert sorted((row["total"], row["more"]) for row in readings.rows(table)) == [
            (1, None),
            (2, None),
            (4, None),
            (8, None),
        ]


@pytest.mark.extended
def test_rows_beside_a_record_that_comes_late_are_still_there(
    readings: Readings, fail_at: Fail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process may only be paused: the start that took over has kept them."""
    monkeypatch.setattr(processor, "DRIVER_BYTES", 0)
    batch = begin(readings) + 1
    readings.put(("a", "10:06:40", 8))
    fail(readings, fail_at, "before-delta", batch)
    prepared = readings.epoch / prepared_file(0, batch)
    record = prepared.read_bytes()
    assert [path for path in prepared.parent.iterdir() if path.is_dir()]
    prepared.unlink()
    fail(readings, fail_at, "before-plan", batch)
    prepared.write_bytes(record)
    run(readings).flush()
    assert sorted(row["total"] for row in readings.rows("log")) == [1, 2, 4, 8]
