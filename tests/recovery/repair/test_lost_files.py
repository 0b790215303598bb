"""Files of Spark that are gone: a repair finds those that a start needs."""

from __future__ import annotations

from recovery.repair.repair import repair
from state.checkpoint.layout import prepared_file
from state.prepared import PreparedBatch
from tests.recovery.conftest import FakeCheckpoint


def found(job: FakeCheckpoint) -> dict[str, str]:
    """File -> what is done with it."""
    return {one.file: one.action for one in repair(job.root, no_sink=True).findings}


def test_an_id_that_is_gone_is_replaced(stored_job: FakeCheckpoint) -> None:
    """Spark refuses a checkpoint without one."""
    stored_job.files.remove("metadata")
    assert found(stored_job) == {"metadata": "replace"}
    assert repair(stored_job.root).findings == ()


def test_offsets_that_are_gone_are_found(stored_job: FakeCheckpoint) -> None:
    """Those before the newest ones, which Spark compares; and those of a batch that is recorded."""
    stored_job.files.remove("offsets/1")
    assert found(stored_job) == {"offsets/1": "none"}
    stored_job.put("offsets/1", stored_job.files.read("offsets/2").decode())
    batch = PreparedBatch(number=3, epoch=0, spark_commit="", job="0123456789ab")
    stored_job.files.put_bytes(prepared_file(0, 3), batch.to_bytes())
    assert found(stored_job) == {"offsets/3": "none"}


def test_offsets_of_the_newest_committed_batch_that_are_gone_are_found(stored_job: FakeCheckpoint) -> None:
    """A start says that the logs do not agree."""
    stored_job.files.remove("offsets/2")
    assert found(stored_job) == {"offsets/2": "none"}


def test_offsets_before_a_batch_that_was_begun_are_found(stored_job: FakeCheckpoint) -> None:
    """What its control files were is not known then."""
    stored_job.begin()
    stored_job.files.remove("offsets/2")
    assert found(stored_job) == {"offsets/2": "none"}


def test_offsets_that_are_an_older_copy_are_found(stored_job: FakeCheckpoint) -> None:
    """With those of a batch that was begun and not run, it is planned again; others need the right ones."""
    last = PreparedBatch(number=2, epoch=0, spark_commit="", job="0123456789ab", begun_ms=7)
    stored_job.files.put_bytes(prepared_file(0, 2), last.to_bytes())
    assert found(stored_job) == {"offsets/2": "none"}
