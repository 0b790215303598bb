"""Commits of Spark's that are lost after a restore: the batches are in the tables, under an epoch that has ended."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration_tests.engine.conftest import shown
from integration_tests.engine.readings import FILES, LOG
from integration_tests.selection import first_before_release
from panekeeper.framework.declarations.errors import IncompatibleCheckpoint
from panekeeper.recovery.cli.main import main
from panekeeper.recovery.errors import SavepointRefused
from panekeeper.recovery.restore.clone import clone
from panekeeper.recovery.restore.restore import restore
from panekeeper.recovery.savepoint.create import savepoint
from panekeeper.recovery.upgrade.rescale import rescale
from panekeeper.state.errors import CorruptState

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Readings


def lose(file: Path, checkpoint: Path, how: str = "cut short") -> None:
    """Remove a file, or cut it short and let a repair set it aside."""
    if how == "gone":
        file.unlink()
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    else:
        file.write_bytes(file.read_bytes()[:4])
        assert main(["repair", str(checkpoint)]) == 0


@pytest.mark.parametrize(
    ("by", "how"),
    [
        ("restore", "cut short"),
        *first_before_release(("rescale", "cut short"), ("restore", "gone")),
    ],
)
def test_a_batch_whose_commit_is_lost_after_a_restore_is_not_run_again(readings: Readings, by: str, how: str) -> None:
    """Run again, its rows would be there twice: the tables do not know the new epoch."""
    for rows in FILES:
        readings.put(*rows)
    readings.run()
    place = readings.folder / "savepoints"
    if by == "restore":
        savepoint(readings.checkpoint, to=place, name="before", spark=readings.spark)
        restore(place, "before", checkpoint=readings.checkpoint, spark=readings.spark)
    else:
        rescale(readings.checkpoint, 2, to=place, spark=readings.spark)
    last = readings.numbers("commits")[-1]
    lose(readings.checkpoint / "commits" / str(last), readings.checkpoint, how)
    with pytest.raises(SavepointRefused, match="was committed when that was restored or cloned"):
        savepoint(readings.checkpoint, to=place, name="again", spark=readings.spark)
    readings.run()
    assert readings.log() == LOG
    assert readings.log("view") == LOG[1:]
    assert readings.numbers("commits")[-1] >= last


@pytest.mark.parametrize("by", first_before_release(("clone",), ("restore",)))
def test_a_batch_whose_record_and_commit_are_lost_one_after_the_other_is_not_run_again(
    readings: Readings, by: str
) -> None:
    """A repair sets the record aside, as the batch is committed; then nothing in the checkpoint says that it is."""
    for rows in FILES:
        readings.put(*rows)
    readings.run()
    place, folder = readings.folder / "savepoints", readings.folder
    savepoint(readings.checkpoint, to=place, name="before", spark=readings.spark)
    if by == "restore":
        restore(place, "before", checkpoint=readings.checkpoint, spark=readings.spark)
    else:
        folder = readings.folder / "clone"
        clone(place, "before", into=folder, deep=True, spark=readings.spark)
    checkpoint = folder / "checkpoint"
    (record,) = (checkpoint / "panekeeper" / "prepared").iterdir()
    lose(record, checkpoint)
    lose(checkpoint / "commits" / str(readings.numbers("commits")[-1]), checkpoint)
    with pytest.raises(SavepointRefused, match="was committed when that was restored or cloned"):
        savepoint(checkpoint, to=place, name="again", spark=readings.spark)
    declared = readings.computed().to_delta(folder / "log", view=folder / "view")
    with pytest.raises(IncompatibleCheckpoint, match="what was recorded of it is gone"):
        declared.start(checkpoint=checkpoint, trigger="available_now")
    assert shown(readings.rows(str(folder / "log"))) == LOG


@pytest.mark.extended
def test_a_restored_checkpoint_without_its_logs_is_not_taken_for_a_new_one(readings: Readings) -> None:
    """All that it has in its tables would be there twice. S3 removes files late, by a restore that was paused."""
    readings.put(*FILES[0])
    readings.run()
    before = readings.log()
    place = readings.folder / "savepoints"
    savepoint(readings.checkpoint, to=place, name="before", spark=readings.spark)
    restore(place, "before", checkpoint=readings.checkpoint, spark=readings.spark)
    for logs in ("commits", "offsets"):
        shutil.rmtree(readings.checkpoint / logs)
    (readings.checkpoint / "metadata").unlink()
    with pytest.raises(CorruptState, match="the offsets of that batch are gone"):
        readings.run()
    assert readings.log() == before
    restore(place, "before", checkpoint=readings.checkpoint, spark=readings.spark)
    readings.run()
    assert readings.log() == before
