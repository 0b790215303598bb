"""What a start finds of the checkpoints of a table's log, which stand for commits that may be gone."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from panekeeper.framework.engine.delta_log.damage import damaged_log

NAME = f"{2:020d}.checkpoint.parquet"
LISTED = f"{2:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11"
SIDECAR = "3a0d65cd-4056-49b8-937b-95f9e3ee90e5.parquet"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The log of a table of three commits and a checkpoint."""
    for number in range(3):
        write_deltalake(tmp_path, pa.table({"n": [number]}), mode="append")
    DeltaTable(tmp_path).create_checkpoint()
    assert said_of(tmp_path / "_delta_log") == "None"
    return tmp_path / "_delta_log"


def said_of(log: Path) -> str:
    """The error of a start."""
    return str(damaged_log(str(log.parent)))


def clean_up(log: Path) -> None:
    """Remove the commits that the checkpoint stands for."""
    for number in range(2):
        (log / f"{number:020d}.json").unlink()


def do_as_it_says(log: Path) -> None:
    """Remove the checkpoint and what points to it."""
    for file in (*log.glob(f"{2:020d}.checkpoint*"), log / "_last_checkpoint"):
        file.unlink()


@pytest.mark.parametrize("kept", [0, 100])
def test_one_without_its_end_is_named(log: Path, kept: int) -> None:
    """Nobody could read the table. Without it the commits are read, which are still there."""
    (log / NAME).write_bytes((log / NAME).read_bytes()[:kept])
    assert f"{NAME} in {log.parent} was cut short" in said_of(log)
    assert (
        f"remove _delta_log/{2:020d}.checkpoint* and _delta_log/_last_checkpoint, and start the job again"
    ) in said_of(log)
    do_as_it_says(log)
    assert said_of(log) == "None"
    assert DeltaTable(log.parent).to_pyarrow_table().num_rows == 3


@pytest.mark.parametrize("kept", [None, 0, 100])
def test_one_that_alone_says_what_the_table_has_is_not_to_be_removed(log: Path, kept: int | None) -> None:
    """The commits that it stands for are gone."""
    clean_up(log)
    assert said_of(log) == "None"
    (log / NAME).unlink() if kept is None else (log / NAME).write_bytes((log / NAME).read_bytes()[:kept])
    assert "neither a checkpoint of the log nor commits say what the table had before: put what is missing" in said_of(
        log
    )
    assert "remove" not in said_of(log)


def test_an_older_one_does_if_the_commits_since_are_there(log: Path) -> None:
    """As where a log is cleaned up to the one before."""
    write_deltalake(log.parent, pa.table({"n": [3]}), mode="append")
    DeltaTable(log.parent).create_checkpoint()
    clean_up(log)
    newest = log / f"{3:020d}.checkpoint.parquet"
    newest.write_bytes(b"")
    assert f"remove _delta_log/{3:020d}.checkpoint* and _delta_log/_last_checkpoint" in said_of(log)
    (log / NAME).write_bytes(b"")
    assert "put what is missing" in said_of(log)


def test_one_that_was_cut_short_with_a_commit_before_it_leads_back_before_that(log: Path) -> None:
    """A power cut has taken both: what each job has recorded of its last batch is written again."""
    (log / NAME).write_bytes(b"")
    (log / f"{1:020d}.json").unlink()
    assert "number is 1 or greater" in said_of(log)
    for file in (*log.glob("0*[12].*"), log / "_last_checkpoint"):
        file.unlink()
    assert said_of(log) == "None"
    assert DeltaTable(log.parent).to_pyarrow_table().num_rows == 1


def test_one_that_is_gone_and_pointed_to_is_named(log: Path) -> None:
    """A power cut has taken it and left the pointer: the library opens no such table."""
    (log / NAME).unlink()
    said = said_of(log)
    assert "the checkpoint of version 2, which _delta_log/_last_checkpoint in" in said
    assert said.count("remove") == 1
    (log / "_last_checkpoint").unlink()
    assert said_of(log) == "None"
    assert len(DeltaTable(log.parent).to_pyarrow_table()) == 3


def test_what_somebody_is_writing_is_no_part_of_one(log: Path) -> None:
    """It has a name of its own until it is whole, and is left where a process was killed."""
    for name in (f"{NAME}#1", f".{NAME}.1.tmp", f"{NAME}.1.tmp"):
        (log / name).write_bytes(b"PA")
    assert said_of(log) == "None"


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_a_list_of_files_is_looked_at_with_each_of_them(log: Path, kind: str) -> None:
    """Delta writes such where a table has `delta.checkpointPolicy=v2`."""
    listed = as_list(log, kind)
    assert said_of(log) == "None"
    sidecar = log / "_sidecars" / SIDECAR
    content = sidecar.read_bytes()
    sidecar.write_bytes(content[:-1])
    assert f"_delta_log/_sidecars/{SIDECAR} in {log.parent}, which the checkpoint" in said_of(log)
    sidecar.unlink()
    assert "is gone: while nobody writes to the table, remove" in said_of(log)
    sidecar.write_bytes(content)
    listed.write_bytes(listed.read_bytes()[:-20])
    assert f"the checkpoint _delta_log/{listed.name} in {log.parent} was cut short" in said_of(log)
    do_as_it_says(log)
    assert said_of(log) == "None"


def test_a_list_without_its_last_lines_is_known_by_its_checksum(log: Path) -> None:
    """It could lack files of the table. A checksum that was cut short itself is to be removed."""
    listed = as_list(log, "json")
    content = listed.read_bytes()
    checksum = listed.with_name(f".{listed.name}.crc")
    sums = b"crc\0" + (512).to_bytes(4) + zlib.crc32(content).to_bytes(4)
    checksum.write_bytes(sums)
    assert said_of(log) == "None"
    listed.write_bytes(content.splitlines(keepends=True)[0])
    assert f"the checkpoint _delta_log/{listed.name} in {log.parent} was cut short" in said_of(log)
    listed.write_bytes(content)
    checksum.write_bytes(sums[:-2])
    assert f"its checksum _delta_log/{checksum.name} was cut short, as by a power cut: remove the checksum" in said_of(
        log
    )


def test_commits_that_a_list_stands_for_are_not_missed(log: Path) -> None:
    """It is no commit, whatever the end of its name."""
    as_list(log, "json")
    clean_up(log)
    assert said_of(log) == "None"


def as_list(log: Path, kind: str) -> Path:
    """Make the checkpoint a list of one file, as of version 2, and return the list."""
    (log / "_sidecars").mkdir()
    sidecar = (log / NAME).rename(log / "_sidecars" / SIDECAR)
    actions = [
        {"checkpointMetadata": {"version": 2}},
        {"sidecar": {"path": SIDECAR, "sizeInBytes": sidecar.stat().st_size, "modificationTime": 0}},
    ]
    listed = log / f"{LISTED}.{kind}"
    if kind == "json":
        listed.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    else:
        pq.write_table(pa.Table.from_pylist(actions, schema=LIST), listed)
    return listed


LIST = pa.schema(
    [
        ("checkpointMetadata", pa.struct([("version", pa.int64())])),
        (
            "sidecar",
            pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64())]),
        ),
    ]
)
