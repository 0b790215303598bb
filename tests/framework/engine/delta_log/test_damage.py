"""What a start finds in the log of a table before it trusts it."""

from __future__ import annotations

import json
import os
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from panekeeper.framework.declarations.errors import SinkError
from panekeeper.framework.engine.delta_log.commits import NOTE, note_of
from panekeeper.framework.engine.delta_log.damage import damaged_log
from panekeeper.framework.engine.sink.small_commits import SmallCommits


@pytest.mark.parametrize("kept", [0, 20], ids=["empty", "cut short"])
def test_a_commit_that_is_not_whole_is_named_whatever_came_after_it(tmp_path: Path, kept: int) -> None:
    """Delta takes an empty one for no change, so the table would lack its rows, and no batch would be run again."""
    for number in range(4):
        write_deltalake(tmp_path, pa.table({"n": [number]}), mode="append")
    assert damaged_log(str(tmp_path)) is None
    commit = tmp_path / "_delta_log" / f"{2:020d}.json"
    commit.write_bytes(commit.read_bytes()[:kept])
    said = str(damaged_log(tmp_path.as_uri()))
    assert f"_delta_log/{2:020d}.json in {tmp_path} was cut short" in said
    assert (
        "remove _delta_log/_last_checkpoint and all files in _delta_log whose number is 2 or greater, also hidden "
        "ones, and start the job" in said
    )


def test_a_commit_of_a_job_that_lost_whole_lines_at_its_end_was_cut_short(tmp_path: Path) -> None:
    """Its rows are there, and its transaction is not: the batch would be written again. Those of others have none."""
    name = "j/log@0123456789ab#0"
    write_deltalake(tmp_path, pa.table({"n": [0]}))
    assert SmallCommits(str(tmp_path)).append(pa.table({"n": [1]}), name, 7)
    commit = tmp_path / "_delta_log" / f"{1:020d}.json"
    lines = commit.read_bytes().splitlines(keepends=True)
    assert "commitInfo" in json.loads(lines[0])
    assert damaged_log(str(tmp_path)) is None
    commit.write_bytes(b"".join(line for line in lines if b'"txn"' not in line))
    assert f"{commit.name} in {tmp_path} was cut short" in str(damaged_log(str(tmp_path)))
    commit.write_bytes(lines[0])  # it has nothing: the batch is written again
    assert damaged_log(str(tmp_path)) is None


def test_a_commit_of_a_job_that_has_lost_all_is_made_up_for_by_a_later_one(tmp_path: Path) -> None:
    """By the newest batch, when it is written again. Nobody writes those before again. Other jobs go on."""
    name = "j/log@0123456789ab#0"
    write_deltalake(tmp_path, pa.table({"n": [0]}))
    assert SmallCommits(str(tmp_path)).append(pa.table({"n": [1]}), name, 7)
    commit = tmp_path / "_delta_log" / f"{1:020d}.json"
    commit.write_bytes(commit.read_bytes().splitlines()[0])
    other = "other/log@0123456789cd#0"
    for job, batch, is_lost in ((name, 8, True), (name, 7, False), (other, 8, False)):
        (tmp_path / "_delta_log" / f"{2:020d}.json").unlink(missing_ok=True)
        assert SmallCommits(str(tmp_path)).append(pa.table({"n": [2]}), job, batch)
        write_deltalake(tmp_path, pa.table({"n": [3]}), mode="append")
        assert (f"{commit.name} in {tmp_path} was cut short" in str(damaged_log(str(tmp_path)))) == is_lost
        (tmp_path / "_delta_log" / f"{3:020d}.json").unlink()


@pytest.mark.parametrize("left", [0, 100, None])
def test_a_file_of_rows_that_is_not_whole_is_named(tmp_path: Path, left: int | None) -> None:
    """Its rows are lost, and the transaction is there. Without its commit the last batch of a job is written again."""
    for batch, job in enumerate(("j/quarantine@0123456789ab#0", "other/quarantine@0123456789cd#0")):
        done = CommitProperties({NOTE: note_of(job, batch)}, app_transactions=[Transaction(job, batch)])
        rows = pa.table({"k": ["a b"], "n": [batch]})
        write_deltalake(tmp_path, rows, mode="append", partition_by=["k"], commit_properties=done)
    write_deltalake(tmp_path, pa.table({"k": ["c"], "n": [3]}), mode="append")
    assert damaged_log(str(tmp_path)) is None
    files = sorted(tmp_path.glob("k=*/*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    for version, file in enumerate(files):
        content = file.read_bytes()
        file.unlink() if left is None else file.write_bytes(content[:left])
        said = str(damaged_log(str(tmp_path)))
        assert f"{file.relative_to(tmp_path)} in {tmp_path} was cut short" in said
        assert f"all files in _delta_log whose number is {version} or greater" in said
        file.write_bytes(content)


def test_a_file_that_a_compaction_has_replaced_may_be_gone(tmp_path: Path) -> None:
    """It is none of the table's any more."""
    name = "j/log@0123456789ab#0"
    write_deltalake(tmp_path, pa.table({"n": [0]}))
    for batch in (1, 2):
        assert SmallCommits(str(tmp_path)).append(pa.table({"n": [batch]}), name, batch)
    files = [*tmp_path.glob("*.parquet")]
    DeltaTable(tmp_path).optimize.compact()
    for file in files:
        file.unlink()
    assert damaged_log(str(tmp_path)) is None


def damage_of(table: Path, actions: list[dict[str, Any]]) -> SinkError | None:
    """Return what is said of a table whose newest commit has these actions."""
    if not (table / "_delta_log").exists():
        write_deltalake(table, pa.table({"n": [0]}))
    (table / "_delta_log" / f"{1:020d}.json").write_text("\n".join(map(json.dumps, actions)))
    for path in (one["add"]["path"] for one in actions if "add" in one):
        (table / path).write_bytes(b"")
    return damaged_log(str(table))


@pytest.mark.parametrize("note", [None, note_of("j/view@0123456789ab#0", 7)])
@pytest.mark.parametrize("kept", [1, 2])
def test_an_optimize_that_lost_files_was_cut_short(tmp_path: Path, kept: int, note: str | None) -> None:
    """With what it has added, and not what that stands for, the table would have these rows twice.

    One that Delta makes of itself after a merge of a job has the note of that, and no transaction.
    """
    metrics = {"numAddedFiles": "1", "numRemovedFiles": "1"}
    actions: list[dict[str, Any]] = [
        {"commitInfo": {"operation": "OPTIMIZE", "operationMetrics": metrics} | ({NOTE: note} if note else {})},
        {"add": {"path": "b", "dataChange": False, "size": 0}},
        {"remove": {"path": "a", "dataChange": False, "size": 0}},
    ]
    assert damage_of(tmp_path, actions) is None
    assert f"{1:020d}.json in {tmp_path} was cut short" in str(damage_of(tmp_path, actions[:kept]))


def test_a_restore_that_lost_files_was_cut_short(tmp_path: Path) -> None:
    """It names the version to which the table went back, in its first line, and is no such version any more."""
    for number in range(3):
        write_deltalake(tmp_path, pa.table({"n": [number]}), mode="append")
    write_deltalake(tmp_path, pa.table({"n": [3]}), mode="overwrite")
    DeltaTable(tmp_path).restore(2)
    commit = tmp_path / "_delta_log" / f"{4:020d}.json"
    lines = commit.read_bytes().splitlines(keepends=True)
    assert Counter(kind for line in lines for kind in json.loads(line))["add"] == 3
    assert damaged_log(str(tmp_path)) is None
    for kept in range(1, 5):
        commit.write_bytes(b"".join(lines[:kept]))
        assert f"{commit.name} in {tmp_path} was cut short" in str(damaged_log(str(tmp_path)))


@pytest.mark.parametrize("kept", [2, 3])
def test_a_commit_of_a_job_by_spark_that_lost_files_was_cut_short(tmp_path: Path, kept: int) -> None:
    """Spark writes the transaction before the files: the table would lack rows of a batch that it seems to have."""
    metrics = {"numTargetFilesAdded": "1", "numTargetFilesRemoved": "1"}
    actions: list[dict[str, Any]] = [
        {"commitInfo": {NOTE: note_of("j/view@0123456789ab#0", 7), "operation": "MERGE", "operationMetrics": metrics}},
        {"txn": {"appId": "j/view@0123456789ab#0", "version": 7}},
        {"add": {"path": "b", "size": 0}},
        {"remove": {"path": "a"}},
    ]
    assert damage_of(tmp_path, actions) is None
    assert f"{1:020d}.json in {tmp_path} was cut short" in str(damage_of(tmp_path, actions[:kept]))


@pytest.mark.parametrize("kept", range(2, 6))
def test_a_merge_with_deletion_vectors_that_lost_lines_was_cut_short(tmp_path: Path, kept: int) -> None:
    """A file that gets one is added with it, and removed without: the rows that it hides would be there, too."""
    metrics = {
        "numTargetFilesAdded": "1",
        "numTargetFilesRemoved": "0",
        "numTargetDeletionVectorsAdded": "2",
        "numTargetDeletionVectorsUpdated": "1",
        "numTargetDeletionVectorsRemoved": "1",
    }
    actions: list[dict[str, Any]] = [
        {"commitInfo": {NOTE: note_of("j/view@0123456789ab#0", 7), "operation": "MERGE", "operationMetrics": metrics}},
        {"txn": {"appId": "j/view@0123456789ab#0", "version": 7}},
        *({"add": {"path": one, "size": 0}} for one in "abc"),
        *({"remove": {"path": one}} for one in "bc"),
    ]
    assert damage_of(tmp_path, actions) is None
    assert f"{1:020d}.json in {tmp_path} was cut short" in str(damage_of(tmp_path, actions[:kept]))


def test_an_append_of_no_rows_is_whole_without_a_file(tmp_path: Path) -> None:
    """As Spark notes a transaction: it counts a file, and adds none."""
    metrics = {"numFiles": "1", "numOutputRows": "0", "numOutputBytes": "0"}
    info = {NOTE: note_of("j/log@0123456789ab#0", 7), "operation": "WRITE", "operationMetrics": metrics}
    txn = {"appId": "j/log@0123456789ab#0", "version": 7}
    assert damage_of(tmp_path, [{"commitInfo": info}, {"txn": txn}]) is None


@pytest.mark.parametrize("has_statistics", [True, False])
def test_an_append_is_whole_if_it_has_its_rows(tmp_path: Path, *, has_statistics: bool) -> None:
    """Spark counts a file more than it adds, if the statistics of the first one say that it has no row."""
    info = {NOTE: note_of("j/log@0123456789ab#0", 7), "operationMetrics": {"numFiles": "3", "numOutputRows": "5"}}
    rows = [{"stats": json.dumps({"numRecords": number})} if has_statistics else {} for number in (2, 3)]
    added = [{"add": {"path": f"{number}", "size": 0, **one}} for number, one in enumerate(rows)]
    actions: list[dict[str, Any]] = [{"commitInfo": info}, {"txn": {"appId": "j/log@0123456789ab#0", "version": 7}}]
    assert (damage_of(tmp_path, actions + added) is None) == has_statistics
    assert damage_of(tmp_path, [*actions, *added, {"add": {"path": "2", "size": 0}}]) is None or has_statistics
    assert f"{1:020d}.json in {tmp_path} was cut short" in str(damage_of(tmp_path, actions + added[:1]))


def test_a_commit_that_a_checkpoint_of_the_log_stands_for_is_looked_at_too(tmp_path: Path) -> None:
    """Delta does not read it. But what took it may have taken the files that the checkpoint names, too."""
    for number in range(4):
        write_deltalake(tmp_path, pa.table({"n": [number]}), mode="append")
    DeltaTable(tmp_path).create_checkpoint()
    commit = tmp_path / "_delta_log" / f"{3:020d}.json"
    whole = commit.read_bytes()
    commit.write_bytes(b"")
    assert f"{commit.name} in {tmp_path} was cut short" in str(damaged_log(str(tmp_path)))
    commit.unlink()
    assert f"{commit.name} in {tmp_path} is missing" in str(damaged_log(str(tmp_path)))
    commit.write_bytes(whole)
    write_deltalake(tmp_path, pa.table({"n": [4]}), mode="append")
    assert damaged_log(str(tmp_path)) is None
    commit.write_bytes(b"")
    assert f"{commit.name} in {tmp_path} was cut short" in str(damaged_log(str(tmp_path)))


@pytest.mark.parametrize("left", [f"{2:020d}.crc", f".{2:020d}.json.crc"])
def test_a_commit_of_which_a_checksum_is_left_is_missing(tmp_path: Path, left: str) -> None:
    """The next commit gets its number, and does not agree with that: Spark could not read the table any more."""
    for number in range(3):
        write_deltalake(tmp_path, pa.table({"n": [number]}), mode="append")
    (tmp_path / "_delta_log" / left).write_text("{}")
    assert damaged_log(str(tmp_path)) is None
    (tmp_path / "_delta_log" / f"{2:020d}.json").unlink()
    said = str(damaged_log(str(tmp_path)))
    assert f"{2:020d}.json in {tmp_path} is missing" in said
    assert "number is 2 or greater, also hidden ones" in said


def test_of_a_commit_that_is_missing_and_one_after_it_that_was_cut_short_the_first_is_named(tmp_path: Path) -> None:
    """A power cut takes the name of one, and what was in the other. Nobody knows what the second one had before it."""
    for number in range(5):
        write_deltalake(tmp_path, pa.table({"n": [number]}), mode="append")
    (tmp_path / "_delta_log" / f"{3:020d}.json").unlink()
    (tmp_path / "_delta_log" / f"{4:020d}.json").write_bytes(b"")
    assert f"{3:020d}.json in {tmp_path} is missing" in (said := str(damaged_log(str(tmp_path))))
    assert "number is 3 or greater" in said


@pytest.mark.parametrize("kept", range(1, 3))
def test_a_first_commit_that_does_not_say_what_the_table_is_was_cut_short(tmp_path: Path, kept: int) -> None:
    """Delta reads no such table."""
    write_deltalake(tmp_path, pa.table({"n": [0]}))
    commit = tmp_path / "_delta_log" / f"{0:020d}.json"
    lines = commit.read_bytes().splitlines(keepends=True)
    commit.write_bytes(b"".join(line for line in lines[:kept] if b"metaData" not in line))
    assert f"{commit.name} in {tmp_path} was cut short" in str(damaged_log(str(tmp_path)))


def test_a_checksum_of_hadoop_that_does_not_agree_is_named(tmp_path: Path) -> None:
    """Spark fails then. By it one knows a commit that has lost lines, too."""
    for number in range(2):
        write_deltalake(tmp_path, pa.table({"n": [number]}), mode="append")
    commit = tmp_path / "_delta_log" / f"{1:020d}.json"
    content = commit.read_bytes().rstrip(b"\n") + b"\n"
    checksum = commit.with_name(f".{commit.name}.crc")
    whole = (
        b"crc\0"
        + (512).to_bytes(4)
        + b"".join(zlib.crc32(content[at : at + 512]).to_bytes(4) for at in range(0, len(content), 512))
    )
    for stored, written, words in (
        (whole, content, "None"),
        (b"", content, "None"),
        (whole[:-2], content, "remove the checksum"),
        (whole, content[:-1], "remove the checksum"),
        (whole, content.splitlines(keepends=True)[0], f"{commit.name} in {tmp_path} was cut short"),
    ):
        checksum.write_bytes(stored)
        commit.write_bytes(written)
        assert words in str(damaged_log(str(tmp_path)))


def test_a_table_in_a_store_has_whole_commits(tmp_path: Path) -> None:
    """An object is there as a whole, or not at all."""
    assert damaged_log("s3a://bucket/log") is None
    assert damaged_log(str(tmp_path / "none yet")) is None


@pytest.mark.parametrize("seconds_ago", [0, 300])
@pytest.mark.parametrize("how", ["was cut short", "is missing"])
def test_a_commit_of_just_now_before_a_checkpoint_of_the_log_is_looked_at(
    tmp_path: Path, how: str, seconds_ago: int
) -> None:
    """Spark writes one right after its own commit, as of an ALTER TABLE, and it names what the commit before has added.

    That of long ago is on the disk, or has been removed.
    """
    for number in range(4):
        write_deltalake(tmp_path, pa.table({"n": [number]}), mode="append")
    DeltaTable(tmp_path).create_checkpoint()
    log = tmp_path / "_delta_log"
    commit, newest = log / f"{2:020d}.json", log / f"{3:020d}.json"
    assert damaged_log(str(tmp_path)) is None
    commit.write_bytes(b"") if how == "was cut short" else commit.unlink()
    for file in log.glob("*0[012].json"):
        os.utime(file, (newest.stat().st_mtime - seconds_ago,) * 2)
    if how == "is missing" and seconds_ago:
        for file in log.glob("*0[01].json"):
            file.unlink()
    said = damaged_log(str(tmp_path))
    assert said is None if seconds_ago else f"{commit.name} in {tmp_path} {how}" in str(said)
