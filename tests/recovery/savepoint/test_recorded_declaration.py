"""A savepoint has the declaration by which its state was computed."""

from __future__ import annotations

from typing import Any

import pytest

from panekeeper.recovery.errors import SavepointRefused
from panekeeper.recovery.savepoint.checkpoint_reader import read_checkpoint
from panekeeper.state.checkpoint.folder import prepared_file
from panekeeper.state.history import BEFORE, HISTORY
from panekeeper.state.prepared import PreparedBatch
from tests.recovery.conftest import FakeCheckpoint

DECLARED = {"window.kind": "timeInterval"}


def last_batch_by(job: FakeCheckpoint, declaration: dict[str, Any]) -> None:
    """Record the last batch as one that was computed by a declaration."""
    batch = PreparedBatch(number=2, epoch=0, spark_commit="", job="0123456789ab", declaration=declaration)
    job.files.put_bytes(prepared_file(0, 2), batch.to_bytes())


@pytest.mark.parametrize("declaration", [{}, DECLARED, {**DECLARED, BEFORE: {"batch": 1, "declaration": {}}}])
def test_the_recorded_declaration_is_that_of_the_last_batch(
    stored_job: FakeCheckpoint, declaration: dict[str, Any]
) -> None:
    """An earlier version has recorded none; which one came before makes no difference."""
    last_batch_by(stored_job, declaration)
    assert read_checkpoint(stored_job.files).batch == 2


def test_a_declaration_that_a_paused_process_wrote_is_not_saved(stored_job: FakeCheckpoint) -> None:
    """Restored, nothing would say any more by which one the state was computed."""
    last_batch_by(stored_job, {**DECLARED, HISTORY: {"numbers": {"n": 0}}})
    with pytest.raises(SavepointRefused, match=r"batch 2 of .* computed by another declaration .* start it once"):
        read_checkpoint(stored_job.files)
