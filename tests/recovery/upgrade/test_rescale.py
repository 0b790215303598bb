"""What is refused before a job is rescaled, and how the name of the folder is rewritten."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from panekeeper.recovery.cli.commands import COMMANDS
from panekeeper.recovery.errors import SavepointRefused
from panekeeper.recovery.savepoint.checkpoint_files import read_checkpoint
from panekeeper.recovery.savepoint.manifest import manifest_file
from panekeeper.recovery.upgrade.rescale import _savepoint_before, keep_in_force, rescale
from panekeeper.state.checkpoint.epochs import Begin, write_begin
from panekeeper.state.checkpoint.folder import JOB_FILE, prepared_file
from panekeeper.state.checkpoint.job_record import last_batches, read_record, write_record
from panekeeper.state.history import BEFORE, in_force
from tests.recovery.conftest import FakeCheckpoint, savepoint
from tests.recovery.storage.memory_archive import MemoryArchive

SPARK: Any = object()


def test_rescaling_is_refused_before_anything_is_saved(job: FakeCheckpoint, archive: MemoryArchive) -> None:
    """A number below 1, the present number, a batch that is recorded, an interrupted restore, a running job."""

    def refuse(partitions: int, message: str) -> None:
        with pytest.raises(SavepointRefused, match=message):
            rescale(job.folder, partitions, to=archive, spark=SPARK)

    refuse(0, "partitions is 0; it must be 1 or more")
    refuse(2, "has 2 shuffle partitions already")
    job.put(prepared_file(0, job.batch + 1), "what it writes")
    job.put(f"offsets/{job.batch + 1}", "begun")
    refuse(4, "is recorded and not completed")
    job.files.remove(prepared_file(0, job.batch + 1))
    job.files.remove(f"offsets/{job.batch + 1}")
    write_begin(job.files, Begin(kind="restore"))
    with pytest.raises(SavepointRefused, match=r"a restore of the job of .* is not complete"):
        rescale(job.folder, 4, to=archive, spark=SPARK)
    job.files.remove("begin.json")
    job.lease(pid=os.getpid())
    refuse(4, "drain it first")
    assert not archive.files


def test_spark_4_1_cannot_rescale(job: FakeCheckpoint, archive: MemoryArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is saved the message says which pyspark can."""
    monkeypatch.setattr("panekeeper.recovery.upgrade.rescale._REPARTITIONER", "what_this_pyspark_lacks")
    with pytest.raises(SavepointRefused, match=r"rescaled by pyspark 4\.2"):
        rescale(job.folder, 4, to=archive, spark=SPARK)
    assert not archive.files


def test_a_declaration_that_was_only_recorded_is_still_that_after_spark_has_run_its_batch(job: FakeCheckpoint) -> None:
    """The old program then goes on with its own state, as it would without the rescaling."""
    last = last_batches(job.files)[1]
    assert last is not None
    old = {"window.kind": "timeInterval", "aggregate.n.kind": "count", "output.n": "int64"}
    before: dict[str, Any] = {"batch": last, "declaration": old}
    recorded = {**old, BEFORE: before}
    record = read_record(job.files)
    assert record is not None
    for declaration, stays in (
        (old, True),
        (recorded, False),
        ({**old, BEFORE: {**before, "batch": 0}}, True),
    ):
        write_record(job.files, replace(record, declaration=declaration))
        job.put(f"commits/{last + 1}", "v1\n{}")
        keep_in_force(job.files, last)
        found = read_record(job.files)
        assert found is not None
        assert (found.declaration == declaration) is stays
        assert in_force(found.declaration, last + 1) == (found.declaration if stays else old)


def test_the_command_prints_how_to_undo_it_and_how_groups_are_distributed() -> None:
    """A number that is too large shows at once."""
    fields = {"checkpoint": "/cp", "savepoint": "one", "location": "/s", "old": 4, "new": 9, "values": 70}
    text = COMMANDS["rescale"].lines({**fields, "busiest": 3, "idle": 2})
    assert text.splitlines() == [
        "/cp has 9 shuffle partitions now (before: 4; 70 stored values were compared and are the same)",
        "to undo it: panekeeper restore /s one",
        "at most 3 key groups share a shuffle partition",
        "2 shuffle partitions have no key group and do nothing",
    ]


def test_a_savepoint_of_before_rows_were_deleted_is_not_what_a_rescaling_goes_back_to(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted rescaling has left it: the tables would go back with the state, and have the rows again."""
    monkeypatch.setattr("panekeeper.recovery.upgrade.rescale.savepoint", savepoint)
    log = str(tmp_path / "log")
    write_deltalake(log, pa.table({"n": [1, 2]}))
    job.tables(log=log, view=None)
    found, names = read_checkpoint(job.files), []
    for _ in range(4):
        names += [_savepoint_before(found, archive, SPARK, None) for _ in range(2)]
        DeltaTable(log).delete("n = 1")
        write_deltalake(log, pa.table({"n": [1]}), mode="append")
    first = "readings-before-rescale-0-2"
    suffixes = ["", "-0123456789ab", "-0123456789ab-2", "-0123456789ab-3"]
    assert names == [f"{first}{suffix}" for suffix in suffixes for _ in range(2)]


@pytest.mark.parametrize("change", ["of a clone", "damaged"])
def test_a_savepoint_of_another_job_under_the_name_of_that_before_a_rescaling_is_in_nobodys_way(
    job: FakeCheckpoint, archive: MemoryArchive, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clone has the name of its original, and may have its epoch and batch; a rescaling takes no name from a user."""
    monkeypatch.setattr("panekeeper.recovery.upgrade.rescale.savepoint", savepoint)
    found = read_checkpoint(job.files)
    names = [_savepoint_before(found, archive, SPARK, None) for _ in range(2)]
    assert names == ["readings-before-rescale-0-2"] * 2
    first = names[0]
    if change == "damaged":
        archive.files[manifest_file(first)] = b""
    else:
        found = replace(found, record=replace(found.record, id="ba9876543210"))
        job.put(JOB_FILE, json.dumps(found.record.to_json()))
    names = [_savepoint_before(found, archive, SPARK, None) for _ in range(2)]
    assert names == [f"{first}-{found.record.id}"] * 2
