"""Files of rows that a table lacks, of those that a batch has added."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from panekeeper.framework.engine.delta_log.damage import damaged_batch, damaged_log
from panekeeper.framework.engine.sink.small_commits import SmallCommits

JOB = "j/log@0123456789ab#0"


@pytest.mark.parametrize("left", [100, None])
def test_a_file_of_a_batch_is_looked_for_also_before_a_checkpoint_of_the_log(tmp_path: Path, left: int | None) -> None:
    """A commit of somebody else may have brought the checkpoint. What stands for the commits has no file of its own."""
    write_deltalake(tmp_path, pa.table({"n": [0]}))
    for number in (6, 7):
        assert SmallCommits(str(tmp_path)).append(pa.table({"n": [number]}), JOB, number)
    write_deltalake(tmp_path, pa.table({"n": [8]}), mode="append")
    DeltaTable(tmp_path).create_checkpoint()
    added = DeltaTable(tmp_path, version=2).file_uris()
    newest = max(map(Path, added), key=lambda path: path.stat().st_mtime_ns)
    assert damaged_batch(str(tmp_path), JOB, 7) is None
    newest.unlink() if left is None else newest.write_bytes(newest.read_bytes()[:left])
    age(tmp_path, 2)
    assert damaged_log(str(tmp_path)) is None
    said = str(damaged_batch(str(tmp_path), JOB, 7))
    assert f"{newest.name} in {tmp_path} was cut short" in said
    assert "all files in _delta_log whose number is 2 or greater" in said
    assert damaged_batch(str(tmp_path), JOB, 9) is None  # it has no such batch
    assert damaged_batch("s3a://bucket/log", JOB, 7) is None


@pytest.mark.parametrize("left", [44, 0, None])
def test_a_deletion_vector_is_a_file_that_is_needed(tmp_path: Path, left: int | None) -> None:
    """Without it the rows that it hides are not known: nobody can read the table."""
    write_deltalake(tmp_path, pa.table({"n": [0]}))
    size = next(tmp_path.glob("*.parquet")).stat().st_size
    path = next(tmp_path.glob("*.parquet")).name
    vector = {"storageType": "u", "pathOrInlineDv": "xiDvUw#v]XP]Moj/D07r", "offset": 1, "sizeInBytes": 36}
    action = {"add": {"path": path, "size": size, "deletionVector": vector}}
    (tmp_path / "_delta_log" / f"{1:020d}.json").write_text(json.dumps(action))
    file = tmp_path / "deletion_vector_675a1ead-66a7-40ec-a18e-ae34d81d3c3e.bin"
    file.write_bytes(bytes(45))
    assert damaged_log(str(tmp_path)) is None
    file.unlink() if left is None else file.write_bytes(bytes(left))
    assert f"{file.name} in {tmp_path} was cut short" in str(damaged_log(str(tmp_path)))


@pytest.mark.parametrize("kept", [None, 7, 8, 11, 12])
def test_a_cut_checksum_of_a_file_of_rows_is_named(tmp_path: Path, kept: int | None) -> None:
    """Spark has written both, and does not read a file whose checksum is too short; without one it reads it."""
    write_deltalake(tmp_path, pa.table({"n": [0]}))
    (file,) = tmp_path.glob("*.parquet")
    each = file.stat().st_size  # one sum of the whole file
    checksum = b"crc\0" + each.to_bytes(4) + zlib.crc32(file.read_bytes()).to_bytes(4)
    if kept is not None:
        file.with_name(f".{file.name}.crc").write_bytes(checksum[:kept])
    said = f"its checksum .{file.name}.crc was cut short, as by a power cut: remove the checksum"
    assert (said if kept in (8, 11) else "None") in str(damaged_log(str(tmp_path)))


def test_a_table_whose_log_was_cleaned_up_is_not_advised_to_go_back_before_it(tmp_path: Path) -> None:
    """Nothing would be left of it."""
    for number in range(4):
        write_deltalake(tmp_path, pa.table({"n": [number]}), mode="append")
        if number == 2:
            DeltaTable(tmp_path).create_checkpoint()
    added = {number: Path(*set(files_of(tmp_path, number)) - set(files_of(tmp_path, number - 1))) for number in (2, 3)}
    for number in range(2):
        (tmp_path / "_delta_log" / f"{number:020d}.json").unlink()
    assert damaged_log(str(tmp_path)) is None
    added[3].unlink()
    assert "remove _delta_log/_last_checkpoint and all files in _delta_log whose number is 3" in str(
        damaged_log(str(tmp_path))
    )
    added[2].unlink()
    said = str(damaged_log(str(tmp_path)))
    assert "is of version 2 of the table: put it back; or put what is lost back from a copy of the table" in said
    assert "remove" not in said


@pytest.mark.parametrize("left", [100, None])
def test_a_file_of_a_commit_just_before_a_checkpoint_of_the_log_is_looked_for(tmp_path: Path, left: int | None) -> None:
    """As one that OPTIMIZE has added, with all rows of the table, when the next commit brings a checkpoint."""
    for number in range(3):
        write_deltalake(tmp_path, pa.table({"n": [number]}), mode="append")
    before = {*tmp_path.glob("*.parquet")}
    DeltaTable(tmp_path).optimize.compact()
    (compacted,) = {*tmp_path.glob("*.parquet")} - before
    write_deltalake(tmp_path, pa.table({"n": [3]}), mode="append")
    DeltaTable(tmp_path).create_checkpoint()
    for file in before:  # VACUUM; nobody misses them
        file.unlink()
    assert damaged_log(str(tmp_path)) is None
    compacted.unlink() if left is None else compacted.write_bytes(compacted.read_bytes()[:left])
    assert f"{compacted.name} in {tmp_path} was cut short, as by a power cut, or is gone" in str(
        damaged_log(str(tmp_path))
    )
    age(tmp_path, 3)
    assert damaged_log(str(tmp_path)) is None  # minutes later all is on the disk


def age(table: Path, version: int) -> None:
    """Let the commits of a table up to a version be minutes older than the others."""
    for number in range(version + 1):
        commit = table / f"_delta_log/{number:020d}.json"
        os.utime(commit, (commit.stat().st_mtime - 300,) * 2)


def files_of(table: Path, version: int) -> list[str]:
    """The files that a table has at a version."""
    return DeltaTable(table, version=version).file_uris()
