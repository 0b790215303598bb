"""Savepoints of a real job: restored to one and resumed, it has the tables of a job that was never restored."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from delta.tables import DeltaTable

from integration_tests.drills.faults import armed
from integration_tests.engine.readings import FILES, LOG
from integration_tests.recovery.same_state import require_same_state
from integration_tests.recovery.table_upkeep import Upkeep
from integration_tests.selection import first_before_release
from panekeeper import CheckpointError, Every, JobFailed, Session, SinkError, TimeInterval
from panekeeper.framework.declarations.errors import CorruptState
from panekeeper.framework.declarations.windows import Window
from panekeeper.framework.engine.sink.library_rules import UnsupportedTable
from panekeeper.recovery.errors import SavepointRefused, TableVersionLost
from panekeeper.recovery.restore.clone import clone
from panekeeper.recovery.restore.restore import STEPS, restore
from panekeeper.recovery.savepoint.catalog import savepoints, show, verify
from panekeeper.recovery.savepoint.create import Savepoint, savepoint
from panekeeper.recovery.storage import delta_tables
from panekeeper.recovery.storage.delta_tables import SavedTable, require_version
from panekeeper.recovery.storage.files import LocalFiles
from panekeeper.recovery.upkeep.maintain import maintain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from integration_tests.engine.conftest import Readings


class Saved:
    """The readings with a place for savepoints; `run` starts the job on what is there."""

    def __init__(self, readings: Readings) -> None:
        self.readings = readings
        self.place = readings.folder / "savepoints"

    def put(self, first: int, last: int) -> None:
        for rows in FILES[first : last + 1]:
            self.readings.put(*rows)

    def run(self, first: int, last: int) -> None:
        self.put(first, last)
        self.readings.run()

    def save(self, name: str, *, decode: bool = True) -> Savepoint:
        return savepoint(self.readings.checkpoint, name, to=self.place, decode=decode, spark=self.readings.spark)

    def restore(self, name: str, **options: Any) -> Any:
        return restore(self.place, name, spark=self.readings.spark, **options)

    def require_undisturbed(self) -> None:
        """The tables are those of a job that ran once over all files."""
        assert self.readings.log() == LOG
        assert self.readings.log("view") == LOG[1:]
        assert len(self.readings.rows("log_quarantine")) == 1
        metrics = self.readings.rows("log_metrics")
        assert sum(row["rows_in"] for row in metrics) == 8
        assert len({row["batch"] for row in metrics}) == len(metrics)


@pytest.fixture
def saved(readings: Readings) -> Saved:
    """The readings with a place for savepoints."""
    return Saved(readings)


@pytest.mark.spark_4_1
def test_a_job_restored_and_resumed_gives_the_same_results(saved: Saved) -> None:
    """Tables, state and source position are restored together; batches that are run again are not skipped."""
    saved.run(0, 1)
    made = saved.save("one")
    assert set(made.manifest.tables) == {"log", "view", "quarantine", "metrics", "downtime"}
    assert made.manifest.settings["spark.sql.shuffle.partitions"] == "4"
    assert made.values
    before = {table: saved.readings.rows(table) for table in ("log", "view", "log_metrics")}
    saved.put(2, 3)
    old = saved.readings.run()
    saved.require_undisturbed()

    plan = saved.restore("one")
    with pytest.raises(CheckpointError, match="was restored or reset since job 'readings' was started"):
        old.flush()
    assert plan.forgotten is not None
    assert all(move.old > move.new for role, move in plan.tables.items() if role in ("log", "view", "metrics"))
    assert {table: saved.readings.rows(table) for table in before} == before
    saved.readings.run()
    saved.require_undisturbed()
    assert require_same_state(saved.readings.spark, saved.readings.checkpoint) > 1


@pytest.mark.release  # CI renames one without Spark
def test_a_checkpoint_that_was_renamed_or_is_reached_by_a_link_goes_on(saved: Saved) -> None:
    """A start writes its present name into Spark's files; so does a restore of a savepoint made before that."""
    saved.run(0, 0)
    readings, moved, link = saved.readings, saved.readings.folder / "other" / "ck [1]", saved.readings.folder / "link"
    moved.parent.mkdir()
    readings.checkpoint.rename(moved)
    savepoint(moved, "renamed", to=saved.place, spark=readings.spark)
    saved.put(1, 2)
    assert readings.declare().start(checkpoint=moved, trigger="available_now").await_end(timeout=300)
    link.symlink_to(moved.parent)
    saved.put(3, 3)
    assert readings.declare().start(checkpoint=link / moved.name, trigger="available_now").await_end(timeout=300)
    saved.require_undisturbed()
    assert "checkpoint/epochs" not in "".join(path.read_text() for path in moved.glob("epochs/0000/sources/1/[0-9]*"))

    saved.restore("renamed")
    assert readings.declare().start(checkpoint=moved, trigger="available_now").await_end(timeout=300)
    saved.require_undisturbed()


@pytest.mark.release
def test_a_savepoint_is_restored_a_second_time(saved: Saved) -> None:
    """The epoch of the first restore is not used again, whatever was saved meanwhile."""
    saved.run(0, 1)
    saved.save("one")
    saved.put(2, 3)
    saved.readings.run()
    saved.restore("one")
    saved.readings.run()
    assert saved.save("two").bytes_sent > 0
    saved.restore("one")
    saved.readings.run()
    saved.require_undisturbed()


@pytest.mark.extended
def test_a_running_job_is_saved_between_two_of_its_batches_and_keeps_running(saved: Saved) -> None:
    """What it does meanwhile and after is not in the savepoint; a restore of it loses and doubles nothing."""
    saved.put(0, 1)
    job = saved.readings.start(trigger="immediate")
    job.process_available()
    before = {table: saved.readings.rows(table) for table in ("log", "view")}
    made = savepoint(job.checkpoint, "one", to=saved.place)  # its session reads the copy
    assert made.values
    saved.put(2, 3)
    job.process_available()
    assert job.status().state.value == "running"
    job.stop()
    saved.require_undisturbed()

    assert verify(saved.place, "one", deep=True).values == made.values
    saved.restore("one")
    assert {table: saved.readings.rows(table) for table in before} == before
    saved.readings.run()
    saved.require_undisturbed()


@pytest.mark.release  # CI counts what is sent without Spark
def test_a_second_savepoint_after_little_change_sends_little(saved: Saved) -> None:
    """Files never change once written, so only those of the new batches are sent; each savepoint is whole."""
    saved.run(0, 2)
    first = saved.save("one")
    saved.run(3, 3)
    second = saved.save("two")
    assert second.bytes_sent < first.bytes_sent
    assert second.bytes_reused > first.bytes_sent / 2
    assert verify(saved.place, "two", deep=True, spark=saved.readings.spark).values == second.values
    assert first.values


@pytest.mark.release  # CI kills it after any step without Spark
def test_a_restore_killed_after_every_step_is_completed_by_the_same_call(saved: Saved) -> None:
    """Each call goes on where the one before was killed; or the next start does."""

    class Killed(Exception):
        pass

    def kill_at(step: str) -> Callable[[str], None]:
        def reached(at: str) -> None:
            if at == step:
                raise Killed

        return reached

    saved.run(0, 1)
    saved.save("one")
    saved.run(2, 3)
    for step in STEPS:
        with pytest.raises(Killed):
            saved.restore("one", on_step=kill_at(step))
    saved.restore("one")
    saved.readings.run()
    saved.require_undisturbed()
    for step in STEPS[1::2]:  # the next start does the rest of any of them by the same function
        with pytest.raises(Killed):
            saved.restore("one", on_step=kill_at(step))
        saved.readings.run()
        saved.require_undisturbed()


@pytest.mark.extended
def test_a_batch_that_is_in_some_tables_only_is_not_in_the_savepoint(
    saved: Saved, fail_at: Callable[[str, int], None]
) -> None:
    """It was interrupted between two commits: the savepoint is as of the batch before it, in each table."""
    saved.put(0, 3)
    fail_at("between-delta", 2)
    with pytest.raises(JobFailed):
        saved.readings.run()
    assert saved.save("one").manifest.unfinished == 2
    saved.restore("one")
    assert max(row["batch"] for row in saved.readings.rows("log_metrics")) == 1
    saved.readings.run()
    saved.require_undisturbed()


@pytest.mark.release
def test_what_cannot_be_restored_is_reported_before_anything_is_changed(saved: Saved) -> None:
    """State that was damaged before it was saved, a table whose old files were vacuumed."""
    saved.run(0, 1)
    saved.save("one")
    saved.run(2, 3)  # refines a pane: the view's old files are in its new version no more
    present = saved.readings.log()

    for changelog in saved.readings.epoch.glob("state/0/*/*.changelog"):
        changelog.write_bytes(os.urandom(changelog.stat().st_size))
    for snapshot in saved.readings.epoch.glob("state/0/*/*.zip"):
        snapshot.write_bytes(os.urandom(snapshot.stat().st_size))
    with pytest.raises(CorruptState, match="cannot be read; no savepoint was made"):
        saved.save("rotten")
    assert list(savepoints(saved.place)) == ["one"]

    _vacuum(saved.readings, "view")
    with pytest.raises(TableVersionLost, match=r"view no longer holds version .* were vacuumed"):
        saved.restore("one")
    assert saved.readings.log() == present


def _vacuum(readings: Readings, table: str) -> None:
    spark = readings.spark
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        spark.sql(f"VACUUM delta.`{readings.folder / table}` RETAIN 0 HOURS").collect()
    finally:
        spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")


@pytest.mark.parametrize("deep", first_before_release((True,), (False,)))
def test_a_clone_runs_beside_the_job_and_does_not_change_it(saved: Saved, tmp_path: Path, *, deep: bool) -> None:
    """It resumes from the savepoint with the same results, in tables of its own."""
    saved.run(0, 1)
    saved.save("one")
    before = saved.readings.log()
    made = clone(saved.place, "one", into=tmp_path / "clone", deep=deep, spark=saved.readings.spark)
    saved.put(2, 3)
    job = saved.readings.computed().to_delta(made.tables["log"], view=made.tables["view"])
    assert job.start(checkpoint=made.checkpoint, trigger="available_now").await_end(timeout=300)

    assert require_same_state(saved.readings.spark, Path(made.checkpoint)) > 1
    assert saved.readings.log("clone/log") == LOG
    assert saved.readings.log("clone/view") == LOG[1:]
    assert saved.readings.log() == before
    assert show(saved.place, "one").checkpoint == str(saved.readings.checkpoint)


@pytest.mark.extended
def test_a_savepoint_can_be_restored_to_another_folder(saved: Saved) -> None:
    """No control file is processed twice. No job starts from the old checkpoint, which no longer fits the tables."""
    saved.run(0, 1)
    saved.save("one")
    saved.run(2, 3)
    new = saved.readings.folder / "elsewhere"
    with pytest.raises(SavepointRefused, match=r"--table .*log_quarantine"):
        saved.restore("one", checkpoint=new)
    made = show(saved.place, "one")
    saved.restore("one", checkpoint=new, tables=[table.path for table in made.tables.values()])
    with pytest.raises(SinkError, match=r"belongs to another checkpoint"):
        saved.readings.start()
    job = saved.readings.declare().start(checkpoint=new, trigger="available_now")
    assert job.await_end(timeout=300)
    saved.require_undisturbed()
    verify(saved.place, "one", deep=True, spark=saved.readings.spark)


@pytest.mark.release
def test_savepoints_are_restored_after_upkeep_beside_the_job(saved: Saved, capsys: pytest.CaptureFixture[str]) -> None:
    """Between the plan of each batch and its commits; at last with no retention, when the job is stopped."""
    upkeep = Upkeep(saved.readings.checkpoint, capsys)
    readings = saved.readings
    armed.arm(upkeep)
    try:
        saved.run(0, 1)
        saved.save("one", decode=False)
        before = {table: readings.rows(table) for table in ("log", "view", "log_metrics")}
        orphan = readings.folder / "log/part-of-a-killed-process.parquet"
        orphan.write_bytes(b"no version has it")
        os.utime(orphan, (0, 0))
        saved.run(2, 3)
    finally:
        armed.disarm(upkeep)
    saved.require_undisturbed()
    assert not orphan.exists()
    assert upkeep.total("removed", "log") == 1
    assert upkeep.total("compacted", "metrics") >= 2
    done = maintain(readings.checkpoint, retain=0, allow_short_retention=True)
    assert sum(one.removed for one in done.tables) > 0
    assert sum(one.kept for one in done.tables) > 0
    saved.require_undisturbed()

    saved.restore("one")
    assert {table: readings.rows(table) for table in before} == before
    readings.run()
    saved.require_undisturbed()


@pytest.mark.extended
def test_spark_looks_for_deletion_vectors_too(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a table that the library does not read: its list of files has none of them."""

    def refuse(*_: object) -> None:
        raise UnsupportedTable("it has a feature that the library does not know")

    monkeypatch.setattr(delta_tables, "missing_files", refuse)
    rows = spark.range(10).coalesce(1).write.format("delta").option("delta.enableDeletionVectors", "true")
    rows.save(str(tmp_path / "log"))
    DeltaTable.forPath(spark, str(tmp_path / "log")).delete("id = 3")
    folder = LocalFiles(tmp_path / "log")
    table = SavedTable(path=str(tmp_path / "log"), version=1, sha256=delta_tables.commit_checksum(folder, 1))
    require_version(lambda: spark, table, folder)
    (vector,) = Path(table.path).rglob("deletion_vector_*.bin")
    vector.unlink()
    with pytest.raises(TableVersionLost, match="no longer holds version 1"):
        require_version(lambda: spark, table, folder)


@pytest.mark.parametrize(
    "window",
    first_before_release(
        (TimeInterval(60, discard_age=120),),
        (TimeInterval(60, discard_age=120, results="retracting"),),
        (Session(20, discard_age=600, early=Every(rows=1)),),
    ),
)
def test_a_view_that_is_gone_is_made_again_from_its_log(saved: Saved, window: Window) -> None:
    """The restore says so, and the next start does it, once; the metrics and the downtime begin empty.

    No savepoint of before the loss is needed: one that is made after it notes that the view was gone.
    """
    readings = saved.readings
    for row in (  # as sessions, the third row makes one of the first two
        ("a", "10:00:50", 1),
        ("a", "10:01:30", 2),
        ("a", "10:01:10", 4),
        ("b", "10:03:00", 8),
        ("a", "10:01:20", 16),
        ("b", "10:03:30", 32),
    ):
        readings.put(row)
    readings.run(window=window)
    saved.save("one", decode=False)
    log, view = readings.rows("log"), readings.rows("view")
    assert len(view) < len(log)
    for table in ("view", "log_metrics", "log_downtime"):
        shutil.rmtree(readings.folder / table)
    with pytest.raises(SinkError, match=r"/view, .* are gone, .* a savepoint, which makes the view and .* again"):
        readings.run(window=window)

    preview = saved.restore("one")
    assert ({*preview.remade}, preview.filled) == ({"view", "metrics", "downtime"}, ("view",))
    readings.run(window=window)
    readings.run(window=window)
    assert sorted(map(str, readings.rows("view"))) == sorted(map(str, view))
    assert sorted(map(str, readings.rows("log"))) == sorted(map(str, log))
    assert readings.rows("log_metrics") == []
    assert "view" in saved.save("two", decode=False).manifest.tables

    shutil.rmtree(readings.folder / "view")
    assert "view" in saved.save("after", decode=False).manifest.gone
    assert saved.restore("after").forgotten is None
    readings.run(window=window)
    assert sorted(map(str, readings.rows("view"))) == sorted(map(str, view))


@pytest.mark.release  # CI makes a view again that is gone
def test_a_log_that_is_gone_begins_anew_when_that_is_asked_for(saved: Saved) -> None:
    """State and place in the sources go back, and the view with them; the new log has the firings from there on."""
    saved.run(0, 2)
    saved.save("one", decode=False)
    readings, log, view = saved.readings, saved.readings.log(), saved.readings.log("view")
    assert log
    shutil.rmtree(readings.folder / "log")
    for dry_run in (True, False):
        with pytest.raises(SavepointRefused, match=r"the log \S+ is gone, .* --begin-anew log$"):
            saved.restore("one", dry_run=dry_run)
    saved.restore("one", begin_anew=["log"])
    assert readings.log("view") == view
    saved.run(3, 3)
    assert [*log, *readings.log()] == LOG
    assert readings.log("view") == LOG[1:]
