"""What is refused before a job is rescaled, and how the name of the folder is rewritten."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

from panekeeper.recovery.errors import SavepointRefused
from panekeeper.recovery.upgrade.rescale import Rescaled, keep_in_force, rescale
from panekeeper.state.checkpoint.epochs import Begin, write_begin
from panekeeper.state.checkpoint.folder import prepared_file
from panekeeper.state.checkpoint.job_record import last_batches, read_record, write_record
from panekeeper.state.history import BEFORE, in_force
from tests.fake_checkpoint import FakeCheckpoint
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
    done = Rescaled(checkpoint="/cp", savepoint="one", location="/s", old=4, new=9, values=70, busiest=3, idle=2)
    assert str(done).splitlines() == [
        "/cp has 9 shuffle partitions now (before: 4; 70 stored values were compared and are the same)",
        "to undo it: panekeeper restore /s one",
        "at most 3 key groups share a shuffle partition",
        "2 shuffle partitions have no key group and do nothing",
    ]
