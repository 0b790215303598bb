"""A checkpoint belongs to one running job: the lease from start to end, on real queries."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import panekeeper
from panekeeper import CheckpointInUse, IncompatibleCheckpoint, SinkError, TimeInterval
from panekeeper.framework.engine.job.lease import Lease, acquire
from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
from panekeeper.framework.engine.sink.fencing import own
from panekeeper.framework.engine.sink.library_table import LibraryTable
from panekeeper.state.checkpoint.folder import TABLES_FILE, LocalFolder
from panekeeper.state.checkpoint.job_record import read_record

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Readings


def left(readings: Readings, name: str) -> Any:
    """The content of one of our files in the checkpoint, None if it is not there."""
    path = readings.epoch / "panekeeper" / name
    return json.loads(path.read_text()) if path.exists() else None


def test_a_second_start_is_refused_by_name_until_the_first_job_has_stopped(readings: Readings) -> None:
    """The refused start changes nothing for the running job; afterwards the checkpoint is free."""
    readings.put(("a", "10:00:10", 1))
    first = readings.start(trigger="immediate")
    running = left(readings, "running.json")
    with pytest.raises(CheckpointInUse, match=rf"job 'readings' .*process {running['pid']}.*panekeeper\.job\("):
        readings.start()
    with pytest.raises(CheckpointInUse, match="by another declaration"):
        readings.start(window=TimeInterval(30), trigger="immediate", attach=True)
    assert readings.start(trigger="immediate", attach=True) is first
    assert panekeeper.job(readings.checkpoint) is first
    assert first.status().state.value == "running"

    first.stop()
    assert left(readings, "running.json") is None
    assert left(readings, "stopped.json")["state"] == "ended"
    with pytest.raises(IncompatibleCheckpoint):
        readings.start(window=TimeInterval(30))
    assert left(readings, "running.json") is None

    second = readings.run()
    assert second.status().state.value == "ended"
    second.flush()
    assert left(readings, "running.json") is None
    assert left(readings, "stopped.json")["state"] == "flushed"
    assert readings.log() == [("a", "10:00", 1, 1, 0, "FLUSH")]


def test_a_job_that_failed_gives_its_checkpoint_back(readings: Readings) -> None:
    """Whoever waits for it gets the failure; the next start follows at once."""
    readings.put(("a", "10:00:10", 1), ("b", None, 2))
    with pytest.raises(Exception, match="1 bad row"):
        readings.run(on_error="fail")
    assert left(readings, "stopped.json")["state"] == "failed"
    readings.run()


def test_a_file_is_replaced_where_that_is_wanted(readings: Readings) -> None:
    """The job's record gets a new epoch that way; both ways of looking at the folder see it."""
    files = CheckpointFiles(readings.spark, str(readings.epoch))
    files.write_json("panekeeper/one.json", {"epoch": 0})
    for epoch in (1, 2):
        files.write_json("panekeeper/one.json", {"epoch": epoch}, replace=True)
        assert files.read_json("panekeeper/one.json") == left(readings, "one.json") == {"epoch": epoch}


def test_a_file_that_is_there_is_distinguished_from_other_failures(readings: Readings) -> None:
    """Control files written at the same time by two processes must not take each other's number."""
    files = CheckpointFiles(readings.spark, str(readings.epoch))
    files.write_json("pulse/000000000001.json", {"number": 1})
    with pytest.raises(FileExistsError, match=r"pulse/000000000001\.json in .* is already there"):
        files.write_json("pulse/000000000001.json", {"number": 2})
    assert files.read_json("pulse/000000000001.json") == {"number": 1}


def test_a_job_that_lost_its_lease_commits_nothing_more(readings: Readings) -> None:
    """Another job has taken over while this one was paused: its next batch ends it, and no table changes."""
    readings.put(("a", "10:00:10", 1), ("a", "10:05:00", 2))
    job = readings.start(trigger="immediate")
    job.process_available()
    before = readings.log(), len(readings.rows("log_metrics"))
    other = take_over(readings)
    readings.put(("a", "10:10:00", 3))
    with pytest.raises(CheckpointInUse, match="has lost the lease"):
        job.await_end(timeout=300)
    assert (readings.log(), len(readings.rows("log_metrics"))) == before
    assert left(readings, "running.json")["name"] == "another"
    other.release("ended")
    readings.run()
    assert readings.log()[-1] == ("a", "10:05", 2, 1, 0, "WATERMARK")


def take_over(readings: Readings) -> Lease:
    """Take the lease from a job, as one on another host would after a minute without a heartbeat."""
    path = readings.epoch / "panekeeper" / "running.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"host": "elsewhere", "seen": 0}))
    return acquire(LocalFolder(readings.epoch), "another")


def test_an_idle_job_that_lost_its_lease_ends(readings: Readings) -> None:
    """Without a row that would begin a batch: with its next heartbeat, and with an error."""
    readings.put(("a", "10:00:10", 1))
    job = readings.start(trigger="immediate")
    job.process_available()
    other = take_over(readings)
    with pytest.raises(CheckpointInUse, match="has lost the lease"):
        job.await_end(timeout=300)
    assert job.status().state.value == "failed"
    other.release("ended")


@pytest.mark.extended
def test_tables_belong_to_one_checkpoint(readings: Readings) -> None:
    """A new checkpoint does not write into the view of another job; what is gone is not made again empty."""
    readings.put(("a", "10:00:10", 1), ("a", "10:05:00", 2))
    readings.run()
    other = readings.computed(name="other").to_delta(readings.folder / "other", view=readings.folder / "view")
    with pytest.raises(SinkError, match=r"/view holds rows, and this checkpoint is new"):
        other.start(checkpoint=readings.folder / "other-checkpoint", trigger="available_now")
    with pytest.raises(SinkError, match=r"the log table .* lies in the folder of the checkpoint"):
        readings.computed().to_delta(readings.epoch / "log").start(checkpoint=readings.checkpoint)

    shutil.move(readings.checkpoint, readings.folder / "unmounted")
    with pytest.raises(
        SinkError,
        match=r"each of \S+/log, \S+/view and \S+/log_metrics holds rows, and this checkpoint is new.*"
        "mount its volume, if that is missing",
    ):
        readings.start()
    assert not readings.checkpoint.exists()
    shutil.move(readings.folder / "unmounted", readings.checkpoint)
    shutil.move(readings.folder / "log", readings.folder / "unmounted")
    with pytest.raises(SinkError, match=r"the table .*/log is gone, and this checkpoint has written to it"):
        readings.start()
    assert not (readings.folder / "log").exists()
    shutil.move(readings.folder / "unmounted", readings.folder / "log")
    readings.run()
    shutil.move(readings.folder / "view", readings.folder / "unmounted")
    readings.put(("a", "10:06:00", 4))
    without_view = readings.computed().to_delta(readings.folder / "log")
    without_view.start(checkpoint=readings.checkpoint, trigger="available_now").await_end()
    with pytest.raises(SinkError, match=r"the table .*/view is gone, .* restore a savepoint that has it"):
        readings.start()
    assert not (readings.folder / "view").exists()
    shutil.move(readings.folder / "unmounted", readings.folder / "view")
    readings.run()


def test_of_two_jobs_on_the_same_empty_tables_one_is_refused(readings: Readings) -> None:
    """Neither has written a row yet. The first goes on, also after a start that came to no batch."""
    first = readings.start(trigger="immediate")
    other = readings.computed(name="other").to_delta(readings.folder / "log", view=readings.folder / "other-view")
    with pytest.raises(SinkError, match=r"the table .*/log belongs to another checkpoint"):
        other.start(checkpoint=readings.folder / "other-checkpoint", trigger="available_now")
    assert not (readings.folder / "other-checkpoint/epochs/0000" / TABLES_FILE).exists(), (
        "a savepoint of it would be of these tables"
    )
    first.stop()
    readings.put(("a", "10:00:10", 1), ("a", "10:05:00", 2))
    readings.run().flush()
    assert [row[:2] for row in readings.log()] == [("a", "10:00"), ("a", "10:05")]


@pytest.mark.extended
def test_tables_that_another_checkpoint_has_taken_over_are_neither_written_nor_emptied(readings: Readings) -> None:
    """The job was restored to another folder, and this one was put back from a backup of before."""
    readings.put(("a", "10:00:10", 1), ("a", "10:05:00", 2))
    readings.run()
    record = read_record(LocalFolder(readings.epoch))
    assert record is not None
    view = readings.log("view")
    own(readings.spark, {"view": str(readings.folder / "view")}, replace(record, id="0" * 12), take=True)
    with pytest.raises(SinkError, match=r"/view belongs to another checkpoint \(id 000000000000\)"):
        readings.start()
    with pytest.raises(SinkError, match=r"/view belongs to another checkpoint \(id 000000000000\)"):
        readings.declare().reset_to_initial_state(checkpoint=readings.checkpoint, confirm="readings")
    assert readings.log("view") == view
    own(readings.spark, {"view": str(readings.folder / "view")}, record, take=True)
    commits = LibraryTable(str(readings.folder / "view"))
    commits.note({replace(record, epoch=5).joined("view"): 5})  # the checkpoint is a copy of before some restores
    done = readings.declare().reset_to_initial_state(checkpoint=readings.checkpoint, confirm="readings")
    assert done.epoch == 6
    readings.run()
    assert readings.log("view") == view


@pytest.mark.extended
def test_an_older_copy_of_a_table_or_an_empty_one_is_refused(readings: Readings) -> None:
    """Under a job that has ended, its committed batches would be missing there for ever.

    A table that is older by the last batch alone is completed: its rows are in the checkpoint.
    """
    cached: Any = readings.spark._jvm
    readings.put(("a", "10:00:10", 1), ("a", "10:02:10", 2))
    readings.run()
    for table in ("log", "view"):
        shutil.copytree(readings.folder / table, readings.folder / f"{table}-older")
    for at, value in (("10:04:10", 4), ("10:04:20", 4)):
        readings.put(("a", at, value))
        readings.run()
    readings.spark.sql(f"OPTIMIZE delta.`{readings.folder}/log`")
    readings.spark.sql(f"RESTORE TABLE delta.`{readings.folder}/log` TO VERSION AS OF 2")
    for table in ("log", "view"):
        shutil.move(readings.folder / table, readings.folder / f"{table}-newest")
        shutil.copytree(readings.folder / f"{table}-older", readings.folder / table)
        cached.org.apache.spark.sql.delta.DeltaLog.clearCache()
        with pytest.raises(SinkError, match=rf"the {table} .*/{table} is an older copy: batch \d+ is the newest"):
            readings.start()
        shutil.rmtree(readings.folder / table)
        shutil.move(readings.folder / f"{table}-newest", readings.folder / table)
        cached.org.apache.spark.sql.delta.DeltaLog.clearCache()
    readings.put(("a", "10:06:10", 8))
    readings.run()

    empty = readings.frame("view").limit(0)
    empty.write.format("delta").save(f"{readings.folder}/empty")
    shutil.rmtree(readings.folder / "view")
    shutil.move(readings.folder / "empty", readings.folder / "view")
    cached.org.apache.spark.sql.delta.DeltaLog.clearCache()
    with pytest.raises(SinkError, match=r"the view .* is another table than .* or reset the job"):
        readings.start()


@pytest.mark.release  # one that the library can write is tested, too
def test_an_older_copy_of_a_view_that_only_spark_can_write_is_refused(readings: Readings) -> None:
    """Its commits count as those of any other view, whoever makes them."""
    cached: Any = readings.spark._jvm
    view = readings.folder / "view"
    clustered = readings.computed().to_delta(readings.folder / "log", view=view, cluster_by="sensor")
    for at in ("10:00:10", "10:04:10", "10:08:10", "10:12:10"):
        readings.put(("a", at, 1))
        clustered.start(checkpoint=readings.checkpoint, trigger="available_now").await_end()
        if at == "10:04:10":
            shutil.copytree(view, readings.folder / "older")
    shutil.rmtree(view)
    shutil.move(readings.folder / "older", view)
    cached.org.apache.spark.sql.delta.DeltaLog.clearCache()
    with pytest.raises(SinkError, match=r"the view .*/view is an older copy: batch \d+ is the newest"):
        clustered.start(checkpoint=readings.checkpoint)
