"""Whether a job that does not run could be started again, as `panekeeper status` says it."""

from __future__ import annotations

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
