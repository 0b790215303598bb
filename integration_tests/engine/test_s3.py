"""A job whose checkpoint and tables lie on S3, by s3a against moto's server: a real HTTP endpoint in this process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from integration_tests.engine.moto_s3 import SECRET
from panekeeper.framework.declarations.errors import CheckpointError
from panekeeper.framework.engine.flow import processor
from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
from panekeeper.framework.engine.session.spark_folder import SparkFolder
from panekeeper.recovery.jobs.status import status
from panekeeper.state.prepared import PreparedBatch, prepare, read_prepared, reserve

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from integration_tests.engine.conftest import Readings


def test_a_job_with_everything_on_s3_is_stopped_and_resumed(readings: Readings, bucket: str) -> None:
    """What was open when it ended is completed after the restart; each result stands in the log once."""
    checkpoint = f"{bucket}/jobs/checkpoint"

    def run() -> None:
        declared = readings.computed().to_delta(f"{bucket}/log", view=f"{bucket}/view")
        job = declared.start(checkpoint=checkpoint, trigger="available_now")
        assert job.await_end(timeout=300)

    readings.put(("a", "10:00:10", 1), ("a", "10:00:20", 2))
    run()
    readings.put(("a", "10:00:40", 4), ("b", "10:05:00", 8))
    run()
    rows = readings.spark.read.format("delta").load(f"{bucket}/log").collect()
    assert [(row.sensor, row.total, row.n, row.refinement) for row in rows] == [("a", 7, 3, 0)]
    found = status(CheckpointFiles(readings.spark, checkpoint))
    assert (found.state, found.resumable, found.open_panes) == ("ended", True, 1)
    assert found.last_offset == found.last_commit is not None


@pytest.mark.extended
def test_many_rows_on_s3_are_committed_on_condition(
    readings: Readings, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's own commit to a quarantine would take the place of one that another job makes of the same version."""
    monkeypatch.setattr(processor, "DRIVER_BYTES", 0)
    quarantine = f"{bucket}/quarantine"
    readings.put(("a", "10:00:10", 1), ("b", None, 2), ("c", None, 3))
    declared = readings.computed().to_delta(f"{bucket}/log", quarantine=quarantine)
    job = declared.start(checkpoint=f"{bucket}/checkpoint", trigger="available_now")
    assert job.await_end(timeout=300)
    assert readings.spark.read.format("delta").load(quarantine).count() == 2
    log = readings.spark.read.text(f"{quarantine}/_delta_log/*.json").collect()
    commits = [json.loads(row.value)["commitInfo"] for row in log if "commitInfo" in row.value]
    assert len(commits) > 1
    assert [one.get("engineInfo", "") for one in commits if "Spark" in one.get("engineInfo", "")] == []
    assert any('"add"' in row.value and "/part-" in row.value for row in log)


def test_of_two_writers_of_one_file_on_s3_the_second_gets_an_error(spark: SparkSession, bucket: str) -> None:
    """Two control files of one number, leases, or records do not replace each other; a replacement does as it says."""
    files = CheckpointFiles(spark, f"{bucket}/checkpoint")
    files.write_json("pulse/1.json", {"kind": "tick"})
    with pytest.raises(FileExistsError, match="already there"):
        files.write_json("pulse/1.json", {"kind": "drain"})
    assert files.read_json("pulse/1.json") == {"kind": "tick"}
    files.write_json("pulse/1.json", {"kind": "drain"}, replace=True)
    assert files.read_json("pulse/1.json") == {"kind": "drain"}
    assert (files.names("pulse"), files.names("nowhere")) == (["1.json"], [])
    files.remove("pulse")
    assert not files.exists("pulse")
    batch = PreparedBatch(number=1, epoch=0, spark_commit="v1", writes=[])
    assert reserve(files, 0, 1, "second")
    with pytest.raises(FileExistsError):
        prepare(files, batch, "first")
    prepare(files, batch, "second")
    assert read_prepared(files, 0, 1) == batch


@pytest.mark.parametrize("place", ["s3", "disk"])
def test_the_pointer_is_replaced_only_by_who_knows_what_it_is(
    spark: SparkSession, bucket: str, tmp_path: Path, place: str
) -> None:
    """By the tag of the object on S3, by a lock on a disk: a process that was paused cannot switch back."""
    files = CheckpointFiles(spark, f"{bucket}/checkpoint" if place == "s3" else str(tmp_path))
    files.write("job.json", b"0")
    files.swap("job.json", b"0", b"1")
    with pytest.raises(FileExistsError, match="was replaced meanwhile"):
        files.swap("job.json", b"0", b"2")
    assert files.read("job.json") == b"1"
    with pytest.raises(FileNotFoundError):
        files.read("none.json")
    if place == "s3":
        read = SparkFolder.read

        def replace_after(folder: SparkFolder, name: str) -> bytes:
            content = read(folder, name)
            if content == b"1":
                folder.write(name, b"3", replace=True)
            return content

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(SparkFolder, "read", replace_after)
            with pytest.raises(FileExistsError, match="was replaced meanwhile"):
                files.swap("job.json", b"1", b"2")
        assert files.read("job.json") == b"3"


def test_a_bucket_that_is_not_there_is_reported_at_the_start(readings: Readings, bucket: str) -> None:
    """The message names the folder and repeats the error of S3, without the key."""
    readings.put(("a", "10:00:10", 1))
    declared = readings.computed().to_delta(f"{bucket}/log")
    with pytest.raises(CheckpointError, match=r"s3a://nowhere-.* cannot be reached: .*nowhere-") as raised:
        declared.start(checkpoint=f"s3a://nowhere-{bucket.rpartition('-')[2]}/checkpoint", trigger="available_now")
    assert SECRET not in str(raised.value)
