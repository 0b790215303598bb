"""A batch is recorded once, and when what it was begun with is on the disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from panekeeper.framework.declarations.errors import CheckpointInUse
from panekeeper.framework.engine.job.lease import Lease, acquire
from panekeeper.framework.engine.job.prepared import preparation
from panekeeper.framework.engine.job.prepared.preparation import Preparation
from panekeeper.framework.engine.sink.protocol import BatchContext
from panekeeper.recovery.drill.faults.pause import let_lease_expire
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


@pytest.mark.usefixtures("_spark")
def test_what_a_batch_was_begun_with_is_on_the_disk_before_its_plan_runs(
    tmp_path: Path, on_fsync: Callable[[Callable[[Path], None]], None]
) -> None:
    """A power cut must not take a part of what a table may have rows of: with the name of a file, what is in it."""
    folder: Any = OnDisk(tmp_path)
    lease = acquire(folder, "readings")
    files = {"offsets/0": b'v1\n{}\n{"logOffset":0}', "sources/0/0": b"v1\n{}"}
    for name, content in files.items():
        folder.write(name, content)
    flushed = {}

    def record(path: Path) -> None:
        if path.is_relative_to(tmp_path):
            flushed[str(path.relative_to(tmp_path))] = [*folder.names("panekeeper/prepared")]

    on_fsync(record)
    _prepare(folder, lease)
    for name in (*files, "offsets", "sources/0"):
        assert flushed[name] == [], f"{name} is flushed while nothing is recorded"
    assert flushed["panekeeper/prepared"] == ["0-0"]


@pytest.fixture
def _spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Spark says of the batch."""
    monkeypatch.setattr(preparation, "spark_commit", lambda *_: BATCH.spark_commit)
    monkeypatch.setattr(preparation, "begun_ms", lambda *_: None)


def _prepare(folder: Any, lease: Lease) -> None:
    sink: Any = SimpleNamespace(prepared=lambda *_, **__: BATCH)
    output: Any = SimpleNamespace(number=0, rows={}, large_tags=[])
    nothing: Any = SimpleNamespace(sparkSession=None)
    batches = Preparation(files=folder, sink=sink, lease=lease, epoch=0)
    batches.begin(0)
    batches.prepare(nothing, output, nothing, BatchContext(started_us=0, open_panes=None))
