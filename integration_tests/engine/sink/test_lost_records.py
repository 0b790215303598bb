"""What is recorded of a batch, or a table that has to get it, is lost or damaged: what is there to do?"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from integration_tests.engine.readings import LOG
from integration_tests.engine.sink.conftest import fail_in_batch_2, recorded
from panekeeper import JobFailed, JobFinished, SchemaMismatch, SinkError
from panekeeper.framework.engine.sink import fault_points
from panekeeper.state.checkpoint.folder import prepared_file
from panekeeper.state.errors import CorruptState

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Readings


def test_a_table_that_is_gone_and_has_to_get_recorded_rows_is_refused(
    story: Readings, fail_at: Callable[[str, int], None]
) -> None:
    """The quarantine of the batch is nowhere else. A view that is declared no more is no loss: the log has it."""
    fail_in_batch_2(story, fail_at, "between-delta")
    shutil.rmtree(story.folder / "log_quarantine")
    shutil.rmtree(story.folder / "view")
    job = story.computed().to_delta(story.folder / "log")
    with pytest.raises(SinkError, match=r"batch 2 .* quarantine .*log_quarantine, which is gone.*restore a savepoint"):
        job.start(checkpoint=story.checkpoint, trigger="available_now")
    assert story.log() == [row for row in LOG if row in story.log()]


def test_a_table_that_is_gone_while_the_job_runs_is_not_made_anew(
    story: Readings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's append would make one, without the rows of before. Put back, it gets the batch from the record."""
    log, away = story.folder / "log", story.folder / "away"

    def take_away(step: str, number: int, table: str) -> None:
        if step == "before-commit" and number == 2 and table == str(log):
            log.rename(away)

    monkeypatch.setattr(fault_points, "hook", take_away)
    with pytest.raises(SinkError, match=rf"the log {log} is gone"):
        story.run()
    monkeypatch.undo()
    assert not log.exists()
    away.rename(log)
    story.run()
    assert story.log() == LOG


def test_a_table_that_forgets_its_batches_gets_none_twice(story: Readings, fail_at: Callable[[str, int], None]) -> None:
    """It is refused before the recorded batch is written, also when it forgets no more: what it had is lost."""
    fail_in_batch_2(story, fail_at, "after-delta-commit")
    written = story.log()
    for table in ("log", "log_quarantine"):
        properties = "'delta.setTransactionRetentionDuration'='interval 1 second', 'delta.checkpointInterval'='1'"
        story.spark.sql(f"ALTER TABLE delta.`{story.folder / table}` SET TBLPROPERTIES ({properties})")
        story.spark.sql(f"ALTER TABLE delta.`{story.folder / table}` SET TBLPROPERTIES ('a'='b')")
    with pytest.raises(SinkError, match=r"/log records for 'interval 1 second' only .* UNSET TBLPROPERTIES"):
        story.start()
    for table in ("log", "log_quarantine"):
        unset = "UNSET TBLPROPERTIES ('delta.setTransactionRetentionDuration')"
        story.spark.sql(f"ALTER TABLE delta.`{story.folder / table}` {unset}")
    with pytest.raises(SinkError, match=r"log \S+ has forgotten which batches it has.* Restore a savepoint"):
        story.start()
    assert story.log() == written


@pytest.mark.extended
def test_a_record_that_writes_to_what_is_no_table_of_a_job_is_damaged(
    story: Readings, fail_at: Callable[[str, int], None]
) -> None:
    """A start would append to any table that it names."""
    fail_in_batch_2(story, fail_at, "before-delta")
    batch = recorded(story, 2)
    assert batch is not None
    other = replace(batch.writes[0], role="extra", table="", path=str(story.folder / "view"))
    (story.epoch / prepared_file(0, 2)).write_bytes(replace(batch, writes=[*batch.writes, other]).to_bytes())
    with pytest.raises(CorruptState, match="is damaged: it writes as"):
        story.start()


@pytest.mark.extended
def test_a_column_that_is_renamed_while_a_batch_is_recorded_is_named(
    story: Readings, fail_at: Callable[[str, int], None]
) -> None:
    """Spark writes such a table, whose error named neither the table nor what to do."""
    fail_in_batch_2(story, fail_at, "before-delta")
    log = f"delta.`{story.folder}/log`"
    mapping = "'delta.columnMapping.mode'='name','delta.minReaderVersion'='2','delta.minWriterVersion'='5'"
    story.spark.sql(f"ALTER TABLE {log} SET TBLPROPERTIES ({mapping})")
    story.spark.sql(f"ALTER TABLE {log} RENAME COLUMN n TO m")
    with pytest.raises(SchemaMismatch, match=r"the log \S+/log does not take the rows of batch 2\. .*change them back"):
        story.start()
    story.spark.sql(f"ALTER TABLE {log} RENAME COLUMN m TO n")
    story.run()
    assert story.log() == LOG


def test_a_flush_that_was_interrupted_is_finished_by_the_next_start(
    story: Readings, fail_at: Callable[[str, int], None]
) -> None:
    """Its batch is recorded, so there is nothing left to run."""
    job = story.run()
    fail_at("between-delta", story.numbers("offsets")[-1] + 1)
    with pytest.raises(JobFailed):
        job.flush()
    assert not job.finished
    with pytest.raises(JobFinished):
        story.start()
    assert {row["reason"] for row in story.rows("log")} == {"WATERMARK", "LATE", "FLUSH"}
    assert {row[:2] for row in story.log()} - {row[:2] for row in LOG} == {("c", "10:09")}
    assert len(story.log()) == len(LOG) + 1
    assert story.numbers("commits") == story.numbers("offsets")
