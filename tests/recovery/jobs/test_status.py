"""Whether a job that does not run could be started again, as `panekeeper status` says it."""

from __future__ import annotations

import pytest

from panekeeper.recovery.jobs.status import status
from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.state.checkpoint.layout import FLUSHED_FILE
from panekeeper.state.prepared import PreparedBatch, prepare
from tests.recovery.jobs.conftest import RECORD, log_file


def test_status_says_why_a_job_cannot_resume(checkpoint: LocalFolder) -> None:
    """After a flush, and where Spark's logs were mixed up; a batch begun and not finished is no reason."""
    log_file(checkpoint, "commits", "5")
    assert "do not belong together" in str(status(checkpoint).why_not)
    checkpoint.write_json(FLUSHED_FILE, {"batch": 2})
    result = status(checkpoint)
    assert (result.state, result.resumable, result.health) == ("flushed", False, "healthy")
    assert "closed for good" in str(result.why_not)


@pytest.mark.parametrize("file", ["metadata", "offsets/1", "offsets/2", "commits/1"])
@pytest.mark.parametrize("is_gone", [True, False])
def test_status_names_a_small_file_that_no_start_could_read(
    checkpoint: LocalFolder, file: str, *, is_gone: bool
) -> None:
    """As after a power cut. Of a batch that is recorded, the offsets must be there, too."""
    assert status(checkpoint).resumable
    if file == "offsets/2":
        prepare(checkpoint, PreparedBatch(number=2, epoch=0, spark_commit="", job=RECORD.id))
    if is_gone:
        checkpoint.remove(file)
    else:
        (checkpoint.path / file).write_text("")
    result = status(checkpoint)
    assert not result.resumable
    assert "do not belong together" in str(result.why_not) or "panekeeper repair" in str(result.why_not)
