"""Whether a job that does not run could be started again, as `panekeeper status` says it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from panekeeper.diagnostics.inspector.opened import Opened
from panekeeper.diagnostics.report.report import report
from panekeeper.diagnostics.tables.written import table_path
from panekeeper.framework.declarations.errors import SinkError
from panekeeper.framework.engine.job.lease import acquire
from panekeeper.framework.engine.job.status import RunTotals
from panekeeper.recovery.jobs.gone_tables import why_gone
from panekeeper.recovery.jobs.status import status
from panekeeper.state.checkpoint.folder import FLUSHED_FILE, LocalFolder
from panekeeper.state.checkpoint.job_record import LastSavepoint, write_last_savepoint
from tests.fake_checkpoint import FakeCheckpoint
from tests.recovery.jobs.conftest import RECORD, log_file, whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    assert "since its start at 2024-05-01T10:01:00Z: rows: 0, late: 0, too late: 0, bad: 0" in lines
    counted = replace(
        status(whole(checkpoint)), rows=5, late=None, missed_panes=3, errors={"USER_ERROR": 2}, open_panes=8
    )
    *_, now, since, errors, _ = str(counted).splitlines()
    assert now == "open panes: 8"
    assert since.endswith("10:01:00Z: rows: 5, too late: 0, bad: 0, missed panes: 3")
    assert errors == "since its start at 2024-05-01T10:01:00Z: could not be computed: USER_ERROR 2"
    before = str(replace(counted, counted_since=None))
    assert "\nrows: 5, too late: 0" in before


@pytest.mark.parametrize("reported", [2, 1, 0])
def test_figures_say_after_which_batch_a_job_reported_them(checkpoint: LocalFolder, reported: int) -> None:
    """Killed amid batch 2: the one that had begun, of which the tables were written; the committed one; one before.

    Once the batch that had begun is committed, nothing is left to complete.
    """
    lease = acquire(checkpoint, "readings")
    lease.set_report(
        lambda: {"batch": reported, "open": {"panes": 8}, "progress": {"watermark": 1_714_557_600_000_000, "rows": 5}}
    )
    lease.release("failed")
    found = status(whole(checkpoint))
    assert (found.last_commit, found.last_offset, found.reported_batch) == (1, 2, reported)
    *_, batches, begun, after, watermark, still_open, rows, resumable = str(found).splitlines()
    assert (batches, begun) == (
        "last batch begun: 2, committed: 1",
        "batch 2 had begun: the next start completes it",
    )
    assert after == f"as reported after batch {reported}:"
    assert watermark.startswith("watermark: 2024-05-01T10:00:00Z, ")
    assert (still_open, rows, resumable) == ("open panes: 8", "rows: 5", "resumable: yes")
    log_file(checkpoint, "commits", "2")
    assert "had begun" not in str(status(whole(checkpoint)))


def test_a_running_job_has_always_begun_a_batch(checkpoint: LocalFolder) -> None:
    """So nobody is told to complete it; nor is a batch named where none was reported."""
    lease = acquire(checkpoint, "readings")
    lease.set_report(lambda: {"batch": None, "open": {"panes": None}, "progress": {"rows": 0}})
    lease.renew()
    found = status(whole(checkpoint))
    lease.release("ended")
    assert (found.running, found.last_offset, found.last_commit) == (True, 2, 1)
    assert "had begun" not in str(found)
    assert "as reported" not in str(found)


def test_a_job_whose_table_is_gone_cannot_resume(tmp_path: Path) -> None:
    """As its start would say, with the command for the newest savepoint; all tables there: it can resume.

    A table that only Spark reaches is not judged, nor one on a disk if the checkpoint is elsewhere.
    """
    job = FakeCheckpoint(tmp_path / "checkpoint").run(1)
    for role in ("log", "now"):
        (tmp_path / role / "_delta_log").mkdir(parents=True)
        (tmp_path / role / "_delta_log" / f"{0:020d}.json").touch()
    tables = {"log": str(tmp_path / "log"), "view": str(tmp_path / "now"), "quarantine": "hdfs://there/quarantine"}
    job.tables(**tables)
    root = LocalFolder(tmp_path / "checkpoint")
    assert status(root).resumable
    write_last_savepoint(job.files, LastSavepoint(name="monday", location=str(tmp_path / "my sp"), at=0, batch=0))
    (tmp_path / "log").rename(tmp_path / "moved")
    found = status(root)
    assert (found.resumable, found.health) == (False, "unusable")
    assert f"the table {tmp_path}/log is gone" in found.why
    command = f"panekeeper restore '{tmp_path}/my sp' monday --checkpoint {job.root}"
    assert f"(`{command} --begin-anew log`)" in found.why
    (tmp_path / "now").rename(tmp_path / "moved_view")
    both = status(root).why
    assert f"the tables {tmp_path}/log, {tmp_path}/now are gone" in both
    assert f"(`{command} --begin-anew log --begin-anew view`)" in both
    (tmp_path / "moved").rename(tmp_path / "log")
    assert "a savepoint, which makes it again or says why it cannot" in status(root).why
    assert why_gone(RemoteFolder(Path(job.files.place))) is None


@dataclass(frozen=True)
class RemoteFolder(LocalFolder):
    """A folder that another host has, too."""

    @property
    def place(self) -> str:
        return "abfss://there/checkpoint"


def test_a_reader_of_a_table_that_is_gone_hears_it_as_a_start_says_it(tmp_path: Path) -> None:
    """`why`, `diff` and `replay` ask before Spark is started; the report leaves the table out, in plain words."""
    job = FakeCheckpoint(tmp_path / "checkpoint").run(1)
    gone = str(tmp_path / "log")
    job.tables(log=gone)
    with pytest.raises(SinkError, match=r"the table .*/log is gone, and this checkpoint has written to it"):
        table_path(job.files, "log")

    def no_session() -> SparkSession:
        raise AssertionError

    state = Opened(session=no_session, files=job.files, record=RECORD, ports=[], batch=0, first=0, tables={"log": gone})
    with pytest.raises(SinkError, match=r"the table .*/log is gone"):
        state.frame(gone)
    page = report(job.root, open_panes=False)
    assert page.notes == (f"The log {gone} is gone; `panekeeper status CHECKPOINT` says what to do.",)
