"""A batch is recorded once."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from integration_tests.drills.faults.pause import let_lease_expire
from panekeeper.framework.declarations.errors import CheckpointInUse
from panekeeper.framework.engine.job.lease import Lease, acquire
from panekeeper.framework.engine.job.prepared import preparation
from panekeeper.framework.engine.job.prepared.preparation import Preparation
from panekeeper.framework.engine.sink.protocol import BatchContext
from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.state.checkpoint.layout import LOCK_FILE
from panekeeper.state.prepared import PreparedBatch, prepare, read_prepared

BATCH = PreparedBatch(number=0, epoch=0, spark_commit="v2\n{}")
NEXT = PreparedBatch(number=1, epoch=0, spark_commit="v2\n{}")


class OnDisk(LocalFolder):
    """A checkpoint that needs no session."""

    def without_java(self) -> LocalFolder:
        return self


@pytest.mark.usefixtures("_spark")
def test_the_record_of_the_process_that_has_taken_over_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That one has completed the batch and recorded the next one, while this one was to remove older records."""
    folder: Any = OnDisk(tmp_path)
    first = acquire(folder, "readings")

    def pause_after(checkpoint: LocalFolder, batch: PreparedBatch) -> None:
        prepare(checkpoint, batch)
        let_lease_expire(tmp_path)
        folder.remove(LOCK_FILE)
        second = acquire(folder, "readings")
        checkpoint.write("commits/0", b"v2\n{}")
        prepare(checkpoint, NEXT)
        second.release("ended")

    monkeypatch.setattr(preparation, "prepare", pause_after)
    with pytest.raises(CheckpointInUse):
        _prepare(folder, first)
    assert read_prepared(folder, 0, 1, job="job") is not None


@pytest.fixture
def _spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Spark says of the batch."""
    monkeypatch.setattr(preparation, "spark_commit", lambda *_: BATCH.spark_commit)


def _prepare(folder: Any, lease: Lease) -> None:
    sink: Any = SimpleNamespace(prepared=lambda *_, **__: BATCH)
    output: Any = SimpleNamespace(number=0, rows={}, large_tags=[])
    nothing: Any = SimpleNamespace(sparkSession=None)
    batches = Preparation(files=folder, sink=sink, lease=lease, epoch=0)
    batches.prepare(nothing, output, nothing, BatchContext(started_us=0, open_panes=None))
