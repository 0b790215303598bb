"""A restore where a table of the job has not gone back with the others, or need not."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from integration_tests.engine.readings import FILES, LOG
from integration_tests.selection import first_before_release
from panekeeper import TimeInterval, agg, windowed
from panekeeper.framework.declarations.errors import SinkError
from panekeeper.recovery.errors import SavepointRefused
from panekeeper.recovery.restore.restore import restore
from panekeeper.recovery.savepoint.create import savepoint

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Readings


@pytest.mark.parametrize("to", first_before_release(("elsewhere",), ("checkpoint",)))
def test_a_table_that_the_job_had_later_is_refused_until_its_rows_are_gone(readings: Readings, to: str) -> None:
    """It has not gone back with the others: the batches that are run again would be in it twice."""
    for rows in FILES[:2]:
        readings.put(*rows)
    readings.run()
    savepoint(readings.checkpoint, "one", to=readings.folder / "savepoints", decode=False)
    for rows in FILES[2:]:
        readings.put(*rows)
    moved = readings.computed().to_delta(readings.folder / "later", view=readings.folder / "view")
    assert moved.start(checkpoint=readings.checkpoint, trigger="available_now").await_end(timeout=300)
    assert readings.log("later")

    before = [readings.folder / name for name in ("log", "view", "log_quarantine", "log_metrics", "log_downtime")]
    restored = readings.folder / to
    restore(readings.folder / "savepoints", "one", checkpoint=restored, tables=before, spark=readings.spark)
    with pytest.raises(SinkError, match=r"the log \S+later has rows of job 'readings' from before a restore"):
        moved.start(checkpoint=restored, trigger="available_now").await_end(timeout=300)
    readings.declare().start(checkpoint=restored, trigger="available_now").await_end(timeout=300)
    assert readings.log() == LOG
    assert readings.log("view") == LOG[1:]


@pytest.mark.parametrize("begin", first_before_release(("restore",), ("reset",)))
def test_a_table_that_went_back_may_be_left_out_and_declared_again(readings: Readings, begin: str) -> None:
    """It has no row of a discarded batch: it went back with the others, or a reset lets it keep what it has."""
    readings.put(*FILES[0], ("d", None, 3))
    readings.run()
    kept = [row["row"] for row in readings.rows("log_quarantine")]
    if begin == "restore":
        savepoint(readings.checkpoint, "one", to=readings.folder / "savepoints", decode=False)
        restore(readings.folder / "savepoints", "one", spark=readings.spark)
    else:
        readings.declare().reset_to_initial_state(checkpoint=readings.checkpoint, confirm="readings")
    other = readings.computed().to_delta(
        readings.folder / "log", view=readings.folder / "view", quarantine=readings.folder / "other"
    )
    assert other.start(checkpoint=readings.checkpoint, trigger="available_now").await_end(timeout=300)
    readings.run()
    assert [row["row"] for row in readings.rows("log_quarantine")] == kept != []


@pytest.mark.parametrize("lost", first_before_release((1,), (2,)))
def test_a_table_that_has_lost_its_restore_is_refused(readings: Readings, lost: int) -> None:
    """A power cut may take its newest commits: with them goes what says that it belongs to the new epoch."""
    readings.put(*FILES[0])
    readings.run()
    savepoint(readings.checkpoint, "one", to=readings.folder / "savepoints", decode=False)
    for rows in FILES[1:]:
        readings.put(*rows)
    readings.run()
    restore(readings.folder / "savepoints", "one", spark=readings.spark)
    for commit in sorted((readings.folder / "log" / "_delta_log").glob("*.json"))[-lost:]:
        commit.unlink()
    with pytest.raises(SinkError, match="it is from before the last restore or reset"):
        readings.run()
    restore(readings.folder / "savepoints", "one", spark=readings.spark)
    readings.run()
    assert readings.log() == LOG
    assert readings.log("view") == LOG[1:]


@pytest.mark.extended
def test_what_another_job_writes_while_a_restore_is_interrupted_stays(readings: Readings) -> None:
    """They share the quarantine; the restored job has refused nothing since the savepoint, which would go back."""
    readings.put(*FILES[0], ("d", None, 3))
    readings.run()
    savepoint(readings.checkpoint, "one", to=readings.folder / "savepoints", decode=False)

    def kill(step: str) -> None:
        if step == "current":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restore(readings.folder / "savepoints", "one", spark=readings.spark, on_step=kill)
    other = windowed(readings.stream(), name="flights", partition_by="sensor", event_time="at", watermark=0).window(
        TimeInterval(60)
    )
    tables = other.aggregate(total=agg.sum("value")).to_delta(
        readings.folder / "flights", quarantine=readings.folder / "log_quarantine"
    )
    assert tables.start(checkpoint=readings.folder / "other", trigger="available_now").await_end(timeout=300)
    restore(readings.folder / "savepoints", "one", spark=readings.spark)
    readings.run()
    assert len(readings.rows("log_quarantine")) == 4  # two rows of each job
    readings.put(("e", None, 3))
    readings.run()
    with pytest.raises(SavepointRefused, match="log_quarantine has rows of 'flights'"):
        restore(readings.folder / "savepoints", "one", spark=readings.spark)


@pytest.mark.extended
def test_a_table_that_is_put_back_after_a_restore_is_refused(readings: Readings) -> None:
    """The first start in the new epoch has nothing else to compare it with."""
    for rows in FILES:
        readings.put(*rows)
    readings.run()
    savepoint(readings.checkpoint, "one", to=readings.folder / "savepoints", decode=False)
    log, backup = readings.folder / "log", readings.folder / "backup"
    shutil.copytree(log, backup)
    restore(readings.folder / "savepoints", "one", spark=readings.spark)
    restored = log.rename(readings.folder / "restored")
    backup.rename(log)
    with pytest.raises(SinkError, match="it is from before the last restore or reset"):
        readings.run()
    shutil.rmtree(log)
    restored.rename(log)
    readings.run()
    assert readings.log() == LOG
