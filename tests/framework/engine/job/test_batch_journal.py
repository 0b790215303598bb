"""A batch is recorded once."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from integration_tests.drills.faults.pause import let_lease_expire
from panekeeper.framework.declarations.errors import CheckpointInUse
from panekeeper.framework.engine.job import batch_journal
from panekeeper.framework.engine.job.batch_journal import BatchJournal, MetricsContext
from panekeeper.framework.engine.job.lease import Lease, acquire
from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.state.checkpoint.job_record import JobRecord
from panekeeper.state.prepared import PreparedBatch, prepare, read_prepared

BATCH = PreparedBatch(number=0, epoch=0, spark_commit="v2\n{}")
NEXT = PreparedBatch(number=1, epoch=0, spark_commit="v2\n{}")


@pytest.mark.usefixtures("_spark")
def test_the_record_of_the_process_that_has_taken_over_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That one has completed the batch and recorded the next one, while this one was to remove older records."""
    folder: Any = LocalFolder(tmp_path)
    first = acquire(folder, "readings")

    def pause_after(checkpoint: LocalFolder, batch: PreparedBatch, owner: str) -> None:
        prepare(checkpoint, batch, owner)
        let_lease_expire(tmp_path)
        second = acquire(folder, "readings")
        checkpoint.write("commits/0", b"v2\n{}")
        prepare(checkpoint, NEXT)
        second.release("ended")

    monkeypatch.setattr(batch_journal, "prepare", pause_after)
    with pytest.raises(CheckpointInUse):
        _prepare(folder, first)
    assert read_prepared(folder, 0, 1) is not None


@pytest.mark.usefixtures("_spark")
def test_a_job_records_the_batch_that_its_start_has_reserved_though_it_has_acquired_its_lease_anew(
    tmp_path: Path,
) -> None:
    """A Python worker was slow in the first batch: the query is started again, and a heartbeat came in between."""
    folder: Any = LocalFolder(tmp_path)
    folder.write("offsets/0", b"v1\n{}")
    lease = acquire(folder, "readings")
    record = JobRecord(name="readings", id="job", declaration={}, group_ids=(0,), versions={})
    writer: Any = None
    assert BatchJournal(files=folder, record=record, writer=writer, lease=lease, declared={}).complete() is None
    lease.release("failed")
    lease.acquire()
    _prepare(folder, lease)
    assert read_prepared(folder, 0, 0) is not None


@pytest.fixture
def _spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Spark says of the batch."""
    monkeypatch.setattr(batch_journal, "spark_commit", lambda *_: BATCH.spark_commit)


def _prepare(folder: Any, lease: Lease) -> None:
    output: Any = SimpleNamespace(
        number=0,
        output_counts=dict.fromkeys(("results", "rejected"), 0),
        large_tags=[],
        counts={"rows_in": 0},
        flushed=False,
        drain_file=None,
        resumed_us=None,
    )
    nothing: Any = SimpleNamespace(sparkSession=None, has_user_sink=False, parts={}, rejected_schema=None)
    record = JobRecord(name="readings", id="job", declaration={}, group_ids=(0,), versions={})
    batches = BatchJournal(files=folder, record=record, writer=nothing, lease=lease, declared={})
    batches._record(nothing, output, nothing, nothing, MetricsContext(started_us=0, open_panes=None))
