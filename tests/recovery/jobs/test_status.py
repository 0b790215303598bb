"""Whether a job that does not run could be started again, as `panekeeper status` says it."""

from __future__ import annotations

import pytest

from panekeeper.framework.engine.job.lease import acquire
from panekeeper.recovery.jobs.status import status
from panekeeper.state.checkpoint.folder import FLUSHED_FILE, LocalFolder
from tests.recovery.jobs.conftest import log_file, whole


def test_status_says_why_a_job_cannot_resume(checkpoint: LocalFolder) -> None:
    """After a flush, and where Spark's logs were mixed up; a batch begun and not finished is no reason."""
    log_file(checkpoint, "commits", "5")
    assert "do not belong together" in str(status(whole(checkpoint)).why_not)
    checkpoint.write_json(FLUSHED_FILE, {"batch": 2})
    result = status(whole(checkpoint))
    assert (result.state, result.resumable, result.health) == ("flushed", False, "healthy")
    assert "closed for good" in str(result.why_not)


def test_status_has_all_of_the_error_by_which_a_job_failed(
    checkpoint: LocalFolder, caplog: pytest.LogCaptureFixture
) -> None:
    """Its first line in the reason, the whole in the fields and the log; nothing once another run has ended."""
    said = "job 'readings' stopped: ZeroDivisionError\nTraceback (most recent call last):\n  File x, line 7, in broken"
    failed = acquire(checkpoint, "readings")
    failed.set_report(lambda: {"error": said})
    failed.release("failed")
    found = status(whole(checkpoint))
    assert (found.state, found.health, found.error) == ("failed", "down", said)
    assert "it failed: job 'readings' stopped: ZeroDivisionError; remove the cause" in found.why
    assert said in caplog.text
    acquire(checkpoint, "readings").release("ended")
    assert status(whole(checkpoint)).error is None
