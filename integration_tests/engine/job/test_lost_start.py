"""A start, or a reset, that was paused until another process took over writes nothing when it goes on."""

from __future__ import annotations

import hashlib
import shutil
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from integration_tests.engine.test_lease import take_over
from panekeeper import CheckpointInUse
from panekeeper.framework.engine.job import reset
from panekeeper.framework.engine.job.launch import JobLaunch
from panekeeper.framework.engine.job.lease import acquire
from panekeeper.framework.engine.job.query import trigger_options
from panekeeper.framework.engine.job.reset import complete_reset
from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
from panekeeper.framework.engine.sink.spark_commits import delete_all
from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.state.checkpoint.job_record import read_record
from panekeeper.state.checkpoint.reset_intent import ResetIntent, write_reset_intent

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from integration_tests.engine.conftest import Readings


def contents(readings: Readings) -> dict[str, str]:
    """Path -> digest of each file of the checkpoint and the tables, but for the heartbeats."""
    return {
        str(path.relative_to(readings.folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in readings.folder.rglob("*")
        if path.is_file() and path.name not in ("running.json", ".running.json.crc")
    }


def held(readings: Readings) -> tuple[Any, CheckpointFiles]:
    """The lease of a start, and the checkpoint as it has it."""
    files = CheckpointFiles(readings.spark, str(readings.checkpoint))
    lease = acquire(LocalFolder(readings.checkpoint), "readings")
    return lease, files.while_held(lease.require_held)


class TakenOver:
    """A sink of the user's own during whose preparation the start is paused, and another host takes over."""

    def __init__(self, readings: Readings) -> None:
        self.readings = readings
        self.other: Any = None
        self.before: dict[str, str] = {}

    def prepare(self, spark: Any, schema: Any) -> None:
        self.other = take_over(self.readings)
        self.before = contents(self.readings)

    def commit(self, results: Any, *, writer: str, batch: int) -> None:
        raise AssertionError("no batch is run")


def test_a_start_that_has_lost_its_lease_writes_nothing(readings: Readings) -> None:
    """Neither to the checkpoint nor to a table, whether it is paused at its begin or just before its query."""
    readings.put(("a", "10:00:10", 1))
    readings.run()
    late, files = held(readings)
    other = take_over(readings)
    before = contents(readings)
    with pytest.raises(CheckpointInUse, match="has lost the lease"):
        readings.declare()._start(files, trigger_options("available_now"), late, None)
    assert contents(readings) == before
    other.release("ended")
    sink = TakenOver(readings)
    with pytest.raises(CheckpointInUse, match="has lost the lease"):
        readings.declare().with_sink(sink).start(checkpoint=readings.checkpoint, trigger="available_now")
    assert contents(readings) == sink.before
    sink.other.release("ended")


def test_a_start_is_not_taken_over_before_its_query_has_begun(
    readings: Readings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was paused just before it removed the state of a first run, for the next process to lose its own."""
    readings.put(("a", "10:00:10", 1))
    remove, refused = JobLaunch._remove_unread, []

    def paused(launch: JobLaunch) -> None:
        with pytest.raises(CheckpointInUse, match=r"is just starting on the checkpoint") as error:
            take_over(readings, sees_locks=True)
        refused.append(error)
        remove(launch)

    monkeypatch.setattr(JobLaunch, "_remove_unread", paused)
    job = readings.start(trigger="immediate")
    assert refused
    job.process_available()
    other = take_over(readings, sees_locks=True)
    with pytest.raises(CheckpointInUse, match="has lost the lease"):
        job.await_end(timeout=300)
    other.release("ended")
    monkeypatch.undo()
    readings.run().flush()
    assert readings.log() == [("a", "10:00", 1, 1, 0, "FLUSH")]


def test_a_reset_that_has_lost_its_lease_removes_nothing(readings: Readings) -> None:
    """Another process has completed it, and the job runs: no file is removed, no table is fenced or emptied."""
    readings.put(("a", "10:00:10", 1), ("a", "10:05:00", 2))
    readings.run()
    _, files = held(readings)
    write_reset_intent(files, ResetIntent(epoch=1, view=str(readings.folder / "view")))
    other = take_over(readings)
    before = contents(readings)
    record = read_record(files)
    assert record is not None
    for change in (
        partial(complete_reset, files, record),
        partial(files.write_json, "panekeeper/job.json", {}, replace=True),
        partial(files.remove, "offsets"),
        partial(files.make_folder, "other"),
    ):
        with pytest.raises(CheckpointInUse, match="has lost the lease"):
            change()
    assert contents(readings) == before
    other.release("ended")
    readings.run()
    after = read_record(files)
    assert after is not None
    assert after.epoch == 1


@pytest.mark.parametrize(
    "before", [("a", "10:05:00", 2), pytest.param(("a", "10:00:20", 2), marks=pytest.mark.extended)], ids=str
)
def test_a_reset_that_is_paused_before_it_empties_the_view_removes_no_row_of_the_next_epoch(
    readings: Readings, before: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has completed it, and a job has written to the view, which may have had no row before that."""
    readings.put(("a", "10:00:10", 1), before)
    readings.run()
    job = readings.declare()
    emptied: list[Callable[[], None]] = []

    def note_and_empty(*given: Any) -> None:
        emptied.append(partial(delete_all, *given))
        delete_all(*given)

    monkeypatch.setattr(reset, "delete_all", note_and_empty)
    job.reset_to_initial_state(checkpoint=readings.checkpoint, confirm="readings")
    assert readings.rows("view") == []
    readings.put(("a", "10:10:00", 4))
    readings.run()
    rows = readings.rows("view")
    assert rows
    emptied[0]()
    assert readings.rows("view") == rows


def test_a_folder_whose_removal_is_paused_may_be_made_again(
    readings: Readings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another process, which has removed the rest of it: what it writes there stays."""
    files = CheckpointFiles(readings.spark, str(readings.checkpoint))
    state = readings.checkpoint / "state" / "0"
    state.mkdir(parents=True)
    (state / "1.zip").write_text("old")
    remove = shutil.rmtree

    def pause(left: Path, **options: Any) -> None:
        state.mkdir(parents=True)
        (state / "1.zip").write_text("new")
        monkeypatch.undo()
        remove(left, **options)

    monkeypatch.setattr(shutil, "rmtree", pause)
    files.remove("state")
    assert (state / "1.zip").read_text() == "new"
    files.remove("state")
    assert [*readings.checkpoint.iterdir()] == []
