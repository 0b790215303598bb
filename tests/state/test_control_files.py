"""Spark's log of the control stream, in the format of Spark: what is read of it, and what may be dropped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from panekeeper.state.checkpoint.control_files import (
    control_files_read,
    control_folder_read,
    newest_control_file_read,
    prune_control_log,
    remove_unread_flushes,
)
from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.state.errors import CheckpointError, CorruptState


def line(number: int, entry: int, name: str = "pulse/{:012d}.json") -> str:
    """Return a line of the log."""
    path = f"file:///jobs/a/{name.format(number)}"
    return json.dumps({"path": path, "timestamp": 1_700_000_000_000 + number, "batchId": entry}, separators=(",", ":"))


def put(folder: LocalFolder, name: str, *lines: str) -> None:
    """Write a file of the log."""
    folder.write(name, "\n".join(["v1", *lines]).encode(), replace=True)


@pytest.fixture
def folder(tmp_path: Path) -> LocalFolder:
    """A job of two sources: data files, and twelve control files, the first ten of them in a compact file."""
    made = LocalFolder(tmp_path)
    put(made, "sources/0/0", line(1, 0, "in/{}.json"))
    put(made, "sources/1/8", line(9, 8))
    put(made, "sources/1/9.compact", *(line(entry + 1, entry) for entry in range(10)))
    put(made, "sources/1/10", line(11, 10))
    put(made, "sources/1/11", line(12, 11))
    return made


def test_each_control_file_has_the_entry_that_names_it(folder: LocalFolder) -> None:
    """Those before the newest compact file are in it."""
    assert control_files_read(folder) == {entry + 1: (1, entry) for entry in range(12)}
    assert newest_control_file_read(folder) == 12
    assert control_folder_read(folder) == "file:///jobs/a/pulse"


def test_lines_of_removed_control_files_are_dropped(folder: LocalFolder) -> None:
    """Those of files that are there stay, and so do those of the entry that the compact file is itself."""
    assert prune_control_log(folder, before=12, present=[4, 12]) == 8
    assert folder.read("sources/1/9.compact").decode() == f"v1\n{line(4, 3)}\n{line(10, 9)}"
    assert control_files_read(folder) == {4: (1, 3), 10: (1, 9), 11: (1, 10), 12: (1, 11)}
    assert folder.read("sources/0/0").decode() == f"v1\n{line(1, 0, 'in/{}.json')}"


def test_what_no_committed_batch_has_read_stays(folder: LocalFolder) -> None:
    """A batch that is run again reads its files by these lines."""
    before = folder.read("sources/1/9.compact")
    assert prune_control_log(folder, before=1, present=[]) == 0
    assert folder.read("sources/1/9.compact") == before


def test_a_log_without_a_compact_file_is_left_alone(folder: LocalFolder) -> None:
    """Its files are the entries themselves."""
    folder.remove("sources/1/9.compact")
    assert prune_control_log(folder, before=12, present=[]) == 0
    assert folder.names("sources/1") == ["10", "11", "8"]


def test_a_damaged_log_is_not_written_again(folder: LocalFolder) -> None:
    """What a line was that cannot be read is not known."""
    folder.write("sources/1/9.compact", f"v1\n{line(1, 0)[:-5]}".encode(), replace=True)
    with pytest.raises(CorruptState, match=r"sources/1/9\.compact"):
        prune_control_log(folder, before=12, present=[])
    with pytest.raises(CorruptState, match=r"sources/1/9\.compact"):
        control_files_read(folder)


def test_a_log_that_is_no_text_is_damaged(folder: LocalFolder) -> None:
    """No error of Python's, by which a savepoint would end."""
    folder.write("sources/1/11", b"\xff\xfe", replace=True)
    with pytest.raises(CorruptState, match=r"sources/1/11 .* is damaged"):
        control_files_read(folder)


def test_a_line_that_is_nested_deeply_is_damage(folder: LocalFolder) -> None:
    """It may come with a savepoint, whoever made that."""
    put(folder, "sources/1/11", f'{{"path":{"[" * 100_000}')
    with pytest.raises(CorruptState, match=r"sources/1/11 .* is damaged"):
        control_files_read(folder)


def test_hadoops_checksum_of_the_old_content_goes_with_it(folder: LocalFolder) -> None:
    """With it Spark would take the new content for damaged."""
    checksum = folder.path / "sources/1/.9.compact.crc"
    checksum.write_bytes(b"crc")
    prune_control_log(folder, before=12, present=[])
    assert not checksum.exists()


def begin(folder: LocalFolder, batch: int, end: int) -> None:
    """Log the offsets of a batch that reads the control stream up to an entry."""
    put(folder, f"offsets/{batch}", '{"conf":{}}', '{"logOffset":0}', json.dumps({"logOffset": end}))


@pytest.fixture
def planned(folder: LocalFolder) -> LocalFolder:
    """Batch 7 is committed; batch 8 was begun with the control files 11 and 12, and those before are removed."""
    for batch, end in ((7, 9), (8, 11)):
        begin(folder, batch, end)
    put(folder, "commits/7", "{}")
    for number in (11, 12):
        row = {"kind": "tick", "us": number, "number": number}
        folder.write_json(f"pulse/{number:012d}.json", row)
    return folder


def test_a_flush_of_an_earlier_run_that_no_batch_has_read_is_removed(planned: LocalFolder) -> None:
    """That run ended before it: the next batch would finish the job, with whatever it has read. Other commands stay."""
    for number, kind in ((13, "flush"), (14, "drain"), (15, "resume"), (16, "flush")):
        planned.write_json(f"pulse/{number:012d}.json", {"kind": kind, "us": number, "number": number}, replace=True)
    planned.write_json("pulse/000000000012.json", {"kind": "flush", "us": 12, "number": 12}, replace=True)
    assert remove_unread_flushes(planned, before=15) == ["pulse/000000000013.json"]
    assert planned.names("pulse") == [f"{number:012d}.json" for number in (11, 12, 14, 15, 16)]
    assert remove_unread_flushes(planned, before=15) == []


def test_a_start_that_has_lost_its_lease_removes_no_control_file(planned: LocalFolder) -> None:
    """The process that runs now may have read it."""

    def lost() -> None:
        raise CheckpointError("another job has taken over")

    planned.write_json("pulse/000000000013.json", {"kind": "flush", "us": 13, "number": 13}, replace=True)
    with pytest.raises(CheckpointError):
        remove_unread_flushes(planned, lost, before=15)
    assert "000000000013.json" in planned.names("pulse")
