"""A savepoint has the declaration that its state was computed by, though another one was written late over it (A2, A9).

A start with a changed declaration was paused in the write of `job.json`. The old program took over and has run batches
since, and each of them says by which declaration it was computed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from panekeeper.recovery.restore.clone import clone
from panekeeper.recovery.restore.restore import restore
from panekeeper.recovery.savepoint.catalog import show
from panekeeper.recovery.savepoint.checkpoint_snapshot import read_checkpoint
from panekeeper.recovery.upgrade.check import Before
from panekeeper.state.checkpoint.epochs import current_epoch
from panekeeper.state.checkpoint.job_record import read_record, write_record
from panekeeper.state.history import BEFORE, in_force
from panekeeper.state.prepared import PreparedBatch, prepare
from tests.fake_checkpoint import FakeCheckpoint, savepoint
from tests.recovery.storage.memory_archive import MemoryArchive

OLD: dict[str, Any] = {"window.kind": "timeInterval"}
NEW = {"window.kind": "timeInterval", "window.discard_age_us": 7}


@pytest.fixture
def late(job: FakeCheckpoint) -> FakeCheckpoint:
    """Batch 3 was computed by OLD; its record says so, and `job.json` that NEW has begun after batch 1."""
    record = read_record(job.files)
    assert record is not None
    prepare(job.files, PreparedBatch(number=3, epoch=0, spark_commit="", declaration=OLD))
    job.run()
    write_record(job.files, replace(record, declaration={**NEW, BEFORE: {"batch": 1, "declaration": OLD}}))
    return job


def in_force_in(folder: Path) -> Any:
    """The declaration by which a start takes the state of a checkpoint, whose last batch is 3."""
    current = current_epoch(FakeCheckpoint.at(folder).top)
    record = None if current is None else read_record(current)
    assert record is not None
    assert {name: value for name, value in record.declaration.items() if name != BEFORE} == NEW
    return in_force(record.declaration, 3)


def test_what_is_restored_or_cloned_has_the_declaration_of_its_batch(
    late: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path
) -> None:
    """A copy has no record of a batch, and so nothing else that says it."""
    savepoint(late.root, "one", to=archive)
    found = show(archive, "one")
    assert in_force(found.declaration, found.batch) == OLD
    restore(archive, "one")
    assert in_force_in(late.folder) == OLD
    restore(archive, "one", checkpoint=tmp_path / "elsewhere")
    assert in_force_in(tmp_path / "elsewhere") == OLD
    clone(archive, "one", into=tmp_path / "clone")
    assert in_force_in(tmp_path / "clone/checkpoint") == OLD


def test_plan_compares_with_the_declaration_of_the_last_batch(late: FakeCheckpoint) -> None:
    """As the next start does."""
    before = Before.of_checkpoint(read_checkpoint(late.files), late.root)
    assert (before.batch, in_force(before.declaration, before.batch)) == (3, OLD)
