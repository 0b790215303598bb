"""Whether a job that does not run could be started again, as `panekeeper status` says it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from panekeeper.framework.engine.job.lease import acquire
from panekeeper.framework.engine.job.status import RunTotals
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


def test_counts_are_those_since_a_start_and_say_since_when(checkpoint: LocalFolder) -> None:
    """Of the run, and so apart from how things are now; panes that lack a row are told where there are some."""
    lease = acquire(checkpoint, "readings", now=lambda: 1_714_557_600_000_000)
    totals = RunTotals(1, lambda: 1_714_557_660_000_000)
    lease.set_report(totals.report)
    lease.release("ended")
    lines = str(status(whole(checkpoint))).splitlines()
    assert "rows/s" not in "".join(lines)
    assert "since its start at 2024-05-01T10:01:00Z: rows: 0, late: 0, too late: 0, quarantined: 0" in lines
    counted = replace(
        status(whole(checkpoint)), rows=5, late=None, missed_panes=3, errors={"USER_ERROR": 2}, open_panes=8
    )
    *_, now, since, errors, _ = str(counted).splitlines()
    assert now == "open panes: 8"
    assert since.endswith("10:01:00Z: rows: 5, too late: 0, quarantined: 0, missed panes: 3")
    assert errors == "since its start at 2024-05-01T10:01:00Z: could not be computed: USER_ERROR 2"
    before = str(replace(counted, counted_since=None))
    assert "\nrows: 5, too late: 0" in before
