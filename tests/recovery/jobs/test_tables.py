"""Which version of a table goes with a batch: the newest one without rows of a later batch."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from panekeeper.recovery.errors import SavepointError
from panekeeper.recovery.jobs.tables import versions_after_batch
from panekeeper.recovery.storage.files import LocalFiles


def commit(folder: Path, batch: int | None = None) -> None:
    """Commit a row, of a batch of the job or of another program."""
    once = CommitProperties(app_transactions=[] if batch is None else [Transaction("job", batch)])
    write_deltalake(folder, pa.table({"n": [batch or -1]}), mode="append", commit_properties=once)


def version_after(folder: Path, batch: int) -> int:
    """Return the version of a log that goes with a batch."""
    return versions_after_batch({"log": LocalFiles(folder)}, {"log": "job"}, batch)["log"]


def test_commits_of_a_later_batch_and_after_it_are_left_out(tmp_path: Path) -> None:
    """Others may commit to the table, too."""
    for batch in (0, 1, None, 2, None):
        commit(tmp_path, batch)
    assert [version_after(tmp_path, batch) for batch in (0, 1, 2)] == [0, 2, 4]


def test_a_log_that_was_cleaned_up_since_a_later_batch_has_no_version_without_it(tmp_path: Path) -> None:
    """Delta removes old commits, as while the job was down for longer than their retention."""
    for batch in (0, 1, 2, None):
        commit(tmp_path, batch)
    DeltaTable(tmp_path).create_checkpoint()
    commit(tmp_path)
    for version in range(3):
        (tmp_path / "_delta_log" / f"{version:020d}.json").unlink()
    with pytest.raises(SavepointError, match=r"has batch 2, which is not finished.*Start the job once"):
        version_after(tmp_path, 1)
    assert version_after(tmp_path, 2) == 4


def test_a_later_batch_that_somebody_has_taken_back_is_in_no_version(tmp_path: Path) -> None:
    """The table still has its transaction."""
    for batch in (0, 1, 2):
        commit(tmp_path, batch)
    DeltaTable(tmp_path).restore(1)
    assert version_after(tmp_path, 1) == 3
