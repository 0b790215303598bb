"""What is recorded of a batch, or a table that has to get it, is lost or damaged: what is there to do?"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from integration_tests.engine.readings import LOG
from integration_tests.engine.sink.conftest import fail_in_batch_2, recorded, take_last_commit
from integration_tests.selection import first_before_release
from panekeeper import CheckpointError, JobFailed, JobFinished, SchemaMismatch, SinkError
from panekeeper.framework.engine.flow import processor
from panekeeper.framework.engine.session.file_manager import FORMAT_SETTING
from panekeeper.framework.engine.user_sinks.foreach_batch import ForeachBatch
from panekeeper.recovery.cli.main import main
from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.state.checkpoint.layout import prepared_file
from panekeeper.state.errors import CorruptState
from panekeeper.state.prepared import PreparedBatch, prepare
from panekeeper.state.spark_logs.checksums import checksum_of

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Readings


def test_rows_of_a_table_that_is_gone_are_left_out_only_if_one_insists(
    story: Readings, fail_at: Callable[[str, int], None]
) -> None:
    """The quarantine of the batch is nowhere else. A view that is declared no more is no loss: the log has it."""
    fail_in_batch_2(story, fail_at, "between-delta")
    shutil.rmtree(story.folder / "log_quarantine")
    shutil.rmtree(story.folder / "view")
    job = story.computed().to_delta(story.folder / "log")
    for accepted in (None, 1):
        with pytest.raises(SinkError, match=r"batch 2 .* quarantine .*log_quarantine, which is gone.*accept_batch=2"):
            job.start(checkpoint=story.checkpoint, trigger="available_now", accept_batch=accepted)
    with pytest.raises(SinkError, match="log_quarantine is gone"):  # it has others of this job, which nothing replaces
        job.start(checkpoint=story.checkpoint, trigger="available_now", accept_batch=2)
    assert story.log() == [row for row in LOG if row in story.log()]


@pytest.mark.parametrize("next_is_begun", [False, pytest.param(True, marks=pytest.mark.extended)])
def test_a_commit_that_a_power_cut_took_from_a_table_is_made_again(
    story: Readings, fail_at: Callable[[str, int], None], *, next_is_begun: bool
) -> None:
    """The record of the last batch is kept until the next one has its own."""
    story.run()
    if next_is_begun:
        story.put(("c", "10:09:31", 1))
        fail_at("before-prepare", story.numbers("offsets")[-1] + 1)
        with pytest.raises(JobFailed):
            story.run()
    take_last_commit(story.folder / "log")
    assert story.log() != LOG
    story.run()
    assert story.log() == LOG


@pytest.mark.extended
def test_a_table_that_its_owner_has_confirmed_gets_no_batch_again(story: Readings) -> None:
    """The rows that it had lost are there already, by the owner's own statement."""
    story.run()
    had = story.rows("log")
    taken = take_last_commit(story.folder / "log")
    transaction, last = re.findall(r'"appId":"([^"]+)","version":(\d+)', taken)[0]
    lost = [row for row in had if row not in story.rows("log")]
    assert lost
    log = f"delta.`{story.folder}/log`"
    story.spark.createDataFrame(lost, story.spark.table(log).schema).write.insertInto(log)
    story.spark.sql(f"ALTER TABLE {log} SET TBLPROPERTIES ('panekeeper.acceptedUpToBatch' = '{transaction}:{last}')")
    story.run()
    assert story.log() == LOG


@pytest.mark.extended
def test_large_rows_for_a_sink_alone_are_left_out_if_one_insists(
    story: Readings, fail_at: Callable[[str, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No table is left that takes them: the log is gone, and the sink gets what it would have got."""
    monkeypatch.setattr(processor, "DRIVER_BYTES", 0)
    got: list[tuple[Any, ...]] = []
    sink = ForeachBatch(lambda rows, batch: got.extend((batch, row["sensor"]) for row in rows.collect()))
    job = story.computed().to_delta(story.folder / "log").with_sink(sink)
    fail_at("before-delta", 0)
    with pytest.raises(JobFailed):
        job.start(checkpoint=story.checkpoint, trigger="available_now").await_end(timeout=300)
    for table in ("log", "log_quarantine", "log_metrics"):
        shutil.rmtree(story.folder / table)
    job = story.computed().to_delta(story.folder / "another").with_sink(sink)
    assert job.start(checkpoint=story.checkpoint, trigger="available_now", accept_batch=0).await_end(timeout=300)
    assert {batch for batch, _ in got} >= {2}
    assert story.log("another") == LOG


@pytest.mark.extended
def test_a_record_of_another_job_is_no_record_of_this_one(story: Readings, fail_at: Callable[[str, int], None]) -> None:
    """As where folders were copied over each other. Set aside by a repair, it is in nobody's way."""
    fail_in_batch_2(story, fail_at, "before-prepare")
    prepare(LocalFolder(story.checkpoint), PreparedBatch(number=2, epoch=0, spark_commit="", job="another"))
    with pytest.raises(CorruptState, match=r"prepared/0-2 .* is damaged: it is of another job"):
        story.start()
    assert main(["repair", str(story.checkpoint), "--no-sink"]) == 0
    story.run()
    assert story.log() == LOG


@pytest.mark.extended
def test_a_record_that_writes_to_what_is_no_table_of_a_job_is_damaged(
    story: Readings, fail_at: Callable[[str, int], None]
) -> None:
    """A start would append to any table that it names."""
    fail_in_batch_2(story, fail_at, "before-delta")
    batch = recorded(story, 2)
    assert batch is not None
    other = replace(batch.writes[0], role="extra", table="", path=str(story.folder / "view"))
    (story.checkpoint / prepared_file(0, 2)).write_bytes(replace(batch, writes=[*batch.writes, other]).to_bytes())
    with pytest.raises(CorruptState, match="is damaged: it writes as"):
        story.start()


@pytest.mark.parametrize("point", ["before-delta", pytest.param("between-delta", marks=pytest.mark.extended)])
def test_a_damaged_record_has_a_way_out(story: Readings, fail_at: Callable[[str, int], None], point: str) -> None:
    """It is set aside. The batch is run again, but where a table has it only if one insists."""
    fail_in_batch_2(story, fail_at, point)
    (story.checkpoint / prepared_file(0, 2)).write_bytes(b"cut sho")
    with pytest.raises(CorruptState, match="panekeeper repair"):
        story.start()
    assert main(["repair", str(story.checkpoint), "--no-sink"]) == 0
    if point == "between-delta":
        with pytest.raises(CheckpointError, match=r"batch 2 .* what was recorded of it is gone .*accept_batch=2"):
            story.start()
        job = story.declare().start(checkpoint=story.checkpoint, trigger="available_now", accept_batch=2)
        assert job.await_end(timeout=300)
    else:
        story.run()
    assert story.log() == LOG
    assert json.loads((story.checkpoint / "panekeeper" / "tables.json").read_text())


def test_offsets_that_are_an_older_copy_are_refused(
    story: Readings, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """As where a backup was copied over the folder in part. The batch would be read once more, as the next one."""
    story.run()
    last = story.numbers("offsets")[-1]
    offsets = story.checkpoint / "offsets"
    for older, name in ((f"{last - 1}", f"{last}"), (f".{last - 1}.crc", f".{last}.crc")):
        shutil.copy(offsets / name, tmp_path / name)
        shutil.copy(offsets / older, offsets / name)
    with pytest.raises(CorruptState, match=rf"^offsets/{last} in .* is damaged: .* older copy"):
        story.start()
    assert main(["status", str(story.checkpoint)]) == 0
    assert "older copy" in capsys.readouterr().out
    assert main(["repair", str(story.checkpoint), "--no-sink"]) != 0
    assert f"offsets/{last}" in capsys.readouterr().out
    for name in (f"{last}", f".{last}.crc"):
        shutil.copy(tmp_path / name, offsets / name)
    story.run()
    assert story.log() == LOG


@pytest.mark.extended
def test_a_checksum_of_hadoop_that_was_cut_short_is_set_aside(
    story: Readings, fail_at: Callable[[str, int], None]
) -> None:
    """The offsets beside it are whole; a start cannot read them, and a repair found nothing."""
    fail_in_batch_2(story, fail_at, "between-delta")
    checksum = story.checkpoint / "offsets" / ".2.crc"
    checksum.write_bytes(checksum.read_bytes()[:8])
    with pytest.raises(CorruptState, match=r"^offsets/2 in .* is damaged"):
        story.start()
    assert main(["repair", str(story.checkpoint)]) == 0
    story.run()
    assert story.log() == LOG


@pytest.mark.parametrize(
    ("cut", "state_format"),
    first_before_release(
        (("sources/0/2",), "2"), (("offsets/2", "sources/0/2"), "2"), (("offsets/2",), "1"), (("sources/0/2",), "1")
    ),
)
def test_a_batch_whose_tasks_had_ended_before_a_power_cut_is_planned_again(
    story: Readings, fail_at: Callable[[str, int], None], cut: tuple[str, ...], state_format: str
) -> None:
    """It was not recorded, so no table has it; what it was begun with is not flushed before it is recorded."""
    story.spark.conf.set(FORMAT_SETTING, state_format)
    try:
        fail_in_batch_2(story, fail_at, "before-prepare")
        states = [path.name for path in (story.checkpoint / "state/0/0").glob("3*")]
        for file in cut:
            (story.checkpoint / file).write_bytes(b"")
            (story.checkpoint / checksum_of(file)).write_bytes(b"")
        with pytest.raises(CorruptState, match=rf"^({'|'.join(cut)}) in .* is damaged"):
            story.start()
        assert main(["repair", str(story.checkpoint), "--no-sink"]) == 0
        story.run()
    finally:
        story.spark.conf.set(FORMAT_SETTING, "2")
    assert states
    assert story.log() == LOG


@pytest.mark.extended
def test_a_small_file_that_is_gone_is_named_by_the_start(story: Readings, fail_at: Callable[[str, int], None]) -> None:
    """What describes the state, and the record of the job; `metadata` is replaced, though its checksum is there."""
    fail_in_batch_2(story, fail_at, "between-delta")
    state = story.checkpoint / "state" / "0"
    gone = [*state.glob("_stateSchema/default/0_*"), state / "_metadata/v2/0", story.checkpoint / "panekeeper/job.json"]
    for path in gone:
        away = path.rename(story.folder / path.name)
        with pytest.raises(CorruptState, match=rf"{path.name} in .* is damaged: it is gone"):
            story.start()
        assert main(["repair", str(story.checkpoint)]) != 0
        away.rename(path)
    (story.checkpoint / "metadata").unlink()
    assert (story.checkpoint / ".metadata.crc").exists()
    assert main(["repair", str(story.checkpoint)]) == 0
    story.run()
    assert story.log() == LOG


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
    with pytest.raises(SchemaMismatch, match=r"the log \S+/log does not take the rows of batch 2: .*change them back"):
        story.start()
    story.spark.sql(f"ALTER TABLE {log} RENAME COLUMN m TO n")
    story.run()
    assert story.log() == LOG


def test_a_flush_that_was_interrupted_is_finished_by_the_next_start(
    story: Readings, fail_at: Callable[[str, int], None]
) -> None:
    """Its batch is recorded, so there is nothing left to run. So is a commit that a power cut takes after that.

    Of Spark's own commit that may leave the first line only.
    """
    job = story.run()
    fail_at("between-delta", story.numbers("offsets")[-1] + 1)
    with pytest.raises(JobFailed):
        job.flush()
    assert not job.finished
    with pytest.raises(JobFinished):
        story.start()
    take_last_commit(story.folder / "log")
    with pytest.raises(JobFinished):
        story.start()
    commit = story.checkpoint / "commits" / str(story.numbers("commits")[-1])
    commit.write_bytes(commit.read_bytes()[:3])
    take_last_commit(story.folder / "log")
    with pytest.raises(CorruptState, match=rf"^commits/{commit.name} in .* is damaged"):
        story.start()
    assert main(["repair", str(story.checkpoint)]) == 0
    with pytest.raises(JobFinished):
        story.start()
    assert {row["reason"] for row in story.rows("log")} == {"WATERMARK", "LATE", "FLUSH"}
    assert {row[:2] for row in story.log()} - {row[:2] for row in LOG} == {("c", "10:09")}
    assert len(story.log()) == len(LOG) + 1
    assert story.numbers("commits") == story.numbers("offsets")
