"""What a settlement refuses before it looks at a table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from panekeeper import DeclarationError, SavepointRefused, Session, TimeInterval, agg, settle
from panekeeper.framework.builder.outputs import DeltaJob
from panekeeper.framework.testing.run import declared_job
from panekeeper.framework.testing.scripted_stream import ScriptedStream
from panekeeper.recovery.settle.settle import _last_batch, _pipeline
from panekeeper.state.checkpoint.folder import LocalFolder, prepared_file
from panekeeper.state.checkpoint.job_record import JobRecord
from panekeeper.state.compatibility import as_recorded
from panekeeper.state.prepared import PreparedBatch, prepare
from tests.fake_checkpoint import FakeCheckpoint

DECLARED: dict[str, Any] = {"aggregates": {"n": agg.count()}, "schema": "k string, at timestamp, last boolean"}


def job_of(**options: Any) -> DeltaJob:
    """A job that is declared and has no stream."""
    declared = declared_job(TimeInterval(10), partition_by="k", event_time="at", **DECLARED, **options)
    computation = declared.computation([ScriptedStream(port.columns) for port in declared.ports])
    return computation.to_delta("log")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"reason": "NULL_EVENT_TIME"},
            "reason is 'NULL_EVENT_TIME'; rows can be settled",
        ),
        ({"since": "yesterday"}, "since is 'yesterday'; give the number of a batch, or a time such as 2013-03-08"),
    ],
)
def test_what_is_no_reason_and_no_time_is_refused(given: dict[str, Any], message: str) -> None:
    """With what to give."""
    with pytest.raises(DeclarationError, match=message):
        settle("checkpoint", job_of(), **given)


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: job_of().foreach_batch(print), "the job has a sink of its own"),
        (lambda: job_of(marks="last"), "the job has marks in its stream"),
    ],
)
def test_jobs_whose_results_would_not_get_everywhere_are_refused(declare: Callable[[], DeltaJob], message: str) -> None:
    """Before anything is read."""
    with pytest.raises(DeclarationError, match=message):
        settle("checkpoint", declare())


def test_a_settlement_computes_by_the_declaration_of_the_last_batch(tmp_path: Path) -> None:
    """The one of another start was written after that, when it went on: no batch was computed by it."""
    files, job = LocalFolder(tmp_path), job_of()
    ran = as_recorded(job.pipeline.declaration(), 1)
    late = {**ran, "window.interval_duration_us": 7}
    record = JobRecord(name=job.pipeline.intake.name, id="job", declaration=late, group_ids=(0,), versions={})
    files.write("offsets/8", b"v1")
    prepare(files, PreparedBatch(number=8, epoch=0, spark_commit="", declaration=ran))
    files.write("commits/8", b"{}")
    place: Any = files
    assert _pipeline(job, place, record, 8).declaration() == job.pipeline.declaration()


def test_a_window_among_several_that_cannot_be_settled_is_named() -> None:
    """So is what the windows are, where another one is asked for."""
    windows: dict[str, Any] = {"ten": TimeInterval(10), "burst": Session(5)}
    declared = declared_job(windows=windows, partition_by="k", event_time="at", **DECLARED)
    job = declared.computation([ScriptedStream(port.columns) for port in declared.ports]).to_delta("log")
    with pytest.raises(DeclarationError, match="window burst: the job has a window of the kind Session, of which late"):
        settle("checkpoint", job)
    with pytest.raises(DeclarationError, match="window is 'day'; the windows of the job are ten, burst"):
        settle("checkpoint", job, window="day")
    with pytest.raises(DeclarationError, match="window is 'ten'; the job has one window"):
        settle("checkpoint", job_of(), window="ten")


def test_a_batch_that_tables_may_have_in_part_is_completed_first(tmp_path: Path) -> None:
    """One that was begun and not recorded is not in any table: what was committed before it is settled."""
    job = FakeCheckpoint(tmp_path / "checkpoint")
    with pytest.raises(SavepointRefused, match=r"no batch of .* was committed yet"):
        _last_batch(job.files)
    job.run(3)
    job.put("offsets/3", "v1")
    assert _last_batch(job.files) == 2
    job.put(prepared_file(0, 3), "")
    with pytest.raises(SavepointRefused, match=r"batch 3 of .* is not complete in the tables; start the job once"):
        _last_batch(job.files)
